//! Fields that are not in the schema go, missing ones get their defaults.

use serde_json::Value;

use super::schema::{Others, Schema};

/// Every whole object has these, whatever its schema says.
const HEADER: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Removes fields that the schema does not have; returns their paths, sorted.
pub fn prune(object: &mut Value, schema: &Schema) -> Vec<String> {
    let mut pruning = Pruning { path: String::new(), gone: Vec::new() };
    pruning.fields(object, schema, CustomHeader::Kept);
    pruning.gone.sort();
    pruning.gone
}

/// Returns true when a value has fields that its schema does not have. The header of whole objects is not checked.
pub fn has_unknown(value: &Value, schema: &Schema) -> bool {
    let mut pruning = Pruning { path: String::new(), gone: Vec::new() };
    pruning.value(&mut value.clone(), Some(schema));
    !pruning.gone.is_empty()
}

/// Takes away nulls where there may be none, and puts defaults where nothing is.
pub fn fill(object: &mut Value, schema: &Schema) {
    drop_nulls(object, schema);
    defaults(object, schema);
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum CustomHeader {
    Kept,
    AsNamed,
}

struct Pruning {
    path: String,
    gone: Vec<String>,
}

impl Pruning {
    fn value(&mut self, value: &mut Value, schema: Option<&Schema>) {
        let header =
            if schema.is_some_and(|schema| schema.embedded) { CustomHeader::Kept } else { CustomHeader::AsNamed };
        match (value, schema) {
            (value @ Value::Object(_), Some(schema)) => self.fields(value, schema, header),
            (Value::Object(entries), None) => {
                let names: Vec<String> = entries.keys().cloned().collect();
                for name in names {
                    entries.remove(&name);
                    self.note(&name);
                }
            }
            (Value::Array(items), schema) => {
                // Lists in an open value are open, too.
                let open = schema.is_some_and(|schema| schema.open && schema.items.is_none());
                if open {
                    return;
                }
                let inner = schema.and_then(|schema| schema.items.as_deref());
                let length = self.path.len();
                for (index, item) in items.iter_mut().enumerate() {
                    self.path.push_str(&format!("[{index}]"));
                    self.value(item, inner);
                    self.path.truncate(length);
                }
            }
            _ => {}
        }
    }

    fn fields(&mut self, value: &mut Value, schema: &Schema, header: CustomHeader) {
        let Value::Object(entries) = value else { return };
        let mut unknown = Vec::new();
        for (name, value) in entries.iter_mut() {
            if header == CustomHeader::Kept && HEADER.contains(&name.as_str()) {
                continue;
            }
            let inner = match (schema.field(name), &schema.others) {
                (Some(inner), _) => Some(inner),
                (None, _) if schema.open => continue,
                (None, Others::Any) => None,
                (None, _) => {
                    unknown.push(name.clone());
                    continue;
                }
            };
            let length = self.path.len();
            self.enter(name);
            self.value(value, inner);
            self.path.truncate(length);
        }
        for name in unknown {
            entries.remove(&name);
            self.note(&name);
        }
    }

    fn enter(&mut self, name: &str) {
        if !self.path.is_empty() {
            self.path.push('.');
        }
        self.path.push_str(name);
    }

    fn note(&mut self, name: &str) {
        let length = self.path.len();
        self.enter(name);
        self.gone.push(self.path.clone());
        self.path.truncate(length);
    }
}

fn is_misplaced_null(value: &Value, schema: &Schema) -> bool {
    value.is_null() && !schema.nullable
}

fn drop_nulls(value: &mut Value, schema: &Schema) {
    match value {
        Value::Object(entries) => entries.retain(|name, value| {
            let Some(inner) = schema.field(name) else { return true };
            if is_misplaced_null(value, inner) && inner.default.is_none() {
                return false;
            }
            drop_nulls(value, inner);
            true
        }),
        Value::Array(items) => {
            if let Some(inner) = &schema.items {
                items.iter_mut().for_each(|item| drop_nulls(item, inner));
            }
        }
        _ => {}
    }
}

fn defaults(value: &mut Value, schema: &Schema) {
    match value {
        Value::Object(entries) => {
            for (name, inner) in &schema.fields {
                if let Some(default) = &inner.default
                    && entries.get(name).is_none_or(|value| is_misplaced_null(value, inner))
                {
                    entries.insert(name.clone(), default.clone());
                }
            }
            for (name, value) in entries.iter_mut() {
                if let Some(inner) = schema.field(name) {
                    default_one(value, inner);
                }
            }
        }
        Value::Array(items) => {
            if let Some(inner) = &schema.items {
                items.iter_mut().for_each(|item| default_one(item, inner));
            }
        }
        _ => {}
    }
}

fn default_one(value: &mut Value, schema: &Schema) {
    if is_misplaced_null(value, schema)
        && let Some(default) = &schema.default
    {
        *value = default.clone();
    }
    defaults(value, schema);
}
