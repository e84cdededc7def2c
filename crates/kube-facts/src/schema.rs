//! The shape of a kind's objects, read from OpenAPI v3 schemas; also from those of custom resource definitions.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde_json::Value;

use super::facts;

const PREFIX: &str = "#/components/schemas/";

/// The type of a value.
#[derive(Clone, Debug, PartialEq)]
pub enum Type {
    /// A type of [`super::Facts`], by its name in OpenAPI. [`Type::resolve`] looks it up.
    Named(Name),
    /// Named fields.
    Struct(Struct),
    /// Any keys, values of one type.
    Map(Map),
    /// Items of one type.
    List(List),
    /// A single value.
    Scalar(Scalar),
    /// Anything: a raw extension, or a part that a definition leaves open.
    Any,
}

/// The name of a type in OpenAPI. The named type is looked up once, since it is needed for every value of every object.
#[derive(Clone, Debug)]
pub struct Name {
    text: String,
    meant: OnceLock<&'static Type>,
}

impl From<String> for Name {
    fn from(text: String) -> Name {
        Name { text, meant: OnceLock::new() }
    }
}

impl std::ops::Deref for Name {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Name) -> bool {
        self.text == other.text
    }
}

/// Named fields.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Struct {
    /// The fields, by name.
    pub fields: BTreeMap<String, Field>,
    /// The fields that must be there.
    pub required: Vec<String>,
    /// The fields that Go writes even if nothing was ever put there. None for custom kinds.
    pub always_written: Vec<String>,
    /// True when it has one owner as a whole (`x-kubernetes-map-type: atomic`).
    pub atomic: bool,
    /// True when fields that are not named are kept (`x-kubernetes-preserve-unknown-fields`).
    pub open: bool,
    /// True when it is a whole object with `apiVersion`, `kind` and `metadata` (`x-kubernetes-embedded-resource`).
    pub embedded: bool,
}

/// One field of a [`Struct`].
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// The type of its value.
    pub ty: Type,
    /// The default in OpenAPI. For built-in kinds mostly the zero value of a field that is always written.
    pub default: Option<Value>,
    /// The treatment by a strategic merge patch.
    pub patch: Option<Patch>,
    /// The values that it may have, if they are named.
    pub one_of: Vec<Value>,
    /// True when an explicit zero (`false`, `0`, `""`) is kept.
    pub keeps_zero: bool,
    /// True when it may be null (`nullable`, custom resources only).
    pub nullable: bool,
    /// The declaration of the server's own Go type; none for custom kinds.
    pub go: Option<Go>,
}

/// A field as the server's own Go type declares it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Go {
    /// The Go type, `*int32`, `[]v1.Container`, `v1.PullPolicy`: it stands in errors, and a `*` keeps zeros.
    pub ty: String,
    /// When the field is left out of the written object.
    pub omit: Omit,
}

/// When Go leaves a field out of JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Omit {
    /// Never: a list that is not there is `null`.
    Never,
    /// When it is false, 0, "", an empty list or map, or a pointer to nothing. A struct is never empty.
    Empty,
    /// Also a struct without anything.
    Zero,
}

impl Go {
    fn read(declared: &str) -> Go {
        let (ty, omit) = match (declared.strip_suffix("??"), declared.strip_suffix('?')) {
            (Some(ty), _) => (ty, Omit::Zero),
            (None, Some(ty)) => (ty, Omit::Empty),
            (None, None) => (declared, Omit::Never),
        };
        Go { ty: ty.to_owned(), omit }
    }

    /// Returns true when the field is a pointer, so that an explicit zero differs from nothing.
    #[must_use]
    pub fn is_pointer(&self) -> bool {
        self.ty.starts_with('*')
    }
}

/// The treatment of a field by a strategic merge patch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Patch {
    /// `merge`: lists are merged, not replaced.
    pub merge: bool,
    /// `replace`: a map is replaced, not merged.
    pub replace: bool,
    /// `retainKeys`: keys that the patch does not list are dropped.
    pub retain_keys: bool,
    /// The key that identifies items of a list.
    pub merge_key: Option<String>,
}

/// Any keys, values of one type.
#[derive(Clone, Debug, PartialEq)]
pub struct Map {
    /// The type of the values.
    pub values: Box<Type>,
    /// True when it has one owner as a whole.
    pub atomic: bool,
}

