//! One reconciliation of one Job.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use jiff::SignedDuration;
use k8s_openapi::api::batch::v1::{Job, JobStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::outcome::{self, JobOutcome};
use super::per_index::{Failures, PerIndex};
use super::plan::{self, JobChanges, JobView};
use super::policy::{self, FailureAction};
use super::template::Turn;
use super::track::{self, Over, Tally};
use super::{FINALIZER, Jobs, ORPHAN, has_finalizer, is_indexed, selector, template};
use crate::controllers::context::in_seconds;
use crate::controllers::error::Error;
use crate::controllers::events::EventType;
use crate::controllers::key::{Key, is_terminating, uid_of, version_of};
use crate::controllers::owner::controller_reference;
use crate::controllers::ownership::{self, Claimer};
use crate::controllers::pod::Pod;
use crate::controllers::pod_control::{PodControl, slow_start};
use crate::controllers::requests::Written;
use crate::controllers::work_queue::WorkQueue;
use crate::controllers::worker::Reconciler;

/// At most so many pods are made or deleted in one go.
const BURST: usize = 500;
/// When an expected object does not show, reconcile again after this time, in case it never will.
const EXPECTING: Duration = Duration::from_secs(30);
/// The controller that a Job may be left to instead of this one.
const OURSELVES: &str = "kubernetes.io/job-controller";

impl Reconciler for Jobs {
    type Key = Key;

    fn name(&self) -> &'static str {
        "job-controller"
    }

    fn queue(&self) -> &WorkQueue<Key> {
        &self.queue
    }

    async fn sync(&self, key: &Key) -> Result<(), Error> {
        if let Some(pod) = key.name.strip_prefix(ORPHAN) {
            return self.let_go(&Key::new(key.namespace.clone(), pod)).await;
        }
        let Some(job) = self.jobs.get(key) else {
            self.expectations.forget(key);
            return Ok(());
        };
        let is_ours = job.spec.as_ref().is_some_and(|spec| spec.managed_by.as_deref().is_none_or(|by| by == OURSELVES));
        if outcome::is_finished(&job) || !is_ours {
            return Ok(());
        }
        let is_seen = self.expectations.is_owner_seen(key, &self.jobs);
        if !is_seen || !self.expectations.are_met(key, &self.context.informers.pods) {
            self.queue.add_after(key.clone(), EXPECTING);
            return Ok(());
        }
        let pods = self.pods(&job).await?;
        self.advance(key, &job, &pods).await
    }
}

/// The way in which pods count that the controller deletes itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counting {
    /// The Job has ended: they count as failed.
    AsFailed,
    /// There were too many: they lose their finalizer first, so that nobody counts them.
    NotAtAll,
}

/// A Job's pods, sorted by how they are.
struct Sorted {
    active: Vec<Arc<Pod>>,
    leaving: Vec<Arc<Pod>>,
}

impl Jobs {
    async fn pods(&self, job: &Job) -> Result<Vec<Arc<Pod>>, Error> {
        let metadata = &job.metadata;
        let candidates = self.context.informers.pods.candidates(metadata);
        let claimer = Claimer {
            requests: &self.context.requests,
            owner: metadata,
            selector: &selector(job)?,
            reference: controller_reference::<Job>(metadata),
            finalizer: Some(FINALIZER),
        };
        let claimed = claimer.claim::<Job, Pod, Pod>(candidates).await?;
        if let Some(version) = claimed.wrote {
            self.expectations.wrote(&Key::of(metadata), version);
            // An adopted pod shows its finalizer next time.
            return Err(Error::ComesBack);
        }
        Ok(claimed.objects)
    }

