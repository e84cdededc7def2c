//! Schemas of custom kinds: they must say the type of everything once, and use no word that is not supported. Rules in CEL
//! are not compiled, and defaults are not held against their own schema.

use serde_json::Value;

use super::super::look::Look;
use super::errors::{Errors, Path};

/// Words that no schema may use.
const UNSUPPORTED: [&str; 6] = ["id", "patternProperties", "definitions", "dependencies", "$ref", "additionalItems"];
const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
/// Words that say what is there; within alternatives only what is there is restricted.
const DESCRIBING: [(&str, &str); 6] = [
    ("default", "must be undefined to be structural"),
    ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"),
    ("title", "must be empty to be structural"),
    ("type", "must be empty to be structural"),
    ("additionalProperties", "must be undefined to be structural"),
];
const OPEN: &str = "x-kubernetes-preserve-unknown-fields";
const EMBEDDED: &str = "x-kubernetes-embedded-resource";
const LIST_TYPE: &str = "x-kubernetes-list-type";
const LIST_KEYS: &str = "x-kubernetes-list-map-keys";

/// Where a schema stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Root,
    Field,
    Item,
    Alternative,
}

/// The schema of a version.
pub fn schema(schema: &Value, at: &Path<'_>, errors: &mut Errors) {
    let before = errors.0.len();
    if schema.flag("nullable") {
        errors.forbidden(&at.field("nullable"), "nullable cannot be true at the root");
    }
    words(schema, at, errors);
    if errors.0.len() == before {
        structure(schema, Place::Root, at, errors);
    }
}

/// Words that may not be used, or not so.
fn words(schema: &Value, at: &Path<'_>, errors: &mut Errors) {
    for word in UNSUPPORTED.iter().filter(|word| schema.has(word)) {
        errors.forbidden(&at.field(word), &format!("{word} is not supported"));
    }
    if schema.flag("uniqueItems") {
        let detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        errors.forbidden(&at.field("uniqueItems"), detail);
    }
    if schema.has("additionalProperties") && !schema.entries("properties").is_empty() {
        let detail = "additionalProperties and properties are mutual exclusive";
        errors.forbidden(&at.field("additionalProperties"), detail);
    }
    if schema.get(OPEN) == Some(&Value::Bool(false)) {
        errors.invalid(&at.field(OPEN), false, "must be true or undefined");
    }
    errors.one_of(schema, "x-kubernetes-map-type", &["atomic", "granular"], at);
    list_type(schema, at, errors);
    let rules = at.field("x-kubernetes-validations");
    for (index, rule) in schema.list("x-kubernetes-validations").iter().enumerate() {
        let at = rules.index(index);
        if rule.text("rule").trim().is_empty() {
            errors.required(&at.field("rule"), "rule is not specified");
        }
        if rule.text("message").contains('\n') {
            errors.invalid(&at.field("message"), rule.text("message"), "must not contain line breaks");
        }
    }
    each_below(schema, at, &mut |inner, _, at| words(inner, at, errors));
}

fn list_type(schema: &Value, at: &Path<'_>, errors: &mut Errors) {
    let Some(ty) = schema.some(LIST_TYPE).and_then(Value::as_str) else { return };
    if schema.text("type") != "array" {
        let shown = schema.text("type");
        errors.invalid(&at.field("type"), shown, "must be array if x-kubernetes-list-type is specified");
    }
    if !["atomic", "set", "map"].contains(&ty) {
        errors.not_supported(&at.field(LIST_TYPE), ty, &["atomic", "set", "map"]);
    }
    if ty != "map" {
        return;
    }
    let keys = schema.list(LIST_KEYS);
    if keys.is_empty() {
        errors.required(&at.field(LIST_KEYS), "must not be empty if x-kubernetes-list-type is map");
    }
    let items = &schema["items"];
    let fields = items.entries("properties");
    if keys.iter().filter_map(Value::as_str).any(|key| !fields.contains_key(key)) {
        errors.invalid(&at.field(LIST_KEYS), &Value::from(keys), "entries must all be names of item properties");
    }
    let items_at = at.field("items");
    let properties = items_at.field("properties");
    for key in keys.iter().filter_map(Value::as_str) {
        let Some(field) = fields.get(key) else { continue };
        let required = items.list("required").iter().any(|name| name == key);
        if !required && field.get("default").is_none() {
            let detail =
                "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
            errors.required(&properties.key(key).field("default"), detail);
        }
    }
}

