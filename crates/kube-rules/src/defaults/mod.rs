//! The defaults of fields. Plain defaults are a table; those that depend on something are code.

mod conditional;
mod image;
mod pod_resources;
mod table;

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use serde_json::{Map, Value};

use super::Definition;
use super::canonical::is_zero;
use super::quantity::Quantity;
use kube_facts::{Field, Struct, Type, facts};

/// Fills in every default of an object of a built-in kind. The object must be canonical, and perhaps is not so any more
/// after; the result says so.
pub fn fill(definition: &Definition, object: &mut Value) -> bool {
    let name = facts().type_name(&definition.group, &definition.version, &definition.kind);
    name.is_some_and(|name| fill_named(name, object))
}

/// Fills in every default of the status of an object of a built-in kind. Returns true when that may have changed it.
pub fn fill_status(definition: &Definition, status: &mut Value) -> bool {
    let name = facts().type_name(&definition.group, &definition.version, &definition.kind);
    let below = name.and_then(|name| plans().get(name)).map_or(&[][..], |plan| &plan.below);
    below.iter().find(|(field, _)| *field == "status").is_some_and(|(_, ty)| descend(ty, status))
}

/// The plan of defaults in values of a type.
struct DefaultsPlan {
    inner: &'static Struct,
    plain: &'static [(String, Value)],
    rule: Option<fn(&mut Value)>,
    /// The fields below which there is something to fill in.
    below: Vec<(&'static str, &'static Type)>,
    /// The fields that are amounts of resources.
    amounts: Vec<&'static str>,
}

impl DefaultsPlan {
    /// Returns the type's own defaults; nothing is known of the levels below.
    fn of(name: &str, inner: &'static Struct) -> DefaultsPlan {
        let short = name.strip_prefix("io.k8s.").unwrap_or(name);
        let short = short.strip_prefix("api.").unwrap_or(short);
        let is_amount = |(_, field): &(&String, &Field)| field.go.as_ref().is_some_and(|go| go.ty == "v1.ResourceList");
        // The overhead of a class of runtimes is kept as it is written.
        let fields = inner.fields.iter().filter(|field| is_amount(field) && short != "node.v1.Overhead");
        let amounts = fields.map(|(name, _)| name.as_str()).collect();
        DefaultsPlan { inner, plain: table::of(short), rule: conditional::rule(short), below: Vec::new(), amounts }
    }

    fn is_empty(&self) -> bool {
        self.plain.is_empty() && self.rule.is_none() && self.amounts.is_empty() && self.below.is_empty()
    }
}

/// Returns the plans of all types in or below which there is anything to fill in. Most of most objects has no defaults,
/// and is passed by.
fn plans() -> &'static HashMap<&'static str, DefaultsPlan> {
    static PLANS: LazyLock<HashMap<&'static str, DefaultsPlan>> = LazyLock::new(|| {
        let structs = facts().types().filter_map(|(name, ty)| match ty {
            Type::Struct(inner) => Some((name, DefaultsPlan::of(name, inner))),
            _ => None,
        });
        let mut plans: HashMap<&str, DefaultsPlan> = structs.collect();
        let mut filled: HashSet<&str> =
            plans.iter().filter(|(_, plan)| !plan.is_empty()).map(|(name, _)| *name).collect();
        loop {
            let known = filled.len();
            let reaches = |plan: &DefaultsPlan| plan.inner.fields.values().any(|field| is_filled(&field.ty, &filled));
            let more: Vec<&str> = plans.iter().filter(|(_, plan)| reaches(plan)).map(|(name, _)| *name).collect();
            filled.extend(more);
            if filled.len() == known {
                break;
            }
        }
        plans.retain(|name, _| filled.contains(name));
        for plan in plans.values_mut() {
            let fields = plan.inner.fields.iter().filter(|(_, field)| is_filled(&field.ty, &filled));
            plan.below = fields.map(|(name, field)| (name.as_str(), &field.ty)).collect();
        }
        plans
    });
    &PLANS
}

/// Returns true when values of a type have something to fill in, given these types that do.
fn is_filled(ty: &Type, filled: &HashSet<&str>) -> bool {
    match ty {
        Type::Named(name) => filled.contains(&**name),
        Type::List(list) => is_filled(&list.items, filled),
        Type::Map(map) => is_filled(&map.values, filled),
        _ => false,
    }
}

/// Fills in the defaults of a value of a type that is known by its name. Returns true when that may have changed it.
pub fn fill_named(name: &str, value: &mut Value) -> bool {
    let Some(plan) = plans().get(name) else { return false };
    let Value::Object(object) = value else { return false };
    let mut changed = plan.rule.is_some();
    for (field, default) in plan.plain {
        changed |= fill_field(object, plan.inner, field, default);
    }
    if let Some(rule) = plan.rule {
        rule(value);
    }
    let Value::Object(object) = value else { return changed };
    for (field, ty) in &plan.below {
        if let Some(value) = object.get_mut(*field) {
            changed |= descend(ty, value);
        }
    }
    for field in &plan.amounts {
        if let Some(amounts) = object.get_mut(*field) {
            round_up(amounts);
            changed = true;
        }
    }
    changed
}

fn descend(ty: &Type, value: &mut Value) -> bool {
    let mut changed = false;
    match (ty, value) {
        (Type::Named(name), value) => changed = fill_named(name, value),
        (Type::List(list), Value::Array(items)) => {
            for item in items {
                changed |= descend(&list.items, item);
            }
        }
        (Type::Map(map), Value::Object(entries)) => {
            for value in entries.values_mut() {
                changed |= descend(&map.values, value);
            }
        }
        _ => {}
    }
    changed
}

fn fill_field(object: &mut Map<String, Value>, inner: &Struct, name: &str, default: &Value) -> bool {
    let unset = match (object.get(name), inner.fields.get(name)) {
        (None | Some(Value::Null), _) => true,
        (Some(value), Some(field)) => !is_pointer(field) && is_zero(value),
        (Some(_), None) => false,
    };
    if unset {
        object.insert(name.to_owned(), default.clone());
    }
    unset
}

fn is_pointer(field: &Field) -> bool {
    field.go.as_ref().is_some_and(|go| go.is_pointer())
}

/// Amounts of resources are kept to a thousandth.
fn round_up(resources: &mut Value) {
    let Value::Object(amounts) = resources else { return };
    for amount in amounts.values_mut() {
        let Some(Ok(mut quantity)) = amount.as_str().map(Quantity::parse) else { continue };
        quantity.round_up(-3);
        *amount = quantity.canonical().into();
    }
}
