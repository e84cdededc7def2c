//! The words of a schema: those that may not be used, or not so, or not there.

use serde_json::Value;

use super::super::super::value_ext::{ValueExt, repeated_values};
use super::super::errors::{Errors, Path};
use super::selectable;
use super::structure::{ALTERNATIVES, EMBEDDED, OPEN};

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
const LIST_TYPE: &str = "x-kubernetes-list-type";
const LIST_KEYS: &str = "x-kubernetes-list-map-keys";
const MAP_TYPE: &str = "x-kubernetes-map-type";
const RULES: &str = "x-kubernetes-validations";
const REASONS: [&str; 4] = ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

/// The place of a schema.
#[derive(Clone, Copy, Default)]
struct WordPlace<'a> {
    /// The reason for which there may be no defaults.
    no_defaults: Option<&'a str>,
    /// True when it is of the header of every object, such as its metadata.
    of_header: bool,
    is_root: bool,
    compiled: bool,
}

/// Checks all words of a schema and of the schemas in it. `compiled` is whether its rules are checked, too.
pub fn root(schema: &Value, compiled: bool, at: &Path<'_>, errors: &mut Errors) {
    words(schema, WordPlace { is_root: true, compiled, ..WordPlace::default() }, at, errors);
}

fn words(schema: &Value, place: WordPlace<'_>, at: &Path<'_>, errors: &mut Errors) {
    let before = errors.0.len();
    unsupported(schema, place, at, errors);
    if schema.flag("uniqueItems") {
        let detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        errors.forbidden(&at.field("uniqueItems"), detail);
    }
    below(schema, place, at, errors);
    if schema.get(OPEN) == Some(&Value::Bool(false)) {
        errors.invalid(&at.field(OPEN), false, "must be true or undefined");
    }
    if let Some(ty) = schema.some(MAP_TYPE).and_then(Value::as_str) {
        wanted(schema, "object", MAP_TYPE, at, errors);
        if !["atomic", "granular"].contains(&ty) {
            errors.not_supported(&at.field(MAP_TYPE), ty, &["atomic", "granular"]);
        }
    }
    list(schema, at, errors);
    rules(schema, at, errors);
    if place.compiled && errors.0.len() == before {
        old_selves(schema, at, errors);
    }
}

fn unsupported(schema: &Value, place: WordPlace<'_>, at: &Path<'_>, errors: &mut Errors) {
    let mut say = |word: &str, detail: &str| errors.forbidden(&at.field(word), detail);
    if let Some(why) = place.no_defaults.filter(|_| schema.has("default")) {
        say("default", &format!("must not be set {why}"));
    }
    for word in ["id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"] {
        let used = match schema.some(word) {
            Some(Value::String(text)) => !text.is_empty() || word == "$ref",
            Some(Value::Object(entries)) => !entries.is_empty() || matches!(word, "dependencies" | "additionalItems"),
            other => other.is_some(),
        };
        if used {
            say(word, &format!("{word} is not supported"));
        }
    }
    if schema.text("type") == "null" {
        say("type", "type cannot be set to null, use nullable as an alternative");
    }
    if !schema.list("items").is_empty() {
        say("items", "items must be a schema object and not an array");
    }
    if place.of_header && schema.flag(EMBEDDED) {
        say(EMBEDDED, "must not be used inside of resource meta");
    }
    let ty = schema.text("type");
    if !ty.is_empty() && !TYPES.contains(&ty) {
        errors.not_supported(&at.field("type"), ty, &TYPES);
    }
}

