//! What differs between two objects: fields added, changed, gone.

use serde_json::Value;

use super::super::look::entries_of;
use super::field_set::{FieldSet, field};
use super::items::Indexed;
use super::shape::{Atom, Kind, atom, entry_type, is_whole};
use crate::kinds::{List, Type};

/// What differs.
#[derive(Clone, Debug, Default)]
pub struct Comparison {
    /// Fields that are only in the first.
    pub removed: FieldSet,
    /// Fields that are in both, with other values.
    pub modified: FieldSet,
    /// Fields that are only in the second.
    pub added: FieldSet,
}

impl Comparison {
    /// The comparison without some fields and all that is in them.
    #[must_use]
    pub fn outside(mut self, fields: &FieldSet) -> Comparison {
        self.removed.leave(fields);
        self.modified.leave(fields);
        self.added.leave(fields);
        self
    }
}

/// Compares two values of a type.
pub fn compare(before: &Value, after: &Value, ty: &Type) -> Comparison {
    let mut walk = Walk { path: Vec::new(), found: Comparison::default() };
    walk.value(Some(before), Some(after), ty);
    walk.found
}

struct Walk {
    path: Vec<String>,
    found: Comparison,
}

/// Whether a value was looked at as a whole, or part by part.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seen {
    Whole,
    Parts,
}

impl Walk {
    fn value(&mut self, before: Option<&Value>, after: Option<&Value>, ty: &Type) {
        if before == after {
            return;
        }
        let (left, right) = (atom(ty, before), atom(ty, after));
        let changed_kind = match (before, after, left, right) {
            (Some(_), Some(_), Atom::Deduced(left), Atom::Deduced(right)) => left != right,
            _ => false,
        };
        let mut seen = Seen::Parts;
        if after.is_none() || changed_kind {
            seen = self.atom(before, after, left, ty);
        }
        if after.is_some() && seen == Seen::Parts {
            seen = self.atom(before, after, right, ty);
        }
        if seen == Seen::Parts {
            if before.is_none() {
                self.found.added.insert(&self.path);
            } else if after.is_none() {
                self.found.removed.insert(&self.path);
            }
        }
    }

    fn atom(&mut self, before: Option<&Value>, after: Option<&Value>, atom: Atom<'_>, ty: &Type) -> Seen {
        if is_whole(atom) || (holds_nothing(before) && holds_nothing(after)) {
            return self.leaf(before, after);
        }
        match atom {
            Atom::List(list) => self.list(before, after, list),
            Atom::Deduced(Kind::Scalar) => return self.leaf(before, after),
            _ => self.map(before, after, ty),
        }
        Seen::Parts
    }

    fn leaf(&mut self, before: Option<&Value>, after: Option<&Value>) -> Seen {
        match (before, after) {
            (None, _) => self.found.added.insert(&self.path),
            (_, None) => self.found.removed.insert(&self.path),
            _ => self.found.modified.insert(&self.path),
        }
        Seen::Whole
    }

    fn map(&mut self, before: Option<&Value>, after: Option<&Value>, ty: &Type) {
        let (before, after) = (entries_of(before), entries_of(after));
        for name in before.keys().chain(after.keys().filter(|name| !before.contains_key(*name))) {
            let (left, right) = (before.get(name), after.get(name));
            if left == right {
                continue;
            }
            if let Some(inner) = entry_type(ty, name) {
                self.path.push(field(name));
                self.value(left, right, inner);
                self.path.pop();
            }
        }
    }

    fn list(&mut self, before: Option<&Value>, after: Option<&Value>, list: &List) {
        let (before, after) = (Indexed::new(list, before), Indexed::new(list, after));
        let elements = before.order.iter().chain(after.order.iter().filter(|element| !before.has(element)));
        for element in elements {
            let (left, right) = (before.all(element), after.all(element));
            self.path.push(element.clone());
            match (left.len(), right.len()) {
                (0 | 1, 0 | 1) => self.value(left.first().copied(), right.first().copied(), &list.items),
                (2.., 2..) => {
                    if left != right {
                        self.found.modified.insert(&self.path);
                    }
                }
                (2.., _) => {
                    if let Some(item) = right.first() {
                        self.value(None, Some(item), &list.items);
                    }
                    self.found.removed.insert(&self.path);
                }
                (_, _) => {
                    if let Some(item) = left.first() {
                        self.value(Some(item), None, &list.items);
                    }
                    self.found.added.insert(&self.path);
                }
            }
            self.path.pop();
        }
    }
}

/// Null, or a map or list without anything.
pub fn holds_nothing(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => true,
        Some(Value::Object(entries)) => entries.is_empty(),
        Some(Value::Array(items)) => items.is_empty(),
        Some(_) => false,
    }
}
