//! A structural schema, as a custom resource definition carries it, read once.

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::{Number, Value};

use kube_facts::ListKind;

/// The schema of a value.
#[derive(Clone, Debug, Default)]
pub struct Schema {
    /// Its type; nothing if any will do.
    pub ty: Option<Kind>,
    /// A type that there is not: nothing is of it.
    pub no_type: Option<String>,
    /// True when it may be null.
    pub nullable: bool,
    /// True when fields that are not named are kept.
    pub open: bool,
    /// True when it is a whole object with `apiVersion`, `kind` and `metadata`.
    pub embedded: bool,
    /// The fields, by name.
    pub fields: BTreeMap<String, Schema>,
    /// The schema of fields that are not named.
    pub others: Others,
    /// The schema of a list's items.
    pub items: Option<Box<Schema>>,
    /// The way in which two lists become one.
    pub list: Option<ListKind>,
    /// True when a map has one owner as a whole.
    pub atomic: bool,
    /// The default.
    pub default: Option<Value>,
    /// The limits of the value.
    pub limits: Limits,
}

/// The types of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A map.
    Object,
    /// A list.
    Array,
    /// Text.
    String,
    /// A whole number.
    Integer,
    /// A number.
    Number,
    /// true or false.
    Boolean,
    /// A whole number or text.
    IntOrString,
}

/// The values of a map under names that its schema does not have.
#[derive(Clone, Debug, Default)]
pub enum Others {
    /// Nothing.
    #[default]
    None,
    /// Single values and empty maps: nothing in them is named either.
    Any,
    /// Values of one type.
    Of(Box<Schema>),
}

/// The limits of a value beyond its type. Rules in CEL (`x-kubernetes-validations`) are not evaluated.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    /// Fields that must be there.
    pub required: Vec<String>,
    /// The values that there are; any if there are none.
    pub one_of: Vec<Value>,
    /// `date-time` and the like.
    pub format: Option<String>,
    /// A pattern as it is written, and as it is matched. One that can't be read matches everything.
    pub pattern: Option<(String, Option<Regex>)>,
    /// Characters.
    pub length: Range,
    /// Items of a list.
    pub items: Range,
    /// Fields of a map.
    pub fields: Range,
    /// True when each item may be there but once.
    pub unique: bool,
    /// The least that a number may be.
    pub least: Option<Bound>,
    /// The most that a number may be.
    pub most: Option<Bound>,
    /// The factor that a number must be a multiple of.
    pub factor: Option<f64>,
    /// All of these must hold.
    pub all_of: Vec<Schema>,
    /// One of these must hold.
    pub any_of: Vec<Schema>,
    /// Just one of these must hold.
    pub one_schema_of: Vec<Schema>,
    /// This must not hold.
    pub not: Option<Box<Schema>>,
}

/// The allowed numbers of things.
#[derive(Clone, Copy, Debug, Default)]
pub struct Range {
    /// At least.
    pub least: Option<u64>,
    /// At most.
    pub most: Option<u64>,
}

/// An end of the numbers that may be.
#[derive(Clone, Copy, Debug)]
pub struct Bound {
    /// The limit itself.
    pub at: f64,
    /// True when the limit is outside itself.
    pub excluded: bool,
}

impl Schema {
    /// Reads the `openAPIV3Schema` of a definition. Without one, everything may be.
    #[must_use]
    pub fn read(document: &Value) -> Schema {
        if !document.is_object() {
            return Schema { open: true, ..Schema::default() };
        }
        let flag = |name: &str| document[name] == true;
        Schema {
            ty: kind(document),
            no_type: match document["type"].as_str() {
                Some(ty) if !ty.is_empty() && kind(document).is_none() => Some(ty.to_owned()),
                _ => None,
            },
            nullable: flag("nullable"),
            open: flag("x-kubernetes-preserve-unknown-fields"),
            embedded: flag("x-kubernetes-embedded-resource"),
            fields: fields(&document["properties"]),
            others: match &document["additionalProperties"] {
                Value::Bool(true) => Others::Any,
                schema @ Value::Object(_) => Others::Of(Box::new(Schema::read(schema))),
                _ => Others::None,
            },
            items: document.get("items").map(|items| Box::new(Schema::read(items))),
            list: match document["x-kubernetes-list-type"].as_str() {
                Some("set") => Some(ListKind::Set),
                Some("map") => Some(ListKind::Map(texts(&document["x-kubernetes-list-map-keys"]))),
                Some(_) => Some(ListKind::Atomic),
                None => None,
            },
            atomic: document["x-kubernetes-map-type"] == "atomic",
            default: document.get("default").cloned(),
            limits: limits(document),
        }
    }

