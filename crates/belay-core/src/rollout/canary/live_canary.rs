//! A canary under way, as its live object shows it.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::lock::CanaryMark;
use super::steps::CanarySteps;

/// The present step of a canary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LiveCanary {
    /// The step.
    #[serde(flatten)]
    pub mark: CanaryMark,
    /// True when the step has no time: it lasts until a person promotes it.
    #[serde(default)]
    pub waits_for_promotion: bool,
}

impl LiveCanary {
    /// Returns the canary of a live object; `None` if none is under way.
    #[must_use]
    pub fn on(live: &Value) -> Option<LiveCanary> {
        let mark = CanaryMark::on(live)?;
        let step = CanarySteps::of(live).step(mark.step);
        Some(LiveCanary { mark, waits_for_promotion: !mark.failed && step.is_some_and(|step| step.time.is_none()) })
    }
}

impl fmt::Display for LiveCanary {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.mark.words())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rollout::canary::{CanaryKind, CanaryLock};
    use crate::rollout::marks;
    use serde_json::json;

    #[test]
    fn only_a_step_without_a_time_waits_for_promotion() {
        let at = |step: usize| {
            let mark = CanaryMark::at(step, 2);
            let lock = CanaryLock { kind: CanaryKind::Deployment, mark, pods: 1, replicas: 4, paused: true };
            let manifest = json!({"metadata": {"annotations": {marks::CANARY: "1 10m, 50% 0"}}, "spec": {}});
            LiveCanary::on(&lock.onto(manifest)).map(|canary| (canary.to_string(), canary.waits_for_promotion))
        };
        assert_eq!(at(1), Some(("canary step 1 of 2".to_owned(), false)));
        assert_eq!(at(2), Some(("canary step 2 of 2".to_owned(), true)));
        assert_eq!(at(3), Some(("canary step 3 of 2".to_owned(), false)), "a newer manifest has fewer steps");
        assert_eq!(LiveCanary::on(&json!({"metadata": {}, "spec": {}})), None);
    }
}
