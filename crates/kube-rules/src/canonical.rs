//! The form in which an object is stored and answered: without the fields that Go leaves out, with those that it always
//! writes.

use serde_json::{Map, Value, json};

use super::schema_props::within;
use kube_facts::{Field, Omit, Scalar, Struct, Type};

/// The treatment of an empty list that is always written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EmptyLists {
    /// It stays as the client sent it.
    Stay,
    /// It is null, as storing it makes it.
    AreNull,
}

/// Brings a value of a built-in type into the form in which Go writes it, all the way down.
pub fn canonical(value: &mut Value, ty: &Type, empty: EmptyLists) {
    if let Some(schema) = within(ty) {
        match value {
            Value::Array(items) => items.iter_mut().for_each(|item| canonical(item, &schema, empty)),
            value => canonical(value, &schema, empty),
        }
        return;
    }
    match (ty.resolve(), value) {
        (Type::Struct(inner), Value::Object(object)) => structure(object, inner, empty),
        (Type::Map(map), Value::Object(object)) => {
            for value in object.values_mut() {
                canonical(value, &map.values, empty);
                if value.is_null() && matches!(map.values.resolve(), Type::Struct(_)) {
                    *value = zero(&map.values);
                }
            }
        }
        (Type::List(list), Value::Array(items)) => {
            for item in items {
                if item.is_null() {
                    *item = zero(&list.items);
                }
                canonical(item, &list.items, empty);
            }
        }
        _ => {}
    }
}

fn structure(object: &mut Map<String, Value>, inner: &Struct, empty: EmptyLists) {
    // Both are in the order of their names, and few are left out.
    let mut fields = inner.fields.iter().peekable();
    let mut left_out = Vec::new();
    for (name, value) in object.iter_mut() {
        while fields.next_if(|(other, _)| *other < name).is_some() {}
        if let Some((_, field)) = fields.next_if(|(other, _)| *other == name) {
            canonical(value, &field.ty, empty);
            if is_left_out(value, field) {
                left_out.push(name.clone());
            }
        }
    }
    for name in left_out {
        object.remove(&name);
    }
    for name in &inner.always_written {
        if object.get(name).is_none_or(|value| is_nothing(value, empty)) {
            object.insert(name.clone(), zero_field(&inner.fields[name]));
        }
    }
}

fn is_nothing(value: &Value, empty: EmptyLists) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty() && empty == EmptyLists::AreNull,
        _ => false,
    }
}

/// Returns true when Go writes nothing for a value. Structs and pointers to something are always something.
fn is_left_out(value: &Value, field: &Field) -> bool {
    let Some(go) = &field.go else { return false };
    if value.is_null() {
        return true;
    }
    if go.is_pointer() || go.omit == Omit::Never {
        return false;
    }
    match field.ty.resolve() {
        Type::Struct(_) => go.omit == Omit::Zero && value.as_object().is_some_and(Map::is_empty),
        Type::Map(_) => value.as_object().is_some_and(Map::is_empty),
        // An explicitly empty list of managers says something; it is gone once it was heard.
        Type::List(_) => value.as_array().is_some_and(Vec::is_empty) && go.ty != "[]v1.ManagedFieldsEntry",
        Type::Scalar(scalar) if scalar.is_struct() => false,
        Type::Scalar(_) => is_zero(value),
        Type::Any | Type::Named(_) => false,
    }
}

/// Returns true when a value is Go's zero of its type: false, 0, "".
pub fn is_zero(value: &Value) -> bool {
    match value {
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

fn zero_field(field: &Field) -> Value {
    if field.go.as_ref().is_some_and(|go| go.is_pointer()) { Value::Null } else { zero(&field.ty) }
}

/// Returns Go's output for a value of a type in which nothing was ever put.
pub fn zero(ty: &Type) -> Value {
    match ty.resolve() {
        Type::Struct(inner) => {
            let mut object = Map::new();
            structure(&mut object, inner, EmptyLists::AreNull);
            Value::Object(object)
        }
        Type::Scalar(Scalar::String) => json!(""),
        Type::Scalar(Scalar::Quantity) => json!("0"),
        Type::Scalar(Scalar::Boolean) => json!(false),
        Type::Scalar(Scalar::Int32 | Scalar::Int64 | Scalar::Number | Scalar::IntOrString) => json!(0),
        _ => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{EmptyLists, canonical, zero};
    use kube_facts::Type;

    #[test]
    fn an_empty_deployment_is_written_as_go_does() {
        let ty = Type::named("io.k8s.api.apps.v1.Deployment");
        let expected = json!({
            "metadata": {}, "status": {},
            "spec": {
                "selector": null, "strategy": {}, "template": { "metadata": {}, "spec": { "containers": null } },
            },
        });
        assert_eq!(zero(&ty), expected);
    }

    #[test]
    fn pointers_keep_zeros_and_others_do_not() {
        let ty = Type::named("io.k8s.api.core.v1.PodSpec");
        let mut spec = json!({
            "priority": 0, "hostNetwork": false, "nodeName": "", "tolerations": [], "securityContext": {},
            "containers": [{ "name": "", "env": [], "image": "" }],
        });
        canonical(&mut spec, &ty, EmptyLists::AreNull);
        let expected = json!({
            "priority": 0, "securityContext": {}, "containers": [{ "name": "", "resources": {} }],
        });
        assert_eq!(spec, expected);
    }
}
