//! Looking into values: a missing one is empty.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::LazyLock;

use serde_json::{Map, Value};

static NOTHING: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);

/// Reading fields of an object.
pub trait ValueExt {
    /// Returns a field's text; empty if there is none.
    fn text(&self, name: &str) -> &str;
    /// Returns a field's whole number.
    fn int(&self, name: &str) -> Option<i64>;
    /// Returns true when a field is `true`.
    fn flag(&self, name: &str) -> bool;
    /// Returns a field's items; none if it is no list.
    fn list(&self, name: &str) -> &[Value];
    /// Returns a field's entries; none if it is no map.
    fn entries(&self, name: &str) -> &Map<String, Value>;
    /// Returns true when a field is there and not null.
    fn has(&self, name: &str) -> bool;
    /// Returns a field that is there and not null.
    fn some(&self, name: &str) -> Option<&Value>;
}

/// A field. Tests count how often one is looked for.
fn look<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    #[cfg(test)]
    LOOKS.with(|looks| looks.set(looks.get() + 1));
    value.get(name)
}

#[cfg(test)]
thread_local! {
    /// The number of times that a field was looked for on this thread.
    pub static LOOKS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

impl ValueExt for Value {
    fn text(&self, name: &str) -> &str {
        look(self, name).and_then(Value::as_str).unwrap_or_default()
    }

    fn int(&self, name: &str) -> Option<i64> {
        look(self, name).and_then(Value::as_i64)
    }

    fn flag(&self, name: &str) -> bool {
        look(self, name).and_then(Value::as_bool).unwrap_or_default()
    }

    fn list(&self, name: &str) -> &[Value] {
        look(self, name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    fn entries(&self, name: &str) -> &Map<String, Value> {
        look(self, name).and_then(Value::as_object).unwrap_or(&NOTHING)
    }

    fn has(&self, name: &str) -> bool {
        self.some(name).is_some()
    }

    fn some(&self, name: &str) -> Option<&Value> {
        look(self, name).filter(|value| !value.is_null())
    }
}

/// Returns, for each key, true when it stands before it, too. Each is looked at once, however many there are.
pub fn repeats<K: Ord>(keys: impl IntoIterator<Item = K>) -> Vec<bool> {
    let mut seen = BTreeSet::new();
    keys.into_iter().map(|key| !seen.insert(key)).collect()
}

/// Returns, for each key, true when it stands behind it, too.
pub fn repeated_later<K: Ord>(keys: impl IntoIterator<Item = K, IntoIter: DoubleEndedIterator>) -> Vec<bool> {
    let mut later = repeats(keys.into_iter().rev());
    later.reverse();
    later
}

/// Returns, for each item, true when a field has a text that the field of an item before it has.
pub fn repeated_texts(items: &[Value], name: &str) -> Vec<bool> {
    repeats(items.iter().map(|item| item.text(name)))
}

/// Returns, for each value, true when it stands before it, too.
pub fn repeated_values(items: &[Value]) -> Vec<bool> {
    repeats(items.iter().map(Value::to_string))
}

/// The texts that a field of these items has.
pub fn texts<'a>(items: &'a [Value], name: &str) -> BTreeSet<&'a str> {
    items.iter().map(|item| item.text(name)).collect()
}

/// The entries of a map; none where it is none.
pub fn entries_of(value: Option<&Value>) -> &Map<String, Value> {
    value.and_then(Value::as_object).unwrap_or(&NOTHING)
}

/// Returns the entries of two maps by their names, which stand in the same order in both.
pub fn side_by_side<'a>(
    before: &'a Map<String, Value>,
    after: &'a Map<String, Value>,
) -> impl Iterator<Item = (&'a str, Option<&'a Value>, Option<&'a Value>)> {
    let (mut before, mut after) = (before.iter().peekable(), after.iter().peekable());
    std::iter::from_fn(move || {
        let order = match (before.peek(), after.peek()) {
            (Some((left, _)), Some((right, _))) => left.cmp(right),
            (Some(_), None) => Ordering::Less,
            (None, _) => Ordering::Greater,
        };
        let left = if order.is_le() { before.next() } else { None };
        let right = if order.is_ge() { after.next() } else { None };
        let (name, _) = left.or(right)?;
        Some((name.as_str(), left.map(|(_, value)| value), right.map(|(_, value)| value)))
    })
}

/// Puts a value if there is none, or only null.
pub fn put_missing(object: &mut Value, name: &str, value: impl Into<Value>) {
    if !object.has(name)
        && let Value::Object(fields) = object
    {
        fields.insert(name.to_owned(), value.into());
    }
}

/// Restores a field of the old object.
pub fn restore(object: &mut Value, old: &Value, name: &str) {
    match old.get(name) {
        // Most writes do not touch immutable fields.
        before if object.get(name) == before => {}
        Some(value) => object[name] = value.clone(),
        None => remove(object, name),
    }
}

/// Takes a field away.
pub fn remove(object: &mut Value, name: &str) {
    if let Value::Object(fields) = object {
        fields.remove(name);
    }
}
