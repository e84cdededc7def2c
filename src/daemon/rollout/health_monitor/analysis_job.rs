//! The Job of an analysis: it is made once for a rollout, looked at, and deleted if it still runs at the end.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use tokio::time::timeout;
use tracing::{info, warn};

use crate::cluster::{ClusterError, Mode};
use crate::config::AnalysisConfig;
use crate::daemon::rollout::kinds::job_runs::has_ended;
use crate::daemon::rollout::rollout_task::{Cancelled, RolloutTask};
use crate::daemon::shared::context::Context;
use crate::git::EntryKind;
use belay_core::manifest::ObjectKey;
use belay_core::manifest::yaml::Limits;
use belay_core::rollout::analysis::{JobOrigin, JobState, is_made_by, job_key, job_state};
use belay_core::rollout::{CommitId, Record, Workload, asked_analyses};

/// The longest time for which a rollout waits until the Jobs that still run are deleted. One that stays ends by its deadline.
const DELETION: Duration = Duration::from_secs(10);

/// The earlier rollouts of a workload whose Jobs are deleted if they still run.
const EARLIER_JOBS: usize = 5;

/// The Job of an analysis.
pub(super) struct AnalysisJob {
    pub context: Arc<Context>,
    pub key: ObjectKey,
    /// The commit of the rollout, and the path of the file in it.
    pub commit: CommitId,
    pub file: String,
    pub origin: JobOrigin,
    /// The reason for which nothing of it could start, until something of it has.
    pub not_started: Option<String>,
}

impl AnalysisJob {
    /// Returns its state. A Job that is not there is made.
    ///
    /// # Errors
    /// As [`ClusterError`] sorts them.
    pub async fn look(&mut self) -> Result<JobState, ClusterError> {
        let cluster = &self.context.cluster;
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
                let made = cluster.apply(&self.key, &served, &body, Mode::Real).await?.object;
                info!(object = %self.origin.workload, analysis = self.origin.analysis, job = %self.key, "made the job of the analysis");
                made
            }
        };
        let pods = cluster.observe(&self.key, &live, None).await?.observation.pods;
        let state = job_state(&self.key, &live, &pods, self.not_started.as_deref());
        match &state {
            JobState::NotStarted(why) => self.not_started = Some(why.clone()),
            JobState::Runs => self.not_started = None,
            JobState::Waits | JobState::Cut(_) | JobState::Ended(_) => {}
        }
        Ok(state)
    }

    /// Returns the Job that the file of the commit makes.
    ///
    /// # Errors
    /// With the fault of the file.
    async fn body(&self) -> Result<serde_json::Value, String> {
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
    /// Deletes the Jobs of this rollout that still run: it has its end.
    pub async fn delete_jobs_of_analyses(&self) {
        let analyses = self.analyses_with_jobs();
        if analyses.is_empty() {
            return;
        }
        match self.context.history.record(self.record) {
            Ok(record) => self.delete_running(&analyses, record.as_slice()).await,
            Err(error) => {
                let object = &self.planned.wanted.key;
                warn!(%object, %error, "the jobs of its analyses can't be deleted: they end by their deadlines")
            }
        }
    }

    /// Deletes the Jobs of earlier rollouts that still run: this one takes their place.
    pub async fn delete_jobs_of_earlier_rollouts(&self) -> Result<(), Cancelled> {
        let analyses = self.analyses_with_jobs();
        if analyses.is_empty() {
            return Ok(());
        }
        let records = self.context.newest_records(&self.planned.wanted.key);
        let is_earlier = |record: &Record| record.rolls_out && record.id != self.record;
        let earlier: Vec<Record> = records.into_iter().filter(is_earlier).take(EARLIER_JOBS).collect();
        self.unless_cancelled(self.delete_running(&analyses, &earlier)).await
    }

    /// Returns the names of the analyses of this rollout that have Jobs.
    fn analyses_with_jobs(&self) -> Vec<&str> {
        let (config, key) = (&self.context.config, &self.planned.wanted.key);
        let has_job = |known: &&AnalysisConfig| known.job.is_some();
        if !Workload::of(key).is_some_and(Workload::can_go_back)
            || !self.is_of_template()
            || !config.known_analyses.iter().any(|known| has_job(&known))
        {
            return Vec::new();
        }
        let asked = asked_analyses(&self.planned.wanted.manifest.value(), &config.analysis);
        let jobs = config.known_analyses.iter().filter(has_job).filter(|known| asked.contains(&known.name));
        jobs.map(|known| known.name.as_str()).collect()
    }

    async fn delete_running(&self, analyses: &[&str], records: &[Record]) {
        let deletions = analyses.iter().flat_map(|analysis| {
            records.iter().map(move |record| self.delete_if_running(analysis, job_key(analysis, record)))
        });
        if timeout(DELETION, join_all(deletions)).await.is_err() {
            let object = &self.planned.wanted.key;
            warn!(%object, "the jobs of its analyses were not deleted within 10 s: they end by their deadlines");
        }
    }

    async fn delete_if_running(&self, analysis: &str, key: ObjectKey) {
        match self.context.delete_job(&self.planned.wanted.key, analysis, &key).await {
            Ok(true) => info!(job = %key, "deleted the job of an analysis: its rollout has ended"),
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
        let runs = |live: &serde_json::Value| is_made_by(live, workload, analysis) && !has_ended(key, live);
        let Some(live) = self.cluster.get(key, &served).await?.filter(runs) else { return Ok(false) };
        let uid = live["metadata"]["uid"].as_str().unwrap_or_default();
        self.cluster.delete(key, &served, uid).await?;
        Ok(true)
    }
}
