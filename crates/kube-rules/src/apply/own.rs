//! The fields that an applied object sets.

use serde_json::Value;

use super::compare::holds_nothing;
use super::field_set::{FieldSet, field};
use super::items::element;
use super::shape::{Atom, ShapeKind, atom, entry_type, is_whole};
use kube_facts::Type;

/// Returns the fields of a value: single values, whole maps and lists, items, and entries of maps.
pub fn fields(value: &Value, ty: &Type) -> FieldSet {
    let mut walk = OwnershipWalk { path: Vec::new(), set: FieldSet::default() };
    walk.value(value, ty);
    walk.set
}

struct OwnershipWalk {
    path: Vec<String>,
    set: FieldSet,
}

impl OwnershipWalk {
    fn value(&mut self, value: &Value, ty: &Type) {
        let of = atom(ty, Some(value));
        if is_whole(of) || matches!(of, Atom::Deduced(ShapeKind::Scalar)) {
            self.set.insert(&self.path);
            return;
        }
        match (of, value) {
            (Atom::List(list), Value::Array(items)) => {
                for item in items {
                    let Ok(element) = element(list, item) else { continue };
                    self.path.push(element);
                    self.value(item, &list.items);
                    self.set.insert(&self.path);
                    self.path.pop();
                }
            }
            (of, Value::Object(entries)) => {
                for (name, value) in entries {
                    let Some(inner) = entry_type(ty, name) else { continue };
                    let named = matches!(of, Atom::Struct(structure) if structure.fields.contains_key(name));
                    self.path.push(field(name));
                    self.value(value, inner);
                    let empty_map = holds_nothing(Some(value)) && !value.is_array();
                    if empty_map || !named {
                        self.set.insert(&self.path);
                    }
                    self.path.pop();
                }
            }
            _ => {}
        }
    }
}
