//! The history of rollouts: the daemon's, or, if that is not here, one from the cluster and Git.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context as _;
use tempfile::TempDir;

use super::repositories::Repositories;
use super::service::Service;
use crate::cli::Globals;
use crate::cli::output::progress;
use crate::clock::Clock;
use crate::cluster::{Cluster, ClusterError};
use crate::daemon::recollect;
use crate::history::query::answers::{CommitInfo, RecordAnswer};
use crate::history::{History, HistoryError, HistoryLocation, Query};
use belay_core::rollout::{Commit, CommitId, Rebuilt, Record, read_change_cause};

/// A readable history, and its gaps.
pub(in crate::cli) struct HistoryView {
    pub history: History,
    /// The parts of it that are not known here; empty if the daemon's history is.
    pub missing: Vec<String>,
    /// The change-causes of commits that no repository here has.
    causes: BTreeMap<CommitId, KnownCause>,
    /// The folder of a rebuilt one while it is read.
    _folder: Option<TempDir>,
}

/// The change-cause of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) struct KnownCause {
    pub subject: String,
    pub author: String,
}

impl From<History> for HistoryView {
    fn from(history: History) -> HistoryView {
        HistoryView { history, missing: Vec::new(), causes: BTreeMap::new(), _folder: None }
    }
}

impl HistoryView {
    /// Opens the daemon's history. If there is none here, or it can't be read, the records are rebuilt from the
    /// cluster, and a note names the missing parts.
    pub(in crate::cli) async fn open(globals: &Globals) -> anyhow::Result<HistoryView> {
        let location = globals.history_to_look_at()?;
        let error = match location.read() {
            Ok(history) => return Ok(history.into()),
            Err(error @ (HistoryError::Missing { .. } | HistoryError::Damaged { .. })) => error,
            Err(error) => return Err(error.into()),
        };
        let hint = Service::of_this_machine().hint();
        let elsewhere = format!("say --state-dir DIR if the daemon keeps its state elsewhere{hint}");
        let asked = async {
            let cluster = globals.cluster("").await?;
            anyhow::Ok(ask(&cluster, globals.namespace.as_deref()).await?)
        };
        let (told, namespace) = asked
            .await
            .with_context(|| format!("{error}; {elsewhere}; and the cluster can't be asked for what it holds of it"))?;
        let view = HistoryView::rebuilt(told, &Repositories::at_hand(location.folder()), namespace.as_deref())?;
        progress(format!("note: {error}; {elsewhere}"));
        progress("note: this is what the cluster and Git hold. Missing:");
        view.missing.iter().for_each(|missing| progress(format!("  - {missing}")));
        Ok(view)
    }

    /// Returns a history of the records that were rebuilt from the cluster.
    fn rebuilt(told: Rebuilt, git: &Repositories, only: Option<&str>) -> anyhow::Result<HistoryView> {
        let now = Clock::system().now();
        let folder = tempfile::tempdir().context("failed to make a temporary folder")?;
        let (history, _) = HistoryLocation::in_folder(folder.path()).open(now)?;
        let ids: BTreeSet<&CommitId> = told.records.iter().map(|record| &record.commit).collect();
        let commits: Vec<Commit> = ids.iter().filter_map(|id| git.commit(id)).collect();
        let mut by_source: BTreeMap<&str, Vec<Record>> = BTreeMap::new();
        for record in &told.records {
            by_source.entry(&record.source).or_default().push(record.clone());
        }
        for (source, records) in by_source {
            history.rebuild(source, &records, &commits, now)?;
        }
        let known: BTreeSet<&CommitId> = commits.iter().map(|commit| &commit.id).collect();
        let cause = |(id, cause): (&CommitId, &String)| {
            let (subject, author) = read_change_cause(id, cause)?;
            Some((id.clone(), KnownCause { subject: subject.to_owned(), author: author.to_owned() }))
        };
        let causes = told.causes.iter().filter(|(id, _)| !known.contains(id)).filter_map(cause).collect();
        let missing = missing(&told, ids.len() - known.len(), git, only);
        Ok(HistoryView { history, missing, causes, _folder: Some(folder) })
    }

    /// Returns the records that fit, newest first.
    pub(in crate::cli) fn records(&self, query: &Query) -> anyhow::Result<Vec<Record>> {
        let Some(author) = query.author.as_ref().filter(|_| !self.causes.is_empty()) else {
            return Ok(self.history.records(query)?);
        };
        // Some commits have their author only in the change-cause.
        let author = author.to_lowercase();
        let mut records = self.history.records(&Query { author: None, limit: None, ..query.clone() })?;
        records.retain(|record| {
            let told = self.told(&record.commit);
            told.is_some_and(|told| {
                told.author.to_lowercase().contains(&author)
                    || told.email.is_some_and(|email| email.to_lowercase().contains(&author))
            })
        });
        records.truncate(query.limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX));
        Ok(records)
    }

    /// Returns the same as programs read them.
    pub(in crate::cli) fn answers(&self, query: &Query) -> anyhow::Result<Vec<RecordAnswer>> {
        Ok(self.records(query)?.iter().map(|record| self.answer(record)).collect())
    }

    /// Returns a record as programs read it.
    pub(in crate::cli) fn answer(&self, record: &Record) -> RecordAnswer {
        RecordAnswer::of(&self.history, record, self.told(&record.commit))
    }

    /// Returns the known facts about a commit.
    pub(in crate::cli) fn told(&self, id: &CommitId) -> Option<CommitInfo> {
        if let Ok(Some(told)) = self.history.told(id) {
            return Some(told);
        }
        let cause = self.causes.get(id)?;
        Some(CommitInfo { subject: cause.subject.clone(), author: cause.author.clone(), email: None, authored: None })
    }
}

/// Asks for all namespaces, or for an allowed one; the namespace is returned if only one was asked.
async fn ask(cluster: &Cluster, namespace: Option<&str>) -> Result<(Rebuilt, Option<String>), ClusterError> {
    match recollect(cluster, None, namespace).await {
        Err(ClusterError::Denied { .. }) if namespace.is_none() => {
            let own = cluster.default_namespace().to_owned();
            Ok((recollect(cluster, None, Some(&own)).await?, Some(own)))
        }
        told => Ok((told?, namespace.map(str::to_owned))),
    }
}

fn missing(told: &Rebuilt, not_in_git: usize, git: &Repositories, only: Option<&str>) -> Vec<String> {
    let mut missing = vec![
        "commits of which the cluster keeps no revision any more (revisionHistoryLimit)".to_owned(),
        "objects that are no workloads, and manifests that were rejected".to_owned(),
        "evidence, steps, places, and when most of it ended".to_owned(),
    ];
    if not_in_git > 0 {
        let where_to = if git.is_empty() { "; in a working copy of the repository they are known" } else { "" };
        missing.push(format!("dates and addresses of {not_in_git} commits that are in no repository here{where_to}"));
    }
    if told.nameless > 0 {
        missing.push(format!("the commits of {} revisions, which name none", told.nameless));
    }
    if let Some(namespace) = only {
        missing.push(format!("workloads of other namespaces than {namespace}"));
    }
    missing
}
