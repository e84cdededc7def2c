//! The bounds of a rollout, the most pods and the fewest available ones, and if they were kept. The rules are
//! Kubernetes' own, written down a second time: they are the measure for the embedded controllers.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::recording::Recording;
use super::timeline::{Moment, Timeline};
use crate::cli::output::counted;
use belay_core::manifest::ObjectKey;
use belay_core::rollout::canary::CanarySteps;
use belay_core::rollout::marks;

/// The bounds of a rollout, and how near it came to them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    /// `5 replicas, maxSurge 1, maxUnavailable 25% = 1`
    pub why: String,
    /// The wanted number of pods.
    pub desired: u64,
    pub surge: Option<Limit>,
    pub unavailable: Option<Limit>,
    /// Pods that there may be, those that stop left out; `None` if nothing bounds them.
    pub at_most: Option<u64>,
    /// Pods that must be available.
    pub at_least: u64,
    /// The most that there were, and when first.
    pub most: Extreme,
    /// The fewest that were available, and when first.
    pub least: Extreme,
}

/// `maxSurge` or `maxUnavailable`, as written and as it counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct Limit {
    /// As in the manifest: a number, or a share of the pods.
    pub written: Value,
    /// As it counts.
    pub pods: u64,
}

/// The most or the fewest, and when first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extreme {
    pub pods: u64,
    pub at: Duration,
}

/// The direction in which a share of pods is rounded.
#[derive(Clone, Copy)]
enum Rounding {
    Up,
    Down,
}

impl Bounds {
    /// Returns the bounds of a recording's rollout, and the extremes until it was over.
    pub(super) fn of(recording: &Recording, timeline: &Timeline) -> Bounds {
        let mut bounds = Bounds::rule(&recording.key, recording.before.as_ref(), &recording.after);
        if recording.has_canary() {
            bounds.add_canary(&recording.key, &recording.after);
        }
        let moments = || timeline.moments.iter().filter(|moment| moment.at <= timeline.over);
        let pods = |moment: &Moment| moment.counts.pods().max(u64::try_from(moment.meant.unwrap_or(0)).unwrap_or(0));
        if let Some(most) = moments().rev().max_by_key(|moment| pods(moment)) {
            bounds.most = Extreme { pods: pods(most), at: most.at };
        }
        if let Some(least) = moments().min_by_key(|moment| moment.counts.available()) {
            bounds.least = Extreme { pods: least.counts.available(), at: least.at };
        }
        bounds
    }

    /// Returns true when there never were too many.
    pub(super) fn held_at_most(&self) -> bool {
        self.at_most.is_none_or(|at_most| self.most.pods <= at_most)
    }

    /// Returns true when there always were enough.
    pub(super) fn held_at_least(&self) -> bool {
        self.least.pods >= self.at_least
    }

    /// Adds a canary that is rolled out. The new pods of a Deployment come beside all of the old ones.
    fn add_canary(&mut self, key: &ObjectKey, after: &Value) {
        let (steps, wanted) = (CanarySteps::of(after), i64::try_from(self.desired).unwrap_or(i64::MAX));
        let asked = marks::annotation(after, marks::CANARY).unwrap_or_default();
        self.why = format!("{}, canary {asked}", self.why);
        let beside = u64::try_from(steps.pods(steps.count(), wanted)).unwrap_or_default();
        if key.kind == "Deployment" {
            self.at_most = self.at_most.map(|at_most| at_most.max(self.desired.saturating_add(beside)));
        }
    }

    fn rule(key: &ObjectKey, before: Option<&Value>, after: &Value) -> Bounds {
        let replicas = |object: &Value| object["spec"]["replicas"].as_u64().unwrap_or(1);
        let (wanted, had) = (replicas(after), before.map(replicas));
        match key.kind.as_str() {
            "Deployment" => deployment(after, wanted, had),
            "StatefulSet" => stateful_set(after, wanted, had),
            "DaemonSet" => {
                let nodes = |object: &Value| object["status"]["desiredNumberScheduled"].as_u64();
                daemon_set(after, before.and_then(nodes))
            }
            "Job" => {
                let most = after["spec"]["parallelism"].as_u64().unwrap_or(1);
                Bounds::new(format!("{most} pods at once"), most, Some(most), 0)
            }
            _ => Bounds::new(
                counted(wanted, "replica"),
                wanted,
                Some(wanted.max(had.unwrap_or(0))),
                wanted.min(had.unwrap_or(0)),
            ),
        }
    }

    fn new(why: String, desired: u64, at_most: Option<u64>, at_least: u64) -> Bounds {
        let nothing = Extreme { pods: 0, at: Duration::ZERO };
        Bounds { why, desired, surge: None, unavailable: None, at_most, at_least, most: nothing, least: nothing }
    }
}

/// Returns the bounds: at most all replicas and the surge, at least all but those that may be unavailable; if the
/// number of replicas changes with the template, the former one counts too. Both limits can't be 0: one pod may be
/// unavailable then.
fn deployment(after: &Value, wanted: u64, had: Option<u64>) -> Bounds {
    let strategy = &after["spec"]["strategy"];
    if strategy["type"] == "Recreate" {
        let why = format!("{}, Recreate: all old pods go before the first new one comes", counted(wanted, "replica"));
        return Bounds::new(why, wanted, Some(wanted.max(had.unwrap_or(0))), 0);
    }
    let rolling = &strategy["rollingUpdate"];
    let surge = limit(&rolling["maxSurge"], &Value::from("25%"), wanted, Rounding::Up);
    let mut unavailable = limit(&rolling["maxUnavailable"], &Value::from("25%"), wanted, Rounding::Down);
    if surge.pods == 0 && unavailable.pods == 0 {
        unavailable.pods = 1;
    }
    let why =
        format!("{}, maxSurge {}, maxUnavailable {}", counted(wanted, "replica"), surge.text(), unavailable.text());
    let at_most = wanted.saturating_add(surge.pods).max(had.unwrap_or(0));
    let at_least = had.map_or(0, |had| had.min(wanted.saturating_sub(unavailable.pods)));
    Bounds { surge: Some(surge), unavailable: Some(unavailable), ..Bounds::new(why, wanted, Some(at_most), at_least) }
}

