//! A text as an object of a built-in kind, by the rules and with the errors of Go's decoder.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::super::custom::whole_numbers;
use super::super::quantity::{NOT_AN_AMOUNT, Quantity};
use super::super::schema_props::within;
use super::super::times::{self, Precision};
use super::node::Node;
use super::{base64, go_name};
use kube_facts::{Field, Scalar, Struct, Type};

/// So many unknown and duplicate fields are reported at most.
const MOST_REPORTED: usize = 100;

/// The value, and the objections of a strict reader: `unknown field "spec.foo"`.
pub struct Typed {
    /// The object; fields that are not there are left out.
    pub value: Value,
    /// Unknown and duplicate fields, in the order of the text.
    pub objections: Vec<String>,
}

/// Reads a map as a struct. `name` is the Go name of the struct.
///
/// # Errors
/// Go's error for the first value of a wrong type.
pub fn decode(node: &Node, ty: &Type, name: &str) -> Result<Typed, String> {
    let mut decoder = Decoder { owner: name, ..Decoder::default() };
    let value = decoder.value(node, ty, &format!("v1.{name}"), None)?;
    match decoder.first_error {
        Some(error) => Err(error),
        None => {
            let value = value.unwrap_or_else(|| Value::Object(Map::new()));
            Ok(Typed { value, objections: decoder.objections })
        }
    }
}

/// Reads a value that no longer has a text; errors are then worded without a place.
///
/// # Errors
/// For the first value of a wrong type.
pub fn convert(value: Value, ty: &Type, name: &str) -> Result<Typed, String> {
    let node = Node::from_value(value);
    let mut decoder = Decoder { owner: name, placeless: true, ..Decoder::default() };
    let value = decoder.value(&node, ty, "", None)?;
    match decoder.first_error {
        Some(error) => Err(error),
        None => {
            let value = value.unwrap_or_else(|| Value::Object(Map::new()));
            Ok(Typed { value, objections: decoder.objections })
        }
    }
}

#[derive(Default)]
struct Decoder<'a> {
    /// The struct whose fields are being read, and the names of the fields down to here, for type errors.
    owner: &'a str,
    names: Vec<&'a str>,
    /// The path for objections: `spec.containers[0].foo`.
    path: String,
    objections: Vec<String>,
    seen: BTreeSet<String>,
    /// True when errors name no place.
    placeless: bool,
    /// A wrong type; reading goes on, as a later error may be worse.
    first_error: Option<String>,
}

/// The result for a value: nothing if it was of a wrong type, or null. An error ends the reading.
type Decoded = Result<Option<Value>, String>;

impl<'a> Decoder<'a> {
    fn value(&mut self, node: &'a Node, ty: &'a Type, go: &str, old: Option<Value>) -> Decoded {
        let go = go.trim_start_matches('*');
        if let Some(schema) = within(ty) {
            return Ok(self.schema(node, &schema));
        }
        match (ty.resolve(), node) {
            (_, Node::Null) => Ok(None),
            // It has no fields, and facts have no type for that.
            (Type::Any, Node::Map(entries)) if go_name(ty) == Some("CustomResourceSubresourceStatus") => {
                for (key, _) in entries {
                    let length = self.enter(key);
                    self.object_to("unknown");
                    self.path.truncate(length);
                }
                Ok(Some(Value::Object(Map::new())))
            }
            (Type::Any, _) => Ok(Some(anything(node, ty))),
            (Type::Struct(inner), Node::Map(entries)) => self.structure(entries, inner, ty, old).map(Some),
            (Type::Map(map), Node::Map(entries)) => self.map(entries, &map.values, go, old).map(Some),
            (Type::List(list), Node::List(items)) => self.list(items, &list.items, go).map(Some),
            (Type::Scalar(scalar), _) => self.scalar(node, *scalar, go),
            (of, node) if self.placeless => Ok(self.save(misfit(node, of, go))),
            _ => Ok(self.wrong_type(node.kind(), go)),
        }
    }

    /// Reads one schema, or several.
    fn schema(&mut self, node: &Node, schema: &Type) -> Option<Value> {
        let one = |node: &Node| match node {
            Node::Map(_) => decode(node, schema, "JSONSchemaProps").map(|typed| typed.value),
            other => Ok(other.to_value()),
        };
        let read = match node {
            Node::Null => return None,
            Node::List(items) => items.iter().map(one).collect::<Result<_, _>>().map(Value::Array),
            other => one(other),
        };
        read.map_or_else(
            |error| {
                let error = self.with_names(error);
                self.save(error)
            },
            Some,
        )
    }

    /// Returns an error of a part that was read by itself, which names the fields from there on, with those down to
    /// there.
    fn with_names(&self, error: String) -> String {
        match error.split_once(" into Go struct field JSONSchemaProps.") {
            Some((start, rest)) if !self.placeless => {
                let (owner, names) = (self.owner, self.names.join("."));
                format!("{start} into Go struct field {owner}.{names}.{rest}")
            }
            _ => error,
        }
    }

