//! The nodes on which a DaemonSet runs, and the template of its pods. Pure.

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{
    Affinity, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PodSpec, PodTemplateSpec,
    Toleration,
};

use crate::controllers::key::annotation;
use crate::controllers::node::{Node, is_asked_for, keeps_away};
use crate::controllers::pod::Pod;

/// The label with the hash of the revision that a pod was made from.
pub const REVISION_LABEL: &str = "controller-revision-hash";
/// The label with the number of template changes, as old clients know it.
const GENERATION_LABEL: &str = "pod-template-generation";
const GENERATION_ANNOTATION: &str = "deprecated.daemonset.template.generation";

/// Taints that the pods of every DaemonSet bear.
const BORNE: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];
/// And one that those on their node's network bear.
const BORNE_ON_HOST_NETWORK: (&str, &str) = ("node.kubernetes.io/network-unavailable", "NoSchedule");

/// The decision if a DaemonSet's pod belongs on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// One shall run there.
    Runs,
    /// One that is there may stay.
    Stays,
    /// None may be there.
    Not,
}

/// Decides if a DaemonSet's pod belongs on a node.
pub fn of(set: &DaemonSet, node: &Node) -> Fit {
    let none = PodSpec::default();
    let spec = set.spec.template.spec.as_ref().unwrap_or(&none);
    let pinned = spec.node_name.as_deref().filter(|name| !name.is_empty());
    let asked = is_asked_for(node, spec.node_selector.as_ref(), spec.affinity.as_ref());
    if pinned.is_some_and(|name| name != node.name()) || !asked {
        return Fit::Not;
    }
    let tolerations = tolerations(spec);
    if !keeps_away(node, &tolerations, &["NoSchedule", "NoExecute"]) {
        Fit::Runs
    } else if keeps_away(node, &tolerations, &["NoExecute"]) {
        Fit::Not
    } else {
        Fit::Stays
    }
}

fn tolerations(spec: &PodSpec) -> Vec<Toleration> {
    let mut tolerations = spec.tolerations.clone().unwrap_or_default();
    let on_host_network = (spec.host_network == Some(true)).then_some(BORNE_ON_HOST_NETWORK);
    for (key, effect) in BORNE.into_iter().chain(on_host_network) {
        let toleration = Toleration {
            key: Some(key.to_owned()),
            operator: Some("Exists".to_owned()),
            effect: Some(effect.to_owned()),
            ..Toleration::default()
        };
        let same = |other: &&mut Toleration| {
            other.key == toleration.key && other.effect == toleration.effect && other.value.is_none()
        };
        match tolerations.iter_mut().find(same) {
            Some(present) => *present = toleration,
            None => tolerations.push(toleration),
        }
    }
    tolerations
}

/// Returns the template of the pod on a node: pinned to it by affinity, so that a scheduler binds it there.
pub fn template_for(set: &DaemonSet, node: &str, hash: &str) -> PodTemplateSpec {
    let mut template = set.spec.template.clone();
    let labels = template.metadata.get_or_insert_default().labels.get_or_insert_default();
    if let Some(generation) = annotation(&set.metadata, GENERATION_ANNOTATION) {
        labels.insert(GENERATION_LABEL.to_owned(), generation.to_owned());
    }
    labels.insert(REVISION_LABEL.to_owned(), hash.to_owned());
    let spec = template.spec.get_or_insert_default();
    spec.tolerations = Some(tolerations(spec));
    let affinity = spec.affinity.get_or_insert_default();
    pin(affinity, node);
    template
}

fn pin(affinity: &mut Affinity, node: &str) {
    let requirement = NodeSelectorRequirement {
        key: "metadata.name".to_owned(),
        operator: "In".to_owned(),
        values: Some(vec![node.to_owned()]),
    };
    let term = NodeSelectorTerm { match_fields: Some(vec![requirement]), match_expressions: None };
    let node_affinity: &mut NodeAffinity = affinity.node_affinity.get_or_insert_default();
    node_affinity.required_during_scheduling_ignored_during_execution =
        Some(NodeSelector { node_selector_terms: vec![term] });
}

/// Returns the node that a pod is on, or will be bound to.
pub fn node_of(pod: &Pod) -> Option<String> {
    if let Some(node) = pod.spec.node_name.as_ref().filter(|node| !node.is_empty()) {
        return Some(node.clone());
    }
    let affinity = pod.spec.affinity.as_ref()?.node_affinity.as_ref()?;
    let required = affinity.required_during_scheduling_ignored_during_execution.as_ref()?;
    let fields = required.node_selector_terms.iter().flat_map(|term| term.match_fields.iter().flatten());
    let names = fields.filter(|field| field.key == "metadata.name" && field.operator == "In");
    names.filter_map(|field| field.values.as_ref()?.first().cloned()).next()
}

#[cfg(test)]
mod tests {
    use super::{Fit, node_of, of, template_for};
    use serde_json::{Value, json};

    fn fit(spec: Value, taints: Value) -> Fit {
        let set = json!({ "metadata": { "name": "agent" }, "spec": { "selector": {}, "template": { "spec": spec } } });
        let node = json!({ "metadata": { "name": "one", "labels": { "disk": "ssd" } }, "spec": { "taints": taints } });
        of(&serde_json::from_value(set).unwrap(), &serde_json::from_value(node).unwrap())
    }

    #[test]
    fn nodes_are_chosen_by_name_labels_and_taints() {
        let plain = || json!({ "containers": [] });
        let taint = |key: &str, effect: &str| json!([{ "key": key, "effect": effect }]);
        assert_eq!(fit(plain(), json!([])), Fit::Runs);
        assert_eq!(fit(json!({ "containers": [], "nodeName": "two" }), json!([])), Fit::Not);
        assert_eq!(fit(json!({ "containers": [], "nodeSelector": { "disk": "hdd" } }), json!([])), Fit::Not);
        assert_eq!(fit(plain(), taint("mine", "NoSchedule")), Fit::Stays);
        assert_eq!(fit(plain(), taint("mine", "NoExecute")), Fit::Not);
        assert_eq!(fit(plain(), taint("node.kubernetes.io/not-ready", "NoExecute")), Fit::Runs);
        assert_eq!(fit(plain(), taint("node.kubernetes.io/unschedulable", "NoSchedule")), Fit::Runs);
        let network = || taint("node.kubernetes.io/network-unavailable", "NoSchedule");
        assert_eq!(fit(plain(), network()), Fit::Stays);
        assert_eq!(fit(json!({ "containers": [], "hostNetwork": true }), network()), Fit::Runs);
    }

    #[test]
    fn pods_are_pinned_to_their_nodes() {
        let set = json!({ "metadata": { "name": "agent" }, "spec": { "selector": {}, "template": {} } });
        let template = template_for(&serde_json::from_value(set).unwrap(), "one", "5d4");
        let pod = serde_json::to_value(&template).unwrap();
        assert_eq!(node_of(&serde_json::from_value(pod).unwrap()).as_deref(), Some("one"));
    }
}
