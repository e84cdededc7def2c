//! What a field is when nobody says what it is. Plain defaults are a table; those that depend on something are code.

mod conditional;
mod image;
mod pod_resources;
mod table;

use serde_json::{Map, Value};

use super::Definition;
use super::canonical::is_zero;
use super::quantity::Quantity;
use crate::kinds::{Field, Struct, Type, facts};

/// Fills in every default of an object of a built-in kind. The object must be canonical, and is not so any more after.
pub fn fill(definition: &Definition, object: &mut Value) {
    if let Some(name) = facts().type_name(&definition.group, &definition.version, &definition.kind) {
        fill_named(name, object);
    }
}

/// Fills in the defaults of a value of a type that is known by its name.
pub fn fill_named(name: &str, value: &mut Value) {
    let Some(Type::Struct(inner)) = facts().named(name) else { return };
    if !value.is_object() {
        return;
    }
    let short = name.strip_prefix("io.k8s.").unwrap_or(name);
    let short = short.strip_prefix("api.").unwrap_or(short);
    for (field, default) in table::of(short) {
        if let Value::Object(object) = value {
            fill_field(object, inner, field, default);
        }
    }
    conditional::fill(short, value);
    if let Value::Object(object) = value {
        for (name, value) in object.iter_mut() {
            if let Some(field) = inner.fields.get(name) {
                descend(&field.ty, value);
                // What a class of runtimes costs is kept as it is written.
                if field.go.as_ref().is_some_and(|go| go.ty == "v1.ResourceList") && short != "node.v1.Overhead" {
                    round_up(value);
                }
            }
        }
    }
}

fn descend(ty: &Type, value: &mut Value) {
    match (ty, value) {
        (Type::Named(name), value) => fill_named(name, value),
        (Type::List(list), Value::Array(items)) => {
            for item in items {
                descend(&list.items, item);
            }
        }
        (Type::Map(map), Value::Object(entries)) => {
            for value in entries.values_mut() {
                descend(&map.values, value);
            }
        }
        _ => {}
    }
}

fn fill_field(object: &mut Map<String, Value>, inner: &Struct, name: &str, default: &Value) {
    let unset = match (object.get(name), inner.fields.get(name)) {
        (None | Some(Value::Null), _) => true,
        (Some(value), Some(field)) => !is_pointer(field) && is_zero(value),
        (Some(_), None) => false,
    };
    if unset {
        object.insert(name.to_owned(), default.clone());
    }
}

fn is_pointer(field: &Field) -> bool {
    field.go.as_ref().is_some_and(|go| go.is_pointer())
}

/// Amounts of resources are kept to a thousandth.
fn round_up(resources: &mut Value) {
    let Value::Object(amounts) = resources else { return };
    for amount in amounts.values_mut() {
        let Some(Ok(mut quantity)) = amount.as_str().map(Quantity::parse) else { continue };
        quantity.round_up(-3);
        *amount = quantity.canonical().into();
    }
}
