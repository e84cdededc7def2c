//! The numbers of pods at any time, and the ones that were together.

use std::collections::BTreeMap;

use super::observer::Seen;
use super::world::is_ready;

/// The greatest size of all ReplicaSets together, and the fewest pods that were ready. ReplicaSets make and delete their
/// pods side by side, so that for a moment there may be more pods than the sizes say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    pub most: i64,
    pub fewest_ready: usize,
}

/// Returns the bounds since the `from`-th step.
pub fn bounds(seen: &Seen, from: usize) -> Bounds {
    let mut pods: BTreeMap<&str, bool> = BTreeMap::new();
    let mut sizes: BTreeMap<&str, i64> = BTreeMap::new();
    let mut bounds = Bounds { most: 0, fewest_ready: usize::MAX };
    for (index, step) in seen.history.iter().enumerate() {
        match step.kind {
            "Pod" if step.gone || !step.object["metadata"]["deletionTimestamp"].is_null() => {
                pods.remove(step.name.as_str());
            }
            "Pod" => drop(pods.insert(&step.name, is_ready(&step.object))),
            "ReplicaSet" if step.gone => drop(sizes.remove(step.name.as_str())),
            "ReplicaSet" => drop(sizes.insert(&step.name, step.object["spec"]["replicas"].as_i64().unwrap_or(1))),
            _ => {}
        }
        if index >= from {
            bounds.most = bounds.most.max(sizes.values().sum());
            bounds.fewest_ready = bounds.fewest_ready.min(pods.values().filter(|ready| **ready).count());
        }
    }
    bounds
}

/// Returns true when there ever were pods of both images at the same time, those that are going away included.
pub fn were_together(seen: &Seen, one: &str, other: &str) -> bool {
    let mut pods: BTreeMap<&str, String> = BTreeMap::new();
    for step in seen.history.iter().filter(|step| step.kind == "Pod") {
        let finished = matches!(step.object["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
        if step.gone || finished {
            pods.remove(step.name.as_str());
        } else {
            let image = step.object["spec"]["containers"][0]["image"].as_str().unwrap_or_default();
            pods.insert(&step.name, image.to_owned());
        }
        if pods.values().any(|image| image == one) && pods.values().any(|image| image == other) {
            return true;
        }
    }
    false
}
