//! One reconciliation of one CronJob.

use std::sync::Arc;
use std::time::Duration;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::{CronJob, CronJobStatus, Job};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::DeleteParams;

use super::{CronJobs, runs};
use crate::controllers::error::Error;
use crate::controllers::events::EventType;
use crate::controllers::job::finished;
use crate::controllers::key::{Key, is_terminating, name_of, namespace_of, uid_of};
use crate::controllers::owner::is_controlled_by;
use crate::controllers::requests::Ignored;
use crate::controllers::work_queue::WorkQueue;
use crate::controllers::worker::Reconciler;
use kube_rules::Schedule;

/// So much after the minute the next reconciliation begins.
const AFTER: Duration = Duration::from_millis(100);
/// So many times that were missed are worth a warning.
const MANY: i64 = 100;

impl Reconciler for CronJobs {
    type Key = Key;

    fn name(&self) -> &'static str {
        "cronjob-controller"
    }

    fn queue(&self) -> &WorkQueue<Key> {
        &self.queue
    }

    async fn sync(&self, key: &Key) -> Result<(), Error> {
        let Some(owner) = self.cron_jobs.get(key) else { return Ok(()) };
        let jobs = self.jobs.controlled_by(uid_of(&owner.metadata));
        let before = owner.status.clone().unwrap_or_default();
        let mut status = before.clone();
        self.follow(&owner, &jobs, &mut status).await?;
        let outcome = self.run(key, &owner, &jobs, &mut status).await;
        for job in runs::superfluous(&owner, &jobs) {
            self.delete(&owner, &job).await?;
            forget(&mut status, &job);
        }
        if status != before {
            let changed = CronJob { status: Some(status), ..CronJob::clone(&owner) };
            let _: Ignored = match self.context.requests.replace_status(&changed).await {
                Err(error) if error.is_not_found() => return Ok(()),
                written => written?,
            };
        }
        outcome
    }
}

impl CronJobs {
    /// Returns the time until it is due next; `None` if that makes no sense, or never comes.
    pub(super) fn until_next(&self, owner: &CronJob) -> Option<Duration> {
        let zone = owner.spec.time_zone.as_deref().map_or(Ok(TimeZone::UTC), TimeZone::get).ok()?;
        let now = self.context.clock.now();
        let next = Schedule::parse(&owner.spec.schedule).ok()?.next(now, &zone)?;
        Some(Duration::try_from(next.duration_since(now)).unwrap_or_default() + AFTER)
    }

    /// Brings the list of running Jobs up to date with their conditions.
    async fn follow(&self, owner: &CronJob, jobs: &[Arc<Job>], status: &mut CronJobStatus) -> Result<(), Error> {
        for job in jobs {
            let name = name_of(&job.metadata);
            let is_listed = is_active(status, job);
            let end = finished(job);
            if !is_listed && end.is_none() {
                let live: CronJob = match self.context.requests.get(&Key::of(&owner.metadata)).await {
                    Err(error) if error.is_not_found() => return Ok(()),
                    live => live?,
                };
                if live.status.as_ref().is_some_and(|status| is_active(status, job)) {
                    *status = live.status.unwrap_or_default();
                    continue;
                }
                let message = format!("Saw a job that the controller did not create or forgot: {name}");
                self.recorder.say(owner, EventType::Warning, "UnexpectedJob", message);
            } else if let Some(end) = end.filter(|_| is_listed) {
                forget(status, job);
                let message = format!("Saw completed job: {name}, condition: {}", end.type_);
                self.recorder.say(owner, EventType::Normal, "SawCompletedJob", message);
            }
            if end.is_some_and(|end| end.type_ == "Complete") {
                let ended = job.status.as_ref().and_then(|status| status.completion_time.clone());
                let is_later = |ended: &Time| status.last_successful_time.as_ref().is_none_or(|last| last.0 < ended.0);
                if let Some(ended) = ended.filter(is_later) {
                    status.last_successful_time = Some(ended);
                }
            }
        }
        let listed = status.active.clone().unwrap_or_default();
        for reference in listed {
            let is_there = jobs.iter().any(|job| job.metadata.uid == reference.uid);
            let key = Key::new(namespace_of(&owner.metadata), reference.name.clone().unwrap_or_default());
            if is_there {
                continue;
            }
            match self.context.requests.get::<Job>(&key).await {
                Ok(job) if job.metadata.uid == reference.uid => {}
                Err(error) if !error.is_not_found() => return Err(error),
                _ => {
                    let message = format!("Active job went missing: {}", key.name);
                    self.recorder.say(owner, EventType::Normal, "MissingJob", message);
                    status.active.get_or_insert_default().retain(|other| other.uid != reference.uid);
                }
            }
        }
        tidy(status);
        Ok(())
    }

