//! `stringData` of Secrets. It is sent as `data`: the API server moves its keys there, and belay would own none of them, so
//! that a key that leaves the manifest would stay in the Secret.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::owned::{is_belays, owned_fields};

/// Moves `stringData` of a Secret to `data`, as the API server does. A value that is no text is left for the server to refuse.
pub(in crate::rollout) fn as_data(body: &mut Value) {
    if !is_secret(body) {
        return;
    }
    let Some(texts) = body["stringData"].as_object() else { return };
    if !texts.values().all(|text| text.is_string()) || !matches!(body["data"], Value::Null | Value::Object(_)) {
        return;
    }
    let encoded: Map<String, Value> =
        texts.iter().filter_map(|(name, text)| Some((name.clone(), json!(STANDARD.encode(text.as_str()?))))).collect();
    let Some(fields) = body.as_object_mut() else { return };
    fields.remove("stringData");
    if encoded.is_empty() {
        return;
    }
    match fields.get_mut("data").and_then(Value::as_object_mut) {
        Some(data) => data.extend(encoded),
        None => drop(fields.insert("data".to_owned(), Value::Object(encoded))),
    }
}

/// Returns the keys of a live Secret that came from `stringData` which belay applied, and that `body` does not have. Only an
/// apply of `stringData` makes keys that nobody owns.
pub(super) fn left_keys(live: &Value, body: &Value) -> Vec<String> {
    let owned = owned_fields(live).and_then(|owned| owned.get("f:stringData"));
    let (Some(_), true, Some(data)) = (owned, is_secret(live), live["data"].as_object()) else { return Vec::new() };
    let is_others = |name: &str| {
        let field = format!("f:{name}");
        let entries = live["metadata"]["managedFields"].as_array().into_iter().flatten();
        entries
            .filter(|entry| !is_belays(entry))
            .any(|entry| ["f:data", "f:stringData"].iter().any(|part| entry["fieldsV1"][*part].get(&field).is_some()))
    };
    let is_sent = |name: &str| body["data"].get(name).is_some() || body["stringData"].get(name).is_some();
    data.keys().filter(|name| !is_sent(name) && !is_others(name)).cloned().collect()
}

/// Makes an entry of `managedFields` own as `data` the keys that it owns as `stringData`.
pub(super) fn own_as_data(entry: &mut Value) {
    let Some(fields) = entry["fieldsV1"].as_object_mut() else { return };
    let Some(Value::Object(keys)) = fields.remove("f:stringData") else { return };
    let data = fields.entry("f:data").or_insert_with(|| json!({}));
    if let Some(data) = data.as_object_mut() {
        data.extend(keys);
    }
}

fn is_secret(object: &Value) -> bool {
    object["kind"] == "Secret" && object["apiVersion"] == "v1"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(fields: Value) -> Value {
        let mut secret = json!({"apiVersion": "v1", "kind": "Secret"});
        secret.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        secret
    }

    #[test]
    fn texts_are_sent_as_data_and_win_over_it() {
        let sent = |fields: Value| {
            let mut body = secret(fields);
            as_data(&mut body);
            body
        };
        for (fields, expected) in [
            (json!({"stringData": {"a": "abc"}}), json!({"data": {"a": "YWJj"}})),
            (
                json!({"stringData": {"a": "abc"}, "data": {"a": "eA==", "b": "eA=="}}),
                json!({"data": {"a": "YWJj", "b": "eA=="}}),
            ),
            (json!({"stringData": {}}), json!({})),
            (json!({"stringData": {"a": 1}}), json!({"stringData": {"a": 1}})),
            (json!({"stringData": {"a": "x"}, "data": 3}), json!({"stringData": {"a": "x"}, "data": 3})),
        ] {
            assert_eq!(sent(fields.clone()), secret(expected), "{fields}");
        }
        let mut other = json!({"apiVersion": "example.com/v1", "kind": "Secret", "stringData": {"a": "b"}});
        let before = other.clone();
        as_data(&mut other);
        assert_eq!(other, before, "another kind of the same name");
    }

    #[test]
    fn a_key_that_an_apply_of_texts_left_is_known() {
        let live = |managers: Value| {
            secret(json!({"data": {"old": "YQ==", "new": "Yg=="}, "metadata": {"managedFields": managers}}))
        };
        let belay = |fields: Value| json!({"manager": "belay", "operation": "Apply", "fieldsV1": fields});
        let body = secret(json!({"data": {"new": "Yg=="}}));
        let texts = belay(json!({"f:stringData": {"f:new": {}, "f:old": {}}}));
        assert_eq!(left_keys(&live(json!([texts])), &body), ["old"]);
        let given_up = belay(json!({"f:stringData": {"f:new": {}}}));
        assert_eq!(left_keys(&live(json!([given_up])), &body), ["old"], "an earlier build has given it up");
        for part in ["f:data", "f:stringData"] {
            let other = json!({"manager": "other", "operation": "Update", "fieldsV1": {part: {"f:old": {}}}});
            assert_eq!(left_keys(&live(json!([given_up, other])), &body), Vec::<String>::new(), "{part} of another");
        }
        let data = belay(json!({"f:data": {"f:new": {}}}));
        assert_eq!(left_keys(&live(json!([data])), &body), Vec::<String>::new(), "belay applied no texts");
    }
}
