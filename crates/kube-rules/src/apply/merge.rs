//! Two objects become one: the applied one wins, list by list and field by field.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::super::value_ext::{entries_of, side_by_side};
use super::compare::holds_nothing;
use super::items::Indexed;
use super::shape::{Atom, ShapeKind, atom, entry_type, is_whole};
use kube_facts::{List, Type};

/// Lays `applied` over `live`. Nothing if nothing is left.
pub fn merge(live: Option<&Value>, applied: Option<&Value>, ty: &Type) -> Option<Value> {
    let (live, applied) = match (live, applied) {
        (None, None) => return None,
        (live, None) => return live.cloned(),
        (live, Some(applied)) => (live, applied),
    };
    let of = atom(ty, Some(applied));
    let other_kind = match (of, live.map(|live| atom(ty, Some(live)))) {
        (Atom::Deduced(kind), Some(Atom::Deduced(live))) => kind != live,
        _ => false,
    };
    let whole = is_whole(of) || matches!(of, Atom::Deduced(ShapeKind::Scalar)) || other_kind;
    if whole || (holds_nothing(live) && holds_nothing(Some(applied))) {
        return Some(applied.clone());
    }
    match of {
        Atom::List(list) => lists(live, applied, list),
        _ => maps(live, applied, ty),
    }
}

fn maps(live: Option<&Value>, applied: &Value, ty: &Type) -> Option<Value> {
    let mut merged = Map::new();
    for (name, live, applied) in side_by_side(entries_of(live), entries_of(Some(applied))) {
        let Some(inner) = entry_type(ty, name) else { continue };
        if let Some(value) = merge(live, applied, inner) {
            merged.insert(name.to_owned(), value);
        }
    }
    (!merged.is_empty()).then_some(Value::Object(merged))
}

/// Returns the items of both lists: those of the live list keep their places, those of both stand in the applied order,
/// those that are only applied follow their predecessors there.
fn lists(live: Option<&Value>, applied: &Value, list: &List) -> Option<Value> {
    let (left, right) = (Indexed::new(list, live), Indexed::new(list, Some(applied)));
    let items = |value: Option<&Value>| value.and_then(Value::as_array).map(Vec::len).unwrap_or_default();
    let mut merged = Vec::with_capacity(items(live) + items(Some(applied)));
    let mut push = |element: &str, live: Option<&Value>| {
        merged.extend(merge(live, right.only(element), &list.items));
    };
    let live_items = live.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    // Items of both, in the applied order: the live list has to wait for the next one.
    let mut shared = right.order.iter().filter(|element| left.has(element)).peekable();
    let mut done: BTreeSet<&str> = BTreeSet::new();
    let (mut at_left, mut at_right) = (0, 0);
    while at_left < left.each.len() || at_right < right.order.len() {
        if let (Some(own), Some(theirs)) = (left.each.get(at_left), right.order.get(at_right)) {
            let own = own.as_deref().unwrap_or_default();
            if own == theirs {
                push(own, left.only(own));
                done.insert(theirs);
                (at_left, at_right) = (at_left + 1, at_right + 1);
                shared.next();
                continue;
            }
            if right.has(own) && shared.peek().is_some_and(|next| *next != own) {
                // An item of both, but not the one whose turn it is: it comes when the applied list comes to it.
                at_left += 1;
                continue;
            }
        }
        if let Some(own) = left.each.get(at_left) {
            let own = own.as_deref().unwrap_or_default();
            if !right.has(own) {
                // If several have one key, this very one counts.
                push(own, live_items.get(at_left));
                at_left += 1;
                continue;
            }
            if done.contains(own) {
                at_left += 1;
            }
        }
        if let Some(theirs) = right.order.get(at_right) {
            push(theirs, left.only(theirs));
            done.insert(theirs);
            at_right += 1;
            if shared.peek().is_some_and(|next| *next == theirs) {
                shared.next();
            }
        }
    }
    (!merged.is_empty()).then_some(Value::Array(merged))
}
