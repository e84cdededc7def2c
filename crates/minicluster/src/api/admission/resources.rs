//! The requests of pods: the amounts of their containers, taken together.

use std::collections::BTreeMap;

use serde_json::Value;

use kube_rules::Quantity;

/// Amounts by resource.
pub(super) type ResourceAmounts = BTreeMap<String, Quantity>;

/// Returns an amount that is written somewhere.
pub(super) fn amount(value: &Value) -> Option<Quantity> {
    match value {
        Value::String(text) => Quantity::parse(text).ok(),
        Value::Number(number) => Quantity::parse(&number.to_string()).ok(),
        _ => None,
    }
}

/// Returns the amounts of a map of them.
pub(super) fn amounts(map: &Value) -> ResourceAmounts {
    let members = map.as_object().into_iter().flatten();
    members.filter_map(|(name, value)| Some((name.clone(), amount(value)?))).collect()
}

/// Adds amounts to others.
pub(super) fn add(sum: &mut ResourceAmounts, more: &ResourceAmounts) {
    for (name, amount) in more {
        let total = sum.get(name).map_or_else(|| amount.clone(), |known| known.plus(amount));
        sum.insert(name.clone(), total);
    }
}

/// Keeps the larger of two amounts, one by one.
pub(super) fn raise(to: &mut ResourceAmounts, other: &ResourceAmounts) {
    for (name, amount) in other {
        if to.get(name).is_none_or(|known| known.compare(amount).is_lt()) {
            to.insert(name.clone(), amount.clone());
        }
    }
}

/// Returns the requests of a pod (`requests`) or its limits (`limits`): the sum of its containers and of the sidecars
/// that run beside them, or its need on the way there if that is more; the pod's own amount instead, if it has one.
pub(super) fn of_pod(spec: &Value, part: &str) -> ResourceAmounts {
    let list = |name: &str| spec[name].as_array().map_or(&[][..], Vec::as_slice);
    let of = |container: &Value| amounts(&container["resources"][part]);
    let mut running = ResourceAmounts::new();
    for container in list("containers") {
        add(&mut running, &of(container));
    }
    let (mut sidecars, mut peak) = (ResourceAmounts::new(), ResourceAmounts::new());
    for container in list("initContainers") {
        let own = of(container);
        if container["restartPolicy"] == "Always" {
            add(&mut sidecars, &own);
            raise(&mut peak, &sidecars);
        } else {
            let mut now = sidecars.clone();
            add(&mut now, &own);
            raise(&mut peak, &now);
        }
    }
    add(&mut running, &sidecars);
    raise(&mut running, &peak);
    running.extend(amounts(&spec["resources"][part]));
    let overhead = amounts(&spec["overhead"]);
    if part == "requests" {
        add(&mut running, &overhead);
    } else {
        let limited = overhead.into_iter().filter(|(name, _)| running.contains_key(name)).collect();
        add(&mut running, &limited);
    }
    running
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn container(cpu: &str) -> Value {
        json!({ "resources": { "requests": { "cpu": cpu } } })
    }

    #[test]
    fn a_pod_asks_for_its_sum_or_its_peak() {
        let cpu = |spec: &Value| of_pod(spec, "requests").get("cpu").map(Quantity::canonical);
        let plain = json!({ "containers": [container("100m"), container("1")] });
        assert_eq!(cpu(&plain).as_deref(), Some("1100m"));
        let init = json!({ "containers": [container("100m")], "initContainers": [container("2"), container("1")] });
        assert_eq!(cpu(&init).as_deref(), Some("2"));
        let mut sidecar = container("300m");
        sidecar["restartPolicy"] = json!("Always");
        let beside = json!({
            "containers": [container("100m")], "initContainers": [sidecar, container("1")], "overhead": { "cpu": "1m" },
        });
        assert_eq!(cpu(&beside).as_deref(), Some("1301m"));
        assert_eq!(cpu(&json!({ "containers": [{}] })), None);
        let whole = json!({ "containers": [container("1")], "resources": { "requests": { "cpu": "3" } } });
        assert_eq!(cpu(&whole).as_deref(), Some("3"));
    }
}
