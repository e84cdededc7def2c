//! The Job of an analysis: it is made once for a rollout, looked at, and deleted if it still runs at the end.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use serde_json::Value;
use tokio::time::timeout;
use tracing::{info, warn};

use crate::cluster::{ClusterError, Mode};
use crate::daemon::rollout::kinds::job_runs::has_ended;
use crate::daemon::rollout::rollout_task::{Cancelled, RolloutTask};
use crate::daemon::shared::context::Context;
use crate::git::EntryKind;
use belay_core::manifest::ObjectKey;
use belay_core::manifest::yaml::Limits;
use belay_core::rollout::analysis::{JobOrigin, JobState, MadeJob, is_made_by, job_key, job_of, job_state, stuck_job};
use belay_core::rollout::{CommitId, RecordId, StepKind, Workload, asked_analyses};

/// The longest time for which a rollout waits until the Jobs that still run are deleted. One that stays ends by its deadline.
const DELETION: Duration = Duration::from_secs(10);

/// The Job of an analysis.
pub(super) struct AnalysisJob {
    pub context: Arc<Context>,
    /// The record of the rollout.
    pub record: RecordId,
    pub key: ObjectKey,
    /// The commit of the rollout, and the path of the file in it.
    pub commit: CommitId,
    pub file: String,
    pub origin: JobOrigin,
    /// The reason for which nothing of it could start, until something of it has.
    pub not_started: Option<String>,
    /// True once something of it is known to have started.
    pub has_run: bool,
    /// True once the history names it.
    pub is_noted: bool,
}

impl AnalysisJob {
    /// Returns its state. A Job that is not there is made.
    ///
    /// # Errors
    /// As [`ClusterError`] sorts them.
    pub async fn look(&mut self) -> Result<JobState, ClusterError> {
        let context = Arc::clone(&self.context);
        let cluster = &context.cluster;
        let served = cluster.served("batch/v1", "Job").await?;
        let live = match cluster.get(&self.key, &served).await? {
            Some(live) if !is_made_by(&live, &self.origin.workload, &self.origin.analysis) => {
                let message = format!("there is a {} that belay has not made", self.key);
                return Ok(JobState::NotStarted(message));
            }
            Some(live) => live,
            None => {
                let body = match self.body().await {
                    Ok(body) => body,
                    Err(fault) => return Ok(JobState::NotStarted(fault)),
                };
                self.note().await;
                let made = cluster.apply(&self.key, &served, &body, Mode::Real).await?.object;
                info!(object = %self.origin.workload, analysis = self.origin.analysis, job = %self.key, "made the job of the analysis");
                made
            }
        };
        let pods = cluster.observe(&self.key, &live, None).await?.observation.pods;
        let mut state = job_state(&self.key, &live, &pods, self.not_started.as_deref());
        let unstarted = self.not_started.clone().unwrap_or_else(|| stuck_job(&self.key));
        if !self.has_run && matches!(job_state(&self.key, &live, &pods, Some(&unstarted)), JobState::Cut(_)) {
            if let Some(has_started) = self.has_started(&live).await? {
                self.not_started = (!has_started).then_some(unstarted);
                self.has_run = has_started;
            }
            state = job_state(&self.key, &live, &pods, self.not_started.as_deref());
        }
        match &state {
            JobState::NotStarted(why) => self.not_started = Some(why.clone()),
            JobState::Runs => (self.not_started, self.has_run) = (None, true),
            JobState::Waits | JobState::Cut(_) | JobState::Ended(_) => {}
        }
        Ok(state)
    }

    /// Returns true when something of it has started since the last look, or while belay was away; `None` if the cluster does not know.
    ///
    /// # Errors
    /// If the cluster does not answer: another look will tell.
    async fn has_started(&self, live: &Value) -> Result<Option<bool>, ClusterError> {
        match self.context.cluster.job_has_started(&self.key, live).await {
            Err(error) if !error.is_outage() && !error.is_own() => {
                warn!(job = %self.key, %error, "its events can't be read: they do not tell whether anything of it has started");
                Ok(None)
            }
            answer => answer,
        }
    }

