//! Whole objects in objects: rules for their headers.

use serde_json::Value;

use super::super::canonical::{EmptyLists, canonical};
use super::super::read::{Node, metadata_of};
use super::super::validate::{Errors, Path, dns_1035_problems, embedded_metadata};
use super::super::value_ext::ValueExt;
use super::super::words::printed;
use super::object_meta;
use super::schema::Schema;

/// Brings the metadata of all embedded objects into their stored form; returns the paths of unknown fields.
///
/// # Errors
/// For a header of a wrong type.
pub fn coerce(value: &mut Value, schema: &Schema, path: &str) -> Result<Vec<String>, String> {
    let mut unknown = Vec::new();
    match value {
        Value::Object(entries) => {
            for (name, value) in entries.iter_mut() {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                match name.as_str() {
                    "apiVersion" | "kind" if schema.embedded && !value.is_string() => {
                        let shown = printed(value);
                        return Err(format!("{path}: Invalid value: {shown}: must be a string"));
                    }
                    "metadata" if schema.embedded => {
                        let refused = |error| format!("{path}: Invalid value: {value}: {error}");
                        let (mut metadata, extra) = metadata_of(&Node::from_value(value.clone())).map_err(refused)?;
                        canonical(&mut metadata, object_meta(), EmptyLists::Stay);
                        *value = metadata;
                        unknown.extend(extra.into_iter().map(|name| format!("{path}.{name}")));
                        continue;
                    }
                    _ => {}
                }
                if let Some(inner) = schema.field(name) {
                    unknown.extend(coerce(value, inner, &path)?);
                }
            }
        }
        Value::Array(items) => {
            if let Some(inner) = &schema.items {
                for (index, item) in items.iter_mut().enumerate() {
                    unknown.extend(coerce(item, inner, &format!("{path}[{index}]"))?);
                }
            }
        }
        _ => {}
    }
    Ok(unknown)
}

/// Checks the headers of all embedded objects.
pub fn check(value: &Value, schema: &Schema, at: &Path<'_>, errors: &mut Errors) {
    match value {
        Value::Object(entries) => {
            if schema.embedded {
                header(value, at, errors);
            }
            for (name, value) in entries {
                if let Some(inner) = schema.field(name) {
                    let at = if schema.fields.contains_key(name) { at.field(name) } else { at.key(name) };
                    check(value, inner, &at, errors);
                }
            }
        }
        Value::Array(items) => {
            if let Some(inner) = &schema.items {
                for (index, item) in items.iter().enumerate() {
                    check(item, inner, &at.index(index), errors);
                }
            }
        }
        _ => {}
    }
}

fn header(object: &Value, at: &Path<'_>, errors: &mut Errors) {
    for name in ["apiVersion", "kind"] {
        match object.get(name) {
            None => errors.required(&at.field(name), ""),
            Some(Value::String(text)) if text.is_empty() => errors.invalid(&at.field(name), "", "must not be empty"),
            Some(Value::String(text)) if name == "kind" => {
                let said = dns_1035_problems(&text.to_lowercase());
                if !said.is_empty() {
                    let detail = format!("may have mixed case, but should otherwise match: {}", said.join(","));
                    errors.invalid(&at.field(name), text.as_str(), &detail);
                }
            }
            Some(_) => {}
        }
    }
    if object.has("metadata") {
        embedded_metadata(&object["metadata"], &at.field("metadata"), errors);
    }
}
