//! ReplicaSets and ReplicationControllers: the same but for their spelling.

use k8s_openapi::api::apps::v1::{ReplicaSetCondition, ReplicaSetStatus};
use k8s_openapi::api::core::v1::{ReplicationControllerCondition, ReplicationControllerStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Resource;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::status::{Condition, Status};
use crate::controllers::error::Error;
use crate::controllers::informer::{Cached, Informer};
use crate::controllers::informers::Informers;
use crate::controllers::selector::Selector;
use crate::controllers::template::Template;
use crate::controllers::templated::{ReplicaSet, ReplicationController};

/// Something that keeps a number of pods.
pub trait Replicated: Resource<DynamicType = ()> + Cached + Serialize + DeserializeOwned {
    /// The controller's name in events.
    const COMPONENT: &'static str;
    /// True when pods that are going away are counted.
    const COUNTS_TERMINATING: bool;

    /// Returns the kind's informer.
    fn informer(informers: &Informers) -> &Informer<Self>;
    /// Returns how many pods are wanted.
    fn replicas(&self) -> i32;
    /// Returns how long a pod must have been ready to be available.
    fn min_ready_seconds(&self) -> i32;
    /// Returns the selector of the pods.
    ///
    /// # Errors
    /// A selector that can't be read.
    fn selector(&self) -> Result<Selector, Error>;
    /// Returns the template of the pods.
    fn template(&self) -> Option<&Template>;
    /// Returns the status as last written.
    fn status(&self) -> Status;
    /// Replaces the status.
    fn set_status(&mut self, status: Status);
}

impl Replicated for ReplicaSet {
    const COMPONENT: &'static str = "replicaset-controller";
    const COUNTS_TERMINATING: bool = true;

    fn informer(informers: &Informers) -> &Informer<ReplicaSet> {
        &informers.replica_sets
    }

    fn replicas(&self) -> i32 {
        self.spec.replicas.unwrap_or(1)
    }

    fn min_ready_seconds(&self) -> i32 {
        self.spec.min_ready_seconds.unwrap_or(0)
    }

    fn selector(&self) -> Result<Selector, Error> {
        Selector::read(&self.spec.selector)
    }

    fn template(&self) -> Option<&Template> {
        self.spec.template.as_ref()
    }

    fn status(&self) -> Status {
        let Some(status) = &self.status else { return Status::default() };
        let condition = |condition: &ReplicaSetCondition| Condition {
            kind: condition.type_.clone().unwrap_or_default(),
            status: condition.status.clone().unwrap_or_default(),
            reason: condition.reason.clone(),
            message: condition.message.clone(),
            changed: condition.last_transition_time.as_ref().map(|time| time.0),
        };
        Status {
            replicas: status.replicas,
            fully_labeled: status.fully_labeled_replicas.unwrap_or(0),
            ready: status.ready_replicas.unwrap_or(0),
            available: status.available_replicas.unwrap_or(0),
            terminating: status.terminating_replicas,
            observed_generation: status.observed_generation.unwrap_or(0),
            conditions: status.conditions.iter().flatten().map(condition).collect(),
        }
    }

    fn set_status(&mut self, status: Status) {
        let condition = |condition: Condition| ReplicaSetCondition {
            type_: Some(condition.kind),
            status: Some(condition.status),
            reason: condition.reason,
            message: condition.message,
            last_transition_time: condition.changed.map(Time),
        };
        self.status = Some(ReplicaSetStatus {
            replicas: status.replicas,
            fully_labeled_replicas: counted(status.fully_labeled),
            ready_replicas: counted(status.ready),
            available_replicas: counted(status.available),
            terminating_replicas: status.terminating,
            observed_generation: Some(status.observed_generation).filter(|generation| *generation != 0),
            conditions: listed(status.conditions.into_iter().map(condition)),
        });
    }
}

impl Replicated for ReplicationController {
    const COMPONENT: &'static str = "replication-controller";
    const COUNTS_TERMINATING: bool = false;

    fn informer(informers: &Informers) -> &Informer<ReplicationController> {
        &informers.replication_controllers
    }

    fn replicas(&self) -> i32 {
        self.spec.replicas.unwrap_or(1)
    }

    fn min_ready_seconds(&self) -> i32 {
        self.spec.min_ready_seconds.unwrap_or(0)
    }

    fn selector(&self) -> Result<Selector, Error> {
        let labels = self.spec.selector.as_ref();
        // An empty one would take every pod there is; the server fills it in from the template.
        Ok(labels.filter(|labels| !labels.is_empty()).map_or(Selector::nothing(), Selector::of_labels))
    }

    fn template(&self) -> Option<&Template> {
        self.spec.template.as_ref()
    }

    fn status(&self) -> Status {
        let Some(status) = &self.status else { return Status::default() };
        let condition = |condition: &ReplicationControllerCondition| Condition {
            kind: condition.type_.clone(),
            status: condition.status.clone(),
            reason: condition.reason.clone(),
            message: condition.message.clone(),
            changed: condition.last_transition_time.as_ref().map(|time| time.0),
        };
        Status {
            replicas: status.replicas,
            fully_labeled: status.fully_labeled_replicas.unwrap_or(0),
            ready: status.ready_replicas.unwrap_or(0),
            available: status.available_replicas.unwrap_or(0),
            terminating: None,
            observed_generation: status.observed_generation.unwrap_or(0),
            conditions: status.conditions.iter().flatten().map(condition).collect(),
        }
    }

    fn set_status(&mut self, status: Status) {
        let condition = |condition: Condition| ReplicationControllerCondition {
            type_: condition.kind,
            status: condition.status,
            reason: condition.reason,
            message: condition.message,
            last_transition_time: condition.changed.map(Time),
        };
        self.status = Some(ReplicationControllerStatus {
            replicas: status.replicas,
            fully_labeled_replicas: counted(status.fully_labeled),
            ready_replicas: counted(status.ready),
            available_replicas: counted(status.available),
            observed_generation: Some(status.observed_generation).filter(|generation| *generation != 0),
            conditions: listed(status.conditions.into_iter().map(condition)),
        });
    }
}

/// Returns a counter as the API writes it: absent for zero.
fn counted(count: i32) -> Option<i32> {
    Some(count).filter(|count| *count != 0)
}

fn listed<T>(items: impl Iterator<Item = T>) -> Option<Vec<T>> {
    let items: Vec<T> = items.collect();
    Some(items).filter(|items| !items.is_empty())
}
