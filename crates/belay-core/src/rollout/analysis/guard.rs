//! The times within which analyses look at a rollout: the steps of its canary and its bake time.

use std::time::Duration;

use jiff::SignedDuration;
use serde_json::Value;

use crate::manifest::ObjectKey;
use crate::rollout::Workload;
use crate::rollout::canary::{CanaryKind, CanaryLock, CanarySteps};
use crate::span::Span;

/// The most looks of an analysis within one of these times: they are less frequent in a longer one.
pub const LOOKS: i32 = 2_000;

/// The times within which an analysis looks before the rollout goes on.
#[derive(Clone, Debug, PartialEq)]
pub struct Guard {
    /// The bake time is the last of them.
    pub bakes: bool,
    /// The times, in their order.
    pub times: Vec<GuardedTime>,
}

/// One time within which new and old pods are compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GuardedTime {
    /// The new pods.
    pub new: i64,
    /// The old ones that they are compared with.
    pub old: i64,
    /// True when both share the requests; else the old ones had as many as the new ones have, before the rollout.
    pub is_beside: bool,
    /// The length.
    pub lasts: Duration,
}

impl Guard {
    /// Returns the guards of a workload with so many pods: its canary, and its bake time together with that. A step that waits
    /// for a person has no time of its own, and is left out.
    #[must_use]
    pub fn of(key: &ObjectKey, manifest: &Value, replicas: i64, bake: SignedDuration) -> Vec<Guard> {
        let workload = Workload::of(key).filter(|workload| workload.can_go_back());
        if workload.is_none() || replicas <= 0 {
            return Vec::new();
        }
        let steps = CanarySteps::of(manifest);
        let step = |number: usize| {
            let (kind, lasts) = (CanaryKind::of_key(key)?, steps.step(number)?.time?.0);
            let new = CanaryLock::of_step(kind, &steps, number, replicas).new_pods();
            let old = if kind == CanaryKind::Deployment { replicas } else { replicas - new };
            (new > 0).then_some(GuardedTime { new, old, is_beside: true, lasts })
        };
        let canary: Vec<GuardedTime> = (1..=steps.count()).filter_map(step).collect();
        let mut guards = Vec::new();
        if !canary.is_empty() {
            guards.push(Guard { bakes: false, times: canary.clone() });
        }
        if bake.is_positive() {
            let lasts = Duration::try_from(bake).unwrap_or_default();
            let baking = GuardedTime { new: replicas, old: replicas, is_beside: false, lasts };
            guards.push(Guard { bakes: true, times: canary.into_iter().chain([baking]).collect() });
        }
        guards
    }

    /// Returns its length.
    #[must_use]
    pub fn lasts(&self) -> Span {
        Span(self.times.iter().fold(Duration::ZERO, |sum, time| sum.saturating_add(time.lasts)))
    }

    /// Returns its name for people: `this canary, with 1 of 7 pods`.
    #[must_use]
    pub fn told(&self) -> String {
        let steps: Vec<String> = self.times.iter().filter(|time| time.is_beside).map(GuardedTime::told).collect();
        match (steps.is_empty(), self.bakes) {
            (true, _) => "this bake time".to_owned(),
            (false, true) => "this canary and its bake time".to_owned(),
            (false, false) => format!("this canary, with {} pods,", steps.join(", then ")),
        }
    }
}

impl GuardedTime {
    fn told(&self) -> String {
        format!("{} of {}", self.new, self.new.saturating_add(self.old))
    }

    /// Returns the part of the workload's requests that the new pods answer, and that of the old ones.
    pub(super) fn parts(&self) -> (f64, f64) {
        let (new, old) = (self.new as f64, self.old as f64);
        if self.is_beside { (new / (new + old), old / (new + old)) } else { (1.0, 1.0) }
    }

    /// Returns the number of looks within it after the first one, and the seconds between two.
    pub(super) fn looks(&self, interval: Duration, warmup: Duration) -> (u32, f64) {
        let interval = interval.max(self.lasts / LOOKS.unsigned_abs()).max(Duration::from_secs(1)).as_secs_f64();
        let left = self.lasts.saturating_sub(warmup).as_secs_f64();
        // The look at the very end may come too late.
        (((left / interval).ceil() - 1.0).max(0.0) as u32, interval)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rollout::marks;
    use serde_json::json;

    fn of(kind: &str, canary: &str, bake: i64) -> Vec<String> {
        let key = ObjectKey {
            group: "apps".to_owned(),
            kind: kind.to_owned(),
            namespace: Some("default".to_owned()),
            name: "web".to_owned(),
        };
        let manifest = json!({"metadata": {"annotations": {marks::CANARY: canary}}});
        let told = |guard: Guard| format!("{} {}", guard.told(), guard.lasts());
        Guard::of(&key, &manifest, 6, SignedDuration::from_secs(bake)).into_iter().map(told).collect()
    }

    #[test]
    fn a_workload_is_guarded_by_its_steps_and_its_bake_time() {
        for (kind, canary, bake, expected) in [
            ("Deployment", "", 0, vec![]),
            ("Deployment", "", 300, vec!["this bake time 5m"]),
            ("Deployment", "1 10m", 0, vec!["this canary, with 1 of 7 pods, 10m"]),
            (
                "Deployment",
                "1 10m, 2 0, 50% 5m",
                60,
                vec!["this canary, with 1 of 7, then 3 of 9 pods, 15m", "this canary and its bake time 16m"],
            ),
            ("Deployment", "1 0", 60, vec!["this bake time 1m"]),
            ("StatefulSet", "1 10m", 0, vec!["this canary, with 1 of 6 pods, 10m"]),
            ("DaemonSet", "100% 10m", 0, vec!["this canary, with 5 of 6 pods, 10m"]),
            ("Job", "1 10m", 60, vec![]),
        ] {
            assert_eq!(of(kind, canary, bake), expected, "{kind} {canary} {bake}");
        }
    }

    #[test]
    fn a_time_has_so_many_looks() {
        for (lasts, interval, warmup, expected) in [
            (600, 15, 0, (39, 15.0)),
            (600, 15, 60, (35, 15.0)),
            (10, 15, 0, (0, 15.0)),
            (15, 15, 0, (0, 15.0)),
            (16, 15, 0, (1, 15.0)),
            (60, 15, 600, (0, 15.0)),
            (200_000, 15, 0, (1_999, 100.0)),
        ] {
            let time = GuardedTime { new: 1, old: 1, is_beside: true, lasts: Duration::from_secs(lasts) };
            let looks = time.looks(Duration::from_secs(interval), Duration::from_secs(warmup));
            assert_eq!(looks, expected, "{lasts} {interval} {warmup}");
        }
    }
}
