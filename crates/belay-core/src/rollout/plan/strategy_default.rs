//! A strategy that the server's default keeps from being applied.
//!
//! The API server writes `rollingUpdate` with its defaults into every Deployment and StatefulSet that rolls, and nobody
//! owns the written fields. An apply of `type: Recreate`, or of a StatefulSet's `OnDelete`, leaves it where it is, and
//! the server refuses the two together. An apply removes only fields that belay owns and does not send: so the field is
//! made belay's before, in `managedFields` alone.

use serde_json::{Value, json};

use crate::rollout::marks;
use crate::rollout::ownership::managers::with_managers;
use crate::rollout::ownership::owned::is_belays;

/// Returns the field of `spec` whose default is in the way of `body`, if one is. A DaemonSet's `OnDelete` may have
/// both.
fn forbidden_on(live: &Value, body: &Value) -> Option<&'static str> {
    let (field, without) = match body["kind"].as_str()? {
        "Deployment" => ("strategy", "Recreate"),
        "StatefulSet" => ("updateStrategy", "OnDelete"),
        _ => return None,
    };
    let sent = &body["spec"][field];
    let forbidden = sent["type"] == without && sent["rollingUpdate"].is_null();
    (forbidden && !live["spec"][field]["rollingUpdate"].is_null()).then_some(field)
}

/// Returns the JSON patch that makes the `rollingUpdate` of `live` belay's alone, if an apply of `body` must remove it.
/// It fails if the object has changed meanwhile.
#[must_use]
pub(in crate::rollout) fn own_strategy_default(live: &Value, body: &Value) -> Option<Value> {
    let owner = format!("f:{}", forbidden_on(live, body)?);
    let entries = live["metadata"]["managedFields"].as_array()?;
    let mut owned = entries.clone();
    let mut own = json!({
        "manager": marks::FIELD_MANAGER, "operation": "Apply", "apiVersion": body["apiVersion"],
        "fieldsType": "FieldsV1", "fieldsV1": {},
    });
    for entry in &mut owned {
        let strategy = entry["fieldsV1"].pointer_mut(&format!("/f:spec/{owner}")).and_then(Value::as_object_mut);
        if let Some(strategy) = strategy {
            strategy.remove("f:rollingUpdate");
            // A strategy without any field in it would be one of its own.
            let is_empty = strategy.is_empty();
            if let Some(spec) = entry["fieldsV1"]["f:spec"].as_object_mut().filter(|_| is_empty) {
                spec.remove(&owner);
            }
        }
    }
    if let Some(at) = owned.iter().position(is_belays) {
        own = owned.swap_remove(at);
    }
    own["fieldsV1"]["f:spec"][&owner]["f:rollingUpdate"] = json!({});
    owned.push(own);
    let is_owned = |entries: &[Value]| {
        let mut found = entries.iter().filter_map(|entry| {
            let field = entry["fieldsV1"].pointer(&format!("/f:spec/{owner}/f:rollingUpdate"))?;
            Some((is_belays(entry), field))
        });
        found.next() == Some((true, &json!({}))) && found.next().is_none()
    };
    (!is_owned(entries)).then(|| with_managers(live, owned))
}

/// Returns the part of `body` that the server can be asked to try, and how its answer becomes that to the whole: `None`
/// if `body` itself can be tried.
#[must_use]
pub fn without_strategy(live: &Value, body: &Value) -> Option<(Value, impl Fn(&mut Value) + use<>)> {
    let field = forbidden_on(live, body)?;
    let strategy = body["spec"][field].clone();
    let mut tried = body.clone();
    tried["spec"].as_object_mut()?.remove(field);
    Some((tried, move |answer: &mut Value| answer["spec"][field] = strategy.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn live(managers: &Value) -> Value {
        json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "web", "resourceVersion": "7", "managedFields": managers},
            "spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%"}}}})
    }

    fn body(strategy: &Value) -> Value {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {"strategy": strategy}})
    }

    fn entry(manager: &str, operation: &str, strategy: &Value) -> Value {
        json!({"manager": manager, "operation": operation, "apiVersion": "apps/v1", "fieldsType": "FieldsV1",
            "fieldsV1": {"f:spec": {"f:replicas": {}, "f:strategy": strategy}}})
    }

    #[test]
    fn what_nobody_owns_of_the_strategy_becomes_belays() {
        let own = entry("belay", "Apply", &json!({"f:type": {}}));
        let patch = own_strategy_default(&live(&json!([own])), &body(&json!({"type": "Recreate"}))).unwrap();
        assert_eq!(patch[0]["value"], "7");
        let strategy = patch[1]["value"][0]["fieldsV1"]["f:spec"]["f:strategy"].clone();
        assert_eq!(strategy, json!({"f:type": {}, "f:rollingUpdate": {}}));
        let owned = live(&patch[1]["value"]);
        assert_eq!(own_strategy_default(&owned, &body(&json!({"type": "Recreate"}))), None, "once is enough");
    }

    #[test]
    fn what_others_own_of_it_is_taken_from_them() {
        let theirs = entry("kubectl-edit", "Update", &json!({"f:rollingUpdate": {"f:maxSurge": {}}}));
        let patch = own_strategy_default(&live(&json!([theirs])), &body(&json!({"type": "Recreate"}))).unwrap();
        let [theirs, own] = [0, 1].map(|at| &patch[1]["value"][at]);
        assert_eq!(theirs["fieldsV1"], json!({"f:spec": {"f:replicas": {}}}));
        assert!(is_belays(own));
        assert_eq!(own["fieldsV1"], json!({"f:spec": {"f:strategy": {"f:rollingUpdate": {}}}}));
    }

    #[test]
    fn a_strategy_that_may_have_it_is_left_alone() {
        let live = live(&json!([entry("belay", "Apply", &json!({"f:type": {}}))]));
        for strategy in [
            json!({"type": "RollingUpdate"}),
            json!({"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}),
            Value::Null,
        ] {
            assert_eq!(own_strategy_default(&live, &body(&strategy)), None, "{strategy}");
            assert!(without_strategy(&live, &body(&strategy)).is_none(), "{strategy}");
        }
        let mut daemons = body(&json!({"type": "OnDelete"}));
        daemons["kind"] = json!("DaemonSet");
        assert_eq!(own_strategy_default(&live, &daemons), None);
    }

    #[test]
    fn the_rest_can_be_tried() {
        let live = live(&json!([]));
        let (tried, complete) = without_strategy(&live, &body(&json!({"type": "Recreate"}))).unwrap();
        assert_eq!(tried["spec"], json!({}));
        let mut answer = live;
        complete(&mut answer);
        assert_eq!(answer["spec"]["strategy"], json!({"type": "Recreate"}));
    }
}
