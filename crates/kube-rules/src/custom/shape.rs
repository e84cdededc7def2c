//! A structural schema as server-side apply sees it.

use std::collections::BTreeMap;

use super::schema::{Kind, Others, Schema};
use kube_facts::{Field, List, ListKind, Map, Scalar, Struct, Type};

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// Returns the type of the objects of a kind.
#[must_use]
pub fn of_object(schema: &Schema) -> Type {
    structure(schema, true)
}

fn of(schema: &Schema) -> Type {
    match schema.ty {
        Some(Kind::Object) => match &schema.others {
            Others::Of(values) if schema.fields.is_empty() => {
                Type::Map(Map { values: Box::new(of(values)), atomic: schema.atomic })
            }
            _ => structure(schema, schema.embedded),
        },
        Some(Kind::Array) => Type::List(List {
            items: Box::new(schema.items.as_deref().map_or(Type::Any, of)),
            kind: schema.list.clone().unwrap_or(ListKind::Atomic),
        }),
        Some(Kind::String) => Type::Scalar(Scalar::String),
        Some(Kind::Integer) => Type::Scalar(Scalar::Int64),
        Some(Kind::Number) => Type::Scalar(Scalar::Number),
        Some(Kind::Boolean) => Type::Scalar(Scalar::Boolean),
        // Anything is let through here; its type is checked later.
        Some(Kind::IntOrString) => Type::Any,
        None if schema.open => structure(schema, false),
        None => Type::Any,
    }
}

fn structure(schema: &Schema, whole: bool) -> Type {
    let mut fields: BTreeMap<String, Field> =
        schema.fields.iter().map(|(name, inner)| (name.clone(), field(of(inner), inner.default.clone()))).collect();
    if whole {
        for name in ["apiVersion", "kind"] {
            fields.insert(name.to_owned(), field(Type::Scalar(Scalar::String), None));
        }
        fields.insert("metadata".to_owned(), field(Type::named(OBJECT_META), None));
    }
    let nothing_named = schema.fields.is_empty() && !whole;
    Type::Struct(Struct {
        fields,
        required: Vec::new(),
        always_written: Vec::new(),
        atomic: schema.atomic,
        open: schema.open || matches!(schema.others, Others::Any) || nothing_named,
        embedded: schema.embedded,
    })
}

fn field(ty: Type, default: Option<serde_json::Value>) -> Field {
    Field { ty, default, patch: None, one_of: Vec::new(), keeps_zero: false, nullable: false, go: None }
}
