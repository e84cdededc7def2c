//! JSON patch (RFC 6902), as lenient and as terse as the real server's.

use serde_json::Value;

use super::super::read::{Node, parse_json};
use crate::api_error::ApiError;

/// So many operations may a patch have.
const MOST_OPERATIONS: usize = 10_000;
/// So many bytes of JSON may the `copy` operations of one patch make together, as with the real server.
const MOST_COPIED: usize = 3 << 20;

/// Lays a patch over a value.
///
/// # Errors
/// 400 for a malformed patch, 413 for too long a one, 422 where an operation fails.
pub fn apply(old: &Value, body: &[u8]) -> Result<Value, ApiError> {
    let operations = read(body).map_err(|error| ApiError::bad_request(format!("error decoding patch: {error}")))?;
    if operations.len() > MOST_OPERATIONS {
        let message = format!(
            "Request entity too large: The allowed maximum operations in a JSON patch is {MOST_OPERATIONS}, got {}",
            operations.len()
        );
        return Err(ApiError::new(413, "RequestEntityTooLarge", message));
    }
    let mut document = old.clone();
    let mut budget = MOST_COPIED;
    for operation in &operations {
        run(&mut document, operation, &mut budget).ok_or_else(failed)?;
    }
    Ok(document)
}

/// The real server does not say which operation failed, or why.
fn failed() -> ApiError {
    ApiError::new(422, "Invalid", "the server rejected our request due to an error in our request")
}

struct Operation {
    name: String,
    path: Option<String>,
    from: Option<String>,
    value: Option<Value>,
}

fn read(body: &[u8]) -> Result<Vec<Operation>, String> {
    let node = parse_json(body)?;
    let items = match node {
        Node::List(items) => items,
        Node::Null => return Ok(Vec::new()),
        other => {
            return Err(format!(
                "json: cannot unmarshal {} into Go value of type []handlers.jsonPatchOp",
                other.kind()
            ));
        }
    };
    items.iter().map(operation).collect()
}

fn operation(node: &Node) -> Result<Operation, String> {
    if !matches!(node, Node::Map(_) | Node::Null) {
        return Err(format!("json: cannot unmarshal {} into Go value of type handlers.jsonPatchOp", node.kind()));
    }
    let text = |name: &str| match node.get(name) {
        None | Some(Node::Null) => Ok(None),
        Some(Node::Text(text)) => Ok(Some(text.clone())),
        Some(other) => {
            let what = other.kind();
            Err(format!("json: cannot unmarshal {what} into Go struct field jsonPatchOp.{name} of type string"))
        }
    };
    Ok(Operation {
        name: text("op")?.unwrap_or_default(),
        path: text("path")?,
        from: text("from")?,
        value: node.get("value").map(Node::to_value),
    })
}

/// Runs one operation; nothing if it fails.
fn run(document: &mut Value, operation: &Operation, budget: &mut usize) -> Option<()> {
    let path = operation.path.as_deref()?;
    let value = || operation.value.clone().unwrap_or(Value::Null);
    match operation.name.as_str() {
        "add" => add(document, path, value()),
        "remove" => remove(document, path).map(drop),
        "replace" if path.is_empty() => {
            *document = value();
            Some(())
        }
        "replace" => {
            let (parent, key) = parent(document, path)?;
            set(parent, &key, value())
        }
        "move" => {
            let moved = remove(document, operation.from.as_deref()?)?;
            add(document, path, moved)
        }
        "copy" => {
            let (parent, key) = parent(document, operation.from.as_deref()?)?;
            let copied = get(parent, &key)?.unwrap_or(&Value::Null);
            // Before it is copied: copies of copies would grow without bound.
            *budget = budget.checked_sub(size(copied))?;
            let copied = copied.clone();
            add(document, path, copied)
        }
        "test" if path.is_empty() => (*document == value()).then_some(()),
        "test" => {
            let (parent, key) = parent(document, path)?;
            (*get(parent, &key)?.unwrap_or(&Value::Null) == value()).then_some(())
        }
        _ => None,
    }
}

/// Returns the length of a value as JSON; nothing has none.
fn size(value: &Value) -> usize {
    struct Length(usize);
    impl std::io::Write for Length {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut length = Length(0);
    if !value.is_null() {
        // Counting does not fail.
        let _ = serde_json::to_writer(&mut length, value);
    }
    length.0
}

/// Returns the parent of the last part of a path, and that part.
fn parent<'a>(document: &'a mut Value, path: &str) -> Option<(&'a mut Value, String)> {
    let mut parts: Vec<String> =
        path.split('/').skip(1).map(|part| part.replace("~1", "/").replace("~0", "~")).collect();
    let key = parts.pop()?;
    let mut at = document;
    for part in parts {
        at = match at {
            Value::Object(entries) => entries.get_mut(&part)?,
            Value::Array(items) => {
                let index = index(&part, items.len())?;
                items.get_mut(index)?
            }
            _ => return None,
        };
    }
    (at.is_object() || at.is_array()).then_some((at, key))
}