/// Checks every schema within.
fn below(schema: &Value, place: WordPlace<'_>, at: &Path<'_>, errors: &mut Errors) {
    let inner = WordPlace { is_root: false, ..place };
    if let Some(others) = schema.some("additionalProperties") {
        let at = at.field("additionalProperties");
        if !schema.entries("properties").is_empty() && *others != Value::Bool(true) {
            errors.forbidden(&at, "additionalProperties and properties are mutual exclusive");
        }
        let why = "inside additionalProperties applying to object metadata";
        let no_defaults = if place.of_header { Some(why) } else { inner.no_defaults };
        words(others, WordPlace { no_defaults, ..inner }, &at, errors);
    }
    let properties = at.field("properties");
    for (name, field) in schema.entries("properties") {
        let is_header =
            (place.is_root || schema.flag(EMBEDDED)) && matches!(&**name, "metadata" | "apiVersion" | "kind");
        let why = format!("in top-level {name}");
        let no_defaults = if is_header && place.is_root { Some(why.as_str()) } else { inner.no_defaults };
        let place = WordPlace { no_defaults, of_header: inner.of_header || is_header, ..inner };
        words(field, place, &properties.key(name), errors);
    }
    if let Some(not) = schema.some("not") {
        words(not, inner, &at.field("not"), errors);
    }
    for word in ALTERNATIVES.into_iter().chain(["items"]) {
        let list = at.field(word);
        for (index, one) in schema.list(word).iter().enumerate() {
            words(one, inner, &list.index(index), errors);
        }
    }
    for word in ["definitions", "dependencies"] {
        let map = at.field(word);
        for (name, one) in schema.entries(word).iter().filter(|(_, one)| one.is_object()) {
            words(one, inner, &map.key(name), errors);
        }
    }
    if let Some(items) = schema.some("items").filter(|items| items.is_object()) {
        words(items, inner, &at.field("items"), errors);
    }
}

/// The type that a schema must have to say a word.
fn wanted(schema: &Value, ty: &str, word: &str, at: &Path<'_>, errors: &mut Errors) -> bool {
    let detail = format!("must be {ty} if {word} is specified");
    match schema.text("type") {
        said if said == ty => return true,
        "" => errors.required(&at.field("type"), &detail),
        said => errors.invalid(&at.field("type"), said, &detail),
    }
    false
}

/// Checks how two lists become one.
fn list(schema: &Value, at: &Path<'_>, errors: &mut Errors) {
    let ty = schema.some(LIST_TYPE).and_then(Value::as_str);
    let (keys, items_at) = (schema.list(LIST_KEYS), at.field("items"));
    let items = schema.some("items").filter(|items| items.is_object());
    if let Some(ty) = ty {
        if wanted(schema, "array", LIST_TYPE, at, errors)
            && ty == "set"
            && let Some(items) = items
        {
            item_of_set(items, &items_at, errors);
        }
        if !["atomic", "set", "map"].contains(&ty) {
            errors.not_supported(&at.field(LIST_TYPE), ty, &["atomic", "set", "map"]);
        }
    }
    if !keys.is_empty() && ty != Some("map") {
        let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
        match ty {
            None => errors.required(&at.field(LIST_TYPE), detail),
            Some(ty) => errors.invalid(&at.field(LIST_TYPE), ty, detail),
        }
    }
    if ty == Some("map") {
        map_list(schema, keys, at, errors);
    }
    if let (Some(items), Some(ty @ ("set" | "map"))) = (items, ty) {
        if items.flag("nullable") {
            let detail = format!("cannot be nullable when x-kubernetes-list-type is {ty}");
            errors.forbidden(&items_at.field("nullable"), &detail);
        }
        if ty == "map" {
            told_keys(items, keys, &items_at, errors);
        }
    }
}

/// Checks that an item of a set has one owner as a whole.
fn item_of_set(items: &Value, at: &Path<'_>, errors: &mut Errors) {
    let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
    let list_type = items.get(LIST_TYPE).unwrap_or(&Value::Null);
    match items.text("type") {
        "array" if !list_type.is_null() && list_type != "atomic" => {
            errors.invalid(&at.field(LIST_TYPE), list_type, detail);
        }
        // The real server shows the other word.
        "object" if items.text(MAP_TYPE) != "atomic" => errors.invalid(&at.field(MAP_TYPE), list_type, detail),
        _ => {}
    }
}