    /// Names it in the history, before it is made: it is deleted by that, whatever the configuration says then.
    async fn note(&mut self) {
        if !std::mem::replace(&mut self.is_noted, true) {
            let made = MadeJob { analysis: self.origin.analysis.clone(), name: self.key.name.clone() };
            self.context.step(self.record, StepKind::Job, &made.step()).await;
        }
    }

    /// Returns the Job that the file of the commit makes.
    ///
    /// # Errors
    /// With the fault of the file.
    async fn body(&self) -> Result<Value, String> {
        let (commit, file, mirror) =
            (self.commit.clone(), self.file.clone(), Arc::clone(&self.context.repository.mirror));
        let limit = Limits::default().file_bytes;
        let read = move || match mirror.file_at(&commit, &file)? {
            Some(entry) if entry.kind == EntryKind::File => mirror.read(entry.blob, limit as u64).map(Some),
            Some(_) | None => Ok(None),
        };
        let bytes = self.context.repository.blocking_pool.run(read).await;
        match bytes.map_err(|error| format!("{}: {error}", self.file))? {
            Some(bytes) => self.origin.job(&self.key, &self.file, &bytes),
            None => Err(format!("commit {} has no file {}; a symbolic link is none", self.commit.short(), self.file)),
        }
    }
}

impl RolloutTask {
    /// Deletes the Jobs that this rollout, or an earlier one of the workload, has made for an analysis, and that still run, but those of
    /// the names that stay.
    pub async fn delete_jobs_of_analyses(&self, stay: &BTreeSet<String>) {
        let (context, key) = (&self.context, &self.planned.wanted.key);
        if !Workload::of(key).is_some_and(Workload::can_go_back) {
            return;
        }
        let made = match context.history.jobs_of_analyses(&context.config.name, key) {
            Ok(made) => made,
            Err(error) => {
                warn!(object = %key, %error, "the jobs of its analyses can't be deleted: they end by their deadlines");
                return;
            }
        };
        let left = made.iter().filter(|made| !stay.contains(&made.name));
        let deletions = join_all(left.map(|made| self.delete_if_running(made)));
        if timeout(DELETION, deletions).await.is_err() {
            warn!(object = %key, "the jobs of its analyses were not deleted within 10 s: they end by their deadlines");
        }
    }

    /// Deletes the Jobs that still run of analyses that are not asked for any more, or have another file.
    pub async fn delete_jobs_of_former_analyses(&self) -> Result<(), Cancelled> {
        let config = &self.context.config;
        let asked = asked_analyses(&self.planned.wanted.manifest.value(), &config.analysis);
        let present = match self.context.history.record(self.record) {
            Ok(Some(record)) => {
                let known = config.known_analyses.iter().filter(|known| asked.contains(&known.name));
                known.filter_map(|known| Some(job_key(&known.name, known.job.as_deref()?, &record).name)).collect()
            }
            Ok(None) => return Ok(()),
            Err(error) => {
                let object = &self.planned.wanted.key;
                warn!(%object, %error, "the jobs of its former analyses can't be deleted: they end by their deadlines");
                return Ok(());
            }
        };
        self.unless_cancelled(self.delete_jobs_of_analyses(&present)).await
    }

    async fn delete_if_running(&self, made: &MadeJob) {
        let workload = &self.planned.wanted.key;
        let key = job_of(workload, &made.name);
        match self.context.delete_job(workload, &made.analysis, &key).await {
            Ok(true) => info!(job = %key, "deleted the job of an analysis: nothing waits for its end"),
            Ok(false) => {}
            Err(error) => {
                warn!(job = %key, %error, "the job of an analysis can't be deleted: it ends by its deadline")
            }
        }
    }
}

impl Context {
    /// Deletes a Job that belay has made for an analysis of a workload, unless it has ended. Returns true if it did.
    async fn delete_job(&self, workload: &ObjectKey, analysis: &str, key: &ObjectKey) -> Result<bool, ClusterError> {
        let served = self.cluster.served("batch/v1", "Job").await?;
        let runs = |live: &Value| is_made_by(live, workload, analysis) && !has_ended(key, live);
        let Some(live) = self.cluster.get(key, &served).await?.filter(runs) else { return Ok(false) };
        let uid = live["metadata"]["uid"].as_str().unwrap_or_default();
        self.cluster.delete(key, &served, uid).await?;
        Ok(true)
    }
}
