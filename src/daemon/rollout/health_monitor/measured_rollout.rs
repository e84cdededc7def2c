//! The rollout that analyses measure: its pods, its times, and the Jobs that are made for it.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::analysis_job::AnalysisJob;
use crate::daemon::shared::context::Context;
use belay_core::manifest::ObjectKey;
use belay_core::rollout::analysis::{JobOrigin, PodPatterns, could_not_start, job_key};
use belay_core::rollout::{CommitId, RecordId};

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

    /// Returns the Job of an analysis, by its name and the path of its file. `said` is the message of the last look before a restart,
    /// if that had no verdict.
    ///
    /// # Errors
    /// If the history does not have the record of the rollout.
    pub fn job(
        &self,
        context: &Arc<Context>,
        (analysis, file): (&str, &str),
        said: Option<&str>,
    ) -> Result<AnalysisJob, String> {
        let record = context.history.record(self.record).map_err(|error| error.to_string())?;
        let record = record.ok_or("the history does not have the record of the rollout")?;
        let key = job_key(analysis, file, &record);
        Ok(AnalysisJob {
            context: Arc::clone(context),
            record: self.record,
            not_started: said.and_then(|said| could_not_start(&key, said)).map(str::to_owned),
            has_run: false,
            is_noted: false,
            key,
            commit: self.commit.clone(),
            file: file.to_owned(),
            origin: JobOrigin {
                source: context.config.name.clone(),
                analysis: analysis.to_owned(),
                workload: self.workload.clone(),
                commit: self.commit.to_string(),
                revision: self.revision,
                pods: self.pods.new.clone(),
                owner: self.owner.clone(),
            },
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
