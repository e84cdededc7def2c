//! Custom resource definitions that stand in the repository.

use std::sync::{Arc, OnceLock};

use serde_json::{Value, json};

use kube_facts::Type;

use crate::manifest::Compact;

/// The facts of a custom resource definition about one kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Definition {
    /// The name of the definition, `backups.example.com`.
    pub name: String,
    /// The API group.
    pub group: String,
    /// The kind.
    pub kind: String,
    /// True when objects live in a namespace.
    pub namespaced: bool,
    /// The versions that are served, with the shape of their objects where one is given.
    pub versions: Arc<[(String, Option<CustomShape>)]>,
}

/// The shape of a custom kind. It takes a hundred times the memory of its text, and most definitions stand beside no object of
/// their kind, so it is made when the first object is checked.
#[derive(Clone, Debug)]
pub struct CustomShape {
    schema: Compact,
    made: OnceLock<Type>,
}

impl CustomShape {
    fn of(schema: &Value) -> CustomShape {
        CustomShape { schema: Compact::of(schema), made: OnceLock::new() }
    }

    /// Returns the type of the objects.
    #[must_use]
    pub fn get(&self) -> &Type {
        self.made.get_or_init(|| shape(&self.schema.read(), true))
    }
}

impl PartialEq for CustomShape {
    fn eq(&self, other: &CustomShape) -> bool {
        self.schema == other.schema
    }
}

impl Definition {
    /// Reads a `CustomResourceDefinition`; `None` if it lacks a necessary part.
    #[must_use]
    pub fn read(object: &Value) -> Option<Definition> {
        let spec = object.get("spec")?;
        let served = |version: &&Value| version["served"] != false;
        let versions = spec.get("versions")?.as_array()?.iter().filter(served).filter_map(|version| {
            let schema = version["schema"].get("openAPIV3Schema");
            Some((version["name"].as_str()?.to_owned(), schema.map(CustomShape::of)))
        });
        Some(Definition {
            name: object["metadata"]["name"].as_str()?.to_owned(),
            group: spec["group"].as_str()?.to_owned(),
            kind: spec["names"]["kind"].as_str()?.to_owned(),
            namespaced: spec["scope"] != "Cluster",
            versions: versions.collect(),
        })
    }
}

fn shape(schema: &Value, root: bool) -> Type {
    let mut schema = closed(schema);
    if root && let Some(fields) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        // Every object has these, whatever its schema says of them; `metadata` is checked like everyone's.
        fields.insert("apiVersion".to_owned(), json!({"type": "string"}));
        fields.insert("kind".to_owned(), json!({"type": "string"}));
        fields.insert("metadata".to_owned(), json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}));
    }
    Type::from_openapi(&schema)
}

/// Returns a server drops every field that a schema doesn't name, also if it names none.
fn closed(schema: &Value) -> Value {
    match schema {
        Value::Object(members) => {
            let mut members: serde_json::Map<String, Value> = members
                .iter()
                .map(|(name, value)| match (name.as_str(), value) {
                    ("properties", Value::Object(fields)) => {
                        let fields = fields.iter().map(|(field, schema)| (field.clone(), closed(schema)));
                        (name.clone(), Value::Object(fields.collect()))
                    }
                    ("items" | "additionalProperties", Value::Object(_)) => (name.clone(), closed(value)),
                    _ => (name.clone(), value.clone()),
                })
                .collect();
            // An object in a definition has no references to other types: a field that looks like one is not followed.
            members.remove("$ref");
            let has = |name: &str| members.contains_key(name);
            if members.get("type").is_some_and(|ty| ty == "object")
                && !has("properties")
                && !has("additionalProperties")
            {
                members.insert("properties".to_owned(), json!({}));
            }
            Value::Object(members)
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube_facts::Type;

    #[test]
    fn an_object_without_fields_takes_none() {
        let definition = Definition::read(&json!({"metadata": {"name": "things.example.com"}, "spec": {
            "group": "example.com", "scope": "Cluster", "names": {"kind": "Thing"},
            "versions": [
                {"name": "v1", "served": true, "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "closed": {"type": "object"},
                    "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                }}}},
                {"name": "v0", "served": false},
            ],
        }}))
        .unwrap();
        assert!(!definition.namespaced);
        let [(version, Some(shape))] = &definition.versions[..] else { panic!("{definition:?}") };
        let Type::Struct(shape) = shape.get() else { panic!("{shape:?}") };
        assert_eq!(version, "v1");
        assert!(matches!(&shape.fields["closed"].ty, Type::Struct(inner) if inner.fields.is_empty() && !inner.open));
        assert!(matches!(&shape.fields["open"].ty, Type::Struct(inner) if inner.open));
    }
}
