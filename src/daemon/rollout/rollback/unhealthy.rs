//! A revision that is not well is not gone back to, though it was complete once, or was replaced before it was judged.
//! Its health is checked when another takes its place, and is written into its record.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;
use tracing::{info, warn};

use crate::daemon::rollout::rollout_task::{Cancelled, RolloutTask};
use crate::daemon::shared::context::Context;
use crate::daemon::shared::live::LiveFacts;
use crate::history::{LastGood, Query, Update};
use belay_core::manifest::ObjectKey;
use belay_core::rollout::{
    CommitId, Observation, Outcome, Record, Step, StepKind, TemplateMarks, Workload, is_unwell, same_template, template,
};

/// The time for which a workload that has been incomplete for a moment, or was not seen before, is doubted: a container
/// that crashes again and again is started again every five minutes at least, and is ready for a moment each time.
const DOUBTED: Duration = Duration::from_mins(10);
/// The number of records of an object that are searched for a way back.
const RECORDS: u32 = 20;

/// The revisions of a workload that are not gone back to: they failed, or were not well when they were replaced.
#[derive(Clone, Debug, Default)]
pub struct Unhealthy {
    commits: BTreeSet<CommitId>,
    /// The hashes of their manifests.
    manifests: BTreeSet<String>,
}

impl FromIterator<Record> for Unhealthy {
    fn from_iter<I: IntoIterator<Item = Record>>(records: I) -> Unhealthy {
        let (commits, manifests): (_, Vec<Option<String>>) =
            records.into_iter().map(|record| (record.commit, record.manifest_hash)).unzip();
        Unhealthy { commits, manifests: manifests.into_iter().flatten().collect() }
    }
}

impl Unhealthy {
    /// Returns true when a manifest of a commit is one of them. A record that was rebuilt from the cluster knows no
    /// manifest, and one commit may repeat the manifest of another.
    pub fn has_manifest(&self, commit: &CommitId, hash: &str) -> bool {
        self.commits.contains(commit) || self.manifests.contains(hash)
    }

    /// Returns true when a template with these marks is one of them.
    pub fn has(&self, marks: &TemplateMarks) -> bool {
        let commit = marks.commit.as_deref().and_then(|commit| commit.parse().ok());
        commit.is_some_and(|commit: CommitId| self.commits.contains(&commit))
    }
}

impl LiveFacts {
    /// Returns true when there is reason to inspect its pods.
    pub fn is_unverified(&self) -> bool {
        !self.complete || self.faltered.is_some_and(|at: Instant| at.elapsed() < DOUBTED)
    }
}

impl Context {
    /// Returns the revisions of a workload that were unhealthy when they were replaced, and were not complete again since.
    /// It blocks.
    pub fn unwell(&self, key: &ObjectKey) -> Unhealthy {
        let records = self.history.unwell(&self.config.name, key).unwrap_or_else(|error| {
            warn!(object = %key, %error, "failed to ask the history what was not well");
            Vec::new()
        });
        records.into_iter().collect()
    }
}

impl RolloutTask {
    /// Checks that the revision that this rollout replaces is healthy, and records if it is not. A revision whose
    /// health can't be read counts as healthy, as it was when it was complete.
    pub async fn look_at_replaced(&self) -> Result<(), Cancelled> {
        let (context, key) = (&self.context, &self.planned.wanted.key);
        let replaces = !self.apply.respects_undo && self.apply.replaces_template();
        if !replaces || !self.resume.was_unverified || !Workload::of(key).is_some_and(Workload::can_go_back) {
            return Ok(());
        }
        let room = self.unless_cancelled(context.requests.room()).await?;
        let Some(live) = self.read().await? else { return Ok(()) };
        let Some(replaced) = self.record_of(&live) else { return Ok(()) };
        let pods = self.unless_cancelled(context.cluster.pods_of_present_template(key, &live)).await?;
        drop(room);
        let observed = pods.unwrap_or_else(|error| {
            warn!(object = %key, %error, "failed to look at the pods that are replaced");
            Observation::default()
        });
        let Some(pod) = observed.pods.iter().find(|pod| is_unwell(pod)) else { return Ok(()) };
        let said = if pod.seen.message.is_empty() { String::new() } else { format!(": {}", pod.seen.message) };
        let detail = format!("pod {} {}, {} restarts{said}", pod.seen.name, pod.seen.state, pod.seen.restarts);
        info!(object = %key, commit = replaced.commit.short(), detail, "was not well when it was replaced");
        let step = Step { at: context.clock.now(), kind: StepKind::Unwell, detail };
        // Its suspension stands for its rollout if the history that knew of that is lost.
        let was_suspended = replaced.outcome == Outcome::Suspended;
        let ran = Update { rolls_out: was_suspended.then_some(true), ..Update::default() };
        let written = context.history.update(replaced.id, &ran).and_then(|()| context.history.step(replaced.id, &step));
        if let Err(error) = written {
            warn!(object = %key, %error, "failed to write down that a revision was not well when it was replaced");
        }
        Ok(())
    }

    /// Returns the revisions of its workload that were unhealthy when they were replaced, and were not complete again
    /// since.
    pub fn unwell(&self) -> Unhealthy {
        self.context.unwell(&self.planned.wanted.key)
    }

    /// Returns the record of a live workload's revision: its last good one, or one that a newer commit replaces before
    /// it was judged.
    fn record_of(&self, live: &Value) -> Option<Record> {
        let (context, key) = (&self.context, &self.planned.wanted.key);
        let commit = TemplateMarks::on(live).commit;
        // A commit whose template was there already leaves the marks of the commit that brought it.
        let same = |good: &LastGood| {
            template(live).zip(good.template.as_ref()).is_some_and(|(live, good)| same_template(live, good))
        };
        let is_of = |good: &LastGood| commit.as_deref() == Some(good.record.commit.as_str()) || same(good);
        let query = Query {
            commit: commit.clone(),
            older_than: Some(self.record),
            limit: Some(1),
            ..Query::of(&context.config.name, key)
        };
        let found = match context.history.last_good(&context.config.name, key) {
            Ok(Some(good)) if is_of(&good) => return Some(good.record),
            Ok(_) if commit.is_none() => return None,
            Ok(_) => context.history.records(&query),
            Err(error) => Err(error),
        };
        let found =
            found.inspect_err(|error| warn!(object = %key, %error, "failed to ask the history what is replaced"));
        found.ok()?.pop().or_else(|| self.went_back_to(&commit?.parse().ok()?))
    }

    /// Returns the newest record whose way back brought the template of a commit of which there is no record.
    fn went_back_to(&self, commit: &CommitId) -> Option<Record> {
        let (context, key) = (&self.context, &self.planned.wanted.key);
        let query =
            Query { older_than: Some(self.record), limit: Some(RECORDS), ..Query::of(&context.config.name, key) };
        let records = context.history.records(&query).ok()?;
        records.into_iter().find(|record| record.back_to.as_ref() == Some(commit))
    }
}