/// Checks a list with keyed items.
fn map_list(schema: &Value, keys: &[Value], at: &Path<'_>, errors: &mut Errors) {
    let items_at = at.field("items");
    if keys.is_empty() {
        errors.required(&at.field(LIST_KEYS), "must not be empty if x-kubernetes-list-type is map");
    }
    let items = match schema.some("items") {
        None => return errors.required(&items_at, "must have a schema if x-kubernetes-list-type is map"),
        Some(items) if items.is_object() => items,
        Some(items) => {
            let detail = "must only have a single schema if x-kubernetes-list-type is map";
            return errors.invalid(&items_at, items, detail);
        }
    };
    if items.text("type") != "object" {
        let detail = "must be object if parent array's x-kubernetes-list-type is map";
        return errors.invalid(&items_at.field("type"), items.text("type"), detail);
    }
    let properties = items_at.field("properties");
    let repeated = repeated_values(keys);
    for (index, key) in keys.iter().enumerate().filter_map(|(index, key)| Some((index, key.as_str()?))) {
        match items["properties"].some(key) {
            Some(field) if matches!(field.text("type"), "array" | "object") => {
                let detail = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                errors.invalid(&properties.key(key).field("type"), items.text("type"), detail);
            }
            Some(_) => {}
            None => {
                let detail = "entries must all be names of item properties";
                errors.invalid(&at.field(LIST_KEYS), &Value::from(keys), detail);
            }
        }
        if repeated[index] {
            errors.invalid(&at.field(LIST_KEYS), &Value::from(keys), "must not contain duplicate entries");
        }
    }
}

/// Keys must be there, or come by themselves.
fn told_keys(items: &Value, keys: &[Value], at: &Path<'_>, errors: &mut Errors) {
    let properties = at.field("properties");
    for key in keys.iter().filter_map(Value::as_str) {
        let Some(field) = items["properties"].some(key) else { continue };
        let at = properties.key(key);
        if !field.has("default") && !items.list("required").iter().any(|name| name == key) {
            let detail =
                "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
            errors.required(&at.field("default"), detail);
        }
        if field.flag("nullable") {
            let detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            errors.forbidden(&at.field("nullable"), detail);
        }
    }
}

/// Checks the form of rules; their expressions are not compiled.
fn rules(schema: &Value, at: &Path<'_>, errors: &mut Errors) {
    let list = at.field(RULES);
    for (index, rule) in schema.list(RULES).iter().enumerate() {
        let at = list.index(index);
        let (text, message) = (rule.text("rule").trim(), rule.text("message"));
        let broken = |text: &str| text.contains(['\n', '\r']);
        if text.is_empty() {
            errors.required(&at.field("rule"), "rule is not specified");
        } else if !message.is_empty() && message.trim().is_empty() {
            errors.invalid(&at.field("message"), message, "must be non-empty if specified");
        } else if broken(message.trim()) {
            errors.invalid(&at.field("message"), message, "must not contain line breaks");
        } else if broken(text) && message.trim().is_empty() {
            errors.required(&at.field("message"), "message must be specified if rule contains line breaks");
        }
        let expression = rule.text("messageExpression");
        if !expression.is_empty() && expression.trim().is_empty() {
            let detail = "messageExpression must be non-empty if specified";
            errors.required(&at.field("messageExpression"), detail);
        }
        errors.one_of(rule, "reason", &REASONS, &at);
        let path = rule.text("fieldPath");
        if !path.is_empty() {
            field_path(path, schema, &at.field("fieldPath"), errors);
        }
    }
}

/// Rules that compare with the old value must name it.
fn old_selves(schema: &Value, at: &Path<'_>, errors: &mut Errors) {
    let list = at.field(RULES);
    for (index, rule) in schema.list(RULES).iter().enumerate() {
        if rule.flag("optionalOldSelf") && !rule.text("rule").contains("oldSelf") {
            let detail = "may not be set if oldSelf is not used in rule";
            errors.invalid(&list.index(index).field("optionalOldSelf"), true, detail);
        }
    }
}

/// Checks the field that a rule blames. Paths through lists and maps are not followed.
fn field_path(path: &str, schema: &Value, at: &Path<'_>, errors: &mut Errors) {
    if path.trim().is_empty() {
        errors.invalid(at, path, "must be non-empty if specified");
    }
    if path.contains(['\n', '\r']) {
        errors.invalid(at, path, "must not contain line breaks");
    }
    if !path.contains('[') && selectable::find(path, schema).is_err() {
        errors.invalid(at, path, "must be a valid path");
    }
}
