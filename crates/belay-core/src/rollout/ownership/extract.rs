//! The fields that belay has applied to an object, read back from the object: the API server keeps for every manager
//! which fields are its own (`managedFields`). A command that changes one thing of it repeats the rest, or the server
//! would take it away.

use serde_json::{Map, Value, json};

use super::owned;
use crate::rollout::marks;

/// Returns the object as belay has applied it last: the fields that it owns, with the values that they have now. `None`
/// if it has applied none.
#[must_use]
pub fn applied_fields(live: &Value) -> Option<Value> {
    let owned = owned::owned_fields(live)?;
    let mut body = part(live, owned);
    let metadata = &live["metadata"];
    body["apiVersion"] = live["apiVersion"].clone();
    body["kind"] = live["kind"].clone();
    if !body["metadata"].is_object() {
        body["metadata"] = json!({});
    }
    body["metadata"]["name"] = metadata["name"].clone();
    if let Some(namespace) = metadata.get("namespace") {
        body["metadata"]["namespace"] = namespace.clone();
    }
    Some(body)
}

/// Returns the part of a value that these owned fields name.
fn part(value: &Value, owned: &Map<String, Value>) -> Value {
    let mut inner = owned.iter().filter(|(key, _)| *key != ".").peekable();
    if inner.peek().is_none() {
        // A leaf; or, with a dot, something that exists and has nothing in it that is owned.
        return if owned.contains_key(".") { emptied(value) } else { value.clone() };
    }
    match value {
        Value::Object(fields) => inner
            .filter_map(|(key, owned)| {
                let name = key.strip_prefix("f:")?;
                Some((name.to_owned(), part_of(fields.get(name)?, owned)))
            })
            .collect::<Map<_, _>>()
            .into(),
        Value::Array(items) => {
            let inner: Vec<(&String, &Value)> = inner.collect();
            let mine = |(index, item): (usize, &Value)| {
                let (key, owned) = inner.iter().find(|(key, _)| owns_item(key, index, item))?;
                Some(with_keys(part_of(item, owned), key))
            };
            items.iter().enumerate().filter_map(mine).collect()
        }
        other => other.clone(),
    }
}

fn part_of(value: &Value, owned: &Value) -> Value {
    owned.as_object().map_or_else(|| value.clone(), |owned| part(value, owned))
}

fn emptied(value: &Value) -> Value {
    match value {
        Value::Object(_) => json!({}),
        Value::Array(_) => json!([]),
        other => other.clone(),
    }
}

/// Returns true when a key of `managedFields` (`k:{"name":"app"}`, `v:"value"`, `i:0`) names this item.
fn owns_item(key: &str, index: usize, item: &Value) -> bool {
    match key.split_once(':') {
        Some(("v", value)) => serde_json::from_str::<Value>(value).is_ok_and(|value| value == *item),
        Some(("i", number)) => number.parse() == Ok(index),
        Some(("k", _)) => {
            keys_of(key).is_some_and(|keys| keys.iter().all(|(name, value)| item.get(name) == Some(value)))
        }
        _ => false,
    }
}

fn keys_of(key: &str) -> Option<Map<String, Value>> {
    serde_json::from_str(key.strip_prefix("k:")?).ok()
}

/// Adds the keys of an item: if none of them is owned, as of an item that is only said to exist, all are repeated.
fn with_keys(mut item: Value, key: &str) -> Value {
    if let (Some(fields), Some(keys)) = (item.as_object_mut(), keys_of(key))
        && !keys.keys().any(|name| fields.contains_key(name))
    {
        fields.extend(keys);
    }
    item
}

/// Returns the `managedFields` in which belay's apply owns all of the pod template that anybody owns, and nobody else
/// anything of it; `None` if that is so already, or belay has applied nothing. Fields of others (of
/// `kubectl rollout restart`, of `kubectl set`) stay in a template whatever is applied, so that it could not become
/// that of an earlier revision.
#[must_use]
pub fn give_up_templates(live: &Value) -> Option<Value> {
    owned::owned_fields(live)?;
    let mut entries = live["metadata"]["managedFields"].as_array()?.clone();
    let mut taken = Vec::new();
    for entry in entries.iter_mut().filter(|entry| !is_belays(entry) && entry.get("subresource").is_none()) {
        if let Some(spec) = entry.pointer_mut("/fieldsV1/f:spec").and_then(Value::as_object_mut) {
            taken.extend(spec.remove("f:template"));
            if spec.keys().all(|key| key == ".") {
                entry["fieldsV1"].as_object_mut()?.remove("f:spec");
            }
        }
    }
    if taken.is_empty() {
        return None;
    }
    let says_something = |entry: &Value| entry["fieldsV1"].as_object().is_none_or(|fields| !fields.is_empty());
    entries.retain(|entry| entry.get("subresource").is_some() || says_something(entry));
    let own = entries.iter_mut().find(|entry| is_belays(entry))?;
    for template in taken {
        add(&mut own["fieldsV1"]["f:spec"]["f:template"], template);
    }
    Some(entries.into())
}

