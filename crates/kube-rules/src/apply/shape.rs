//! Types as server-side apply sees them: maps, lists and single values, each owned as a whole or part by part.

use serde_json::Value;

use kube_facts::{List, ListKind, Map, Scalar, Struct, Type};

/// The kind of a type in server-side apply.
#[derive(Clone, Copy, Debug)]
pub enum Atom<'a> {
    /// Fields, each of its own type.
    Struct(&'a Struct),
    /// Entries of one type.
    Map(&'a Map),
    /// Items of one type.
    List(&'a List),
    /// One value.
    Scalar(Scalar),
    /// Anything, owned as a whole.
    Whole,
    /// Anything; its kind shows in the value, which is owned field by field.
    Deduced(ShapeKind),
}

/// The kind of a value, if its type does not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShapeKind {
    /// A map of anything.
    Map,
    /// A list, owned as a whole.
    List,
    /// One value.
    Scalar,
}

/// The type of the values in an unknown map or struct.
pub static OPEN: Type = Type::Struct(Struct {
    fields: std::collections::BTreeMap::new(),
    required: Vec::new(),
    always_written: Vec::new(),
    atomic: false,
    open: true,
    embedded: false,
});

/// Returns the kind of a type in server-side apply; `value` decides if the type leaves it open.
pub fn atom<'a>(ty: &'a Type, value: Option<&Value>) -> Atom<'a> {
    match ty.resolve() {
        Type::Struct(inner) if inner.open && inner.fields.is_empty() && !inner.atomic => Atom::Deduced(match value {
            Some(Value::Array(_)) => ShapeKind::List,
            Some(Value::Object(_)) | None => ShapeKind::Map,
            Some(_) => ShapeKind::Scalar,
        }),
        Type::Struct(inner) => Atom::Struct(inner),
        Type::Map(map) => Atom::Map(map),
        Type::List(list) => Atom::List(list),
        Type::Scalar(scalar) => Atom::Scalar(*scalar),
        Type::Any | Type::Named(_) => Atom::Whole,
    }
}

/// Returns the type of a field or entry.
pub fn entry_type<'a>(ty: &'a Type, name: &str) -> Option<&'a Type> {
    match atom(ty, None) {
        Atom::Struct(inner) => match inner.fields.get(name) {
            Some(field) => Some(&field.ty),
            None => inner.open.then_some(&OPEN),
        },
        Atom::Map(map) => Some(&map.values),
        Atom::Deduced(_) => Some(&OPEN),
        _ => None,
    }
}

/// Returns the type at an element of a path.
pub fn below<'a>(ty: &'a Type, element: &str) -> Option<&'a Type> {
    match (element.split_once(':'), atom(ty, None)) {
        (Some(("f", name)), _) => entry_type(ty, name),
        (_, Atom::List(list)) => Some(&list.items),
        _ => None,
    }
}

/// Returns true when a map, struct or list is owned as a whole.
pub fn is_whole(atom: Atom<'_>) -> bool {
    match atom {
        Atom::Struct(inner) => inner.atomic,
        Atom::Map(map) => map.atomic,
        Atom::List(list) => list.kind == ListKind::Atomic,
        Atom::Deduced(kind) => kind == ShapeKind::List,
        Atom::Scalar(_) | Atom::Whole => true,
    }
}
