//! Tells from a live object alone if it still is as belay applied it.
//!
//! The API server keeps, for every manager, the set of fields that it owns (`managedFields`). If belay owns exactly the
//! fields that it would send, and they have the values that it would send, another apply changes nothing, and needs no
//! request to find out. The other way round is not certain (the server may write a value in another form), so a "no"
//! only means: ask the server.

use serde_json::{Map, Value};

use super::list_items::{Below, ItemKeys};
use crate::rollout::marks;

/// Returns true when applying `body` again would certainly change nothing.
#[must_use]
pub fn is_as_applied(live: &Value, body: &Value) -> bool {
    let Some(owned) = owned_fields(live) else { return false };
    let Some(fields) = body.as_object() else { return false };
    fields.iter().all(|(name, sent)| match name.as_str() {
        // Fields that identify the object belong to nobody.
        "apiVersion" | "kind" => true,
        "metadata" => metadata_is(&live["metadata"], sent, child(owned, "f:metadata")),
        _ => field_is(live.get(name), sent, child(owned, &format!("f:{name}"))),
    }) && owned.keys().all(|key| key == "." || key.strip_prefix("f:").is_some_and(|name| body.get(name).is_some()))
}

/// Returns true when belay owns the field at this path of `managedFields` by applying it.
pub(in crate::rollout) fn owns(live: &Value, path: &[&str]) -> bool {
    let Some((first, rest)) = path.split_first() else { return false };
    let field = owned_fields(live).and_then(|fields| fields.get(*first));
    rest.iter().try_fold(field, |field, name| field.map(|field| field.get(*name))).flatten().is_some()
}

/// Returns true when belay has applied an object and somebody else has written its label since: the label is not
/// belay's.
#[must_use]
pub fn is_label_of_others(live: &Value) -> bool {
    let label = format!("f:{}", marks::SOURCE);
    owned_fields(live).is_some() && !owns(live, &["f:metadata", "f:labels", &label])
}

/// Returns true when none of an object's fields are belay's, although it has the label that belay writes and the API
/// server keeps their owners: somebody has created it again, as it was.
pub(in crate::rollout) fn is_disowned(live: &Value) -> bool {
    let kept = live["metadata"]["managedFields"].as_array().is_some_and(|entries| !entries.is_empty());
    kept && marks::label(live, marks::SOURCE).is_some() && owned_fields(live).is_none()
}

fn metadata_is(live: &Value, sent: &Value, owned: Option<&Value>) -> bool {
    let named: Map<String, Value> = sent
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(key, _)| *key != "name" && *key != "namespace")
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    if named.is_empty() { owned.is_none() } else { field_is(Some(live), &Value::Object(named), owned) }
}

/// Returns the fields that belay owns by applying, from `managedFields`.
pub(in crate::rollout) fn owned_fields(live: &Value) -> Option<&Map<String, Value>> {
    let mut entries = live["metadata"]["managedFields"].as_array()?.iter();
    entries.find(|entry| is_belays(entry))?["fieldsV1"].as_object()
}

/// Returns true when an entry of `managedFields` is of belay's applies.
pub(in crate::rollout) fn is_belays(entry: &Value) -> bool {
    entry["manager"] == marks::FIELD_MANAGER && entry["operation"] == "Apply" && entry.get("subresource").is_none()
}

fn child<'a>(owned: &'a Map<String, Value>, key: &str) -> Option<&'a Value> {
    owned.get(key)
}

/// Returns true when a field has the value that would be sent, and belay owns just the fields that would be sent of it.
fn field_is(live: Option<&Value>, sent: &Value, owned: Option<&Value>) -> bool {
    let Some(owned) = owned.and_then(Value::as_object) else {
        // An empty map or list that nobody owns: the server has dropped it.
        return live.is_none() && is_empty(sent);
    };
    let Some(live) = live else { return false };
    let inner: Vec<(&String, &Value)> = owned.iter().filter(|(key, _)| *key != ".").collect();
    if inner.is_empty() {
        // A leaf: a single value, or a list or map that has one owner as a whole.
        return live == sent;
    }
    match sent {
        Value::Object(fields) => {
            fields.iter().all(|(name, sent)| field_is(live.get(name), sent, owned.get(&format!("f:{name}"))))
                && inner.iter().all(|(key, _)| key.strip_prefix("f:").is_some_and(|name| fields.contains_key(name)))
        }
        Value::Array(items) => {
            let (keys, live) = (ItemKeys::of(owned), Below::of(Some(live).filter(|live| live.is_array())));
            let mut matched = 0;
            let all = items.iter().all(|item| {
                let owner = keys.naming(item);
                matched += usize::from(owner.is_some());
                owner.is_some_and(|(key, owned)| {
                    let live = live.at(key);
                    if key.starts_with("v:") { live.is_some() } else { item_is(live, item, owned) }
                })
            });
            all && matched == inner.len()
        }
        _ => false,
    }
}

fn item_is(live: Option<&Value>, sent: &Value, owned: &Value) -> bool {
    field_is(live, sent, Some(owned))
}

