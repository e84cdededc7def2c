//! A text as it was written: the order of keys, keys written twice and the spelling of numbers are still there.

use serde_json::{Map, Number, Value};

/// A value of JSON or YAML.
#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number, as written.
    Number(String),
    /// Text.
    Text(String),
    /// A list.
    List(Vec<Node>),
    /// Keys and values, in order, keys perhaps several times.
    Map(Vec<(String, Node)>),
}

/// The depth to which values may be nested; readers of JSON beyond this one stop there too.
pub const MAX_DEPTH: usize = 120;

impl Node {
    /// Returns its name in Go's errors.
    pub fn kind(&self) -> &'static str {
        match self {
            Node::Null => "null",
            Node::Bool(_) => "bool",
            Node::Number(_) => "number",
            Node::Text(_) => "string",
            Node::List(_) => "array",
            Node::Map(_) => "object",
        }
    }

    /// Returns the value of a key; of several, the last.
    pub fn get(&self, key: &str) -> Option<&Node> {
        match self {
            Node::Map(entries) => entries.iter().rev().find(|(name, _)| name == key).map(|(_, value)| value),
            _ => None,
        }
    }

    /// Returns a value as if it had been written.
    pub fn from_value(value: Value) -> Node {
        match value {
            Value::Null => Node::Null,
            Value::Bool(value) => Node::Bool(value),
            Value::Number(number) => Node::Number(number.to_string()),
            Value::String(text) => Node::Text(text),
            Value::Array(items) => Node::List(items.into_iter().map(Node::from_value).collect()),
            Value::Object(entries) => {
                Node::Map(entries.into_iter().map(|(key, value)| (key, Node::from_value(value))).collect())
            }
        }
    }

    /// As [`Node::into_value`] of a copy.
    pub fn to_value(&self) -> Value {
        self.clone().into_value()
    }

    /// Returns the value without properties of the text alone: whole numbers as such, the last of several equal keys.
    pub fn into_value(self) -> Value {
        match self {
            Node::Null => Value::Null,
            Node::Bool(value) => Value::Bool(value),
            Node::Number(text) => number(&text),
            Node::Text(text) => Value::String(text),
            Node::List(items) => items.into_iter().map(Node::into_value).collect(),
            Node::Map(entries) => {
                let entries = entries.into_iter().map(|(key, value)| (key, value.into_value()));
                Value::Object(entries.collect::<Map<_, _>>())
            }
        }
    }
}

/// Returns a number that fits in 64 bits stays whole, any other becomes a float.
fn number(text: &str) -> Value {
    if let Ok(whole) = text.parse::<i64>() {
        return whole.into();
    }
    text.parse::<f64>().ok().and_then(Number::from_f64).map_or(Value::Null, Value::Number)
}