    async fn advance(&self, key: &Key, job: &Job, pods: &[Arc<Pod>]) -> Result<(), Error> {
        let now = self.context.clock.now();
        let is_suspended = job.spec.as_ref().is_some_and(|spec| spec.suspend == Some(true));
        let mut status = job.status.clone().unwrap_or_default();
        if status.start_time.is_none() && !is_suspended {
            status.start_time = Some(Time(in_seconds(now)));
        }
        let held: BTreeSet<&str> =
            pods.iter().filter(|pod| has_finalizer(pod)).map(|pod| uid_of(&pod.metadata)).collect();
        track::settle(&mut status, &held);
        let mut sorted = Sorted {
            active: pods.iter().filter(|pod| pod.is_active()).cloned().collect(),
            leaving: pods.iter().filter(|pod| pod.is_leaving()).cloned().collect(),
        };
        let has_succeeded = JobOutcome::decided(&status).is_some_and(|decided| decided.succeeded);
        let so_far = if has_succeeded { Over::Succeeded } else { Over::NotYet };
        let tally = track::name_ended(job, &mut status, pods, so_far);
        let mut verdict = self.verdict(job, &status, pods, &sorted, &tally);
        if verdict.is_none()
            && let Some(left) = outcome::time_left(job, &status, now)
        {
            self.queue.add_after(key.clone(), Duration::try_from(left).unwrap_or_default());
        }
        let mut failure = None;
        if verdict.is_some() {
            failure = self.delete_all(key, job, &mut sorted).await;
        } else if !is_terminating(&job.metadata) {
            failure = self.manage(key, job, &mut sorted, pods, &tally).await;
            if is_complete(job, &tally, &sorted) {
                verdict = Some(JobOutcome::complete());
            } else {
                self.tell_of_suspension(job, &mut status, is_suspended);
            }
        }
        status.active = Some(count(sorted.active.len())).filter(|active| *active != 0);
        status.ready = Some(count(sorted.active.iter().filter(|pod| pod.is_ready()).count()));
        status.terminating = Some(count(sorted.leaving.len()));
        // With the Job over, pods that are still there count as they are.
        let tally = match &verdict {
            Some(verdict) => {
                let over = if verdict.succeeded { Over::Succeeded } else { Over::Failed };
                track::name_ended(job, &mut status, pods, over)
            }
            None => tally,
        };
        self.conclude(key, job, status, &sorted, tally, verdict).await?;
        failure.map_or(Ok(()), Err)
    }

    /// Writes the status, releases the pods that it names, counts them, and emits an event when the Job has ended.
    async fn conclude(
        &self,
        key: &Key,
        job: &Job,
        mut status: JobStatus,
        sorted: &Sorted,
        tally: Tally,
        verdict: Option<JobOutcome>,
    ) -> Result<(), Error> {
        let now = self.context.clock.now();
        if let Some(verdict) = &verdict {
            outcome::set(&mut status, verdict.interim(), "True", &verdict.reason, &verdict.message, now);
        }
        let job = self.write(key, job, &status).await?;
        let (kept, error) = self.release(key, &tally.ended).await;
        track::settle(&mut status, &kept.iter().map(String::as_str).collect());
        if let Some(error) = error {
            self.write(key, &job, &status).await?;
            return Err(error);
        }
        let named = status.uncounted_terminated_pods.clone().unwrap_or_default();
        let is_settled = named.failed.is_none() && named.succeeded.is_none() && !tally.more;
        if let Some(verdict) = verdict
            && is_settled
            && sorted.active.is_empty()
            && sorted.leaving.is_empty()
            && outcome::set(&mut status, verdict.last(), "True", &verdict.reason, &verdict.message, now)
        {
            if verdict.succeeded {
                status.completion_time = Some(Time(in_seconds(now)));
                self.recorder.say(&job, EventType::Normal, "Completed", "Job completed");
            } else {
                self.tell_of_failure(&job, &verdict);
            }
        }
        self.write(key, &job, &status).await?;
        if tally.more {
            self.queue.add(key.clone());
        }
        Ok(())
    }