    /// Returns the schema without its demands on the types of values that may be a number or a text: defaults are not
    /// checked for it.
    #[must_use]
    pub fn without_either(mut self) -> Schema {
        if self.ty == Some(Kind::IntOrString) {
            self.ty = None;
        }
        let each = |schemas: Vec<Schema>| schemas.into_iter().map(Schema::without_either).collect();
        let one = |schema: Option<Box<Schema>>| schema.map(|schema| Box::new(schema.without_either()));
        self.fields = self.fields.into_iter().map(|(name, schema)| (name, schema.without_either())).collect();
        self.others = match self.others {
            Others::Of(schema) => Others::Of(Box::new(schema.without_either())),
            other => other,
        };
        self.items = one(self.items);
        self.limits.all_of = each(self.limits.all_of);
        self.limits.any_of = each(self.limits.any_of);
        self.limits.one_schema_of = each(self.limits.one_schema_of);
        self.limits.not = one(self.limits.not);
        self
    }

    /// Returns the schema of a field, and whether the field is one that may be.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&Schema> {
        match (self.fields.get(name), &self.others) {
            (Some(schema), _) => Some(schema),
            (None, Others::Of(schema)) => Some(schema),
            (None, _) => None,
        }
    }
}

fn kind(document: &Value) -> Option<Kind> {
    if document["x-kubernetes-int-or-string"] == true {
        return Some(Kind::IntOrString);
    }
    match document["type"].as_str()? {
        "object" => Some(Kind::Object),
        "array" => Some(Kind::Array),
        "string" => Some(Kind::String),
        "integer" => Some(Kind::Integer),
        "number" => Some(Kind::Number),
        "boolean" => Some(Kind::Boolean),
        _ => None,
    }
}

fn limits(document: &Value) -> Limits {
    let range = |least: &str, most: &str| Range { least: document[least].as_u64(), most: document[most].as_u64() };
    let bound =
        |at: &str, excluded: &str| document[at].as_f64().map(|at| Bound { at, excluded: document[excluded] == true });
    let schemas = |name: &str| document[name].as_array().into_iter().flatten().map(Schema::read).collect();
    Limits {
        required: texts(&document["required"]),
        one_of: document["enum"].as_array().cloned().unwrap_or_default(),
        format: document["format"].as_str().map(str::to_owned),
        pattern: document["pattern"].as_str().map(|pattern| (pattern.to_owned(), Regex::new(pattern).ok())),
        length: range("minLength", "maxLength"),
        items: range("minItems", "maxItems"),
        fields: range("minProperties", "maxProperties"),
        unique: document["uniqueItems"] == true,
        least: bound("minimum", "exclusiveMinimum"),
        most: bound("maximum", "exclusiveMaximum"),
        factor: document["multipleOf"].as_f64(),
        all_of: schemas("allOf"),
        any_of: schemas("anyOf"),
        one_schema_of: schemas("oneOf"),
        not: document.get("not").map(|schema| Box::new(Schema::read(schema))),
    }
}

fn fields(properties: &Value) -> BTreeMap<String, Schema> {
    let read = |(name, schema): (&String, &Value)| (name.clone(), Schema::read(schema));
    properties.as_object().into_iter().flatten().map(read).collect()
}

fn texts(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Numbers as Go writes them: a whole one without a fraction.
pub fn whole_numbers(value: &mut Value) {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    match value {
        Value::Number(number) if number.is_f64() => {
            let float = number.as_f64().unwrap_or_default();
            if float.fract() == 0.0 && float.abs() < EXACT {
                *number = Number::from(float as i64);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(whole_numbers),
        Value::Object(entries) => entries.values_mut().for_each(whole_numbers),
        _ => {}
    }
}
