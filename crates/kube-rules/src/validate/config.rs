//! ConfigMaps and Secrets.

use serde_json::{Map, Value};

use super::super::read::parse_json;
use super::super::value_ext::ValueExt;
use super::errors::{Errors, Path};
use super::names;

/// So many bytes may all values have together.
const MOST: usize = 1024 * 1024;
const NEVER_AGAIN: &str = "field is immutable when `immutable` is set";

/// Checks a ConfigMap, its metadata apart.
pub fn config_map(object: &Value, errors: &mut Errors) {
    let (texts, binary) = (object.entries("data"), object.entries("binaryData"));
    keys(texts, &Path::root("data"), errors);
    for key in texts.keys().filter(|key| binary.contains_key(*key)) {
        errors.invalid(&Path::root("data").key(key), key.as_str(), "duplicate of key present in binaryData");
    }
    keys(binary, &Path::root("binaryData"), errors);
    let size: usize = texts.values().map(|text| text.as_str().unwrap_or_default().len()).sum();
    if size + decoded(binary) > MOST {
        // The whole object is meant, which has no name in the real server's words.
        errors.too_long(&Path::root("[]"), MOST);
    }
}

/// Checks a changed ConfigMap.
pub fn config_map_update(old: &Value, new: &Value, errors: &mut Errors) {
    if old.flag("immutable") {
        frozen(old, new, &["data", "binaryData"], errors);
    }
}

/// Checks a Secret, its metadata apart. Its values are in no message.
pub fn secret(object: &Value, errors: &mut Errors) {
    let data = object.entries("data");
    let at = Path::root("data");
    keys(data, &at, errors);
    if decoded(data) > MOST {
        errors.too_long(&at, MOST);
    }
    let mut need = |key: &str| {
        if !data.contains_key(key) {
            errors.required(&at.key(key), "");
        }
    };
    match object.text("type") {
        "kubernetes.io/service-account-token" => {
            let annotation = "kubernetes.io/service-account.name";
            if object["metadata"]["annotations"].text(annotation).is_empty() {
                errors.required(&Path::root("metadata.annotations").key(annotation), "");
            }
        }
        "kubernetes.io/dockercfg" => json(data, ".dockercfg", &at, errors),
        "kubernetes.io/dockerconfigjson" => json(data, ".dockerconfigjson", &at, errors),
        "kubernetes.io/basic-auth" => {
            let names = ["username", "password"];
            if !names.iter().any(|name| data.contains_key(*name)) {
                names.into_iter().for_each(need);
            }
        }
        "kubernetes.io/ssh-auth" if data.get("ssh-privatekey").and_then(Value::as_str).is_none_or(str::is_empty) => {
            errors.required(&at.key("ssh-privatekey"), "");
        }
        "kubernetes.io/tls" => {
            need("tls.crt");
            need("tls.key");
        }
        _ => {}
    }
}

/// Checks a changed Secret.
pub fn secret_update(old: &Value, new: &Value, errors: &mut Errors) {
    if old.text("type") != new.text("type") {
        errors.invalid(&Path::root("type"), new.text("type"), "field is immutable");
    }
    if old.flag("immutable") {
        frozen(old, new, &["data"], errors);
    }
}

fn frozen(old: &Value, new: &Value, fields: &[&str], errors: &mut Errors) {
    if !new.flag("immutable") {
        errors.forbidden(&Path::root("immutable"), NEVER_AGAIN);
    }
    for field in fields.iter().filter(|field| old.entries(field) != new.entries(field)) {
        errors.forbidden(&Path::root(field), NEVER_AGAIN);
    }
}

fn keys(data: &Map<String, Value>, at: &Path<'_>, errors: &mut Errors) {
    for key in data.keys() {
        errors.each_invalid(&at.key(key), key.as_str(), &names::config_key(key));
    }
}

/// Returns how many bytes values in base64 stand for.
fn decoded(data: &Map<String, Value>) -> usize {
    let size = |value: &Value| {
        let text = value.as_str().unwrap_or_default();
        (text.len() / 4 * 3).saturating_sub(text.bytes().rev().take_while(|byte| *byte == b'=').count())
    };
    data.values().map(size).sum()
}

fn json(data: &Map<String, Value>, key: &str, at: &Path<'_>, errors: &mut Errors) {
    use base64::Engine as _;
    let Some(value) = data.get(key).and_then(Value::as_str) else { return errors.required(&at.key(key), "") };
    let bytes = base64::engine::general_purpose::STANDARD.decode(value).unwrap_or_default();
    if let Err(error) = parse_json(&bytes) {
        errors.invalid(&at.key(key), "<secret contents redacted>", &error);
    }
}
