//! The old ReplicaSets that go when there are more than the history holds. Pure.

use std::sync::Arc;

use super::sets::{Sets, by_revision, size};
use crate::controllers::key::is_terminating;
use crate::controllers::templated::{Deployment, ReplicaSet};

/// A limit of this many revisions is none.
const NO_LIMIT: i32 = i32::MAX;

/// Returns the old ReplicaSets to delete. Only the lowest revisions beyond the limit are considered; of these, those
/// that still have pods, or whose status is behind, stay.
pub fn dispensable(deployment: &Deployment, sets: &Sets) -> Vec<Arc<ReplicaSet>> {
    let limit = deployment.spec.revision_history_limit.filter(|limit| *limit != NO_LIMIT);
    let Some(limit) = limit.and_then(|limit| usize::try_from(limit).ok()) else { return Vec::new() };
    let mut old: Vec<_> = sets.old.iter().filter(|set| !is_terminating(&set.metadata)).cloned().collect();
    let excess = old.len().saturating_sub(limit);
    old.sort_by(|one, other| by_revision(one, other));
    old.into_iter().take(excess).filter(|set| is_idle(set)).collect()
}

fn is_idle(set: &ReplicaSet) -> bool {
    let status = set.status.as_ref();
    let observed = status.and_then(|status| status.observed_generation).unwrap_or(0);
    size(set) == 0
        && status.is_none_or(|status| status.replicas == 0)
        && observed >= set.metadata.generation.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::{Deployment, ReplicaSet, Sets, dispensable};
    use serde_json::json;
    use std::sync::Arc;

    fn removed(limit: Option<i32>, sizes: &[(i32, i32)]) -> usize {
        let set = |(size, actual): (i32, i32)| {
            let set = json!({
                "metadata": { "name": format!("r{size}{actual}") },
                "spec": { "replicas": size, "selector": {} },
                "status": { "replicas": actual },
            });
            Arc::new(serde_json::from_value::<ReplicaSet>(set).unwrap())
        };
        let sets = Sets { new: None, old: sizes.iter().map(|&pair| set(pair)).collect() };
        let mut deployment = Deployment::default();
        deployment.spec.revision_history_limit = limit;
        dispensable(&deployment, &sets).len()
    }

    #[test]
    fn only_idle_ones_beyond_the_limit_go() {
        assert_eq!(removed(Some(1), &[(0, 0); 3]), 2);
        assert_eq!(removed(Some(0), &[(0, 0), (0, 1), (1, 0), (1, 1)]), 1);
        assert_eq!(removed(Some(0), &[(1, 1), (1, 1)]), 0);
        assert_eq!(removed(None, &[(0, 0); 3]), 0);
        assert_eq!(removed(Some(i32::MAX), &[(0, 0); 3]), 0);
    }

    #[test]
    fn the_lowest_revisions_go_first() {
        let set = |name: &str, created: &str, revision: &str| {
            let set = json!({
                "metadata": {
                    "name": name, "creationTimestamp": created,
                    "annotations": { "deployment.kubernetes.io/revision": revision },
                },
                "spec": { "replicas": 0, "selector": {} },
            });
            Arc::new(serde_json::from_value::<ReplicaSet>(set).unwrap())
        };
        let reused = set("reused", "2026-01-01T00:00:00Z", "3");
        let other = set("other", "2026-01-02T00:00:00Z", "2");
        let mut deployment = Deployment::default();
        deployment.spec.revision_history_limit = Some(1);
        let gone = dispensable(&deployment, &Sets { new: None, old: vec![reused, other] });
        assert_eq!(gone[0].metadata.name.as_deref(), Some("other"));
    }
}
