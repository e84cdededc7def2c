//! The content of Secrets.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::super::report::{KEY, Showing, is_short_key};
use super::super::secrecy::{self, MaybeSecret};
use super::{Certainty, Redaction};

/// Fields of an object that say which one it is.
const IDENTITY: [&str; 3] = ["apiVersion", "kind", "type"];

impl Redaction {
    pub(super) fn hide_if_secret(&mut self, object: &Value, maybe_secret: &MaybeSecret<'_>) -> bool {
        if let Some(items) = object["items"].as_array() {
            // All of them are searched: one match ends nothing.
            return items.iter().filter(|item| self.hide_if_secret(item, maybe_secret)).count() > 0;
        }
        let is_secret = secrecy::of_object(object, maybe_secret) != Showing::Everything;
        if is_secret {
            self.hide_secret(object);
            self.hide_secrets_within(object);
        }
        is_secret
    }

    /// Hides the Secrets inside another object, as those in `objects` of a Template.
    pub(super) fn hide_secrets_within(&mut self, object: &Value) {
        match object {
            Value::Array(items) => items.iter().for_each(|item| self.hide_secrets_within(item)),
            Value::Object(fields) => {
                fields.values().filter(|field| field.is_object() || field.is_array()).for_each(|field| {
                    if field["data"].is_object() {
                        self.hide_secret(field);
                    }
                    self.hide_secrets_within(field);
                })
            }
            _ => {}
        }
    }

    /// Hides the content of a Secret, also the passwords of registries that are in base64 once more in it.
    pub fn hide_secret(&mut self, secret: &Value) {
        let Some(fields) = secret.as_object() else { return self.hide_scalars(secret, Certainty::Certain) };
        for (name, field) in fields.iter().filter(|(name, _)| !IDENTITY.contains(&name.as_str())) {
            match (name.as_str(), field) {
                ("metadata", Value::Object(metadata)) => {
                    let others = metadata.iter().filter(|(name, _)| !matches!(name.as_str(), "name" | "namespace"));
                    others.for_each(|(_, value)| self.hide_scalars(value, Certainty::Certain));
                }
                ("data", Value::Object(data)) => data.iter().for_each(|(key, value)| {
                    self.hide_key(key);
                    self.hide_encoded(value);
                }),
                ("stringData", Value::Object(data)) => data.iter().for_each(|(key, value)| {
                    self.hide_key(key);
                    self.hide_scalars(value, Certainty::Certain);
                }),
                _ => self.hide_scalars(field, Certainty::Certain),
            }
        }
    }

    fn hide_encoded(&mut self, value: &Value) {
        self.hide_scalars(value, Certainty::Certain);
        let encoded: String = value.as_str().unwrap_or_default().chars().filter(|c| !c.is_whitespace()).collect();
        let Some(decoded) = STANDARD.decode(encoded).ok().and_then(|bytes| String::from_utf8(bytes).ok()) else {
            return;
        };
        self.hide(&decoded, Certainty::Certain);
        let Ok(config) = serde_json::from_str::<Value>(&decoded) else { return };
        let registries = config.get("auths").unwrap_or(&config).as_object().into_iter().flatten();
        for login in registries.filter_map(|(_, registry)| STANDARD.decode(registry["auth"].as_str()?).ok()) {
            let login = String::from_utf8_lossy(&login).into_owned();
            self.hide(&login, Certainty::Certain);
            self.hide(login.split_once(':').map_or("", |(_, password)| password), Certainty::Certain);
        }
    }

    /// Hides a key that is none, or so long that it may be a value.
    pub(super) fn hide_key(&mut self, key: &str) {
        if !is_short_key(key) {
            self.hide(key, Certainty::Certain);
        }
    }
}

/// Returns a server's message about an object, without the values that were sent, if the object is or may be a Secret.
#[must_use]
pub fn without_values(sent: &Value, text: &str) -> String {
    if !is_secret(sent) {
        return text.to_owned();
    }
    let mut redaction = Redaction::of(text);
    redaction.hide_secret(sent);
    redaction.finish(|_| false)
}

fn is_secret(object: &Value) -> bool {
    secrecy::of_object(object, &MaybeSecret::of("")) != Showing::Everything
}

/// Returns the path of a field of a Secret, without keys that may be values: `data[***]`.
#[must_use]
pub fn short_keys(field: &str) -> String {
    let is_fine =
        |part: &str| part.split('.').all(|part| part.is_empty() || is_short_key(part)) && part.len() <= 2 * KEY;
    match field.split_once('[') {
        Some((before, key)) if is_fine(before) => {
            let (key, after) = key.rsplit_once(']').unwrap_or((key, ""));
            let key = if is_short_key(key) { key } else { "***" };
            format!("{before}[{key}]{}", if is_fine(after) { after } else { "" })
        }
        _ if is_fine(field) => field.to_owned(),
        _ => "***".to_owned(),
    }
}
