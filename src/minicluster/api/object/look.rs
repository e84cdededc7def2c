//! Looking into values: what is not there is empty.

use std::sync::LazyLock;

use serde_json::{Map, Value};

static NOTHING: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);

/// Reading fields of an object.
pub trait Look {
    /// A field's text; empty where there is none.
    fn text(&self, name: &str) -> &str;
    /// A field's whole number.
    fn int(&self, name: &str) -> Option<i64>;
    /// Whether a field is `true`.
    fn flag(&self, name: &str) -> bool;
    /// A field's items; none where it is no list.
    fn list(&self, name: &str) -> &[Value];
    /// A field's entries; none where it is no map.
    fn entries(&self, name: &str) -> &Map<String, Value>;
    /// Whether a field is there and not null.
    fn has(&self, name: &str) -> bool;
    /// A field that is there and not null.
    fn some(&self, name: &str) -> Option<&Value>;
}

impl Look for Value {
    fn text(&self, name: &str) -> &str {
        self.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    fn int(&self, name: &str) -> Option<i64> {
        self.get(name).and_then(Value::as_i64)
    }

    fn flag(&self, name: &str) -> bool {
        self.get(name).and_then(Value::as_bool).unwrap_or_default()
    }

    fn list(&self, name: &str) -> &[Value] {
        self.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    fn entries(&self, name: &str) -> &Map<String, Value> {
        self.get(name).and_then(Value::as_object).unwrap_or(&NOTHING)
    }

    fn has(&self, name: &str) -> bool {
        self.some(name).is_some()
    }

    fn some(&self, name: &str) -> Option<&Value> {
        self.get(name).filter(|value| !value.is_null())
    }
}

/// The entries of a map; none where it is none.
pub fn entries_of(value: Option<&Value>) -> &Map<String, Value> {
    value.and_then(Value::as_object).unwrap_or(&NOTHING)
}

/// Puts a value where there is none, or only null.
pub fn put_missing(object: &mut Value, name: &str, value: impl Into<Value>) {
    if !object.has(name)
        && let Value::Object(fields) = object
    {
        fields.insert(name.to_owned(), value.into());
    }
}
