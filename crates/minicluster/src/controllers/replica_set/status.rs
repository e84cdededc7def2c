//! The status of a ReplicaSet. Pure.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::controllers::pod_control::Pods;

/// The condition for pods that could not be created or deleted.
pub const FAILURE: &str = "ReplicaFailure";

/// A status, in one form for both kinds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Pods that count.
    pub replicas: i32,
    /// Those that have all labels of the template.
    pub fully_labeled: i32,
    /// Those that are ready.
    pub ready: i32,
    /// Those that have been ready long enough.
    pub available: i32,
    /// Pods that are going away; `None` if they are not counted.
    pub terminating: Option<i32>,
    /// Up to which generation the specification has been seen.
    pub observed_generation: i64,
    /// The conditions.
    pub conditions: Vec<Condition>,
}

/// A condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// `ReplicaFailure`.
    pub kind: String,
    /// `True`.
    pub status: String,
    /// The reason, in one word.
    pub reason: Option<String>,
    /// The reason.
    pub message: Option<String>,
    /// The time of the last change.
    pub changed: Option<Timestamp>,
}

/// The result of managing the pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Managed {
    /// All that was tried succeeded.
    Well,
    /// Pods could not be made.
    NotCreated(String),
    /// Pods could not be deleted.
    NotDeleted(String),
}

/// The counted pods.
pub struct ReplicaCounts<'a> {
    /// The pods that count.
    pub active: &'a Pods,
    /// The number of pods that are going away; `None` if they are not counted.
    pub terminating: Option<i32>,
    /// The labels of pods that the template makes.
    pub labels: &'a BTreeMap<String, String>,
    /// The time for which a pod must have been ready.
    pub min_ready_seconds: i32,
    /// The generation of the specification that was acted upon.
    pub generation: i64,
}

/// Returns the status that follows from the pods, `before` and how managing them went.
pub fn compute(counted: &ReplicaCounts<'_>, before: &Status, managed: &Managed, now: Timestamp) -> Status {
    let number = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
    let fully_labeled = counted.active.iter().filter(|pod| {
        let labels = pod.metadata.labels.as_ref();
        let has = |(label, value): (&String, &String)| labels.and_then(|labels| labels.get(label)) == Some(value);
        counted.labels.iter().all(has)
    });
    let available = counted.active.iter().filter(|pod| pod.is_available(counted.min_ready_seconds, now));
    Status {
        replicas: number(counted.active.len()),
        fully_labeled: number(fully_labeled.count()),
        ready: number(counted.active.iter().filter(|pod| pod.is_ready()).count()),
        available: number(available.count()),
        terminating: counted.terminating,
        observed_generation: counted.generation,
        conditions: conditions(&before.conditions, managed, now),
    }
}

/// A failure is reported once, and kept as it was until managing succeeds.
fn conditions(before: &[Condition], managed: &Managed, now: Timestamp) -> Vec<Condition> {
    let mut conditions = before.to_vec();
    let (reason, message) = match managed {
        Managed::Well => {
            conditions.retain(|condition| condition.kind != FAILURE);
            return conditions;
        }
        Managed::NotCreated(message) => ("FailedCreate", message),
        Managed::NotDeleted(message) => ("FailedDelete", message),
    };
    if !conditions.iter().any(|condition| condition.kind == FAILURE) {
        conditions.push(Condition {
            kind: FAILURE.to_owned(),
            status: "True".to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message.clone()),
            changed: Some(now),
        });
    }
    conditions
}