/// Returns an index; a negative one counts from the end of `length`.
fn index(part: &str, length: usize) -> Option<usize> {
    let index: i64 = part.parse().ok()?;
    let index = if index < 0 { index + i64::try_from(length).ok()? } else { index };
    usize::try_from(index).ok()
}

/// Returns the value at a key. A map has every key, if only as nothing.
fn get<'a>(parent: &'a Value, key: &str) -> Option<Option<&'a Value>> {
    match parent {
        Value::Object(entries) => Some(entries.get(key)),
        Value::Array(items) => items.get(index(key, items.len())?).map(Some),
        _ => None,
    }
}

fn set(parent: &mut Value, key: &str, value: Value) -> Option<()> {
    match parent {
        Value::Object(entries) => {
            entries.insert(key.to_owned(), value);
        }
        Value::Array(items) => {
            let index = index(key, items.len())?;
            *items.get_mut(index)? = value;
        }
        _ => return None,
    }
    Some(())
}

fn add(document: &mut Value, path: &str, value: Value) -> Option<()> {
    let (parent, key) = parent(document, path)?;
    match parent {
        Value::Array(items) if key == "-" => items.push(value),
        Value::Array(items) => {
            let index = index(&key, items.len() + 1).filter(|index| *index <= items.len())?;
            items.insert(index, value);
        }
        other => return set(other, &key, value),
    }
    Some(())
}

fn remove(document: &mut Value, path: &str) -> Option<Value> {
    let (parent, key) = parent(document, path)?;
    match parent {
        Value::Object(entries) => entries.remove(&key),
        Value::Array(items) => {
            let index = index(&key, items.len()).filter(|index| *index < items.len())?;
            Some(items.remove(index))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::apply;

    fn patched(patch: &Value) -> Option<Value> {
        let old = json!({ "a": { "b": [1, 2] }, "n": null });
        apply(&old, patch.to_string().as_bytes()).ok()
    }

    #[test]
    fn operations_are_run() {
        let one = |operation: Value| patched(&json!([operation]));
        let with = |list: Value| Some(json!({ "a": { "b": list }, "n": null }));
        assert_eq!(one(json!({ "op": "add", "path": "/a/b/1", "value": 7 })), with(json!([1, 7, 2])));
        assert_eq!(one(json!({ "op": "add", "path": "/a/b/-", "value": 7 })), with(json!([1, 2, 7])));
        assert_eq!(one(json!({ "op": "remove", "path": "/a/b/-1" })), with(json!([1])));
        assert_eq!(one(json!({ "op": "move", "from": "/a/b/0", "path": "/a/b/1" })), with(json!([2, 1])));
        assert_eq!(one(json!({ "op": "test", "path": "/a/x" })), with(json!([1, 2])));
        assert_eq!(one(json!({ "op": "test", "path": "/a/b", "value": [1] })), None);
        assert_eq!(one(json!({ "op": "add", "path": "/a/b/3", "value": 7 })), None);
        assert_eq!(one(json!({ "op": "remove", "path": "/a/x" })), None);
        assert_eq!(one(json!({ "op": "add", "path": "a", "value": 7 })), None);
    }

    #[test]
    fn copies_are_bounded() {
        let copy = json!({ "op": "copy", "from": "/a", "path": "/a/b/-" });
        let patch: Value = vec![copy; 60].into();
        assert!(patched(&patch).is_none(), "copies of copies double");
        // A few values may be large: the bytes count.
        let mebibyte = json!({ "text": "x".repeat(1 << 20) });
        let copies = |count: usize| -> Option<usize> {
            let copy = |at: usize| json!({ "op": "copy", "from": "/text", "path": format!("/copy{at}") });
            let patch: Value = (0..count).map(copy).collect::<Vec<_>>().into();
            let patched = apply(&mebibyte, patch.to_string().as_bytes()).ok()?;
            Some(patched.as_object()?.len())
        };
        assert_eq!(copies(2), Some(3));
        assert_eq!(copies(3), None, "three, and the quotes around them");
        // A null may be copied as often as there are operations.
        let nothing: Value = vec![json!({ "op": "copy", "from": "/n", "path": "/m" }); 10_000].into();
        assert!(patched(&nothing).is_some());
    }
}
