//! The parts of objects at paths.

use serde_json::Value;

/// Returns the text at a path of an object; empty if there is none.
pub(super) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    // No name of a field has to be escaped in a pointer, and this is asked of every write.
    let mut names = pointer.split('/').skip(1);
    names.try_fold(object, |value, name| value.get(name)).and_then(Value::as_str).unwrap_or_default()
}
