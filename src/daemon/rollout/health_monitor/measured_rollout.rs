//! The rollout that analyses measure: its pods, its times, and the Jobs that are made for it.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::analysis_job::AnalysisJob;
use crate::config::{AnalysisConfig, AnalysisSubject};
use crate::daemon::shared::context::Context;
use belay_core::manifest::ObjectKey;
use belay_core::rollout::analysis::{JobOrigin, PodPatterns, job_key};
use belay_core::rollout::{CommitId, Record, RecordId};

/// The time after the longest bake time after which the cluster ends a Job that belay could not delete.
const AFTER_ROLLOUT: SignedDuration = SignedDuration::from_mins(5);

/// The earlier rollouts of a workload whose Jobs are deleted if they still run.
const EARLIER_JOBS: usize = 5;

/// The rollout that is measured.
#[derive(Debug)]
pub(super) struct MeasuredRollout {
    pub record: RecordId,
    pub pods: PodPatterns,
    pub workload: ObjectKey,
    /// The owner reference of the workload.
    pub owner: Value,
    pub commit: CommitId,
    pub revision: i64,
    /// The length of its bake time.
    pub bake: SignedDuration,
    /// When that began, by the steady clock.
    pub began: Timestamp,
    /// The step of its canary.
    pub step: Option<usize>,
    pub old: OldPods,
    /// The longest time for which a verdict is waited for after the bake time.
    pub more: SignedDuration,
}

/// The time in which the old pods are measured.
#[derive(Clone, Copy, Debug)]
pub(super) enum OldPods {
    /// The same as for the new ones: a canary runs them side by side.
    Beside,
    /// Until the last good version began to be replaced, by the clock that people see.
    Until(Timestamp),
}

impl MeasuredRollout {
    /// Returns the time that the old pods are measured at, so long after the beginning of the bake time: now beside a canary, else in a time of the
    /// same length, which ended when they began to be replaced. After the bake time that is the time before it.
    pub fn old_time(&self, elapsed: SignedDuration, now: Timestamp) -> Timestamp {
        let OldPods::Until(replaced) = self.old else { return now };
        let ends = if elapsed <= self.bake { SignedDuration::ZERO } else { self.bake };
        let length = if elapsed <= self.bake { self.bake } else { self.more };
        let (from, at) = (ends.saturating_add(length), elapsed.saturating_sub(ends));
        replaced.checked_sub(from.saturating_sub(at)).unwrap_or(replaced).min(replaced)
    }

    /// Returns the Job of an analysis, if it has one.
    pub fn job(&self, context: &Arc<Context>, config: &AnalysisConfig) -> Option<AnalysisJob> {
        let Ok(AnalysisSubject::Job { file }) = config.subject() else { return None };
        let records = context.newest_records(&self.workload);
        let rolled_out = records.iter().filter(|record| record.rolls_out && record.object == self.workload);
        let keys = |record: &Record| (record.id, job_key(&config.name, record));
        let (mut own, mut earlier): (Vec<_>, Vec<_>) = rolled_out.map(keys).partition(|(id, _)| *id == self.record);
        earlier.truncate(EARLIER_JOBS);
        let most = self.bake.saturating_add(self.more).saturating_add(AFTER_ROLLOUT);
        Some(AnalysisJob {
            context: Arc::clone(context),
            key: own.pop()?.1,
            commit: self.commit.clone(),
            file,
            origin: JobOrigin {
                source: context.config.name.clone(),
                analysis: config.name.clone(),
                workload: self.workload.clone(),
                commit: self.commit.to_string(),
                revision: self.revision,
                pods: self.pods.new.clone(),
                owner: self.owner.clone(),
                most_seconds: most.as_secs(),
            },
            earlier: earlier.into_iter().map(|(_, key)| key).collect(),
            not_started: None,
        })
    }
}

/// Returns the owner reference by which an object is deleted with a workload.
pub(super) fn owner_reference(live: &Value) -> Value {
    json!({
        "apiVersion": live["apiVersion"],
        "kind": live["kind"],
        "name": live["metadata"]["name"],
        "uid": live["metadata"]["uid"],
    })
}
