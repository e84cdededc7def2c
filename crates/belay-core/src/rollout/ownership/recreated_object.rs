//! Objects that somebody has created again as they were, with `kubectl replace --force` or from a backup.
//!
//! The new creator owns every field, belay's marks among them, and belay none. Were it left so, the marks could never
//! be removed, and a field that the repository stops to have would stay for ever: no apply removes fields of another
//! manager. So the marks are written over to belay, and the creator's other fields are kept under a name of their own,
//! [`BEFORE`]. Fields that belay stops to send are taken out of that entry too, and of no other's.

use serde_json::{Map, Value, json};

use super::list_items::Below;
use super::managers::{Takeover, drop_empty, with_managers};
use super::owned::{is_disowned, owned_fields};
use crate::rollout::marks;

/// The manager of the fields from before belay took an object up again.
pub(super) const BEFORE: &str = "before-belay";
/// The beginning of belay's labels and annotations among the fields of an entry.
const MARK: &str = "f:belay.dev/";

/// Returns the JSON patch that makes belay's own marks belay's again, on an object that somebody has created again as
/// it was, and sets its creator's fields apart. It fails if the object has changed meanwhile.
pub(in crate::rollout) fn readopt(live: &Value) -> Option<Value> {
    if !is_disowned(live) {
        return None;
    }
    let mut entries = live["metadata"]["managedFields"].as_array()?.clone();
    let mut marks = json!({});
    for entry in entries.iter_mut().filter(|entry| entry["operation"] == "Update") {
        let own = marks_of(entry);
        if own.is_empty() {
            continue;
        }
        entry["manager"] = json!(BEFORE);
        for (section, mark, fields) in own {
            marks["f:metadata"][section][mark] = fields;
        }
        drop_empty(entry.pointer_mut("/fieldsV1/f:metadata"));
    }
    marks.get("f:metadata")?;
    let first = entries.first()?;
    let own = json!({
        "manager": marks::FIELD_MANAGER, "operation": "Apply", "apiVersion": first["apiVersion"], "time": first["time"],
        "fieldsType": "FieldsV1", "fieldsV1": marks,
    });
    entries.push(own);
    Some(with_managers(live, entries))
}

/// Takes belay's marks out of an entry: their sections, their names and the fields below them.
fn marks_of(entry: &mut Value) -> Vec<(&'static str, String, Value)> {
    let mut own = Vec::new();
    for section in ["f:annotations", "f:labels"] {
        let fields = entry.pointer_mut(&format!("/fieldsV1/f:metadata/{section}")).and_then(Value::as_object_mut);
        let Some(fields) = fields else { continue };
        let names: Vec<String> = fields.keys().filter(|key| key.starts_with(MARK)).cloned().collect();
        own.extend(names.into_iter().map(|name| (section, name.clone(), fields.remove(&name).unwrap_or_default())));
    }
    own
}

/// Returns the fields that belay stops to send with `body`, and that would stay since the person who created the object
/// again owns them too.
pub(in crate::rollout) fn left_behind(live: &Value, body: &Value) -> Option<Takeover> {
    let gone = not_sent(owned_fields(live)?, Some(body));
    let mut entries = live["metadata"]["managedFields"].as_array()?.clone();
    let mut stays = Map::new();
    for entry in entries.iter_mut().filter(|entry| entry["manager"] == BEFORE && entry["operation"] == "Update") {
        if let Some(fields) = entry["fieldsV1"].as_object_mut() {
            stays.extend(take_out(fields, &gone));
        }
    }
    entries.retain(|entry| entry["fieldsV1"].as_object().is_none_or(|fields| !fields.is_empty()));
    let in_template = stays.get("f:spec").is_some_and(|spec| spec.get("f:template").is_some());
    let leaves_fields = !stays.is_empty();
    leaves_fields.then(|| Takeover { in_template, leaves_fields, patch: with_managers(live, entries) })
}

/// Returns the fields of a set that are not sent; with `null` those that are not with all fields below them.
fn not_sent(owned: &Map<String, Value>, sent: Option<&Value>) -> Map<String, Value> {
    let is_list = sent.is_some_and(Value::is_array);
    let sent = Below::of(sent);
    let missing = owned.iter().filter(|(key, _)| *key != ".").filter_map(|(key, inner)| {
        if !is_list && !key.starts_with("f:") {
            return None;
        }
        let Some(of_it) = sent.at(key) else { return Some((key.clone(), Value::Null)) };
        let inner = not_sent(inner.as_object()?, Some(of_it));
        (!inner.is_empty()).then(|| (key.clone(), Value::Object(inner)))
    });
    missing.collect()
}