/// Returns the bounds: each pod has a number of its own, so there is never one too many; one at a time is replaced
/// unless more may be unavailable.
fn stateful_set(after: &Value, wanted: u64, had: Option<u64>) -> Bounds {
    let strategy = &after["spec"]["updateStrategy"];
    let at_most = wanted.max(had.unwrap_or(0));
    if strategy["type"] == "OnDelete" {
        let why = format!("{}, OnDelete: pods are replaced when somebody deletes them", counted(wanted, "replica"));
        return Bounds::new(why, wanted, Some(at_most), had.map_or(0, |had| had.min(wanted)));
    }
    let mut unavailable = limit(&strategy["rollingUpdate"]["maxUnavailable"], &Value::from(1), wanted, Rounding::Up);
    unavailable.pods = unavailable.pods.max(1);
    let why = format!("{}, maxUnavailable {}", counted(wanted, "replica"), unavailable.text());
    let at_least = had.map_or(0, |had| had.min(wanted).saturating_sub(unavailable.pods));
    Bounds { unavailable: Some(unavailable), ..Bounds::new(why, wanted, Some(at_most), at_least) }
}

/// Returns a pod on every node, one more on so many of them, or one fewer; both round up.
fn daemon_set(after: &Value, nodes: Option<u64>) -> Bounds {
    let Some(nodes) = nodes else {
        return Bounds::new("one pod on every node".to_owned(), 0, None, 0);
    };
    let strategy = &after["spec"]["updateStrategy"];
    if strategy["type"] == "OnDelete" {
        let why = format!("{nodes} nodes, OnDelete: pods are replaced when somebody deletes them");
        return Bounds::new(why, nodes, Some(nodes), nodes);
    }
    let rolling = &strategy["rollingUpdate"];
    let surge = limit(&rolling["maxSurge"], &Value::from(0), nodes, Rounding::Up);
    let mut unavailable = limit(&rolling["maxUnavailable"], &Value::from(1), nodes, Rounding::Up);
    if surge.pods == 0 && unavailable.pods == 0 {
        unavailable.pods = 1;
    }
    let why = format!("{nodes} nodes, maxSurge {}, maxUnavailable {}", surge.text(), unavailable.text());
    let (at_most, at_least) = (nodes + surge.pods, nodes.saturating_sub(unavailable.pods));
    Bounds { surge: Some(surge), unavailable: Some(unavailable), ..Bounds::new(why, nodes, Some(at_most), at_least) }
}

impl Limit {
    fn text(&self) -> String {
        match &self.written {
            Value::String(share) => format!("{share} = {}", self.pods),
            _ => self.pods.to_string(),
        }
    }
}

fn limit(written: &Value, otherwise: &Value, of: u64, rounding: Rounding) -> Limit {
    let written = if written.is_null() { otherwise } else { written };
    let pods = match written {
        Value::String(share) => {
            let share: u64 = share.trim_end_matches('%').parse().unwrap_or(0);
            let hundredfold = share.saturating_mul(of);
            match rounding {
                Rounding::Up => hundredfold.div_ceil(100),
                Rounding::Down => hundredfold / 100,
            }
        }
        number => number.as_u64().unwrap_or(0),
    };
    Limit { written: written.clone(), pods }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of_deployment(replicas: u64, surge: Value, unavailable: Value) -> (Option<u64>, u64) {
        let after = json!({"spec": {"replicas": replicas, "strategy": {"type": "RollingUpdate",
            "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}}});
        let bounds = deployment(&after, replicas, Some(replicas));
        (bounds.at_most, bounds.at_least)
    }

    /// The numbers of the documents that the project began with.
    #[test]
    fn the_documents_numbers() {
        assert_eq!(of_deployment(2, json!(1), json!("99%")), (Some(3), 1), "1.98 pods round down to 1");
        assert_eq!(of_deployment(5, json!(1), json!("25%")), (Some(6), 4), "1.25 pods round down to 1");
        assert_eq!(of_deployment(4, json!("25%"), json!("25%")), (Some(5), 3));
        assert_eq!(of_deployment(2, json!("25%"), json!("25%")), (Some(3), 2), "2.5 up to 3, 1.5 up to 2");
        assert_eq!(of_deployment(2, json!(1), json!(0)), (Some(3), 2));
        assert_eq!(of_deployment(3, json!("0%"), json!("10%")), (Some(3), 2), "not both 0");
    }

    #[test]
    fn a_change_of_size_counts_too() {
        let after = json!({"spec": {"strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}}});
        let grown = deployment(&after, 10, Some(4));
        assert_eq!((grown.at_most, grown.at_least), (Some(11), 4));
        let shrunk = deployment(&after, 4, Some(10));
        assert_eq!((shrunk.at_most, shrunk.at_least), (Some(10), 3));
    }
}
