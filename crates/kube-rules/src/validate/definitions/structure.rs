//! Checks that a schema is structural: it gives the type of everything once, at the place where the thing is described.

use serde_json::Value;

use super::super::super::value_ext::ValueExt;
use super::super::errors::{Errors, Path};
use super::pattern;
use crate::api_error::Cause;

/// Words that describe a value, and the error for them in a place where only restrictions are allowed.
const DESCRIBING: [(&str, &str); 12] = [
    ("additionalProperties", "must be undefined to be structural"),
    ("default", "must be undefined to be structural"),
    ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"),
    ("title", "must be empty to be structural"),
    ("type", "must be empty to be structural"),
    (EMBEDDED, "must be false to be structural"),
    (EITHER, "must be false to be structural"),
    (OPEN, "must be false to be structural"),
    ("x-kubernetes-list-map-keys", "must be empty to be structural"),
    ("x-kubernetes-list-type", "must be undefined to be structural"),
    ("x-kubernetes-map-type", "must be undefined to be structural"),
];
/// Words that no structural schema knows.
const UNKNOWN: [(&str, &str); 7] = [
    ("id", "id"),
    ("$schema", "schema"),
    ("$ref", "$ref"),
    ("additionalItems", "additionalItems"),
    ("patternProperties", "patternProperties"),
    ("definitions", "definitions"),
    ("dependencies", "dependencies"),
];
pub(super) const OPEN: &str = "x-kubernetes-preserve-unknown-fields";
pub(super) const EMBEDDED: &str = "x-kubernetes-embedded-resource";
const EITHER: &str = "x-kubernetes-int-or-string";
/// Words under which there is a list of alternatives.
pub(super) const ALTERNATIVES: [&str; 3] = ["allOf", "anyOf", "oneOf"];

/// The place of a schema.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StructurePlace {
    Root,
    Field,
    Item,
}

/// Returns why a schema can't even be read as a structural one: the first word of it, or of a schema in it, that has no
/// place there.
pub fn unreadable(schema: &Value) -> Option<String> {
    let own = |word: &str| match schema.get(word) {
        None | Some(Value::Null) => false,
        Some(Value::String(text)) => !text.is_empty() || word == "$ref",
        Some(Value::Object(entries)) => !entries.is_empty() || matches!(word, "dependencies" | "additionalItems"),
        Some(_) => true,
    };
    if let Some((_, named)) = UNKNOWN.iter().find(|(word, _)| own(word)) {
        return Some(format!("OpenAPIV3Schema '{named}' is not supported"));
    }
    if schema.get(OPEN) == Some(&Value::Bool(false)) {
        return Some(format!("internal error: '{OPEN}' must be true or undefined"));
    }
    if !schema.list("items").is_empty() {
        return Some("OpenAPIV3Schema 'items' is not supported".to_owned());
    }
    let parts = schema.entries("properties").values();
    let parts = parts.chain(["items", "additionalProperties", "not"].iter().filter_map(|word| schema.some(word)));
    parts.chain(ALTERNATIVES.iter().flat_map(|word| schema.list(word))).find_map(unreadable)
}

/// Checks that a schema is structural, in the order of the messages.
pub fn structure(schema: &Value, at: &Path<'_>, errors: &mut Errors) {
    let mut found = Errors::new();
    described(schema, StructurePlace::Root, at, &mut found);
    complete(schema, Some(schema), &at.to_string(), &at.to_string(), &mut found);
    found.0.sort_by_cached_key(|cause| format!("{}: {}", cause.field.as_deref().unwrap_or_default(), cause.message));
    errors.0.extend(found.0);
}

