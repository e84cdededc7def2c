//! The status of a Deployment, and the progress of its rollout. Pure.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::{DeploymentCondition, DeploymentStatus};

use super::conditions::{self, AVAILABLE, PROGRESSING, REPLICA_FAILURE, reason, reason_of};
use super::sets::{Sets, available, size};
use super::sizes::{ScalePlan, sum};
use crate::controllers::key::name_of;
use crate::controllers::templated::{Deployment, ReplicaSet};

/// A deadline of this many seconds is none.
const NO_DEADLINE: i32 = i32::MAX;

/// Returns the progress deadline, if there is one.
pub fn deadline(deployment: &Deployment) -> Option<SignedDuration> {
    let seconds = deployment.spec.progress_deadline_seconds.filter(|seconds| *seconds != NO_DEADLINE)?;
    Some(SignedDuration::from_secs(i64::from(seconds)))
}

/// Returns true when the rollout is complete, by a status.
pub fn is_complete(deployment: &Deployment, status: &DeploymentStatus) -> bool {
    let size = deployment.spec.replicas.unwrap_or(1);
    let is_size = |count: Option<i32>| count.unwrap_or(0) == size;
    is_size(status.updated_replicas)
        && is_size(status.replicas)
        && is_size(status.available_replicas)
        && status.observed_generation.unwrap_or(0) >= deployment.metadata.generation.unwrap_or(0)
}

/// Returns the counters, and whether enough pods are available; the other conditions stay as they are.
pub fn counted(deployment: &Deployment, sets: &Sets, now: Timestamp) -> DeploymentStatus {
    let before = deployment.status.clone().unwrap_or_default();
    let of = |count: fn(&ReplicaSet) -> i32| sum(sets.all().map(count));
    let available_now = of(available);
    let plan = ScalePlan::of(deployment);
    let mut status = DeploymentStatus {
        observed_generation: deployment.metadata.generation,
        replicas: present(of(actual)),
        updated_replicas: present(sets.new.as_deref().map_or(0, actual)),
        ready_replicas: present(of(ready)),
        available_replicas: present(available_now),
        unavailable_replicas: present(of(size).saturating_sub(available_now).max(0)),
        terminating_replicas: terminating(sets),
        collision_count: before.collision_count,
        conditions: before.conditions,
    };
    let (value, reason, message) = if available_now >= plan.min_available() {
        ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    } else {
        ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    };
    let condition = conditions::condition(AVAILABLE, value, reason, message.to_owned(), now);
    conditions::set(&mut status.conditions, condition);
    status
}

/// Returns the status in the middle of a rollout: the counters, and whether it gets on.
pub fn of_rollout(deployment: &Deployment, sets: &Sets, now: Timestamp) -> DeploymentStatus {
    let mut status = counted(deployment, sets, now);
    let before = deployment.status.clone().unwrap_or_default();
    let deadline = deadline(deployment);
    if deadline.is_none() {
        conditions::remove(&mut status.conditions, PROGRESSING);
    }
    let present = conditions::find(&before.conditions, PROGRESSING);
    // Only one ReplicaSet has pods, and its rollout was complete: this is no rollout, so there is nothing to estimate.
    let was_complete = status.replicas == status.updated_replicas
        && present.is_some_and(|present| reason_of(present) == reason::NEW_SET_AVAILABLE);
    if let Some(deadline) = deadline.filter(|_| !was_complete) {
        let what = subject(deployment, sets);
        if is_complete(deployment, &status) {
            let message = format!("{what} has successfully progressed.");
            let condition = conditions::condition(PROGRESSING, "True", reason::NEW_SET_AVAILABLE, message, now);
            conditions::set(&mut status.conditions, condition);
        } else if has_moved(&before, &status) {
            let message = format!("{what} is progressing.");
            let mut condition = conditions::condition(PROGRESSING, "True", reason::SET_UPDATED, message, now);
            if let Some(present) = present.filter(|present| present.status.as_deref() == Some("True")) {
                condition.last_transition_time.clone_from(&present.last_transition_time);
            }
            // Replaced even with the same reason: the deadline counts from its time of update.
            conditions::remove(&mut status.conditions, PROGRESSING);
            conditions::set(&mut status.conditions, condition);
        } else if is_timed_out(&status, deadline, now) {
            let message = format!("{what} has timed out progressing.");
            let condition = conditions::condition(PROGRESSING, "False", reason::TIMED_OUT, message, now);
            conditions::set(&mut status.conditions, condition);
        }
    }
    match failure(sets) {
        Some(failure) => conditions::set(&mut status.conditions, failure),
        None => conditions::remove(&mut status.conditions, REPLICA_FAILURE),
    }
    status
}