    fn verdict(
        &self,
        job: &Job,
        status: &JobStatus,
        pods: &[Arc<Pod>],
        sorted: &Sorted,
        tally: &Tally,
    ) -> Option<JobOutcome> {
        if let Some(decided) = JobOutcome::decided(status) {
            return Some(decided);
        }
        let failed = pods.iter().filter(|pod| pod.phase() == "Failed");
        let ends = failed.map(|pod| policy::failure_action(job, pod)).find_map(|failure_action| match failure_action {
            FailureAction::FailsJob(why) => Some(why),
            _ => None,
        });
        if let Some(why) = ends {
            return Some(JobOutcome::by_failure_policy(why));
        }
        let limit = job.spec.as_ref().and_then(|spec| spec.backoff_limit).unwrap_or(6);
        if tally.failed > limit || outcome::restarts_exceed(job, &sorted.active) {
            return Some(JobOutcome::too_many_failures());
        }
        let left = outcome::time_left(job, status, self.context.clock.now());
        if left.is_some_and(|left| left <= SignedDuration::ZERO) {
            return Some(JobOutcome::too_late());
        }
        if let Some(verdict) = tally.per_index.as_ref().and_then(|limits| limits.verdict(job, &tally.done)) {
            return Some(verdict);
        }
        policy::fulfilled(job, &tally.done).map(JobOutcome::by_success_policy)
    }

    fn tell_of_failure(&self, job: &Job, verdict: &JobOutcome) {
        // The reasons are few, and events want them for good.
        let reason = match verdict.reason.as_str() {
            "DeadlineExceeded" => "DeadlineExceeded",
            "PodFailurePolicy" => "PodFailurePolicy",
            "MaxFailedIndexesExceeded" => "MaxFailedIndexesExceeded",
            "FailedIndexes" => "FailedIndexes",
            _ => "BackoffLimitExceeded",
        };
        self.recorder.say(job, EventType::Warning, reason, verdict.message.clone());
    }

    fn tell_of_suspension(&self, job: &Job, status: &mut JobStatus, is_suspended: bool) {
        let now = self.context.clock.now();
        let was = outcome::condition(status, "Suspended").is_some_and(|condition| condition.status == "True");
        if is_suspended && !was {
            outcome::set(status, "Suspended", "True", "JobSuspended", "Job suspended", now);
            self.recorder.say(job, EventType::Normal, "Suspended", "Job suspended");
        } else if !is_suspended && was {
            outcome::set(status, "Suspended", "False", "JobResumed", "Job resumed", now);
            status.start_time = Some(Time(in_seconds(now)));
            self.recorder.say(job, EventType::Normal, "Resumed", "Job resumed");
        }
        if is_suspended {
            status.start_time = None;
        }
    }

    /// Makes and deletes pods as needed. Those that were made or deleted count at once.
    async fn manage(
        &self,
        key: &Key,
        job: &Job,
        sorted: &mut Sorted,
        pods: &[Arc<Pod>],
        tally: &Tally,
    ) -> Option<Error> {
        let now = self.context.clock.now();
        let finished: Vec<Arc<Pod>> = pods.iter().filter(|pod| pod.is_finished()).cloned().collect();
        let view = JobView {
            job,
            active: &sorted.active,
            leaving: &sorted.leaving,
            succeeded: tally.succeeded,
            done: &tally.done,
            per_index: tally.per_index.as_ref(),
            pause: plan::pause(&finished, now),
            now,
        };
        let changes = view.changes();
        if let Some(again) = changes.again {
            self.queue.add_after(key.clone(), Duration::try_from(again).unwrap_or_default());
        }
        let deleted = self.delete_some(key, job, sorted, &changes.delete, Counting::NotAtAll).await;
        let told_of = job.status.as_ref().and_then(|status| status.active).unwrap_or(0);
        if changes.create > 0 && count(sorted.active.len()) < told_of {
            match ownership::is_going::<Job>(&self.context.requests, &job.metadata).await {
                Ok(false) => {}
                Ok(true) => return deleted,
                Err(error) => return deleted.or(Some(error)),
            }
        }
        let (made, error) = self.create(key, job, &changes, tally.per_index.as_ref()).await;
        sorted.active.extend(made.into_iter().map(Arc::new));
        deleted.or(error)
    }

