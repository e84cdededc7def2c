//! Checks that an applied object fits its type.

use std::collections::BTreeSet;

use serde_json::Value;

use super::super::words::{go_syntax, go_type, printed};
use super::field_set::{field, shown};
use super::items::{element, has_no_key};
use super::shape::{Atom, atom, entry_type};
use kube_facts::{ListKind, Scalar, Type};

/// Returns everything that does not fit, as `.spec.replicas: expected numeric (int or float), got string`.
pub fn misfits(value: &Value, ty: &Type) -> Vec<String> {
    let mut walk = SchemaWalk { path: String::new(), found: Vec::new() };
    walk.value(value, ty);
    walk.found
}

/// Returns several misfits as one error.
pub fn in_one(misfits: &[String]) -> String {
    match misfits {
        [one] => one.clone(),
        several => format!("errors:\n  {}", several.join("\n  ")),
    }
}

/// Returns true when a list with keyed items has an item without keys: nobody could own it.
pub fn lacks_keys(value: &Value, ty: &Type) -> bool {
    match (atom(ty, Some(value)), value) {
        (Atom::List(list), Value::Array(items)) => {
            for item in items {
                match list.kind {
                    ListKind::Atomic => {}
                    _ if has_no_key(list, item) => return true,
                    // Items after one that can't be identified for another reason are not checked.
                    ListKind::Map(_) if !item.is_object() => return false,
                    ListKind::Set if item.is_object() || item.is_array() => return false,
                    _ => {}
                }
                if lacks_keys(item, &list.items) {
                    return true;
                }
            }
            false
        }
        (Atom::Struct(_) | Atom::Map(_) | Atom::Deduced(_), Value::Object(entries)) => entries
            .iter()
            .filter(|(_, value)| value.is_array() || value.is_object())
            .any(|(name, value)| entry_type(ty, name).is_some_and(|inner| lacks_keys(value, inner))),
        _ => false,
    }
}

struct SchemaWalk {
    path: String,
    found: Vec<String>,
}

impl SchemaWalk {
    fn say(&mut self, what: &str) {
        let path = &self.path;
        self.found.push(format!("{path}: {what}"));
    }

    fn below(&mut self, element: &str, value: &Value, ty: &Type) {
        let length = self.path.len();
        self.path.push_str(&shown(element));
        self.value(value, ty);
        self.path.truncate(length);
    }

    fn value(&mut self, value: &Value, ty: &Type) {
        if value.is_null() {
            return;
        }
        match (atom(ty, Some(value)), value) {
            (Atom::Whole, _) => {}
            (Atom::Scalar(scalar), value) => self.scalar(value, scalar),
            (Atom::List(list), Value::Array(items)) => {
                let mut seen = BTreeSet::new();
                for (index, item) in items.iter().enumerate() {
                    let keyed = list.kind != ListKind::Atomic;
                    if !keyed {
                        self.below(&format!("i:{index}"), item, &list.items);
                        continue;
                    }
                    match element(list, item) {
                        Err(error) => {
                            // Later items can't be identified either.
                            self.say(&format!("element {index}: {error}"));
                            return;
                        }
                        Ok(element) => {
                            if !seen.insert(element.clone()) {
                                self.say(&format!("duplicate entries for key {}", shown(&element)));
                            }
                            self.below(&element, item, &list.items);
                        }
                    }
                }
            }
            (Atom::List(_), other) => self.say(&format!("expected list, got &{{{}}}", printed(other))),
            (Atom::Struct(_) | Atom::Map(_) | Atom::Deduced(_), Value::Object(entries)) => {
                for (name, value) in entries {
                    match entry_type(ty, name) {
                        Some(inner) => self.below(&field(name), value, inner),
                        None => {
                            let length = self.path.len();
                            self.path.push_str(&shown(&field(name)));
                            self.say("field not declared in schema");
                            self.path.truncate(length);
                        }
                    }
                }
            }
            (Atom::Deduced(_), _) => {}
            (Atom::Struct(_) | Atom::Map(_), other) => self.say(&format!("expected map, got &{{{}}}", printed(other))),
        }
    }

    fn scalar(&mut self, value: &Value, scalar: Scalar) {
        match (scalar, value) {
            (Scalar::String | Scalar::Bytes | Scalar::Time | Scalar::MicroTime, Value::String(_))
            | (Scalar::Boolean, Value::Bool(_))
            | (Scalar::Int32 | Scalar::Int64 | Scalar::Number, Value::Number(_))
            | (Scalar::IntOrString | Scalar::Quantity, Value::String(_) | Value::Number(_) | Value::Bool(_)) => {}
            (Scalar::String | Scalar::Bytes | Scalar::Time | Scalar::MicroTime, other) => {
                let other = go_syntax(other);
                self.say(&format!("expected string, got &value.valueUnstructured{{Value:{other}}}"));
            }
            (Scalar::Boolean, other) => self.say(&format!("expected boolean, got &{{{}}}", printed(other))),
            (Scalar::Int32 | Scalar::Int64 | Scalar::Number, other) => {
                self.say(&format!("expected numeric (int or float), got {}", go_type(other)));
            }
            (Scalar::IntOrString | Scalar::Quantity, other) => {
                self.say(&format!("expected any scalar, got &{{{}}}", printed(other)));
            }
        }
    }
}
