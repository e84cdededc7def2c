//! The status of a StatefulSet. Pure.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{StatefulSet, StatefulSetStatus};

use super::ordinal;
use super::plan::REVISION_LABEL;
use crate::controllers::key::{is_terminating, label};
use crate::controllers::pod::Pod;

/// The revisions of a set: the one that its pods had, and the one that they shall have.
#[derive(Clone, Debug)]
pub struct Revisions {
    /// The one of pods that were not updated.
    pub current: String,
    /// The one of pods that were.
    pub update: String,
    /// The number of times that a name was taken.
    pub collisions: i32,
}

/// Returns the status that follows from the pods. `leaving` of the pods that count as current have just been deleted to
/// be updated.
pub fn compute(
    set: &StatefulSet,
    pods: &[Arc<Pod>],
    revisions: &Revisions,
    leaving: i32,
    now: Timestamp,
) -> StatefulSetStatus {
    let wait = set.spec.min_ready_seconds.unwrap_or(0);
    let count = |counts: &dyn Fn(&Pod) -> bool| {
        i32::try_from(pods.iter().filter(|pod| counts(pod)).count()).unwrap_or(i32::MAX)
    };
    let is_ready = |pod: &Pod| pod.phase() == "Running" && pod.is_ready();
    let is_of = |pod: &Pod, revision: &str| {
        !pod.phase().is_empty()
            && !is_terminating(&pod.metadata)
            && label(&pod.metadata, REVISION_LABEL) == Some(revision)
    };
    let replicas = count(&|pod| !pod.phase().is_empty());
    let ready = count(&is_ready);
    let updated = count(&|pod| is_of(pod, &revisions.update));
    let mut current = count(&|pod| is_of(pod, &revisions.current)) - leaving;
    let mut current_revision = revisions.current.clone();
    let wanted = ordinal::count(set);
    let strategy = set.spec.update_strategy.as_ref().and_then(|strategy| strategy.type_.as_deref());
    let is_rolling = strategy.is_none_or(|strategy| strategy == "RollingUpdate");
    if is_rolling && updated == wanted && replicas == wanted && ready == wanted {
        current = updated;
        current_revision.clone_from(&revisions.update);
    }
    StatefulSetStatus {
        observed_generation: set.metadata.generation,
        replicas,
        ready_replicas: present(ready),
        available_replicas: Some(count(&|pod| is_ready(pod) && pod.is_available(wait, now))),
        current_replicas: present(current.max(0)),
        updated_replicas: present(updated),
        current_revision: Some(current_revision),
        update_revision: Some(revisions.update.clone()),
        collision_count: Some(revisions.collisions),
        conditions: set.status.as_ref().and_then(|status| status.conditions.clone()),
    }
}

/// Returns a counter as the API writes it: absent for zero.
fn present(count: i32) -> Option<i32> {
    Some(count).filter(|count| *count != 0)
}
