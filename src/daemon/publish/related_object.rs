//! Services, HorizontalPodAutoscalers and PodDisruptionBudgets of a source, as they are published: which workloads they are
//! about, and their state in words.

use serde_json::Value;

use belay_core::manifest::{ObjectKey, shortened};
use belay_core::rollout::scaled_by;

/// The number of characters of a condition's message.
const MESSAGE: usize = 200;

/// An object that is about workloads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelatedObject {
    about: About,
    /// Its state.
    pub state: String,
    /// True when its controller reports that it can't do its work.
    pub is_wrong: bool,
}

/// The workloads that it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
enum About {
    /// Those of its namespace whose pods it selects, by a text of requirements.
    Pods(Box<[Requirement]>),
    /// This one.
    Workload(Box<ObjectKey>),
}

/// A requirement of a label selector.
/// <https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#resources-that-support-set-based-requirements>
#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    label: String,
    /// True for `NotIn` and `DoesNotExist`.
    is_negated: bool,
    /// The values; `None` for any.
    values: Option<Box<[String]>>,
}

impl RelatedObject {
    /// Returns true for the kinds that are published.
    #[must_use]
    pub fn is_of_kind(key: &ObjectKey) -> bool {
        let kinds = [("", "Service"), ("policy", "PodDisruptionBudget"), ("autoscaling", "HorizontalPodAutoscaler")];
        kinds.contains(&(key.group.as_str(), key.kind.as_str()))
    }

    /// Returns the facts of a live object; `None` for other kinds, and for one that selects no pods.
    #[must_use]
    pub fn of(key: &ObjectKey, live: &Value) -> Option<RelatedObject> {
        let (spec, status) = (&live["spec"], &live["status"]);
        match (key.group.as_str(), key.kind.as_str()) {
            ("", "Service") => {
                let labels = spec["selector"].as_object().filter(|labels| !labels.is_empty())?;
                let about = About::Pods(labels.iter().map(|(label, value)| Requirement::equal(label, value)).collect());
                let (state, is_wrong) = of_service(spec, status);
                Some(RelatedObject { about, state, is_wrong })
            }
            ("policy", "PodDisruptionBudget") => {
                let about = About::Pods(requirements(spec.get("selector")?));
                let (state, is_wrong) = of_budget(status);
                Some(RelatedObject { about, state, is_wrong })
            }
            _ => {
                let about = About::Workload(Box::new(scaled_by(key, live)?));
                let (state, is_wrong) = of_autoscaler(spec, status);
                Some(RelatedObject { about, state, is_wrong })
            }
        }
    }

    /// Returns true when this object, of that name, is about a workload with this pod template.
    #[must_use]
    pub fn is_about(&self, own: &ObjectKey, workload: &ObjectKey, template: &Value) -> bool {
        match &self.about {
            About::Workload(target) => **target == *workload,
            About::Pods(requirements) => {
                let labels = &template["metadata"]["labels"];
                own.namespace == workload.namespace && requirements.iter().all(|one| one.is_met_by(labels))
            }
        }
    }
}

impl Requirement {
    fn equal(label: &str, value: &Value) -> Requirement {
        let values = Some([value.as_str().unwrap_or_default().to_owned()].into());
        Requirement { label: label.to_owned(), is_negated: false, values }
    }

    fn is_met_by(&self, labels: &Value) -> bool {
        let value = labels[&self.label].as_str();
        let is_one = match (&self.values, value) {
            (Some(values), Some(value)) => values.iter().any(|one| one == value),
            (None, value) => value.is_some(),
            (Some(_), None) => false,
        };
        is_one != self.is_negated
    }
}

/// Returns the requirements of a label selector. One without any selects all pods of its namespace.
fn requirements(selector: &Value) -> Box<[Requirement]> {
    let equal = selector["matchLabels"].as_object().into_iter().flatten();
    let expressions = selector["matchExpressions"].as_array().into_iter().flatten();
    let equal = equal.map(|(label, value)| Requirement::equal(label, value));
    let others = expressions.map(|expression| {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let operator = expression["operator"].as_str().unwrap_or_default();
        let values = expression["values"].as_array().into_iter().flatten().map(text).collect();
        Requirement {
            label: text(&expression["key"]),
            is_negated: ["NotIn", "DoesNotExist"].contains(&operator),
            values: ["In", "NotIn"].contains(&operator).then_some(values),
        }
    });
    equal.chain(others).collect()
}