fn is_belays(entry: &Value) -> bool {
    entry["manager"] == marks::FIELD_MANAGER && entry["operation"] == "Apply" && entry.get("subresource").is_none()
}

/// Merges both sets of fields.
fn add(to: &mut Value, more: Value) {
    match (to.as_object_mut(), more) {
        (Some(fields), Value::Object(more)) => {
            for (key, value) in more {
                match fields.get_mut(&key) {
                    Some(there) => add(there, value),
                    None => drop(fields.insert(key, value)),
                }
            }
        }
        (_, more) => *to = more,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn live() -> Value {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "web", "namespace": "shop", "uid": "1", "labels": {"belay.dev/source": "shop", "by": "hand"},
                "managedFields": [
                    {"manager": "belay", "operation": "Apply", "fieldsV1": {
                        "f:metadata": {"f:labels": {"f:belay.dev/source": {}}},
                        "f:spec": {"f:replicas": {}, "f:selector": {}, "f:template": {"f:spec": {
                            "f:containers": {"k:{\"name\":\"app\"}": {".": {}, "f:name": {}, "f:image": {},
                                "f:ports": {"k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}}}}},
                            "f:volumes": {"k:{\"name\":\"tmp\"}": {".": {}, "f:emptyDir": {}, "f:name": {}}}}}}}},
                    {"manager": "kubectl-rollout", "operation": "Update", "fieldsV1": {"f:spec": {"f:template": {
                        "f:metadata": {"f:annotations": {".": {}, "f:kubectl.kubernetes.io/restartedAt": {}}}}}}},
                    {"manager": "kube-controller-manager", "operation": "Update", "subresource": "status", "fieldsV1": {}}]},
            "spec": {"replicas": 3, "paused": true, "selector": {"matchLabels": {"app": "web"}}, "template": {
                "metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": "now"}},
                "spec": {"containers": [
                    {"name": "app", "image": "web:1", "imagePullPolicy": "Always", "ports": [{"containerPort": 80, "protocol": "TCP"}]},
                    {"name": "injected", "image": "proxy:1"}],
                    "volumes": [{"name": "tmp", "emptyDir": {}}]}}},
        })
    }

    #[test]
    fn only_what_belay_owns_comes_back() {
        assert_eq!(
            applied_fields(&live()),
            Some(json!({
                "apiVersion": "apps/v1", "kind": "Deployment",
                "metadata": {"name": "web", "namespace": "shop", "labels": {"belay.dev/source": "shop"}},
                "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": {"spec": {
                    "containers": [{"name": "app", "image": "web:1", "ports": [{"containerPort": 80}]}],
                    "volumes": [{"name": "tmp", "emptyDir": {}}]}}},
            }))
        );
        assert_eq!(applied_fields(&json!({"metadata": {"name": "web"}})), None);
    }

    #[test]
    fn what_was_read_back_counts_as_applied() {
        let body = applied_fields(&live()).unwrap();
        assert!(owned::is_as_applied(&live(), &body));
    }

    #[test]
    fn templates_have_one_owner_afterwards() {
        let mut live = live();
        let entries = give_up_templates(&live).unwrap();
        assert_eq!(entries.as_array().unwrap().len(), 2, "{entries:#}");
        let template = &entries[0]["fieldsV1"]["f:spec"]["f:template"];
        assert!(template["f:metadata"]["f:annotations"]["f:kubectl.kubernetes.io/restartedAt"].is_object());
        assert!(template["f:spec"]["f:containers"].is_object(), "{template:#}");
        live["metadata"]["managedFields"] = entries;
        assert_eq!(give_up_templates(&live), None);
    }
}
