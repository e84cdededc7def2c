//! `belay status --server URL`: the state that a daemon elsewhere publishes.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::bail;

use super::row_filter::RowFilter;
use super::source_lines::{self, AuthoredSubject};
use super::{ShownStatus, other_namespaces};
use crate::cli::args::nearest::there_is;
use crate::cli::args::target;
use crate::cli::output::answer::{SourceAnswer, StatusAnswer, WorkloadAnswer};
use crate::cli::session::server::{ServerApi, ServerError};
use crate::history::Query;
use belay_core::rollout::CommitId;

/// Returns what is shown of a daemon's answer.
pub(super) async fn shown(api: &ServerApi, filter: &RowFilter) -> anyhow::Result<ShownStatus> {
    let StatusAnswer { sources, workloads, objects, .. } = api.status().await?;
    let all: Vec<WorkloadAnswer> = workloads.into_iter().chain(objects).collect();
    let (mut rows, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|row| filter.is_here(&row.object));
    check(filter, &rows)?;
    filter.keep_asked(&mut rows);
    if let Some(commit) = filter.commit.as_ref().filter(|_| rows.is_empty()) {
        return Err(filter.no_such_commit(commit));
    }
    filter.keep_wanted(&mut rows);
    let mut told: BTreeMap<CommitId, AuthoredSubject> = BTreeMap::new();
    for head in sources.iter().filter_map(|source| source.head.clone()) {
        if let std::collections::btree_map::Entry::Vacant(unknown) = told.entry(head) {
            let known = authored_subject(api, unknown.key()).await?;
            unknown.insert(known);
        }
    }
    let cluster = only_cluster(&sources);
    let told = |head: &CommitId| told.get(head).cloned().flatten();
    let lines = source_lines::lines(&sources, told, cluster.as_deref(), !rows.is_empty());
    let is_whole = filter.workload.is_none() && filter.commit.is_none();
    let others = others.iter().map(|row| row.state).filter(|state| filter.wants(*state));
    let elsewhere = if is_whole { other_namespaces::line(others) } else { None };
    Ok(ShownStatus { cluster, sources, lines, rows, elsewhere, unanswered: None })
}

/// Refuses a workload that the daemon has not applied, naming those that it has.
fn check(filter: &RowFilter, rows: &[WorkloadAnswer]) -> anyhow::Result<()> {
    const ALIKE: u16 = 600;
    let Some(named) = &filter.workload else { return Ok(()) };
    if rows.iter().any(|row| named.means(&row.object, None)) {
        return Ok(());
    }
    let there = rows.iter().map(|row| (row.object.name.as_str(), target::named(&row.object)));
    let hint = there_is(&named.name, there, ALIKE);
    bail!("belay has applied no workload {:?}{}{hint}", named.name, filter.place())
}

/// Returns the cluster that all sources are for; `None` if they are for several.
fn only_cluster(sources: &[SourceAnswer]) -> Option<String> {
    let clusters: BTreeSet<Option<&String>> = sources.iter().map(|source| source.cluster.as_ref()).collect();
    let mut clusters = clusters.into_iter();
    let only = clusters.next().flatten().cloned();
    only.filter(|_| clusters.next().is_none())
}

/// Returns the author and the subject of a commit: those of its newest record, or, if it has none, of the commit.
async fn authored_subject(api: &ServerApi, id: &CommitId) -> anyhow::Result<AuthoredSubject> {
    let query = Query { commit: Some(id.to_string()), limit: Some(1), ..Query::default() };
    if let Some(record) = api.records(&query).await?.into_iter().next() {
        return Ok(record.author.map(|author| author.name).zip(record.subject));
    }
    match api.commit(id.as_str()).await {
        Ok(answer) => Ok(answer.commit.map(|commit| (commit.author.name, commit.subject))),
        Err(ServerError::Nothing(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
