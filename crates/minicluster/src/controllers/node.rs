//! Nodes as controllers see them, and whether a pod may be on one. Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Affinity, NodeSelectorRequirement, NodeSelectorTerm, Taint, Toleration};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;

use super::informer::{Cached, Tag};
use super::key::name_of;
use crate::impl_resource::impl_resource;

/// A node.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Node {
    /// Its metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// The specification.
    #[serde(default)]
    pub spec: NodeSpec,
}

/// The specification of a node.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct NodeSpec {
    /// The taints, which keep pods away.
    #[serde(default)]
    pub taints: Vec<Taint>,
}

impl_resource!(Node, k8s_openapi::api::core::v1::Node);

impl Cached for Node {
    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }

    fn tags(&self) -> Vec<Tag> {
        Vec::new()
    }
}

impl Node {
    /// Returns its name.
    pub fn name(&self) -> &str {
        name_of(&self.metadata)
    }

    /// Returns true when pods may go here as before: neither labels nor taints have changed.
    pub fn takes_the_same_pods(&self, other: &Node) -> bool {
        self.metadata.labels == other.metadata.labels && self.spec == other.spec
    }
}

/// Returns true when a node selector and a required affinity ask for a node.
pub fn is_asked_for(node: &Node, selector: Option<&BTreeMap<String, String>>, affinity: Option<&Affinity>) -> bool {
    let label = |name: &String| node.metadata.labels.as_ref().and_then(|labels| labels.get(name));
    if !selector.into_iter().flatten().all(|(name, value)| label(name) == Some(value)) {
        return false;
    }
    let affinity = affinity.and_then(|affinity| affinity.node_affinity.as_ref());
    let required = affinity.and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution.as_ref());
    // One of the terms has to hold; a term that asks for nothing holds for no node.
    required.is_none_or(|required| required.node_selector_terms.iter().any(|term| holds(node, term)))
}

fn holds(node: &Node, term: &NodeSelectorTerm) -> bool {
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    if expressions.is_empty() && fields.is_empty() {
        return false;
    }
    let label = |requirement: &NodeSelectorRequirement| {
        node.metadata.labels.as_ref().and_then(|labels| labels.get(&requirement.key)).map(String::as_str)
    };
    let field = |requirement: &NodeSelectorRequirement| (requirement.key == "metadata.name").then(|| node.name());
    expressions.iter().all(|requirement| fits(label(requirement), requirement))
        && fields.iter().all(|requirement| fits(field(requirement), requirement))
}

fn fits(value: Option<&str>, requirement: &NodeSelectorRequirement) -> bool {
    let values = requirement.values.as_deref().unwrap_or_default();
    let is_listed = || value.is_some_and(|value| values.iter().any(|listed| listed == value));
    let number = |text: Option<&str>| text.and_then(|text| text.parse::<i64>().ok());
    let bound = || number(values.first().map(String::as_str));
    match requirement.operator.as_str() {
        "In" => is_listed(),
        "NotIn" => !is_listed(),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => number(value).zip(bound()).is_some_and(|(value, bound)| value > bound),
        "Lt" => number(value).zip(bound()).is_some_and(|(value, bound)| value < bound),
        _ => false,
    }
}

/// Returns true when one of a node's taints with one of these effects is not tolerated.
pub fn keeps_away(node: &Node, tolerations: &[Toleration], effects: &[&str]) -> bool {
    let counts = |taint: &&Taint| effects.contains(&taint.effect.as_str());
    node.spec.taints.iter().filter(counts).any(|taint| !tolerations.iter().any(|toleration| bears(toleration, taint)))
}

/// Returns true when a toleration bears a taint.
pub fn bears(toleration: &Toleration, taint: &Taint) -> bool {
    let is_any = |text: Option<&String>| text.is_none_or(String::is_empty);
    let same = |text: Option<&String>, other: &str| text.map(String::as_str) == Some(other);
    let fits_effect = is_any(toleration.effect.as_ref()) || same(toleration.effect.as_ref(), &taint.effect);
    let fits_key = is_any(toleration.key.as_ref()) || same(toleration.key.as_ref(), &taint.key);
    let value = |text: Option<&String>| text.cloned().unwrap_or_default();
    let number = |text: &str| text.parse::<i64>().ok();
    let (wanted, present) = (value(toleration.value.as_ref()), value(taint.value.as_ref()));
    let fits_value = match toleration.operator.as_deref() {
        None | Some("" | "Equal") => wanted == present,
        Some("Exists") => true,
        Some("Gt") => number(&present).zip(number(&wanted)).is_some_and(|(present, wanted)| present > wanted),
        Some("Lt") => number(&present).zip(number(&wanted)).is_some_and(|(present, wanted)| present < wanted),
        Some(_) => false,
    };
    fits_effect && fits_key && fits_value
}

#[cfg(test)]
mod tests {
    use super::{Affinity, Node, Toleration, is_asked_for, keeps_away};
    use serde_json::{Value, json};

    fn node() -> Node {
        serde_json::from_value(json!({
            "metadata": { "name": "one", "labels": { "zone": "a", "size": "8" } },
            "spec": { "taints": [{ "key": "gpu", "value": "yes", "effect": "NoSchedule" }] },
        }))
        .unwrap()
    }

    #[test]
    fn affinity_asks_for_nodes() {
        let asked = |term: Value| {
            let required =
                json!({ "nodeSelectorTerms": [{ "matchExpressions": [{ "key": "x", "operator": "Exists" }] }, term] });
            let affinity = json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": required } });
            let affinity: Affinity = serde_json::from_value(affinity).unwrap();
            is_asked_for(&node(), None, Some(&affinity))
        };
        let expression = |key: &str, operator: &str, values: Value| {
            asked(json!({ "matchExpressions": [{ "key": key, "operator": operator, "values": values }] }))
        };
        assert!(expression("zone", "In", json!(["a", "b"])) && !expression("zone", "In", json!(["b"])));
        assert!(expression("zone", "NotIn", json!(["b"])) && expression("none", "NotIn", json!(["b"])));
        assert!(expression("size", "Gt", json!(["7"])) && !expression("size", "Lt", json!(["8"])));
        assert!(!expression("zone", "Gt", json!(["7"])) && !expression("zone", "DoesNotExist", json!([])));
        assert!(asked(json!({ "matchFields": [{ "key": "metadata.name", "operator": "In", "values": ["one"] }] })));
        assert!(!asked(json!({})));
        assert!(is_asked_for(&node(), Some(&[("zone".to_owned(), "a".to_owned())].into()), None));
    }

    #[test]
    fn taints_keep_away_whom_they_are_not_tolerated_by() {
        let kept_away = |toleration: Value| {
            let toleration: Toleration = serde_json::from_value(toleration).unwrap();
            keeps_away(&node(), &[toleration], &["NoSchedule", "NoExecute"])
        };
        assert!(keeps_away(&node(), &[], &["NoSchedule"]) && !keeps_away(&node(), &[], &["NoExecute"]));
        assert!(!kept_away(json!({ "key": "gpu", "operator": "Exists" })));
        assert!(!kept_away(json!({ "key": "gpu", "value": "yes", "effect": "NoSchedule" })));
        assert!(kept_away(json!({ "key": "gpu", "value": "no" })));
        assert!(kept_away(json!({ "key": "gpu", "operator": "Exists", "effect": "NoExecute" })));
        assert!(!kept_away(json!({ "operator": "Exists" })));
    }
}
