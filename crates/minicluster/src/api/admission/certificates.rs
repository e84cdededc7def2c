//! Requests for certificates say who asks, whatever the client writes there.

use serde_json::{Map, Value, json};

use crate::api::call::User;

/// Writes into a new request who asks for it; nobody has answered it yet.
pub fn ask(object: &mut Value, user: &User) {
    object["status"] = json!({});
    let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else { return };
    let extra: Map<String, Value> = user.extra.iter().map(|(key, values)| (key.clone(), json!(values))).collect();
    let known = [
        ("username", json!(user.name)),
        ("uid", json!(user.uid)),
        ("groups", json!(user.groups)),
        ("extra", Value::Object(extra)),
    ];
    for (name, value) in known {
        let empty = value == "" || value == json!([]) || value == json!({});
        if empty {
            spec.remove(name);
        } else {
            spec.insert(name.to_owned(), value);
        }
    }
}