    /// Makes a Job if one is due.
    async fn run(
        &self,
        key: &Key,
        owner: &CronJob,
        jobs: &[Arc<Job>],
        status: &mut CronJobStatus,
    ) -> Result<(), Error> {
        let spec = &owner.spec;
        if is_terminating(&owner.metadata) {
            return Ok(());
        }
        let zone = match spec.time_zone.as_deref().map(TimeZone::get) {
            None => TimeZone::UTC,
            Some(Ok(zone)) => zone,
            Some(Err(_)) => {
                let name = spec.time_zone.as_deref().unwrap_or_default();
                let message = format!("invalid timeZone: {name:?}: unknown time zone {name}");
                self.recorder.say(owner, EventType::Warning, "UnknownTimeZone", message);
                return Ok(());
            }
        };
        let schedule = match Schedule::parse(&spec.schedule) {
            Ok(schedule) => schedule,
            Err(why) => {
                let message = format!("unparseable schedule: {:?} : {why}", spec.schedule);
                self.recorder.say(owner, EventType::Warning, "UnparseableSchedule", message);
                return Ok(());
            }
        };
        if spec.suspend == Some(true) {
            return Ok(());
        }
        let now = self.context.clock.now();
        if let Some(next) = schedule.next(now, &zone) {
            let wait = Duration::try_from(next.duration_since(now)).unwrap_or_default() + AFTER;
            self.queue.add_after(key.clone(), wait);
        }
        let Some(since) = unserved(owner, status, now) else { return Ok(()) };
        if schedule.missed(since, now, &zone) > MANY {
            let message =
                "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew";
            self.recorder.say(owner, EventType::Warning, "TooManyMissedTimes", message);
        }
        let Some(at) = schedule.last(since, now, &zone) else { return Ok(()) };
        let deadline = spec.starting_deadline_seconds.map(SignedDuration::from_secs);
        if deadline.is_some_and(|deadline| at.checked_add(deadline).is_ok_and(|last| last < now)) {
            let message =
                format!("Missed scheduled time to start a job: {}", at.strftime("%a, %d %b %Y %H:%M:%S +0000"));
            self.recorder.say(owner, EventType::Warning, "MissSchedule", message);
            return Ok(());
        }
        let name = runs::name_for(owner, at);
        let is_running = status.active.iter().flatten().any(|one| one.name.as_ref() == Some(&name));
        if is_running || status.last_schedule_time.as_ref().is_some_and(|last| last.0 == at) {
            return Ok(());
        }
        match spec.concurrency_policy.as_deref() {
            Some("Forbid") if status.active.as_ref().is_some_and(|active| !active.is_empty()) => {
                let message = "Not starting job because prior execution is running and concurrency policy is Forbid";
                self.recorder.say(owner, EventType::Normal, "JobAlreadyActive", message);
                return Ok(());
            }
            Some("Replace") => {
                for job in jobs.iter().filter(|job| is_active(status, job)) {
                    self.delete(owner, job).await?;
                }
                status.active = None;
            }
            _ => {}
        }
        self.create(owner, at, &zone, status).await
    }

    async fn create(
        &self,
        owner: &CronJob,
        at: Timestamp,
        zone: &TimeZone,
        status: &mut CronJobStatus,
    ) -> Result<(), Error> {
        let draft = runs::draft(owner, at, zone);
        let made: Job = match self.context.requests.create(&draft).await {
            Ok(made) => {
                let message = format!("Created job {}", name_of(&draft.metadata));
                self.recorder.say(owner, EventType::Normal, "SuccessfulCreate", message);
                made
            }
            Err(error) if error.is_namespace_terminating() => return Ok(()),
            Err(error) if error.is_already_exists() => {
                let there: Job = self.context.requests.get(&Key::of(&draft.metadata)).await?;
                if !is_controlled_by(&there.metadata, uid_of(&owner.metadata)) {
                    let message = format!("Error creating job: {}", error.message());
                    self.recorder.say(owner, EventType::Warning, "FailedCreate", message);
                    return Err(error);
                }
                there
            }
            Err(error) => {
                let message = format!("Error creating job: {}", error.message());
                self.recorder.say(owner, EventType::Warning, "FailedCreate", message);
                return Err(error);
            }
        };
        status.last_schedule_time = Some(Time(at));
        if finished(&made).is_none() {
            status.active.get_or_insert_default().push(ObjectReference {
                api_version: Some("batch/v1".to_owned()),
                kind: Some("Job".to_owned()),
                name: made.metadata.name,
                namespace: made.metadata.namespace,
                uid: made.metadata.uid,
                resource_version: made.metadata.resource_version,
                ..ObjectReference::default()
            });
        }
        Ok(())
    }

    async fn delete(&self, owner: &CronJob, job: &Job) -> Result<(), Error> {
        match self.context.requests.delete::<Job>(&Key::of(&job.metadata), &DeleteParams::background()).await {
            Ok(()) => {
                let message = format!("Deleted job {}", name_of(&job.metadata));
                self.recorder.say(owner, EventType::Normal, "SuccessfulDelete", message);
                Ok(())
            }
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) => {
                let message = format!("Deleted job: {}", error.message());
                self.recorder.say(owner, EventType::Warning, "FailedDelete", message);
                Err(error)
            }
        }
    }
}

/// Returns the time from which on a Job should have been made.
fn unserved(owner: &CronJob, status: &CronJobStatus, now: Timestamp) -> Option<Timestamp> {
    let created = owner.metadata.creation_timestamp.as_ref()?.0;
    let since = status.last_schedule_time.as_ref().map_or(created, |last| last.0);
    let deadline = owner.spec.starting_deadline_seconds;
    let earliest = deadline.and_then(|seconds| now.checked_sub(SignedDuration::from_secs(seconds)).ok());
    Some(earliest.map_or(since, |earliest| since.max(earliest)))
}

fn is_active(status: &CronJobStatus, job: &Job) -> bool {
    status.active.iter().flatten().any(|one| one.uid == job.metadata.uid)
}

fn forget(status: &mut CronJobStatus, job: &Job) {
    status.active.get_or_insert_default().retain(|one| one.uid != job.metadata.uid);
    tidy(status);
}

/// Removes an empty list.
fn tidy(status: &mut CronJobStatus) {
    status.active = status.active.take().filter(|active| !active.is_empty());
}