/// Returns the time until the deadline must be checked, if nothing else happens; `None` if there is no need.
pub fn deadline_check(deployment: &Deployment, status: &DeploymentStatus, now: Timestamp) -> Option<SignedDuration> {
    let deadline = deadline(deployment)?;
    let before = deployment.status.as_ref()?;
    let condition = conditions::find(&before.conditions, PROGRESSING)?;
    if is_complete(deployment, status) || reason_of(condition) == reason::TIMED_OUT {
        return None;
    }
    let updated = condition.last_update_time.as_ref()?.0;
    let left = updated.saturating_add(deadline).ok()?.duration_since(now);
    Some(if left < SignedDuration::from_secs(1) { SignedDuration::ZERO } else { left + SignedDuration::from_secs(1) })
}

fn subject(deployment: &Deployment, sets: &Sets) -> String {
    match &sets.new {
        Some(new) => format!("ReplicaSet \"{}\"", name_of(&new.metadata)),
        None => format!("Deployment \"{}\"", name_of(&deployment.metadata)),
    }
}

/// Returns true for more new pods, fewer old ones, more ready or more available ones.
fn has_moved(before: &DeploymentStatus, after: &DeploymentStatus) -> bool {
    let count = |count: Option<i32>| count.unwrap_or(0);
    let old = |status: &DeploymentStatus| count(status.replicas) - count(status.updated_replicas);
    count(after.updated_replicas) > count(before.updated_replicas)
        || old(after) < old(before)
        || count(after.ready_replicas) > count(before.ready_replicas)
        || count(after.available_replicas) > count(before.available_replicas)
}

fn is_timed_out(status: &DeploymentStatus, deadline: SignedDuration, now: Timestamp) -> bool {
    let Some(condition) = conditions::find(&status.conditions, PROGRESSING) else { return false };
    match reason_of(condition) {
        reason::NEW_SET_AVAILABLE => false,
        reason::TIMED_OUT => true,
        _ => {
            let updated = condition.last_update_time.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0);
            updated.saturating_add(deadline).is_ok_and(|end| end < now)
        }
    }
}

/// Returns the new ReplicaSet's condition about failed pods, or that of the first other one that has one.
fn failure(sets: &Sets) -> Option<DeploymentCondition> {
    let of_new = sets.new.iter();
    of_new.chain(&sets.old).find_map(|set| failure_of(set))
}

fn failure_of(set: &ReplicaSet) -> Option<DeploymentCondition> {
    let conditions = set.status.as_ref()?.conditions.as_ref()?;
    let failed = conditions.iter().find(|condition| condition.type_.as_deref() == Some(REPLICA_FAILURE))?;
    Some(DeploymentCondition {
        type_: failed.type_.clone(),
        status: failed.status.clone(),
        reason: failed.reason.clone(),
        message: failed.message.clone(),
        last_transition_time: failed.last_transition_time.clone(),
        last_update_time: failed.last_transition_time.clone(),
    })
}

/// Returns pods that are going away; unknown if one ReplicaSet does not say. One that was never reconciled does not
/// count.
fn terminating(sets: &Sets) -> Option<i32> {
    let mut total = 0_i32;
    for set in sets.all() {
        let status = set.status.as_ref();
        match status.and_then(|status| status.terminating_replicas) {
            Some(count) => total = total.saturating_add(count),
            None if status.and_then(|status| status.observed_generation).unwrap_or(0) == 0 => {}
            None => return None,
        }
    }
    Some(total)
}

fn actual(set: &ReplicaSet) -> i32 {
    set.status.as_ref().map_or(0, |status| status.replicas)
}

fn ready(set: &ReplicaSet) -> i32 {
    set.status.as_ref().and_then(|status| status.ready_replicas).unwrap_or(0)
}

/// Returns a counter as the API writes it: absent for zero.
fn present(count: i32) -> Option<i32> {
    Some(count).filter(|count| *count != 0)
}
