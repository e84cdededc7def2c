//! The steps of a canary that is under way, as they are published.

use belay_core::rollout::canary::{CanaryKind, CanaryLock, CanaryMark, CanarySteps};
use belay_core::span::Span;
use serde_json::Value;

/// The steps of a canary that is under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CanaryPlan {
    /// The present step, counted from 1.
    pub present: usize,
    /// All steps; after the last one all pods are replaced.
    pub steps: Vec<CanaryPlanStep>,
}

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CanaryPlanStep {
    /// The number of new pods.
    pub pods: i64,
    /// The time for which they are watched once they are ready; `None` to wait for a person.
    pub time: Option<Span>,
}

impl CanaryPlan {
    /// Returns the steps of a live object that is to have so many pods; `None` if no canary of it is under way.
    #[must_use]
    pub fn of(live: &Value, replicas: i64) -> Option<CanaryPlan> {
        let present = CanaryMark::on(live)?.step;
        let steps = CanarySteps::of(live);
        let kind = CanaryKind::of(live);
        let step = |number| {
            let pods = CanaryLock::of_step(kind, &steps, number, replicas).new_pods();
            Some(CanaryPlanStep { pods, time: steps.step(number)?.time })
        };
        Some(CanaryPlan { present, steps: (1..=steps.count()).filter_map(step).collect() })
    }

    /// Returns the present step; `None` where a newer manifest has fewer steps.
    #[must_use]
    pub fn present(&self) -> Option<CanaryPlanStep> {
        self.steps.get(self.present.checked_sub(1)?).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use belay_core::rollout::marks;
    use serde_json::json;

    #[test]
    fn a_canary_under_way_has_its_steps() {
        let manifest = |steps: &str| json!({"metadata": {"annotations": {marks::CANARY: steps}}, "spec": {}});
        let at = |step, text: &str| {
            let mark = CanaryMark::at(step, 2);
            let lock = CanaryLock { kind: CanaryKind::Deployment, mark, pods: 1, replicas: 4, paused: true };
            CanaryPlan::of(&lock.onto(manifest(text)), 4).unwrap()
        };
        let plan = at(2, "1 10m, 50% 0");
        let time = Some("10m".parse().unwrap());
        assert_eq!(plan.steps, [CanaryPlanStep { pods: 1, time }, CanaryPlanStep { pods: 2, time: None }]);
        assert_eq!(plan.present(), Some(CanaryPlanStep { pods: 2, time: None }));
        assert_eq!(at(2, "1 10m").present(), None, "a newer manifest has fewer steps");
        assert_eq!(CanaryPlan::of(&manifest("1 10m"), 4), None, "no canary is under way");
    }
}