/// Items of one type.
#[derive(Clone, Debug, PartialEq)]
pub struct List {
    /// The type of the items.
    pub items: Box<Type>,
    /// The way in which two lists become one.
    pub kind: ListKind,
}

/// The way in which two lists become one (`x-kubernetes-list-type`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListKind {
    /// One owner as a whole.
    Atomic,
    /// Each value at most once.
    Set,
    /// Items identified by these keys.
    Map(Vec<String>),
}

/// A single value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalar {
    /// Text.
    String,
    /// Base64 in JSON.
    Bytes,
    /// A whole number, 32 bits.
    Int32,
    /// A whole number, 64 bits.
    Int64,
    /// A number.
    Number,
    /// true or false.
    Boolean,
    /// A whole number or text, `25%`.
    IntOrString,
    /// An amount, `500m`.
    Quantity,
    /// RFC 3339, whole seconds.
    Time,
    /// RFC 3339, microseconds.
    MicroTime,
}

impl Type {
    /// Returns the type of that name in OpenAPI.
    #[must_use]
    pub fn named(name: impl Into<String>) -> Type {
        Type::Named(Name::from(name.into()))
    }

    /// Returns the type itself, if this is only its name. An unknown name is [`Type::Any`].
    #[must_use]
    pub fn resolve(&self) -> &Type {
        match self {
            Type::Named(name) => name.meant.get_or_init(|| facts().named(&name.text).map_or(&Type::Any, Type::resolve)),
            other => other,
        }
    }

    /// Returns the field at a path of field names; lists on the way are entered without an index of their own meaning
    /// (any text stands for an item).
    #[must_use]
    pub fn at(&self, path: &[&str]) -> Option<&Field> {
        let (first, rest) = path.split_first()?;
        match self.resolve() {
            Type::Struct(inner) => {
                let field = inner.fields.get(*first)?;
                if rest.is_empty() { Some(field) } else { field.ty.at(rest) }
            }
            Type::List(list) => list.items.at(rest),
            _ => None,
        }
    }
}

/// Returns the fields of a struct that Go always writes: fields without `omitempty`, and structs in Go, since these are
/// never empty.
fn always_written(inner: &Struct) -> Vec<String> {
    let is_struct = |field: &Field, go: &Go| match field.ty.resolve() {
        Type::Struct(_) => true,
        Type::Scalar(scalar) => scalar.is_struct(),
        Type::Any => go.ty == "runtime.RawExtension",
        _ => false,
    };
    // Only what holds another struct asks for its type: no struct in Go holds itself but by a pointer.
    let is_written = |field: &Field| {
        field.go.as_ref().is_some_and(|go| {
            go.omit == Omit::Never || (!go.is_pointer() && go.omit == Omit::Empty && is_struct(field, go))
        })
    };
    inner.fields.iter().filter(|(_, field)| is_written(field)).map(|(name, _)| name.clone()).collect()
}

impl Scalar {
    /// Returns true when it is a struct in Go, so that `omitempty` does not leave it out.
    #[must_use]
    pub fn is_struct(self) -> bool {
        matches!(self, Scalar::Time | Scalar::MicroTime | Scalar::Quantity | Scalar::IntOrString)
    }
}

/// Reads an OpenAPI v3 schema of Kubernetes' own. `go` says how Go declares its fields.
pub(super) fn read(document: &Value, go: Option<&BTreeMap<String, String>>) -> Type {
    let mut ty = Type::from_openapi(document);
    if let Type::Struct(inner) = &mut ty {
        for (name, field) in &mut inner.fields {
            if document["properties"][name]["x-kubernetes-map-type"] == "granular" {
                own_granularly(&mut field.ty);
            }
            field.go = go.and_then(|declared| declared.get(name)).map(|declared| Go::read(declared));
            field.keeps_zero = field.go.as_ref().is_some_and(|go| go.is_pointer() || go.omit == Omit::Never);
        }
        inner.always_written = always_written(inner);
    }
    ty
}

