//! The Job of an analysis: it is made once for a rollout, looked at, and deleted if it still runs at the end.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use tracing::{info, warn};

use crate::cluster::{ClusterError, Mode};
use crate::daemon::rollout::kinds::job_runs::has_ended;
use crate::daemon::shared::context::Context;
use crate::git::EntryKind;
use belay_core::manifest::ObjectKey;
use belay_core::manifest::yaml::Limits;
use belay_core::rollout::CommitId;
use belay_core::rollout::analysis::{JobOrigin, JobState, job_state};

/// The longest time for which the end of a rollout waits until its Jobs are deleted. A Job that stays ends by its deadline.
const DELETION: Duration = Duration::from_secs(10);

/// The Job of an analysis.
pub(super) struct AnalysisJob {
    pub context: Arc<Context>,
    pub key: ObjectKey,
    /// The commit of the rollout, and the path of the file in it.
    pub commit: CommitId,
    pub file: String,
    pub origin: JobOrigin,
    /// The Jobs that it made for earlier rollouts of the workload: those that still run are deleted before it is made.
    pub earlier: Vec<ObjectKey>,
    /// The reason for which nothing of it could start at the last look.
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
            Some(live) => live,
            None => {
                let body = match self.body().await {
                    Ok(body) => body,
                    Err(fault) => return Ok(JobState::NotStarted(fault)),
                };
                delete_running(&self.context, &self.earlier).await;
                let made = cluster.apply(&self.key, &served, &body, Mode::Real).await?.object;
                info!(object = %self.origin.workload, analysis = self.origin.analysis, job = %self.key, "made the job of the analysis");
                made
            }
        };
        let pods = cluster.observe(&self.key, &live, None).await?.observation.pods;
        let state = job_state(&self.key, &live, &pods, self.not_started.as_deref());
        self.not_started = match &state {
            JobState::NotStarted(why) => Some(why.clone()),
            JobState::Runs | JobState::Ended(_) => None,
        };
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
            None => Err(format!("commit {} has no file {}", self.commit.short(), self.file)),
        }
    }
}

/// Deletes those of these Jobs that have not ended, as far as that is possible now.
pub(super) async fn delete_running(context: &Context, jobs: &[ObjectKey]) {
    for key in jobs {
        match timeout(DELETION, delete_if_running(context, key)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                warn!(job = %key, %error, "the job of an analysis can't be deleted: it runs on until its deadline")
            }
            Err(_) => {
                warn!(job = %key, "the job of an analysis was not deleted within 10 s: it runs on until its deadline")
            }
        }
    }
}

async fn delete_if_running(context: &Context, key: &ObjectKey) -> Result<(), ClusterError> {
    let served = context.cluster.served("batch/v1", "Job").await?;
    let Some(live) = context.cluster.get(key, &served).await?.filter(|live| !has_ended(key, live)) else {
        return Ok(());
    };
    let uid = live["metadata"]["uid"].as_str().unwrap_or_default();
    context.cluster.delete(key, &served, uid).await?;
    info!(job = %key, "deleted the job of an analysis: its rollout has ended");
    Ok(())
}