fn of_service(spec: &Value, status: &Value) -> (String, bool) {
    let kind = spec["type"].as_str().unwrap_or("ClusterIP");
    let ports = spec["ports"].as_array().into_iter().flatten().filter_map(|port| port["port"].as_i64());
    let ports: Vec<String> = ports.map(|port| port.to_string()).collect();
    let at = if ports.is_empty() { String::new() } else { format!(", port {}", ports.join(", ")) };
    let addresses = status["loadBalancer"]["ingress"].as_array().into_iter().flatten();
    let addresses: Vec<&str> =
        addresses.filter_map(|one| one["ip"].as_str().or_else(|| one["hostname"].as_str())).collect();
    match (kind, addresses.as_slice()) {
        ("LoadBalancer", []) => (format!("LoadBalancer{at}, without an address yet"), true),
        (kind, []) => (format!("{kind}{at}"), false),
        (kind, addresses) => (format!("{kind}{at}, at {}", addresses.join(", ")), false),
    }
}

fn of_budget(status: &Value) -> (String, bool) {
    let number = |field: &str| status[field].as_i64().unwrap_or_default();
    let (healthy, desired, expected) = (number("currentHealthy"), number("desiredHealthy"), number("expectedPods"));
    let state = match number("disruptionsAllowed") {
        0 => "allows no disruption".to_owned(),
        1 => "allows 1 disruption".to_owned(),
        allowed => format!("allows {allowed} disruptions"),
    };
    (format!("{state}: {healthy} of {expected} pods are healthy, {desired} must be"), healthy < desired)
}