    async fn create(
        &self,
        key: &Key,
        job: &Job,
        changes: &JobChanges,
        per_index: Option<&PerIndex>,
    ) -> (Vec<Pod>, Option<Error>) {
        let control = PodControl { requests: &self.context.requests, recorder: &self.recorder, owner: job };
        let made = std::sync::Mutex::new(Vec::new());
        let (_, errors) = slow_start(changes.create.min(BURST), |number| {
            let index = changes.indexes.get(number).copied().filter(|_| is_indexed(job));
            let turn = index.map(|index| {
                let before = |limits: &PerIndex| Failures::after(job, limits.kept.get(&index).map(|pod| &**pod));
                Turn { index, failures: per_index.map(before) }
            });
            let (metadata, spec) = template::of(job, controller_reference::<Job>(&job.metadata), turn);
            let (control, made) = (&control, &made);
            async move {
                match control.create(&metadata, spec.as_ref()).await {
                    Ok(pod) => {
                        self.expectations.wrote(key, version_of(&pod.metadata));
                        made.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(pod);
                        Ok(())
                    }
                    Err(error) if error.is_namespace_terminating() => Ok(()),
                    Err(error) => Err(error),
                }
            }
        })
        .await;
        let made = made.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        (made, Error::first_of(errors))
    }

    /// Deletes all pods that still run.
    async fn delete_all(&self, key: &Key, job: &Job, sorted: &mut Sorted) -> Option<Error> {
        let all = sorted.active.clone();
        self.delete_some(key, job, sorted, &all, Counting::AsFailed).await
    }

    async fn delete_some(
        &self,
        key: &Key,
        job: &Job,
        sorted: &mut Sorted,
        pods: &[Arc<Pod>],
        counting: Counting,
    ) -> Option<Error> {
        let control = PodControl { requests: &self.context.requests, recorder: &self.recorder, owner: job };
        let control = &control;
        let deletions = pods.iter().take(BURST).map(|pod| async move {
            if counting == Counting::NotAtAll
                && let Some(written) = self.remove_finalizer(pod).await?
            {
                self.expectations.wrote(key, version_of(&written.metadata));
            }
            control.delete(pod).await
        });
        let outcomes = join_all(deletions).await;
        let mut errors = Vec::new();
        for (pod, outcome) in pods.iter().zip(outcomes) {
            match outcome {
                Ok(()) => {
                    self.expectations.deleted(key, Key::of(&pod.metadata), uid_of(&pod.metadata));
                    sorted.active.retain(|active| !Arc::ptr_eq(active, pod));
                    sorted.leaving.push(pod.clone());
                }
                Err(error) => errors.push(error),
            }
        }
        Error::first_of(errors)
    }

    /// Writes the status if it differs; returns the Job as it then is.
    async fn write(&self, key: &Key, job: &Job, status: &JobStatus) -> Result<Job, Error> {
        let mut job = job.clone();
        if job.status.as_ref() == Some(status) {
            return Ok(job);
        }
        job.status = Some(status.clone());
        let written: Written = self.context.requests.replace_status(&job).await?;
        self.expectations.wrote_owner(key, version_of(&written.metadata));
        job.metadata.resource_version = written.metadata.resource_version;
        Ok(job)
    }
}

fn is_complete(job: &Job, tally: &Tally, sorted: &Sorted) -> bool {
    match job.spec.as_ref().and_then(|spec| spec.completions) {
        None => tally.succeeded > 0 && sorted.active.is_empty(),
        Some(completions) => tally.succeeded >= completions,
    }
}

fn count(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}
