//! Defaults, checked against the schema that they stand in: a default must be allowed and known there. The real server
//! does not check those of a map's values.

use serde_json::{Map, Value, json};

use super::super::super::custom::{Schema, default_objections, header_objection};
use super::super::super::value_ext::ValueExt;
use super::super::errors::{Errors, Path};
use super::structure::EMBEDDED;

/// The path of a default into a whole object's header.
type DefaultsHeader<'a> = Option<Vec<&'a str>>;

/// Checks all defaults of a schema. The root is a whole object.
pub fn defaults(schema: &Value, at: &Path<'_>, errors: &mut Errors) {
    if !schema.has("default") {
        return below(schema, true, &None, at, errors);
    }
    let mut whole = schema.clone();
    whole[EMBEDDED] = json!(true);
    walk(&whole, true, &None, at, errors);
}

fn walk(schema: &Value, is_root: bool, header: &DefaultsHeader<'_>, at: &Path<'_>, errors: &mut Errors) {
    if let Some(default) = schema.some("default") {
        let at = at.field("default");
        match header.as_ref().map(|way| surrounded(way, default)).and_then(|object| header_objection(&object)) {
            Some(objection) => {
                errors.invalid(&at, default, &format!("must result in valid metadata: {objection}"));
            }
            None => errors.0.extend(default_objections(default, &Schema::read(schema).without_either(), &at)),
        }
    }
    below(schema, is_root, header, at, errors);
}

fn below(schema: &Value, is_root: bool, header: &DefaultsHeader<'_>, at: &Path<'_>, errors: &mut Errors) {
    let is_whole = is_root || schema.flag(EMBEDDED);
    let further = |step| header.as_ref().filter(|_| !is_whole).map(|way| [way.as_slice(), &[step]].concat());
    let properties = at.field("properties");
    for (name, field) in schema.entries("properties") {
        let in_header = is_whole && matches!(name.as_str(), "apiVersion" | "kind" | "metadata");
        let way = if in_header { Some(vec![name.as_str()]) } else { further(name) };
        walk(field, false, &way, &properties.key(name), errors);
    }
    if let Some(items) = schema.some("items").filter(|items| items.is_object()) {
        walk(items, false, &further(""), &at.field("items"), errors);
    }
}

/// Returns a default in the object around it.
fn surrounded(way: &[&str], default: &Value) -> Value {
    let wrap = |inner: Value, step: &&str| match *step {
        "" => Value::Array(vec![inner]),
        name => Value::Object(Map::from_iter([(name.to_owned(), inner)])),
    };
    way.iter().rev().fold(default.clone(), wrap)
}
