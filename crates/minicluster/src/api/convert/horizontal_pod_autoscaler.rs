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
            let metrics = metrics.iter().map(|metric| v1_metric(metric, "target")).collect();
            keep(&mut annotations, METRICS, &Value::Array(metrics));
        }
        if let Some(behavior) = spec.remove("behavior") {
            keep(&mut annotations, BEHAVIOR, &behavior);
        }
    }
    if let Some(status) = object["status"].as_object_mut() {
        if let Some(Value::Array(metrics)) = status.remove("currentMetrics") {
            if let Some(cpu) = metrics.iter().find(|metric| is_cpu(metric)) {
                let percentage = cpu["resource"]["current"]["averageUtilization"].clone();
                if !percentage.is_null() {
                    status.insert("currentCPUUtilizationPercentage".to_owned(), percentage);
                }
            }
            let metrics = metrics.iter().map(|metric| v1_metric(metric, "current")).collect();
            keep(&mut annotations, CURRENT_METRICS, &Value::Array(metrics));
        }
        for count in ["currentReplicas", "desiredReplicas"] {
            status.entry(count).or_insert_with(|| Value::from(0));
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
        metrics.extend(others.iter().map(|metric| v2_metric(metric, "target")));
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
    // The annotation has all of them, if there is one.
    if let Some(Value::Array(all)) = unpack(object, CURRENT_METRICS) {
        current = all.iter().map(|metric| v2_metric(metric, "current")).collect();
    }
    if !current.is_empty() {
        object["status"]["currentMetrics"] = Value::Array(current);
    }
    if let Some(status) = object["status"].as_object_mut()
        && status.get("currentReplicas").is_some_and(|count| count == 0)
    {
        status.remove("currentReplicas");
    }
    if let Some(conditions) = unpack(object, CONDITIONS) {
        object["status"]["conditions"] = conditions;
    }
}

/// The names of a metric's numbers: in version 2 within `target` or `current`, in version 1 beside the metric's name.
const NUMBERS: [(&str, &str); 3] =
    [("averageUtilization", "AverageUtilization"), ("averageValue", "AverageValue"), ("value", "Value")];

fn source_of(metric: &Value) -> Option<&'static str> {
    Some(match metric["type"].as_str()? {
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        "Pods" => "pods",
        "Object" => "object",
        "External" => "external",
        _ => return None,
    })
}

/// Returns a metric, or its present state (`current`), as version 1 has it in its annotations.
fn v1_metric(metric: &Value, numbers: &str) -> Value {
    let Some(source) = source_of(metric) else { return metric.clone() };
    let mut own = metric[source].as_object().cloned().unwrap_or_default();
    if let Some(values) = own.remove(numbers) {
        for (name, suffix) in NUMBERS {
            if let Some(value) = values.get(name) {
                // An object's average is the one number without the prefix.
                let key = if source == "object" && name == "averageValue" {
                    name.to_owned()
                } else {
                    format!("{numbers}{suffix}")
                };
                own.insert(key, value.clone());
            }
        }
    }
    // One number of the metric is always there.
    match (numbers, source) {
        ("current", "resource" | "containerResource" | "pods") => {
            own.entry("currentAverageValue").or_insert_with(|| json!("0"));
        }
        ("current", "object" | "external") => {
            own.entry("currentValue").or_insert_with(|| json!("0"));
        }
        _ => {}
    }
    if let Some(named) = own.remove("metric") {
        let selector = if source == "external" { "metricSelector" } else { "selector" };
        for (from, to) in [("name", "metricName"), ("selector", selector)] {
            if let Some(value) = named.get(from) {
                own.insert(to.to_owned(), value.clone());
            }
        }
    }
    rename(&mut own, "describedObject", "target");
    json!({ "type": metric["type"], source: own })
}

/// Returns the way back.
fn v2_metric(metric: &Value, numbers: &str) -> Value {
    let Some(source) = source_of(metric) else { return metric.clone() };
    let mut own = metric[source].as_object().cloned().unwrap_or_default();
    rename(&mut own, "target", "describedObject");
    let mut values = Map::new();
    for (name, suffix) in NUMBERS {
        let value = own.remove(&format!("{numbers}{suffix}")).or_else(|| own.remove(name));
        values.extend(value.map(|value| (name.to_owned(), value)));
    }
    if numbers == "target" {
        let ty = NUMBERS.iter().find(|(name, _)| values.contains_key(*name)).map_or("Value", |(name, _)| match *name {
            "averageUtilization" => "Utilization",
            "averageValue" => "AverageValue",
            _ => "Value",
        });
        values.insert("type".to_owned(), json!(ty));
    }
    own.insert(numbers.to_owned(), Value::Object(values));
    let mut named = Map::new();
    for (from, to) in [("metricName", "name"), ("metricSelector", "selector"), ("selector", "selector")] {
        named.extend(own.remove(from).map(|value| (to.to_owned(), value)));
    }
    if !named.is_empty() {
        own.insert("metric".to_owned(), Value::Object(named));
    }
    json!({ "type": metric["type"], source: own })
}

fn rename(fields: &mut Map<String, Value>, from: &str, to: &str) {
    if let Some(value) = fields.remove(from) {
        fields.insert(to.to_owned(), value);
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
                    { "type": "Resource", "resource": { "name": "memory", "target": { "type": "AverageValue", "averageValue": "1Gi" } } },
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
        assert!(metrics.contains(&stored["spec"]["metrics"][0]), "{metrics:?}");
        assert_eq!(served["status"]["conditions"], stored["status"]["conditions"]);
        assert_eq!(served["metadata"], stored["metadata"]);
    }
}
