//! The warnings about labels of nodes: in pods, and in kinds that name the nodes of something.

use serde_json::Value;

use super::super::validate::label_value_problems;
use super::super::value_ext::ValueExt;
use super::deprecated_volumes::DEPRECATED_VOLUMES;

/// Labels of nodes that have newer names.
const OLD_LABELS: [(&str, &str); 5] = [
    ("beta.kubernetes.io/arch", "deprecated since v1.14; use \"kubernetes.io/arch\" instead"),
    ("beta.kubernetes.io/os", "deprecated since v1.14; use \"kubernetes.io/os\" instead"),
    (
        "failure-domain.beta.kubernetes.io/region",
        "deprecated since v1.17; use \"topology.kubernetes.io/region\" instead",
    ),
    ("failure-domain.beta.kubernetes.io/zone", "deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead"),
    ("beta.kubernetes.io/instance-type", "deprecated since v1.17; use \"node.kubernetes.io/instance-type\" instead"),
];
/// Annotations of volumes that became fields.
const OLD_ANNOTATIONS: [(&str, &str); 2] = [
    ("volume.beta.kubernetes.io/storage-class", "deprecated since v1.8; use \"storageClassName\" attribute instead"),
    ("volume.beta.kubernetes.io/mount-options", "deprecated since v1.31; use \"mountOptions\" attribute instead"),
];
/// Plugins of the past that the reference says nothing of in a PersistentVolume.
const UNTOLD: [&str; 3] = ["gitRepo", "flocker", "quobyte"];

/// Warnings about kinds that make no pods.
pub fn of_kind(key: (&str, &str), object: &Value, said: &mut Vec<String>) {
    match key {
        ("", "PersistentVolume") => volume(object, said),
        ("storage.k8s.io", "StorageClass") => {
            for (index, term) in object.list("allowedTopologies").iter().enumerate() {
                for (at, expression) in term.list("matchLabelExpressions").iter().enumerate() {
                    if let Some(old) = old(expression.text("key")) {
                        said.push(format!("allowedTopologies[{index}].matchLabelExpressions[{at}].key: {old}"));
                    }
                }
            }
        }
        ("node.k8s.io", "RuntimeClass") => {
            for old in object["scheduling"].entries("nodeSelector").keys().filter_map(|key| old(key)) {
                said.push(format!("scheduling.nodeSelector: {old}"));
            }
        }
        ("storage.k8s.io", "CSIStorageCapacity") => {
            let topology = &object["nodeTopology"];
            for (index, expression) in topology.list("matchExpressions").iter().enumerate() {
                let key = expression.text("key");
                if let Some(old) = old(key) {
                    said.push(format!("nodeTopology.matchExpressions[{index}].key: {key} is {old}"));
                }
            }
            for key in topology.entries("matchLabels").keys() {
                if let Some(old) = old(key) {
                    said.push(format!("nodeTopology.matchLabels.{key}: {old}"));
                }
            }
        }
        _ => {}
    }
}

fn volume(object: &Value, said: &mut Vec<String>) {
    let spec = &object["spec"];
    for (annotation, old) in OLD_ANNOTATIONS {
        if object["metadata"]["annotations"].has(annotation) {
            said.push(format!("metadata.annotations[{annotation}]: {old}"));
        }
    }
    if spec.text("persistentVolumeReclaimPolicy") == "Recycle" {
        let old = "The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.";
        said.push(format!("spec.persistentVolumeReclaimPolicy: {old}"));
    }
    for (index, term) in spec["nodeAffinity"]["required"].list("nodeSelectorTerms").iter().enumerate() {
        let at = format!("spec.nodeAffinity.required.nodeSelectorTerms[{index}]");
        node_term(term, &at, Weight::Required, said);
    }
    for (plugin, old) in DEPRECATED_VOLUMES.iter().filter(|(plugin, _)| spec.has(plugin) && !UNTOLD.contains(plugin)) {
        said.push(format!("spec.{plugin}: {old}"));
    }
}

/// Returns the warning about a label, if it is an old one.
pub fn old(key: &str) -> Option<&'static str> {
    OLD_LABELS.iter().find(|(label, _)| *label == key).map(|(_, said)| *said)
}

/// The weight of a term about nodes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Weight {
    /// Values that no label can have are refused.
    Required,
    /// They are let through, and never fit.
    Preferred,
}

pub fn node_term(term: &Value, at: &str, weight: Weight, warnings: &mut Vec<String>) {
    for (index, requirement) in term.list("matchExpressions").iter().enumerate() {
        let (at, key) = (format!("{at}.matchExpressions[{index}]"), requirement.text("key"));
        if let Some(said) = old(key) {
            warnings.push(format!("{at}.key: {key} is {said}"));
        }
        let values = requirement.list("values").iter().enumerate().filter(|_| weight == Weight::Preferred);
        for (index, value) in values {
            let value = value.as_str().unwrap_or_default();
            for problem in label_value_problems(value) {
                warnings.push(format!("{at}.values[{index}]: {value} is invalid, {problem}"));
            }
        }
    }
}