/// Gives a type of its own to a field that may have several owners, though its type elsewhere has one as a whole.
fn own_granularly(ty: &mut Type) {
    let mut own = ty.resolve().clone();
    if let (Type::Named(name), Type::Struct(inner)) = (ty, &mut own) {
        inner.atomic = false;
        // It is read once, and stays.
        name.meant = OnceLock::from(&*Box::leak(Box::new(own)));
    }
}

impl Type {
    /// Reads an OpenAPI v3 schema, also the structural kind that custom resource definitions carry.
    #[must_use]
    pub fn from_openapi(document: &Value) -> Type {
        if let Some(name) = reference(document) {
            return well_known(name).map_or_else(|| Type::named(name), Type::Scalar);
        }
        let flag = |name: &str| document.get(name).and_then(Value::as_bool).unwrap_or_default();
        let atomic = document["x-kubernetes-map-type"] == "atomic";
        if flag("x-kubernetes-int-or-string") || document["format"] == "int-or-string" {
            return Type::Scalar(Scalar::IntOrString);
        }
        match document["type"].as_str() {
            Some("object") => match (document.get("properties"), document.get("additionalProperties")) {
                (None, Some(values)) if values.is_object() => {
                    Type::Map(Map { values: Box::new(Type::from_openapi(values)), atomic })
                }
                (None, _) if !flag("x-kubernetes-embedded-resource") => Type::Any,
                (properties, _) => Type::Struct(Struct {
                    fields: properties.and_then(Value::as_object).map(fields).unwrap_or_default(),
                    required: texts(&document["required"]),
                    always_written: Vec::new(),
                    atomic,
                    open: flag("x-kubernetes-preserve-unknown-fields"),
                    embedded: flag("x-kubernetes-embedded-resource"),
                }),
            },
            Some("array") => Type::List(List {
                items: Box::new(Type::from_openapi(&document["items"])),
                kind: match document["x-kubernetes-list-type"].as_str() {
                    Some("set") => ListKind::Set,
                    Some("map") => ListKind::Map(texts(&document["x-kubernetes-list-map-keys"])),
                    _ => ListKind::Atomic,
                },
            }),
            Some("string") if document["format"] == "byte" => Type::Scalar(Scalar::Bytes),
            Some("string") => Type::Scalar(Scalar::String),
            Some("integer") if document["format"] == "int32" => Type::Scalar(Scalar::Int32),
            Some("integer") => Type::Scalar(Scalar::Int64),
            Some("number") => Type::Scalar(Scalar::Number),
            Some("boolean") => Type::Scalar(Scalar::Boolean),
            _ => Type::Any,
        }
    }
}

fn fields(properties: &serde_json::Map<String, Value>) -> BTreeMap<String, Field> {
    let field = |document: &Value| Field {
        ty: Type::from_openapi(document),
        default: document.get("default").cloned(),
        patch: patch(document),
        one_of: document["enum"].as_array().cloned().unwrap_or_default(),
        keeps_zero: false,
        nullable: document["nullable"] == true,
        go: None,
    };
    properties.iter().map(|(name, document)| (name.clone(), field(document))).collect()
}

fn patch(document: &Value) -> Option<Patch> {
    let strategy = document["x-kubernetes-patch-strategy"].as_str()?;
    Some(Patch {
        merge: strategy.split(',').any(|part| part == "merge"),
        replace: strategy.split(',').any(|part| part == "replace"),
        retain_keys: strategy.split(',').any(|part| part == "retainKeys"),
        merge_key: document["x-kubernetes-patch-merge-key"].as_str().map(str::to_owned),
    })
}

fn reference(document: &Value) -> Option<&str> {
    let direct = document.get("$ref").or_else(|| document["allOf"].get(0).and_then(|first| first.get("$ref")));
    direct?.as_str()?.strip_prefix(PREFIX)
}

/// Types that are a struct or a text in the documents, but a single value to everybody.
fn well_known(name: &str) -> Option<Scalar> {
    match name {
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString" => Some(Scalar::IntOrString),
        "io.k8s.apimachinery.pkg.api.resource.Quantity" => Some(Scalar::Quantity),
        "io.k8s.apimachinery.pkg.apis.meta.v1.Time" => Some(Scalar::Time),
        "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime" => Some(Scalar::MicroTime),
        _ => None,
    }
}

fn texts(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}
