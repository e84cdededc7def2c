//! The differences between two objects: fields added, changed, gone.

use serde_json::Value;

use super::super::value_ext::{entries_of, side_by_side};
use super::field_set::{FieldNode, FieldSet, field};
use super::items::Indexed;
use super::shape::{Atom, ShapeKind, atom, entry_type, is_whole};
use kube_facts::{List, Type};

/// The differences.
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
    /// Returns the comparison without some fields and all that is in them.
    #[must_use]
    pub fn outside(mut self, fields: &FieldSet) -> Comparison {
        self.removed.leave(fields);
        self.modified.leave(fields);
        self.added.leave(fields);
        self
    }

    /// Returns true when nothing differs.
    pub fn is_empty(&self) -> bool {
        self.removed.is_empty() && self.modified.is_empty() && self.added.is_empty()
    }

    /// Returns true when nothing was removed, and all changes are in a set that is written.
    pub fn is_in(&self, written: &Value) -> bool {
        self.removed.is_empty() && self.modified.is_in(written) && self.added.is_in(written)
    }

    /// Returns true when any of it is in a set that is written.
    pub fn meets(&self, written: &Value) -> bool {
        [&self.removed, &self.modified, &self.added].iter().any(|fields| fields.meets(written))
    }
}

/// Compares two values of a type.
pub fn compare(before: &Value, after: &Value, ty: &Type) -> Comparison {
    let mut found = ComparedField::default();
    if before != after {
        found.value(Some(before), Some(after), ty);
    }
    Comparison { removed: found.removed.within, modified: found.modified.within, added: found.added.within }
}

/// The differences at a place and below it.
#[derive(Default)]
struct ComparedField {
    removed: FieldNode,
    modified: FieldNode,
    added: FieldNode,
}

/// The choice if a value was compared as a whole, or part by part.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seen {
    Whole,
    Parts,
}

impl ComparedField {
    /// Compares two values that differ.
    fn value(&mut self, before: Option<&Value>, after: Option<&Value>, ty: &Type) {
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
            self.added.itself |= before.is_none();
            self.removed.itself |= before.is_some() && after.is_none();
        }
    }

    fn atom(&mut self, before: Option<&Value>, after: Option<&Value>, atom: Atom<'_>, ty: &Type) -> Seen {
        if is_whole(atom) || (holds_nothing(before) && holds_nothing(after)) {
            return self.leaf(before, after);
        }
        match atom {
            Atom::List(list) => self.list(before, after, list),
            Atom::Deduced(ShapeKind::Scalar) => return self.leaf(before, after),
            _ => self.map(before, after, ty),
        }
        Seen::Parts
    }

    fn leaf(&mut self, before: Option<&Value>, after: Option<&Value>) -> Seen {
        match (before, after) {
            (None, _) => self.added.itself = true,
            (_, None) => self.removed.itself = true,
            _ => self.modified.itself = true,
        }
        Seen::Whole
    }

    fn map(&mut self, before: Option<&Value>, after: Option<&Value>, ty: &Type) {
        for (name, left, right) in side_by_side(entries_of(before), entries_of(after)) {
            if left == right {
                continue;
            }
            if let Some(inner) = entry_type(ty, name) {
                let mut found = ComparedField::default();
                found.value(left, right, inner);
                self.put(found, || field(name));
            }
        }
    }

    fn list(&mut self, before: Option<&Value>, after: Option<&Value>, list: &List) {
        let (before, after) = (Indexed::new(list, before), Indexed::new(list, after));
        let elements = before.order.iter().chain(after.order.iter().filter(|element| !before.has(element)));
        for element in elements {
            let (left, right) = (before.all(element), after.all(element));
            if left == right {
                continue;
            }
            let mut found = ComparedField::default();
            match (left.len(), right.len()) {
                (0 | 1, 0 | 1) => found.value(left.first().copied(), right.first().copied(), &list.items),
                (2.., 2..) => found.modified.itself = true,
                (2.., _) => {
                    if let Some(item) = right.first() {
                        found.value(None, Some(item), &list.items);
                    }
                    found.removed.itself = true;
                }
                (_, _) => {
                    if let Some(item) = left.first() {
                        found.value(Some(item), None, &list.items);
                    }
                    found.added.itself = true;
                }
            }
            self.put(found, || element.clone());
        }
    }

    /// Adds a difference in a part of this place.
    fn put(&mut self, found: ComparedField, element: impl Fn() -> String) {
        self.removed.within.put(found.removed, &element);
        self.modified.within.put(found.modified, &element);
        self.added.within.put(found.added, &element);
    }
}

/// Returns true for null, or a map or list without anything.
pub fn holds_nothing(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => true,
        Some(Value::Object(entries)) => entries.is_empty(),
        Some(Value::Array(items)) => items.is_empty(),
        Some(_) => false,
    }
}