    fn structure(
        &mut self,
        entries: &'a [(String, Node)],
        inner: &'a Struct,
        ty: &'a Type,
        old: Option<Value>,
    ) -> Result<Value, String> {
        let owner = go_name(ty).map(|name| std::mem::replace(&mut self.owner, name));
        let mut object = match old {
            Some(Value::Object(object)) => object,
            _ => Map::new(),
        };
        // No more than there are fields, which are few.
        let mut seen: Vec<&str> = Vec::with_capacity(entries.len().min(inner.fields.len()));
        for (key, node) in entries {
            let length = self.enter(key);
            match inner.fields.get(key) {
                None => self.object_to("unknown"),
                Some(field) => {
                    if seen.contains(&key.as_str()) {
                        self.object_to("duplicate");
                    } else {
                        seen.push(key);
                    }
                    self.field(key, node, field, &mut object)?;
                }
            }
            self.path.truncate(length);
        }
        if let Some(owner) = owner {
            self.owner = owner;
        }
        Ok(Value::Object(object))
    }

    fn field(
        &mut self,
        key: &'a str,
        node: &'a Node,
        field: &'a Field,
        object: &mut Map<String, Value>,
    ) -> Result<(), String> {
        if *node == Node::Null {
            object.remove(key);
            return Ok(());
        }
        self.names.push(key);
        let go = field.go.as_ref().map_or("", |go| go.ty.as_str());
        let decoded = self.value(node, &field.ty, go, object.remove(key))?;
        self.names.pop();
        if let Some(value) = decoded {
            object.insert(key.to_owned(), value);
        }
        Ok(())
    }

    fn map(
        &mut self,
        entries: &'a [(String, Node)],
        values: &'a Type,
        go: &str,
        old: Option<Value>,
    ) -> Result<Value, String> {
        let mut object = match old {
            Some(Value::Object(object)) => object,
            _ => Map::new(),
        };
        let go = go.strip_prefix("map").and_then(|rest| rest.split_once(']')).map_or("", |(_, value)| value);
        let mut seen = BTreeSet::new();
        for (key, node) in entries {
            let length = self.enter(key);
            if !seen.insert(key) {
                self.object_to("duplicate");
            }
            let value = self.value(node, values, go, None)?.unwrap_or_else(|| zero(values));
            object.insert(key.clone(), value);
            self.path.truncate(length);
        }
        Ok(Value::Object(object))
    }

    fn list(&mut self, items: &'a [Node], of: &'a Type, go: &str) -> Result<Value, String> {
        let go = go.strip_prefix("[]").unwrap_or("");
        let mut list = Vec::with_capacity(items.len());
        let length = self.path.len();
        for (index, node) in items.iter().enumerate() {
            self.path.push_str(&format!("[{index}]"));
            list.push(self.value(node, of, go, None)?.unwrap_or_else(|| zero(of)));
            self.path.truncate(length);
        }
        Ok(Value::Array(list))
    }

    fn scalar(&mut self, node: &Node, scalar: Scalar, go: &str) -> Decoded {
        match (scalar, node) {
            (Scalar::String, Node::Text(text)) => Ok(Some(text.clone().into())),
            (Scalar::Boolean, Node::Bool(value)) => Ok(Some((*value).into())),
            (Scalar::Int32 | Scalar::Int64, Node::Number(text)) => {
                let fits = |number: &i64| scalar == Scalar::Int64 || i32::try_from(*number).is_ok();
                match text.parse::<i64>().ok().filter(fits) {
                    Some(number) => Ok(Some(number.into())),
                    None if self.placeless => Ok(self.forced(text, scalar)),
                    None => Ok(self.wrong_type(&format!("number {text}"), or(go, int_name(scalar)))),
                }
            }
            (Scalar::Number, Node::Number(_)) => {
                let mut number = node.to_value();
                whole_numbers(&mut number);
                Ok(Some(number))
            }
            (Scalar::Bytes, Node::Text(text)) => match base64::canonical(text) {
                Ok(bytes) => Ok(Some(bytes.into())),
                Err(error) => Ok(self.save(error)),
            },
            (Scalar::IntOrString, Node::Text(text)) => Ok(Some(text.clone().into())),
            (Scalar::IntOrString, _) => self.int_or_string(node),
            (Scalar::Quantity, _) => {
                let text = match node {
                    Node::Text(text) | Node::Number(text) => text.trim(),
                    _ => return Err(NOT_AN_AMOUNT.to_owned()),
                };
                Ok(Some(Quantity::parse(text)?.canonical().into()))
            }
            (Scalar::Time | Scalar::MicroTime, Node::Text(text)) => {
                let precision = if scalar == Scalar::Time { Precision::Seconds } else { Precision::Microseconds };
                Ok(times::canonical(text, precision)?.map(Value::String))
            }
            (Scalar::Time | Scalar::MicroTime, _) => Err(self.type_error(node.kind(), "string")),
            _ if self.placeless => Ok(self.save(misfit(node, &Type::Scalar(scalar), go))),
            (Scalar::Bytes, _) => Ok(self.wrong_type(node.kind(), or(go, "[]uint8"))),
            (Scalar::String, _) => Ok(self.wrong_type(node.kind(), or(go, "string"))),
            (Scalar::Boolean, _) => Ok(self.wrong_type(node.kind(), or(go, "bool"))),
            (Scalar::Number, _) => Ok(self.wrong_type(node.kind(), or(go, "float64"))),
            (Scalar::Int32 | Scalar::Int64, _) => Ok(self.wrong_type(node.kind(), or(go, int_name(scalar)))),
        }
    }