/// Checks the part that describes values.
fn described(schema: &Value, place: StructurePlace, at: &Path<'_>, errors: &mut Errors) {
    let items = schema.some("items").filter(|items| items.is_object());
    if schema.text("type") == "array" && items.is_none() {
        errors.required(&at.field("items"), "must be specified");
    }
    if let Some(items) = items {
        described(items, StructurePlace::Item, &at.field("items"), errors);
    }
    let properties = at.field("properties");
    for (name, field) in schema.entries("properties") {
        described(field, StructurePlace::Field, &properties.key(name), errors);
    }
    if let Some(others) = schema.some("additionalProperties") {
        let at = at.field("additionalProperties");
        if place == StructurePlace::Root {
            errors.forbidden(&at, "must not be used at the root");
        }
        if schema.flag(EMBEDDED) {
            errors.forbidden(&at, "must not be used if x-kubernetes-embedded-resource is set");
        }
        if others.is_object() {
            described(others, StructurePlace::Field, &at, errors);
        }
    }
    if schema.flag(EITHER) {
        for word in [OPEN, EMBEDDED].into_iter().filter(|word| schema.flag(word)) {
            errors.invalid(&at.field(word), true, "must be false if x-kubernetes-int-or-string is true");
        }
    }
    let (skip_any, skip_all) = either_pattern(schema);
    restrictions(schema, skip_any, skip_all, at, errors);
    own_type(schema, place, at, errors);
    if place == StructurePlace::Root || schema.flag(EMBEDDED) {
        header(schema, &properties, errors);
    }
    if place == StructurePlace::Root {
        metadata(schema, &properties, errors);
    }
}

/// Fields that alternatives at the root name must be described there. The real server asks for it nowhere else.
fn complete(said: &Value, described: Option<&Value>, at: &str, said_at: &str, errors: &mut Errors) {
    let lists = ALTERNATIVES.iter().flat_map(|word| {
        said.list(word).iter().enumerate().map(move |(index, one)| (one, format!("{said_at}.{word}[{index}]")))
    });
    let not = said.some("not").map(|not| (not, format!("{said_at}.not")));
    for (one, said_at) in lists.chain(not) {
        within(one, described, at, &said_at, errors);
    }
}

/// Checks a part of an alternative, and the description in its place.
fn within(said: &Value, described: Option<&Value>, at: &str, said_at: &str, errors: &mut Errors) {
    if described.is_none() {
        let message = format!("Required value: because it is defined in {said_at}");
        errors.0.push(Cause { reason: "FieldValueRequired", message, field: Some(at.to_owned()) });
        return;
    }
    complete(said, described, at, said_at, errors);
    let items = said.some("items").map(|items| ("items".to_owned(), items, described.and_then(|it| it.some("items"))));
    let fields = said.entries("properties").iter().map(|(name, field)| {
        let known = described.and_then(|it| it["properties"].some(name));
        (format!("properties[{name}]"), field, known)
    });
    for (step, inner, known) in items.into_iter().chain(fields) {
        within(inner, known, &format!("{at}.{step}"), &format!("{said_at}.{step}"), errors);
    }
}

fn own_type(schema: &Value, place: StructurePlace, at: &Path<'_>, errors: &mut Errors) {
    let (ty, at_type) = (schema.text("type"), at.field("type"));
    if schema.flag(EMBEDDED) {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        match ty {
            "object" => {}
            "" => errors.required(&at_type, detail),
            other => errors.invalid(&at_type, other, detail),
        }
        if schema.entries("properties").is_empty() && !schema.flag(OPEN) {
            let detail = "must not be empty if x-kubernetes-embedded-resource is true without \
                          x-kubernetes-preserve-unknown-fields";
            errors.required(&at.field("properties"), detail);
        }
    } else if ty.is_empty() && !schema.flag(EITHER) && !schema.flag(OPEN) {
        let detail = match place {
            StructurePlace::Root => "must not be empty at the root",
            StructurePlace::Item => "must not be empty for specified array items",
            StructurePlace::Field => "must not be empty for specified object fields",
        };
        errors.required(&at_type, detail);
    }
    if place == StructurePlace::Root && !matches!(ty, "" | "object") {
        errors.invalid(&at_type, ty, "must be object at the root");
    }
}

