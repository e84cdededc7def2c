//! Matching: label selectors, node selectors, tolerations.

use k8s_openapi::api::core::v1::{NodeSelectorRequirement, NodeSelectorTerm, Taint, Toleration};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use crate::kubelet::pod::{CompactMap, PodSpec};

/// Labels of an object.
pub type Labels = CompactMap<String>;

/// Returns true when labels match a selector; a missing one matches nothing, an empty one everything.
pub fn selects(selector: Option<&LabelSelector>, labels: &Labels) -> bool {
    #[cfg(test)]
    crate::work_count::count(crate::work_count::Counted::Matched);
    let Some(selector) = selector else { return false };
    let equal = selector.match_labels.iter().flatten().all(|(key, value)| labels.get(key) == Some(value));
    let expressions = selector.match_expressions.iter().flatten();
    equal
        && expressions.into_iter().all(|expression| {
            let values = expression.values.as_deref().unwrap_or_default();
            holds(&expression.operator, labels.get(&expression.key), values)
        })
}

/// Returns true when a node is one of those that a pod asks for by selector and required affinity.
pub fn wants_node(spec: &PodSpec, node: &str, labels: &Labels) -> bool {
    let selected =
        spec.node_selector.iter().flat_map(CompactMap::iter).all(|(key, value)| labels.get(key) == Some(value));
    let affinity = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let required = affinity.and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution.as_ref());
    selected && required.is_none_or(|required| required.node_selector_terms.iter().any(|term| fits(term, node, labels)))
}

/// The names of the only nodes that a pod can go to, if its affinity names nodes in every term.
pub fn named_nodes(spec: &PodSpec) -> Option<Vec<&String>> {
    let affinity = spec.affinity.as_ref()?.node_affinity.as_ref()?;
    let required = affinity.required_during_scheduling_ignored_during_execution.as_ref()?;
    let mut names = Vec::new();
    for term in &required.node_selector_terms {
        let by_name =
            term.match_fields.iter().flatten().find(|field| field.key == "metadata.name" && field.operator == "In");
        names.extend(by_name?.values.iter().flatten());
    }
    Some(names)
}

/// Returns true when a node fits a term; an empty term fits none.
pub fn fits(term: &NodeSelectorTerm, node: &str, labels: &Labels) -> bool {
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    let name = node.to_owned();
    let meets = |requirement: &NodeSelectorRequirement, value: Option<&String>| {
        holds(&requirement.operator, value, requirement.values.as_deref().unwrap_or_default())
    };
    (!expressions.is_empty() || !fields.is_empty())
        && expressions.iter().all(|requirement| meets(requirement, labels.get(&requirement.key)))
        && fields.iter().all(|requirement| requirement.key == "metadata.name" && meets(requirement, Some(&name)))
}

/// Returns true when one of the tolerations tolerates a taint.
pub fn tolerates(tolerations: Option<&Vec<Toleration>>, taint: &Taint) -> bool {
    tolerations.into_iter().flatten().any(|toleration| {
        let effect = toleration.effect.as_deref().unwrap_or_default();
        let key = toleration.key.as_deref().unwrap_or_default();
        let exists = toleration.operator.as_deref() == Some("Exists");
        let value = toleration.value.as_deref().unwrap_or_default() == taint.value.as_deref().unwrap_or_default();
        (effect.is_empty() || effect == taint.effect)
            && (key == taint.key || (key.is_empty() && exists))
            && (exists || value)
    })
}

fn holds(operator: &str, value: Option<&String>, values: &[String]) -> bool {
    let number = |text: Option<&String>| text.and_then(|text| text.parse::<i64>().ok());
    match operator {
        "In" => value.is_some_and(|value| values.contains(value)),
        "NotIn" => value.is_none_or(|value| !values.contains(value)),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => number(value).zip(number(values.first())).is_some_and(|(value, bound)| value > bound),
        "Lt" => number(value).zip(number(values.first())).is_some_and(|(value, bound)| value < bound),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::{Labels, fits, selects, tolerates, wants_node};
    use serde_json::{Value, json};

    fn labels() -> Labels {
        [("zone", "a"), ("cores", "8")].map(|(key, value)| (key.to_owned(), value.to_owned())).into()
    }

    #[test]
    fn label_selectors() {
        let matches = |selector: Value| selects(Some(&serde_json::from_value(selector).unwrap()), &labels());
        assert!(!selects(None, &labels()));
        assert!(matches(json!({})));
        assert!(matches(json!({"matchLabels": {"zone": "a"}})));
        assert!(!matches(json!({"matchLabels": {"zone": "b"}})));
        let expression = |operator: &str, key: &str, values: &[&str]| {
            matches(json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]}))
        };
        assert!(expression("In", "zone", &["a", "b"]));
        assert!(!expression("In", "none", &["a"]));
        assert!(expression("NotIn", "none", &["a"]));
        assert!(!expression("NotIn", "zone", &["a"]));
        assert!(expression("Exists", "zone", &[]));
        assert!(expression("DoesNotExist", "none", &[]));
    }

    #[test]
    fn node_selectors_and_affinity() {
        let term = |term: Value| fits(&serde_json::from_value(term).unwrap(), "node-1", &labels());
        assert!(!term(json!({})));
        assert!(term(json!({"matchExpressions": [{"key": "cores", "operator": "Gt", "values": ["7"]}]})));
        assert!(!term(json!({"matchExpressions": [{"key": "cores", "operator": "Lt", "values": ["8"]}]})));
        assert!(term(json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]})));
        let wants = |spec: Value| wants_node(&serde_json::from_value(spec).unwrap(), "node-1", &labels());
        assert!(wants(json!({"containers": []})));
        assert!(!wants(json!({"containers": [], "nodeSelector": {"zone": "b"}})));
    }

    #[test]
    fn tolerations() {
        let taint = serde_json::from_value(json!({"key": "gpu", "value": "yes", "effect": "NoSchedule"})).unwrap();
        let tolerates = |toleration: Value| tolerates(Some(&vec![serde_json::from_value(toleration).unwrap()]), &taint);
        assert!(tolerates(json!({"operator": "Exists"})));
        assert!(tolerates(json!({"key": "gpu", "operator": "Exists", "effect": "NoSchedule"})));
        assert!(tolerates(json!({"key": "gpu", "value": "yes"})));
        assert!(!tolerates(json!({"key": "gpu", "value": "no"})));
        assert!(!tolerates(json!({"key": "gpu", "operator": "Exists", "effect": "NoExecute"})));
        assert!(!tolerates(json!({"key": "other", "operator": "Exists"})));
    }
}
