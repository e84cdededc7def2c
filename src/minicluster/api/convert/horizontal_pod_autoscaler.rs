//! HorizontalPodAutoscalers: `autoscaling/v2` in the store. `autoscaling/v1` knows one metric, the CPU's utilization;
//! the others, the behavior and the conditions travel in annotations, as the real server has them.

use serde_json::{Map, Value, json};

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";

pub(super) fn to_v1(object: &mut Value) {
    let mut annotations = Map::new();
    if let Some(spec) = object["spec"].as_object_mut() {
        if let Some(Value::Array(mut metrics)) = spec.remove("metrics") {
            if let Some(index) = metrics.iter().position(is_cpu_utilization) {
                let cpu = metrics.remove(index);
                let percentage = cpu["resource"]["target"]["averageUtilization"].clone();
                spec.insert("targetCPUUtilizationPercentage".to_owned(), percentage);
            }
            keep(&mut annotations, METRICS, &Value::Array(metrics));
        }
        if let Some(behavior) = spec.remove("behavior") {
            keep(&mut annotations, BEHAVIOR, &behavior);
        }
    }
    if let Some(status) = object["status"].as_object_mut() {
        if let Some(Value::Array(mut metrics)) = status.remove("currentMetrics") {
            if let Some(index) = metrics.iter().position(is_cpu) {
                let cpu = metrics.remove(index);
                let percentage = cpu["resource"]["current"]["averageUtilization"].clone();
                if !percentage.is_null() {
                    status.insert("currentCPUUtilizationPercentage".to_owned(), percentage);
                }
            }
            keep(&mut annotations, CURRENT_METRICS, &Value::Array(metrics));
        }
        if let Some(conditions) = status.remove("conditions") {
            keep(&mut annotations, CONDITIONS, &conditions);
        }
    }
    if !annotations.is_empty() {
        let known = object["metadata"]["annotations"].as_object().cloned().unwrap_or_default();
        object["metadata"]["annotations"] = known.into_iter().chain(annotations).collect();
    }
}

pub(super) fn to_v2(object: &mut Value) {
    let mut metrics = Vec::new();
    if let Some(percentage) = take(object, "spec", "targetCPUUtilizationPercentage") {
        let target = json!({ "type": "Utilization", "averageUtilization": percentage });
        metrics.push(json!({ "type": "Resource", "resource": { "name": "cpu", "target": target } }));
    }
    if let Some(Value::Array(others)) = unpack(object, METRICS) {
        metrics.extend(others);
    }
    if !metrics.is_empty() {
        object["spec"]["metrics"] = Value::Array(metrics);
    }
    if let Some(behavior) = unpack(object, BEHAVIOR) {
        object["spec"]["behavior"] = behavior;
    }
    let mut current = Vec::new();
    if let Some(percentage) = take(object, "status", "currentCPUUtilizationPercentage") {
        let current_value = json!({ "averageUtilization": percentage });
        current.push(json!({ "type": "Resource", "resource": { "name": "cpu", "current": current_value } }));
    }
    if let Some(Value::Array(others)) = unpack(object, CURRENT_METRICS) {
        current.extend(others);
    }
    if !current.is_empty() {
        object["status"]["currentMetrics"] = Value::Array(current);
    }
    if let Some(conditions) = unpack(object, CONDITIONS) {
        object["status"]["conditions"] = conditions;
    }
}

fn is_cpu_utilization(metric: &Value) -> bool {
    is_cpu(metric) && !metric["resource"]["target"]["averageUtilization"].is_null()
}

fn is_cpu(metric: &Value) -> bool {
    metric["type"] == "Resource" && metric["resource"]["name"] == "cpu"
}

fn keep(annotations: &mut Map<String, Value>, key: &str, value: &Value) {
    if value.as_array().is_none_or(|list| !list.is_empty()) {
        annotations.insert(key.to_owned(), Value::from(value.to_string()));
    }
}

fn take(object: &mut Value, part: &str, field: &str) -> Option<Value> {
    object.get_mut(part)?.as_object_mut()?.remove(field)
}

fn unpack(object: &mut Value, key: &str) -> Option<Value> {
    let metadata = object.get_mut("metadata")?.as_object_mut()?;
    let annotations = metadata.get_mut("annotations")?.as_object_mut()?;
    let text = annotations.remove(key)?;
    if annotations.is_empty() {
        metadata.remove("annotations");
    }
    serde_json::from_str(text.as_str()?).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{to_v1, to_v2};

    #[test]
    fn what_version_one_does_not_know_travels_in_annotations() {
        let stored = json!({
            "metadata": { "name": "x" },
            "spec": {
                "maxReplicas": 3,
                "metrics": [
                    { "type": "Resource", "resource": { "name": "memory", "target": { "averageUtilization": 5 } } },
                    { "type": "Resource", "resource": { "name": "cpu", "target": { "type": "Utilization", "averageUtilization": 80 } } },
                ],
            },
            "status": { "conditions": [{ "type": "AbleToScale" }] },
        });
        let mut served = stored.clone();
        to_v1(&mut served);
        assert_eq!(served["spec"]["targetCPUUtilizationPercentage"], 80);
        assert!(served["spec"].get("metrics").is_none());
        assert!(served["status"].get("conditions").is_none());
        to_v2(&mut served);
        let metrics = served["spec"]["metrics"].as_array().unwrap();
        assert_eq!(metrics.len(), 2);
        assert_eq!(served["status"], stored["status"]);
        assert_eq!(served["metadata"], stored["metadata"]);
    }
}