/// Checks that a schema does not change the header of every whole object.
fn header(schema: &Value, properties: &Path<'_>, errors: &mut Errors) {
    for (name, ty) in [("kind", "string"), ("apiVersion", "string"), ("metadata", "object")] {
        let Some(field) = schema["properties"].some(name) else { continue };
        if field.text("type") != ty {
            errors.invalid(&properties.key(name).field("type"), field.text("type"), &format!("must be {ty}"));
        }
    }
}

/// Checks that the schema does not describe the metadata of a kind.
fn metadata(schema: &Value, properties: &Path<'_>, errors: &mut Errors) {
    let Some(Value::Object(metadata)) = schema["properties"].some("metadata") else { return };
    let allowed = |(word, value): (&String, &Value)| match (word.as_str(), value) {
        ("type" | "default", _) | (_, Value::Null | Value::Bool(false)) => true,
        ("properties", Value::Object(fields)) => {
            fields.keys().all(|name| matches!(name.as_str(), "name" | "generateName"))
        }
        ("enum" | "allOf" | "anyOf" | "oneOf", Value::Array(items)) => items.is_empty(),
        (_, Value::String(text)) => text.is_empty(),
        _ => false,
    };
    if !metadata.iter().all(allowed) {
        let detail = "must not specify anything other than name and generateName, but metadata is implicitly specified";
        errors.forbidden(&properties.key("metadata"), detail);
    }
}

/// Returns the allowed forms of a number or text: as alternatives, or first of all restrictions.
fn either_pattern(schema: &Value) -> (bool, bool) {
    let plain =
        |value: &Value, ty: &str| value.as_object().is_some_and(|all| all.len() == 1) && value.text("type") == ty;
    let says = |list: &[Value]| matches!(list, [one, other] if plain(one, "integer") && plain(other, "string"));
    let first = schema.list("allOf").first();
    let either = schema.flag(EITHER);
    (either && says(schema.list("anyOf")), either && first.is_some_and(|first| says(first.list("anyOf"))))
}

/// Checks the part that restricts values.
fn restrictions(schema: &Value, skip_any: bool, skip_all: bool, at: &Path<'_>, errors: &mut Errors) {
    for word in ALTERNATIVES.into_iter().filter(|word| !(skip_any && *word == "anyOf")) {
        let list = at.field(word);
        for (index, inner) in schema.list(word).iter().enumerate() {
            restricted(inner, skip_all && word == "allOf" && index == 0, &list.index(index), errors);
        }
    }
    if let Some(not) = schema.some("not") {
        restricted(not, false, &at.field("not"), errors);
    }
    let text = schema.text("pattern");
    if let Some(error) = pattern::error(text) {
        let detail = format!("must be a valid regular expression, but isn't: error parsing regexp: {error}");
        errors.invalid(&at.field("pattern"), text, &detail);
    }
}

/// Checks a schema that may only restrict.
fn restricted(schema: &Value, skip_any: bool, at: &Path<'_>, errors: &mut Errors) {
    restrictions(schema, skip_any, false, at, errors);
    if let Some(items) = schema.some("items") {
        restricted(items, false, &at.field("items"), errors);
    }
    let properties = at.field("properties");
    for (name, field) in schema.entries("properties") {
        restricted(field, false, &properties.key(name), errors);
    }
    if schema["properties"].has("metadata") {
        errors.forbidden(&properties.key("metadata"), "must not be specified in a nested context");
    }
    for (word, detail) in DESCRIBING {
        let says = match schema.get(word) {
            None | Some(Value::Null) => false,
            Some(Value::Bool(given)) => *given || word == "additionalProperties",
            Some(Value::String(text)) => !text.is_empty() || word.starts_with("x-"),
            Some(Value::Array(items)) => !items.is_empty(),
            Some(_) => true,
        };
        if says {
            errors.forbidden(&at.field(word), detail);
        }
    }
    if !schema.list("x-kubernetes-validations").is_empty() {
        errors.forbidden(&at.field("x-kubernetes-validations"), "must be empty to be structural");
    }
}
