//! A revision that has stopped being well while it was the present one is no last good revision. Whether it still is well is
//! looked at when another takes its place, and written into its record.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;
use tracing::{info, warn};

use super::health_monitor::Cancelled;
use super::live::LiveFacts;
use super::rollout_task::{ResumePoint, RolloutTask};
use crate::history::LastGood;
use belay_core::rollout::{CommitId, Step, StepKind, TemplateMarks, Workload, is_unwell, same_template, template};

/// For how long a workload that has been incomplete for a moment, or was not seen before, is doubted: a container that crashes again and again is
/// started again every five minutes at least, and is ready for a moment each time.
const DOUBTED: Duration = Duration::from_mins(10);

/// The revisions of a workload that have stopped being well.
#[derive(Clone, Debug, Default)]
pub(super) struct Unhealthy {
    commits: BTreeSet<CommitId>,
    /// The hashes of their manifests.
    pub manifests: BTreeSet<String>,
}

impl Unhealthy {
    /// Whether a template with these marks is one of them.
    pub(super) fn has(&self, marks: &TemplateMarks) -> bool {
        let commit = marks.commit.as_deref().and_then(|commit| commit.parse().ok());
        commit.is_some_and(|commit: CommitId| self.commits.contains(&commit))
    }
}

impl LiveFacts {
    /// Whether there is reason to look at its pods.
    pub(super) fn is_doubtful(&self) -> bool {
        !self.complete || self.faltered.is_some_and(|at: Instant| at.elapsed() < DOUBTED)
    }
}

impl RolloutTask {
    /// Looks whether what this rollout takes the place of is well, and writes down where it is not. What can't be seen is
    /// believed to be well, as it was when it was complete.
    pub(super) async fn look_at_replaced(&self, stage: &ResumePoint) -> Result<(), Cancelled> {
        let (context, key) = (&self.context, &self.planned.wanted.key);
        let replaces = *stage == ResumePoint::Fresh && self.apply.replaces_template();
        if !replaces || !self.doubtful || !Workload::of(key).is_some_and(Workload::can_go_back) {
            return Ok(());
        }
        let Ok(Some(good)) = context.history.last_good(&context.config.name, key) else { return Ok(()) };
        let room = self.unless_cancelled(context.requests.room()).await?;
        let Some(live) = self.read().await?.filter(|live| is_of(live, &good)) else { return Ok(()) };
        let pods = self.unless_cancelled(context.cluster.pods_of_present_template(key, &live)).await?;
        drop(room);
        let pods = pods.unwrap_or_else(|error| {
            warn!(object = %key, %error, "failed to look at the pods that are replaced");
            Vec::new()
        });
        let Some(pod) = pods.iter().find(|pod| is_unwell(pod)) else { return Ok(()) };
        let said = if pod.seen.message.is_empty() { String::new() } else { format!(": {}", pod.seen.message) };
        let detail = format!("pod {} {}, {} restarts{said}", pod.seen.name, pod.seen.state, pod.seen.restarts);
        info!(object = %key, commit = good.record.commit.short(), detail, "was not well any more when it was replaced");
        let step = Step { at: context.clock.now(), kind: StepKind::Unwell, detail };
        if let Err(error) = context.history.step(good.record.id, &step) {
            warn!(object = %key, %error, "failed to write down that a revision was not well when it was replaced");
        }
        Ok(())
    }

    /// The revisions of its workload that have stopped being well, and were not complete anew since.
    pub(super) fn unwell(&self) -> Unhealthy {
        let (context, key) = (&self.context, &self.planned.wanted.key);
        let records = context.history.unwell(&context.config.name, key).unwrap_or_else(|error| {
            warn!(object = %key, %error, "failed to ask the history what was not well");
            Vec::new()
        });
        let manifests = records.iter().filter_map(|record| record.manifest_hash.clone()).collect();
        Unhealthy { commits: records.into_iter().map(|record| record.commit).collect(), manifests }
    }
}

/// Whether a live workload has the template of a record. A commit whose template was there already leaves the marks of the
/// commit that brought it.
fn is_of(live: &Value, good: &LastGood) -> bool {
    let of_commit = TemplateMarks::on(live).commit.as_deref() == Some(good.record.commit.as_str());
    let same = || template(live).zip(good.template.as_ref()).is_some_and(|(live, good)| same_template(live, good));
    of_commit || same()
}