/// Returns true when a key of `managedFields` (`k:{"name":"app"}`, `v:"value"`) names this item of a list. `list_items` finds the
/// same without comparing each with each.
#[cfg(test)]
pub(super) fn names_item(key: &str, item: &Value) -> bool {
    if let Some(value) = key.strip_prefix("v:") {
        return serde_json::from_str::<Value>(value).is_ok_and(|value| value == *item);
    }
    let Some(keys) = key.strip_prefix("k:").and_then(|keys| serde_json::from_str::<Map<String, Value>>(keys).ok())
    else {
        return false;
    };
    // A key that the manifest leaves out has the server's default (`protocol: TCP`).
    keys.iter().all(|(name, value)| item.get(name).is_none_or(|own| own == value))
        && keys.keys().any(|name| item.get(name).is_some())
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::ignored_fields::IgnoredFields;
    use super::super::surplus::{Reach, Surplus};
    use super::*;
    use crate::manifest::thread_time;
    use serde_json::json;

    fn live() -> Value {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "web", "labels": {"belay.dev/source": "shop", "team": "a"}, "managedFields": [
                {"manager": "belay", "operation": "Apply", "fieldsV1": {
                    "f:metadata": {"f:labels": {"f:belay.dev/source": {}}},
                    "f:spec": {"f:replicas": {}, "f:template": {"f:spec": {"f:containers": {
                        "k:{\"name\":\"app\"}": {".": {}, "f:name": {}, "f:image": {}, "f:args": {},
                            "f:ports": {"k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}}}}}}}}}}]},
            "spec": {"replicas": 3, "template": {"spec": {"containers": [
                {"name": "app", "image": "web:1", "args": ["a", "b"], "imagePullPolicy": "Always",
                 "ports": [{"containerPort": 80, "protocol": "TCP"}]},
                {"name": "injected", "image": "proxy:1"}]}}},
        })
    }

    fn body() -> Value {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "web", "labels": {"belay.dev/source": "shop"}},
            "spec": {"replicas": 3, "template": {"spec": {"containers": [
                {"name": "app", "image": "web:1", "args": ["a", "b"], "ports": [{"containerPort": 80}]}]}}},
        })
    }

    /// An object of 1.5 MiB has so many variables. Each compared with each took an hour.
    #[test]
    fn a_long_list_is_gone_through_once() {
        const ITEMS: usize = 40_000;
        let before = thread_time::of_this_thread();
        let items: Vec<Value> = (0..ITEMS).map(|at| json!({"name": format!("A{at}"), "value": "b"})).collect();
        let fields: Map<String, Value> = (0..ITEMS)
            .map(|at| (format!("k:{{\"name\":\"A{at}\"}}"), json!({".": {}, "f:name": {}, "f:value": {}})))
            .collect();
        let below = |inner: Value| json!({"f:spec": {"f:template": {"f:spec": {"f:env": inner}}}});
        let entry = |manager: &str, operation: &str| json!({"manager": manager, "operation": operation, "fieldsV1": below(Value::Object(fields.clone()))});
        let object = |entries: Vec<Value>| {
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "managedFields": entries},
                "spec": {"template": {"spec": {"env": items}}}})
        };
        let (live, shared) = (
            object(vec![entry("belay", "Apply")]),
            object(vec![entry("belay", "Apply"), entry("other", "Update"), entry("before-belay", "Update")]),
        );
        let mut body = live.clone();
        body["metadata"] = json!({"name": "web"});
        assert!(is_as_applied(&live, &body) && !is_as_applied(&live, &json!({"spec": {}})));
        let none = json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"template": {"spec": {"env": []}}}});
        for body in [&body, &none] {
            assert!(crate::rollout::foreign_fields(&shared, body, &IgnoredFields::default()).len() <= 2 * ITEMS);
            let patch = crate::rollout::before_apply(&shared, body, &IgnoredFields::default(), Reach::Manifest);
            assert_eq!(patch.is_some(), *body == none);
        }
        let surplus = Surplus::of(&shared, &none, &IgnoredFields::default(), Reach::Manifest, None).unwrap();
        assert!(surplus.removal(&shared).to_string().len() < 1_000);
        let ignored = "/spec/template/spec/env/*/value".parse().unwrap();
        let left = IgnoredFields::of([&ignored]).leave(body.clone(), Some(&shared));
        assert_eq!(left, body);
        let taken = thread_time::of_this_thread() - before;
        assert!(taken < thread_time::FEW, "{taken:?}");
    }

    #[test]
    fn what_was_applied_is_known_again() {
        assert!(is_as_applied(&live(), &body()));
    }

    #[test]
    fn every_difference_is_seen() {
        let mut changed = live();
        changed["spec"]["replicas"] = json!(4);
        assert!(!is_as_applied(&changed, &body()), "a value changed by somebody else");
        let mut taken = live();
        taken["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"].as_object_mut().unwrap().remove("f:replicas");
        assert!(!is_as_applied(&taken, &body()), "a field taken by somebody else");
        let mut fewer = body();
        fewer["spec"].as_object_mut().unwrap().remove("replicas");
        assert!(!is_as_applied(&live(), &fewer), "a field that would be given up");
        let mut more = body();
        more["spec"]["paused"] = json!(true);
        assert!(!is_as_applied(&live(), &more), "a field that would be new");
        let mut item = body();
        item["spec"]["template"]["spec"]["containers"].as_array_mut().unwrap().push(json!({"name": "second"}));
        assert!(!is_as_applied(&live(), &item), "an item that would be new");
        let mut atomic = live();
        atomic["spec"]["template"]["spec"]["containers"][0]["args"] = json!(["a"]);
        assert!(!is_as_applied(&atomic, &body()), "a list changed as a whole");
        assert!(!is_as_applied(&json!({"metadata": {}}), &body()), "an object that belay never applied");
    }
}