/// Takes fields out of a set. Returns those that were there.
fn take_out(fields: &mut Map<String, Value>, gone: &Map<String, Value>) -> Map<String, Value> {
    let mut taken = Map::new();
    for (key, of_it) in gone {
        let Some(of_it) = of_it.as_object() else {
            taken.extend(fields.remove(key).map(|inner| (key.clone(), inner)));
            continue;
        };
        let Some(Value::Object(inner)) = fields.get_mut(key) else { continue };
        let inner_taken = take_out(inner, of_it);
        if inner.is_empty() {
            // A field without any in it would be one of its own.
            fields.remove(key);
        }
        if !inner_taken.is_empty() {
            taken.insert(key.clone(), Value::Object(inner_taken));
        }
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::super::owned::is_belays;
    use super::*;

    #[test]
    fn the_marks_of_what_was_made_anew_are_belays_again() {
        let fields = json!({"f:metadata": {"f:annotations": {"f:belay.dev/hold": {}, "f:team": {}},
            "f:labels": {"f:belay.dev/source": {}}}, "f:spec": {"f:replicas": {}}});
        let entry = json!({"manager": "kubectl-replace", "operation": "Update", "apiVersion": "apps/v1",
            "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": fields});
        let live = json!({"metadata": {"resourceVersion": "7", "labels": {"belay.dev/source": "shop"},
            "managedFields": [entry]}});
        let patch = readopt(&live).unwrap();
        assert_eq!(patch[0]["value"], "7");
        let [theirs, own] = [0, 1].map(|at| &patch[1]["value"][at]);
        assert_eq!(theirs["manager"], BEFORE);
        assert_eq!(
            theirs["fieldsV1"],
            json!({"f:metadata": {"f:annotations": {"f:team": {}}}, "f:spec": {"f:replicas": {}}})
        );
        let marks = json!({"f:annotations": {"f:belay.dev/hold": {}}, "f:labels": {"f:belay.dev/source": {}}});
        assert_eq!((is_belays(own), &own["fieldsV1"]), (true, &json!({"f:metadata": marks})));
        let mut copied = live;
        copied["metadata"].as_object_mut().unwrap().remove("labels");
        assert_eq!(readopt(&copied), None, "nothing says that it was belay's");
    }

    /// Returns an object of which belay sends the label, the replicas and two containers; the person who created it
    /// again owns them too, with the fields of the server.
    fn shared() -> Value {
        let container = |more: Value| {
            let mut fields = json!({".": {}, "f:name": {}, "f:image": {}});
            more.as_object().unwrap().iter().for_each(|(key, value)| fields[key] = value.clone());
            fields
        };
        let fields = |replicas: &str, more: Value| {
            json!({"f:metadata": {"f:labels": {"f:team": {}}}, "f:spec": {replicas: {}, "f:template": {"f:spec": {
                "f:containers": {"k:{\"name\":\"app\"}": container(more.clone()), "k:{\"name\":\"proxy\"}": container(more)}}}}})
        };
        json!({"metadata": {"resourceVersion": "7", "managedFields": [
            {"manager": BEFORE, "operation": "Update", "fieldsV1": fields("f:replicas", json!({"f:imagePullPolicy": {}}))},
            {"manager": "kubectl-edit", "operation": "Update", "fieldsV1": {"f:spec": {"f:replicas": {}}}},
            {"manager": "belay", "operation": "Apply", "fieldsV1": fields("f:replicas", json!({}))}]}})
    }

    fn sent() -> Value {
        let container = |name: &str| json!({"name": name, "image": "web:1"});
        json!({"metadata": {"name": "web", "labels": {"team": "a"}}, "spec": {"replicas": 2, "template": {"spec": {
            "containers": [container("app"), container("proxy")]}}}})
    }

    #[test]
    fn while_all_of_it_is_sent_nothing_is_left_behind() {
        assert_eq!(left_behind(&shared(), &sent()), None);
        let mut more = sent();
        more["spec"]["paused"] = json!(true);
        assert_eq!(left_behind(&shared(), &more), None);
    }

    #[test]
    fn what_is_sent_no_longer_goes_from_what_was_there_before() {
        let mut body = sent();
        body["spec"].as_object_mut().unwrap().remove("replicas");
        body["metadata"].as_object_mut().unwrap().remove("labels");
        let over = left_behind(&shared(), &body).unwrap();
        assert_eq!((over.leaves_fields, over.in_template), (true, false));
        let after = &over.patch[1]["value"];
        assert_eq!(after[0]["fieldsV1"].as_object().unwrap().keys().collect::<Vec<_>>(), ["f:spec"]);
        assert_eq!(after[0]["fieldsV1"]["f:spec"].get("f:replicas"), None);
        assert_eq!(
            after[1]["fieldsV1"],
            json!({"f:spec": {"f:replicas": {}}}),
            "what others have been given stays theirs"
        );
        assert_eq!(after[2], shared()["metadata"]["managedFields"][2], "belay gives its own up by applying");
    }

    #[test]
    fn an_item_that_is_sent_no_longer_goes_with_all_that_the_server_put_there() {
        let mut body = sent();
        body["spec"]["template"]["spec"]["containers"].as_array_mut().unwrap().pop();
        let over = left_behind(&shared(), &body).unwrap();
        assert_eq!((over.leaves_fields, over.in_template), (true, true));
        let containers = &over.patch[1]["value"][0]["fieldsV1"]["f:spec"]["f:template"]["f:spec"]["f:containers"];
        assert_eq!(containers.as_object().unwrap().keys().collect::<Vec<_>>(), ["k:{\"name\":\"app\"}"]);
    }

    #[test]
    fn an_object_that_nobody_made_anew_has_nothing_left_behind() {
        let mut live = shared();
        live["metadata"]["managedFields"][0]["manager"] = json!("kubectl-replace");
        assert_eq!(left_behind(&live, &json!({"spec": {}})), None);
    }
}