fn of_autoscaler(spec: &Value, status: &Value) -> (String, bool) {
    let number = |value: &Value| value.as_i64().unwrap_or_default();
    let (fewest, most) = (spec["minReplicas"].as_i64().unwrap_or(1), number(&spec["maxReplicas"]));
    let (present, desired) = (number(&status["currentReplicas"]), number(&status["desiredReplicas"]));
    let wants = if present == desired { String::new() } else { format!(", wants {desired}") };
    let state = format!("{present} pods{wants}, between {fewest} and {most}");
    let conditions = status["conditions"].as_array().into_iter().flatten();
    let mut faults = conditions.filter(|condition| {
        let is_needed = ["AbleToScale", "ScalingActive"].contains(&condition["type"].as_str().unwrap_or_default());
        is_needed && condition["status"] == "False"
    });
    match faults.next() {
        Some(fault) => {
            let text = |field: &str| fault[field].as_str().unwrap_or_default();
            (format!("{state}; {}: {}", text("reason"), shortened(text("message"), MESSAGE)), true)
        }
        None => (state, false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn key(group: &str, kind: &str, name: &str) -> ObjectKey {
        let namespace = Some("shop".to_owned());
        ObjectKey { group: group.to_owned(), kind: kind.to_owned(), namespace, name: name.to_owned() }
    }

    fn template(labels: Value) -> Value {
        json!({"metadata": {"labels": labels}})
    }

    #[test]
    fn each_kind_has_its_state_in_words() {
        let (service, budget) = (key("", "Service", "web"), key("policy", "PodDisruptionBudget", "web"));
        let autoscaler = key("autoscaling", "HorizontalPodAutoscaler", "web");
        let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
        let failing = json!([{"type": "AbleToScale", "status": "True"},
            {"type": "ScalingActive", "status": "False", "reason": "FailedGetResourceMetric", "message": "no metrics"}]);
        for (key, live, state, is_wrong) in [
            (
                &service,
                json!({"spec": {"selector": {"app": "web"}, "ports": [{"port": 80}, {"port": 443}]}}),
                "ClusterIP, port 80, 443",
                false,
            ),
            (
                &service,
                json!({"spec": {"selector": {"app": "web"}, "type": "LoadBalancer", "ports": [{"port": 80}]}}),
                "LoadBalancer, port 80, without an address yet",
                true,
            ),
            (
                &service,
                json!({"spec": {"selector": {"app": "web"}, "type": "LoadBalancer"},
                "status": {"loadBalancer": {"ingress": [{"ip": "10.0.0.7"}]}}}),
                "LoadBalancer, at 10.0.0.7",
                false,
            ),
            (
                &budget,
                json!({"spec": {"selector": {}}, "status": {"disruptionsAllowed": 1, "currentHealthy": 3, "desiredHealthy": 2,
                "expectedPods": 3}}),
                "allows 1 disruption: 3 of 3 pods are healthy, 2 must be",
                false,
            ),
            (
                &budget,
                json!({"spec": {"selector": {}}, "status": {"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 2,
                "expectedPods": 3}}),
                "allows no disruption: 1 of 3 pods are healthy, 2 must be",
                true,
            ),
            (
                &autoscaler,
                json!({"spec": {"scaleTargetRef": target, "minReplicas": 2, "maxReplicas": 10},
                "status": {"currentReplicas": 3, "desiredReplicas": 5}}),
                "3 pods, wants 5, between 2 and 10",
                false,
            ),
            (
                &autoscaler,
                json!({"spec": {"scaleTargetRef": target, "maxReplicas": 4},
                "status": {"currentReplicas": 2, "desiredReplicas": 2, "conditions": failing}}),
                "2 pods, between 1 and 4; FailedGetResourceMetric: no metrics",
                true,
            ),
        ] {
            let related = RelatedObject::of(key, &live).unwrap();
            assert_eq!((related.state.as_str(), related.is_wrong), (state, is_wrong), "{live}");
        }
        assert_eq!(RelatedObject::of(&service, &json!({"spec": {"type": "ExternalName"}})), None);
        assert_eq!(RelatedObject::of(&key("", "ConfigMap", "web"), &json!({"data": {}})), None);
    }

    #[test]
    fn an_object_is_about_the_workloads_that_it_selects() {
        let web = key("apps", "Deployment", "web");
        let about = |own: &ObjectKey, live: Value, workload: &ObjectKey, labels: Value| {
            RelatedObject::of(own, &live).unwrap().is_about(own, workload, &template(labels))
        };
        let service = key("", "Service", "front");
        let selects = |labels: Value| json!({"spec": {"selector": labels}});
        let labels = json!({"app": "web", "tier": "front"});
        assert!(about(&service, selects(json!({"app": "web"})), &web, labels.clone()));
        assert!(!about(&service, selects(json!({"app": "web", "tier": "back"})), &web, labels.clone()));
        let elsewhere = ObjectKey { namespace: Some("other".to_owned()), ..web.clone() };
        assert!(!about(&service, selects(json!({"app": "web"})), &elsewhere, labels.clone()));
        let budget = key("policy", "PodDisruptionBudget", "front");
        for (operator, values, is_met) in [
            ("In", json!(["back", "front"]), true),
            ("In", json!(["back"]), false),
            ("NotIn", json!(["back"]), true),
            ("NotIn", json!(["front"]), false),
            ("Exists", Value::Null, true),
            ("DoesNotExist", Value::Null, false),
        ] {
            let expression = json!({"key": "tier", "operator": operator, "values": values});
            let selector = selects(json!({"matchLabels": {"app": "web"}, "matchExpressions": [expression]}));
            assert_eq!(about(&budget, selector, &web, labels.clone()), is_met, "{operator} {values}");
        }
        assert!(about(&budget, selects(json!({})), &web, labels), "an empty selector selects all");
        let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
        let scales = json!({"spec": {"scaleTargetRef": target, "maxReplicas": 2}});
        let autoscaler = key("autoscaling", "HorizontalPodAutoscaler", "front");
        assert!(about(&autoscaler, scales.clone(), &web, json!({})));
        assert!(!about(&autoscaler, scales, &key("apps", "Deployment", "cart"), json!({})));
    }
}