    /// Returns a number that does not fit, as a conversion in memory takes it: a whole float is whole, a long number is
    /// cut off.
    fn forced(&mut self, text: &str, scalar: Scalar) -> Option<Value> {
        let float: f64 = text.parse().unwrap_or(f64::NAN);
        if float.fract() != 0.0 {
            return self.save(format!("cannot convert float64 to {}", int_name(scalar)));
        }
        let whole = text.parse::<i64>().unwrap_or(float as i64);
        Some(if scalar == Scalar::Int32 { (whole as i32).into() } else { whole.into() })
    }

    fn int_or_string(&mut self, node: &Node) -> Decoded {
        let Node::Number(text) = node else { return Err(self.type_error(node.kind(), "int32")) };
        match text.parse::<i32>() {
            Ok(number) => Ok(Some(number.into())),
            Err(_) => Err(self.type_error(&format!("number {text}"), "int32")),
        }
    }

    fn type_error(&self, what: &str, go: &str) -> String {
        if self.placeless {
            return format!("json: cannot unmarshal {what} into Go value of type {go}");
        }
        format!(
            "json: cannot unmarshal {what} into Go struct field {}.{} of type {go}",
            self.owner,
            self.names.join(".")
        )
    }

    fn wrong_type(&mut self, what: &str, go: &str) -> Option<Value> {
        let error = self.type_error(what, go);
        self.save(error)
    }

    fn save(&mut self, error: String) -> Option<Value> {
        self.first_error.get_or_insert(error);
        None
    }

    /// Goes down to a key; returns where the path ended before.
    fn enter(&mut self, key: &str) -> usize {
        let length = self.path.len();
        if length > 0 {
            self.path.push('.');
        }
        self.path.push_str(key);
        length
    }

    fn object_to(&mut self, what: &str) {
        let objection = format!("{what} field {}", super::super::words::quote(&self.path));
        if self.objections.len() < MOST_REPORTED && self.seen.insert(objection.clone()) {
            self.objections.push(objection);
        }
    }
}

/// Reads a value of any type. If a schema of a custom kind gives the type of a value, whole numbers have no fraction.
fn anything(node: &Node, ty: &Type) -> Value {
    let mut value = node.to_value();
    if matches!(ty, Type::Named(name) if name.ends_with(".apiextensions.v1.JSON")) {
        whole_numbers(&mut value);
    }
    value
}

fn misfit(node: &Node, ty: &Type, go: &str) -> String {
    let source = match node {
        Node::Null => "<nil>",
        Node::Bool(_) => "bool",
        Node::Number(text) if text.parse::<i64>().is_ok() => "int64",
        Node::Number(_) => "float64",
        Node::Text(_) => "string",
        Node::List(_) => "slice",
        Node::Map(_) => "map",
    };
    match ty {
        Type::Struct(_) => format!("cannot restore struct from: {source}"),
        Type::Map(_) => format!("cannot restore map from {source}"),
        Type::List(_) | Type::Scalar(Scalar::Bytes) => format!("cannot restore slice from {source}"),
        Type::Scalar(Scalar::String) if source == "int64" => format!("cannot convert int64 to {}", or(go, "string")),
        Type::Scalar(Scalar::Boolean) => "unrecognized type: bool".to_owned(),
        Type::Scalar(scalar @ (Scalar::Int32 | Scalar::Int64)) => format!("unrecognized type: {}", int_name(*scalar)),
        Type::Scalar(Scalar::Number) => "unrecognized type: float64".to_owned(),
        _ => "unrecognized type: string".to_owned(),
    }
}

fn or<'a>(go: &'a str, otherwise: &'a str) -> &'a str {
    if go.is_empty() { otherwise } else { go }
}

fn int_name(scalar: Scalar) -> &'static str {
    if scalar == Scalar::Int32 { "int32" } else { "int64" }
}

/// Returns Go's value for null in a list or map.
fn zero(ty: &Type) -> Value {
    match ty.resolve() {
        Type::Struct(_) => Value::Object(Map::new()),
        Type::Scalar(Scalar::String | Scalar::Bytes) => "".into(),
        Type::Scalar(Scalar::Quantity) => "0".into(),
        Type::Scalar(Scalar::Boolean) => false.into(),
        Type::Scalar(Scalar::Int32 | Scalar::Int64 | Scalar::Number | Scalar::IntOrString) => 0.into(),
        _ => Value::Null,
    }
}
