//! The status of a DaemonSet. Pure.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{DaemonSet, DaemonSetStatus};

use super::fit::{self, Fit, REVISION_LABEL};
use super::plan::{ByNode, by_age};
use crate::controllers::key::label;
use crate::controllers::node::Node;

/// Returns the status that follows from the pods. On each node, the oldest pod counts.
pub fn compute(set: &DaemonSet, nodes: &[Arc<Node>], pods: &ByNode, hash: &str, now: Timestamp) -> DaemonSetStatus {
    let before = set.status.clone().unwrap_or_default();
    let wait = set.spec.min_ready_seconds.unwrap_or(0);
    let mut status = DaemonSetStatus {
        observed_generation: set.metadata.generation,
        collision_count: before.collision_count,
        conditions: before.conditions,
        ..DaemonSetStatus::default()
    };
    let (mut available, mut updated) = (0, 0);
    for node in nodes {
        let here = pods.get(node.name());
        let oldest = here.and_then(|here| here.iter().min_by(|one, other| by_age(one, other)));
        if fit::of(set, node) != Fit::Runs {
            status.number_misscheduled += i32::from(oldest.is_some());
            continue;
        }
        status.desired_number_scheduled += 1;
        let Some(oldest) = oldest else { continue };
        status.current_number_scheduled += 1;
        status.number_ready += i32::from(oldest.is_ready());
        available += i32::from(oldest.is_available(wait, now));
        updated += i32::from(label(&oldest.metadata, REVISION_LABEL) == Some(hash));
    }
    let present = |count: i32| Some(count).filter(|count| *count != 0);
    status.number_available = present(available);
    status.number_unavailable = present(status.desired_number_scheduled - available);
    status.updated_number_scheduled = present(updated);
    status
}
