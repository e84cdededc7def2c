//! The planted bugs of canaries.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::{Value, json};

use super::{Wrong, rewrite};
use crate::simulation::events::{Edit, Event};
use crate::simulation::findings::{annotation, hold, key_of_path, pod_template};
use crate::simulation::scenario::{Fate, Kind, Scenario};

/// Returns true if a workload of a kind has a canary.
pub(super) fn has_steps(scenario: &Scenario, kind: Kind) -> bool {
    scenario.apps.iter().any(|app| app.steps > 0 && app.kind == kind)
}

/// Returns true when a version that answers with errors has a canary.
pub(super) fn errs_in_steps(scenario: &Scenario) -> bool {
    let apps = &scenario.apps;
    let errs = |edit: &Edit| matches!(edit, Edit::Image(app, Fate::Errs) if apps[app % apps.len()].steps > 0);
    scenario.events.iter().any(|timed| matches!(&timed.what, Event::Push(edits) if edits.iter().any(errs)))
}

/// Changes the locks of a canary that are sent.
pub(super) fn twist_locks(wrong: Wrong, path: &str, body: &mut Bytes) {
    const OF_LOCKS: [Wrong; 5] = [
        Wrong::GoesTooFar,
        Wrong::LeavesTheLocks,
        Wrong::LowersThePartition,
        Wrong::LeavesThePartition,
        Wrong::LeavesOnDelete,
    ];
    if let Some((kind, _)) = key_of_path(path).filter(|_| OF_LOCKS.contains(&wrong)) {
        rewrite(body, |sent| twist(wrong, &kind, sent));
    }
}

fn twist(wrong: Wrong, kind: &str, sent: &mut Value) {
    let (goes_back, is_step) = (hold(sent).is_some(), annotation(sent, "belay.dev/canary-step").is_some());
    let Some(spec) = sent.get_mut("spec").filter(|spec| spec.is_object()) else { return };
    match (wrong, kind) {
        (Wrong::GoesTooFar, "Deployment") => {
            if let Some(surge) = spec.pointer_mut("/strategy/rollingUpdate/maxSurge") {
                *surge = json!(2);
            }
        }
        (Wrong::LeavesTheLocks, "Deployment") if goes_back => {
            spec["minReadySeconds"] = json!(315_360_000);
            spec["progressDeadlineSeconds"] = json!(315_446_400);
        }
        (Wrong::LowersThePartition, "StatefulSet") if is_step => {
            if let Some(partition) = spec.pointer_mut("/updateStrategy/rollingUpdate/partition") {
                *partition = json!(partition.as_i64().unwrap_or_default() - 1);
            }
        }
        (Wrong::LeavesThePartition, "StatefulSet") if goes_back => {
            spec["updateStrategy"] = json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 1}});
        }
        (Wrong::LeavesOnDelete, "DaemonSet") if goes_back => spec["updateStrategy"] = json!({"type": "OnDelete"}),
        _ => {}
    }
}

/// The pods of DaemonSets, by name, with their owner and their template.
#[derive(Default)]
pub(super) struct DaemonPods(BTreeMap<String, (String, (String, String))>);

impl DaemonPods {
    /// Learns of a list of pods.
    pub(super) fn hear(&mut self, list: &Bytes) {
        let list: Value = serde_json::from_slice(list).unwrap_or_default();
        for pod in list["items"].as_array().into_iter().flatten() {
            let (metadata, text) = (&pod["metadata"], |value: &Value| value.as_str().unwrap_or_default().to_owned());
            let owner = &metadata["ownerReferences"][0];
            if owner["kind"] == "DaemonSet" {
                self.0.insert(text(&metadata["name"]), (text(&owner["name"]), pod_template(pod).unwrap_or_default()));
            }
        }
    }

    /// Takes another pod of the same DaemonSet with the same template, when one is deleted.
    pub(super) fn another(&mut self, name: &str) -> Option<String> {
        let deleted = self.0.remove(name)?;
        let other = self.0.iter().find(|(_, pod)| **pod == deleted).map(|(name, _)| name.clone())?;
        self.0.remove(&other);
        Some(other)
    }
}