/// Everything has one type, said where it is described.
fn structure(schema: &Value, place: Place, at: &Path<'_>, errors: &mut Errors) {
    if place == Place::Alternative {
        for (word, detail) in DESCRIBING {
            let says = schema.get(word).is_some_and(|value| *value != Value::Bool(false) && *value != "");
            if says {
                errors.forbidden(&at.field(word), detail);
            }
        }
    } else {
        own_type(schema, place, at, errors);
        embedded(schema, at, errors);
    }
    if place == Place::Root {
        header(schema, at, errors);
    }
    each_below(schema, at, &mut |inner, below, at| {
        let below = if place == Place::Alternative { Place::Alternative } else { below };
        structure(inner, below, at, errors);
    });
}

fn own_type(schema: &Value, place: Place, at: &Path<'_>, errors: &mut Errors) {
    let ty = schema.text("type");
    let free = schema.flag("x-kubernetes-int-or-string") || schema.flag(OPEN);
    match (place, ty) {
        (Place::Root, "") => errors.required(&at.field("type"), "must not be empty at the root"),
        (Place::Root, "object") => {
            if schema.has("additionalProperties") {
                errors.forbidden(&at.field("additionalProperties"), "must not be used at the root");
            }
        }
        (Place::Root, other) => errors.invalid(&at.field("type"), other, "must be object at the root"),
        (_, "") if free => {}
        (Place::Item, "") => errors.required(&at.field("type"), "must not be empty for specified array items"),
        (_, "") => errors.required(&at.field("type"), "must not be empty for specified object fields"),
        (_, "array") if !schema.has("items") => errors.required(&at.field("items"), "must be specified"),
        (_, known) if TYPES.contains(&known) => {}
        (_, other) => errors.not_supported(&at.field("type"), other, &TYPES),
    }
}

/// A whole object within an object.
fn embedded(schema: &Value, at: &Path<'_>, errors: &mut Errors) {
    if !schema.flag(EMBEDDED) {
        return;
    }
    if schema.entries("properties").is_empty() && !schema.flag(OPEN) {
        let detail =
            "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
        errors.required(&at.field("properties"), detail);
    }
    if schema.text("type") != "object" {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        errors.invalid(&at.field("type"), schema.text("type"), detail);
    }
}

/// What every object has, a schema may not change.
fn header(schema: &Value, at: &Path<'_>, errors: &mut Errors) {
    let properties = at.field("properties");
    for name in ["apiVersion", "kind"] {
        let Some(field) = schema["properties"].some(name) else { continue };
        if !matches!(field.text("type"), "string" | "") {
            errors.invalid(&properties.key(name).field("type"), field.text("type"), "must be string");
        }
    }
    let Some(metadata) = schema["properties"].some("metadata") else { return };
    if metadata.entries("properties").keys().any(|name| !matches!(name.as_str(), "name" | "generateName")) {
        let detail = "must not specify anything other than name and generateName, but metadata is implicitly specified";
        errors.forbidden(&properties.key("metadata"), detail);
    }
}

/// Every schema within a schema, with its place.
fn each_below(schema: &Value, at: &Path<'_>, visit: &mut dyn FnMut(&Value, Place, &Path<'_>)) {
    let properties = at.field("properties");
    for (name, inner) in schema.entries("properties") {
        visit(inner, Place::Field, &properties.key(name));
    }
    if let Some(items) = schema.some("items").filter(|items| items.is_object()) {
        visit(items, Place::Item, &at.field("items"));
    }
    if let Some(others) = schema.some("additionalProperties").filter(|others| others.is_object()) {
        visit(others, Place::Field, &at.field("additionalProperties"));
    }
    for word in ["allOf", "anyOf", "oneOf"] {
        let list = at.field(word);
        for (index, inner) in schema.list(word).iter().enumerate() {
            visit(inner, Place::Alternative, &list.index(index));
        }
    }
    if let Some(not) = schema.some("not") {
        visit(not, Place::Alternative, &at.field("not"));
    }
}
