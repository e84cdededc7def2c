//! The end of a Job, and its conditions. Pure.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::{Job, JobCondition, JobStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::controllers::context::in_seconds;
use crate::controllers::pod::Pod;

/// The end of a Job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobOutcome {
    /// True when it succeeded.
    pub succeeded: bool,
    /// The reason, in one word.
    pub reason: String,
    /// The reason.
    pub message: String,
}

impl JobOutcome {
    /// Returns the outcome when enough pods have succeeded.
    pub fn complete() -> JobOutcome {
        JobOutcome {
            succeeded: true,
            reason: "CompletionsReached".to_owned(),
            message: "Reached expected number of succeeded pods".to_owned(),
        }
    }

    /// Returns the outcome when too many pods have failed.
    pub fn too_many_failures() -> JobOutcome {
        JobOutcome {
            succeeded: false,
            reason: "BackoffLimitExceeded".to_owned(),
            message: "Job has reached the specified backoff limit".to_owned(),
        }
    }

    /// Returns the outcome of a Job that took too long.
    pub fn too_late() -> JobOutcome {
        JobOutcome {
            succeeded: false,
            reason: "DeadlineExceeded".to_owned(),
            message: "Job was active longer than specified deadline".to_owned(),
        }
    }

    /// Returns the outcome when a pod failed in a way that the Job's own rules call its end.
    pub fn by_failure_policy(why: String) -> JobOutcome {
        JobOutcome { succeeded: false, reason: "PodFailurePolicy".to_owned(), message: why }
    }

    /// Returns the outcome when more indexes have failed than may.
    pub fn too_many_indexes() -> JobOutcome {
        JobOutcome {
            succeeded: false,
            reason: "MaxFailedIndexesExceeded".to_owned(),
            message: "Job has exceeded the specified maximal number of failed indexes".to_owned(),
        }
    }

    /// Returns the outcome when every index has ended, and some of them failed.
    pub fn failed_indexes() -> JobOutcome {
        JobOutcome {
            succeeded: false,
            reason: "FailedIndexes".to_owned(),
            message: "Job has failed indexes".to_owned(),
        }
    }

    /// Returns the outcome by the Job's own rule at this place, which has succeeded.
    pub fn by_success_policy(rule: usize) -> JobOutcome {
        let message = format!("Matched rules at index {rule}");
        JobOutcome { succeeded: true, reason: "SuccessPolicy".to_owned(), message }
    }

    /// Returns the outcome that was decided before, though it may not be finished.
    pub fn decided(status: &JobStatus) -> Option<JobOutcome> {
        let of = |kind: &str, succeeded: bool| {
            let condition = condition(status, kind).filter(|condition| condition.status == "True")?;
            let text = |text: &Option<String>| text.clone().unwrap_or_default();
            Some(JobOutcome { succeeded, reason: text(&condition.reason), message: text(&condition.message) })
        };
        of("FailureTarget", false).or_else(|| of("SuccessCriteriaMet", true))
    }

    /// Returns the condition for the decision, while pods are still to go.
    pub fn interim(&self) -> &'static str {
        if self.succeeded { "SuccessCriteriaMet" } else { "FailureTarget" }
    }

    /// Returns the condition for the end.
    pub fn last(&self) -> &'static str {
        if self.succeeded { "Complete" } else { "Failed" }
    }
}

/// Returns true when the Job has come to its end.
pub fn is_finished(job: &Job) -> bool {
    finished(job).is_some()
}

/// Returns the condition that says that the Job has come to its end.
pub fn finished(job: &Job) -> Option<&JobCondition> {
    let status = job.status.as_ref()?;
    ["Complete", "Failed"].iter().find_map(|kind| condition(status, kind).filter(|one| one.status == "True"))
}

/// Returns a condition.
pub fn condition<'a>(status: &'a JobStatus, kind: &str) -> Option<&'a JobCondition> {
    status.conditions.iter().flatten().find(|condition| condition.type_ == kind)
}

/// Sets a condition; one of the same status stays as it is. Returns whether anything changed.
pub fn set(status: &mut JobStatus, kind: &str, value: &str, reason: &str, message: &str, now: Timestamp) -> bool {
    let now = Some(Time(in_seconds(now)));
    let conditions = status.conditions.get_or_insert_default();
    let fresh = JobCondition {
        type_: kind.to_owned(),
        status: value.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_probe_time: now.clone(),
        last_transition_time: now,
    };
    match conditions.iter_mut().find(|condition| condition.type_ == kind) {
        Some(present) if present.status == value => false,
        Some(present) => {
            *present = fresh;
            true
        }
        None => {
            conditions.push(fresh);
            true
        }
    }
}

/// Returns how long a Job may go on; `None` without a limit, or while it is suspended.
pub fn time_left(job: &Job, status: &JobStatus, now: Timestamp) -> Option<SignedDuration> {
    let spec = job.spec.as_ref()?;
    if spec.suspend == Some(true) {
        return None;
    }
    let limit = SignedDuration::from_secs(spec.active_deadline_seconds?);
    let since = status.start_time.as_ref()?.0;
    Some(limit - now.duration_since(since))
}

/// Returns true when restarts of containers alone are more than the limit allows: if pods restart them themselves.
pub fn restarts_exceed(job: &Job, active: &[Arc<Pod>]) -> bool {
    let Some(spec) = &job.spec else { return false };
    let restarts = spec.template.spec.as_ref().and_then(|spec| spec.restart_policy.as_deref());
    if restarts != Some("OnFailure") {
        return false;
    }
    let running = active.iter().filter(|pod| matches!(pod.phase(), "Running" | "Pending"));
    let count: i64 = running.map(|pod| i64::from(all_restarts(pod))).sum();
    let limit = i64::from(spec.backoff_limit.unwrap_or(6));
    if limit == 0 { count > 0 } else { count >= limit }
}

fn all_restarts(pod: &Pod) -> i32 {
    let all = pod.status.init_container_statuses.iter().chain(&pod.status.container_statuses);
    all.fold(0, |sum: i32, status| sum.saturating_add(status.restart_count))
}
