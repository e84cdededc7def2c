//! The requests of a pod as a whole, if it names a part of that and its containers the rest.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::super::quantity::Quantity;
use super::super::value_ext::ValueExt;

/// Fills in the pod's own limits and requests.
pub fn fill(spec: &mut Value) {
    let own = &spec["resources"];
    if own.entries("limits").is_empty() && own.entries("requests").is_empty() {
        return;
    }
    let mut limits = own.entries("limits").clone();
    for (name, amount) in together(spec, "limits") {
        if is_huge_pages(&name) {
            limits.entry(name).or_insert_with(|| json!(amount.canonical()));
        }
    }
    if limits.is_empty() {
        return;
    }
    let mut requests = own.entries("requests").clone();
    for (name, amount) in together(spec, "requests") {
        if is_known(&name) && !is_huge_pages(&name) {
            requests.entry(name).or_insert_with(|| json!(amount.canonical()));
        }
    }
    for (name, amount) in limits.iter().filter(|(name, _)| is_known(name)) {
        requests.entry(name.clone()).or_insert_with(|| amount.clone());
    }
    spec["resources"]["limits"] = Value::Object(limits);
    if !requests.is_empty() {
        spec["resources"]["requests"] = Value::Object(requests);
    }
}

fn is_huge_pages(name: &str) -> bool {
    name.starts_with("hugepages-")
}

/// Returns true when a pod as a whole can ask for it.
fn is_known(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || is_huge_pages(name)
}

/// Returns the need of the containers at any one time: those that run side by side add up; those that run before them,
/// one after the other, need the most that one of them does.
fn together(spec: &Value, part: &str) -> BTreeMap<String, Quantity> {
    let mut sums = BTreeMap::new();
    for container in spec.list("containers") {
        add(&mut sums, container["resources"].entries(part));
    }
    let (mut beside, mut most) = (BTreeMap::new(), BTreeMap::new());
    for container in spec.list("initContainers") {
        let amounts = container["resources"].entries(part);
        let mut now = beside.clone();
        add(&mut now, amounts);
        if container.text("restartPolicy") == "Always" {
            add(&mut sums, amounts);
            beside.clone_from(&now);
        }
        raise(&mut most, now);
    }
    raise(&mut sums, most);
    sums
}

fn add(to: &mut BTreeMap<String, Quantity>, amounts: &Map<String, Value>) {
    for (name, amount) in amounts {
        let Some(Ok(amount)) = amount.as_str().map(Quantity::parse) else { continue };
        let sum = to.get(name).map_or_else(|| amount.clone(), |known| known.plus(&amount));
        to.insert(name.clone(), sum);
    }
}

fn raise(to: &mut BTreeMap<String, Quantity>, amounts: BTreeMap<String, Quantity>) {
    for (name, amount) in amounts {
        if to.get(&name).is_none_or(|known| known.is_less(&amount)) {
            to.insert(name, amount);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::fill;

    #[test]
    fn what_containers_need_together_is_what_the_pod_asks_for() {
        let mut spec = json!({
            "resources": { "limits": { "cpu": "2" } },
            "initContainers": [
                { "resources": { "requests": { "cpu": "100m" } }, "restartPolicy": "Always" },
                { "resources": { "requests": { "cpu": "1" } } },
            ],
            "containers": [
                { "resources": { "requests": { "cpu": "200m", "memory": "1" } } },
                { "resources": { "requests": { "cpu": "300m" }, "limits": { "hugepages-2Mi": "2Mi" } } },
            ],
        });
        fill(&mut spec);
        let expected = json!({
            "limits": { "cpu": "2", "hugepages-2Mi": "2Mi" },
            "requests": { "cpu": "1100m", "memory": "1", "hugepages-2Mi": "2Mi" },
        });
        assert_eq!(spec["resources"], expected);
    }
}
