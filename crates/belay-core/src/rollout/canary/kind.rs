//! The kinds of workloads that have canaries.

use serde_json::Value;

use crate::manifest::ObjectKey;
use crate::rollout::Workload;

/// A kind of workload that has canaries, by the lock that its controller knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CanaryKind {
    /// Its new pods are made beside the old ones: a number of them by `maxSurge`.
    Deployment,
    /// Its pods are replaced from the highest ordinal on, down to a `partition`.
    StatefulSet,
    /// Its controller replaces none, with `OnDelete`: belay deletes those that it is to make anew.
    DaemonSet,
}

impl CanaryKind {
    /// Returns the kind of an object; `None` for a kind without canaries.
    #[must_use]
    pub fn of_key(key: &ObjectKey) -> Option<CanaryKind> {
        match Workload::of(key)? {
            Workload::Deployment => Some(CanaryKind::Deployment),
            Workload::StatefulSet => Some(CanaryKind::StatefulSet),
            Workload::DaemonSet => Some(CanaryKind::DaemonSet),
            Workload::ReplicationController | Workload::Job => None,
        }
    }

    /// Returns the kind of an object that may have a canary.
    #[must_use]
    pub fn of(object: &Value) -> CanaryKind {
        match object["kind"].as_str() {
            Some("StatefulSet") => CanaryKind::StatefulSet,
            Some("DaemonSet") => CanaryKind::DaemonSet,
            _ => CanaryKind::Deployment,
        }
    }

    /// Returns the number of pods that a live object is to have; `None` if it does not say.
    #[must_use]
    pub fn wanted_pods(live: &Value) -> Option<i64> {
        live["spec"]["replicas"].as_i64().or_else(|| live["status"]["desiredNumberScheduled"].as_i64())
    }

    /// Returns the most new pods of a step, of a workload that is to have so many pods. Where pods are replaced, an old one stays
    /// beside them.
    #[must_use]
    pub fn most_new(self, replicas: i64) -> i64 {
        match self {
            CanaryKind::Deployment => replicas,
            CanaryKind::StatefulSet | CanaryKind::DaemonSet => replicas.saturating_sub(1).max(0),
        }
    }

    /// Returns the fields that are its locks, for people.
    #[must_use]
    pub fn locked_fields(self) -> &'static str {
        match self {
            CanaryKind::Deployment => "strategy, minReadySeconds or progressDeadlineSeconds",
            CanaryKind::StatefulSet | CanaryKind::DaemonSet => "updateStrategy",
        }
    }
}
