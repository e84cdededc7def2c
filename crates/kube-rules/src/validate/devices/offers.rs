//! The offers of drivers: slices of pools of devices.

use serde_json::Value;

use super::super::super::value_ext::ValueExt;
use super::super::errors::{Errors, Path, Shown, immutable};
use super::super::names;
use super::super::pod::node_selector;
use super::amounts::{attributes, capacity, consumption, counter_set, counters_of};
use super::{EFFECTS, binding, driver_name, each, label, name, pool_name, qualified, twice};

const MOST_DEVICES: usize = 128;
/// The most devices where some of them are tainted or share counters.
const MOST_SPECIAL_DEVICES: usize = 64;
const MOST_TAINTS: usize = 16;
const MOST_COUNTER_SETS: usize = 8;
/// Sets of counters that one device takes from.
const MOST_CONSUMED_SETS: usize = 2;

/// Checks a new ResourceSlice, or one as it is, its metadata apart.
pub fn slice(object: &Value, errors: &mut Errors) {
    spec(&object["spec"], &Value::Null, errors);
}

/// Checks a changed ResourceSlice.
pub fn slice_update(old: &Value, new: &Value, errors: &mut Errors) {
    spec(&new["spec"], &old["spec"], errors);
}

fn spec(spec: &Value, old: &Value, errors: &mut Errors) {
    let at = Path::root("spec");
    driver_name(spec.text("driver"), &at.field("driver"), errors);
    let (pool, pool_at) = (&spec["pool"], at.field("pool"));
    pool_name(pool.text("name"), &pool_at.field("name"), errors);
    let (count, generation) = (pool.int("resourceSliceCount"), pool.int("generation"));
    if count.unwrap_or_default() <= 0 {
        let at = pool_at.field("resourceSliceCount");
        errors.invalid(&at, count.unwrap_or_default(), "must be greater than zero");
    }
    if let Some(generation) = generation.filter(|generation| *generation < 0) {
        errors.invalid(&pool_at.field("generation"), generation, "must be greater than or equal to zero");
    }
    if !old.is_null() {
        immutable(&old["pool"], pool, "name", &pool_at, errors);
        immutable(old, spec, "driver", &at, errors);
        immutable(old, spec, "nodeName", &at, errors);
    }
    let mut set = nodes(spec, Asked::OfSlice, &at, errors);
    match spec.get("perDeviceNodeSelection").and_then(Value::as_bool) {
        Some(true) => set.push("`perDeviceNodeSelection`"),
        Some(false) => {
            errors.invalid(&at.field("perDeviceNodeSelection"), false, "must be either unset or set to true");
        }
        None => {}
    }
    let wanted = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
    match set.as_slice() {
        [] => errors.required(&at, wanted),
        [_] => {}
        several => {
            let shown = format!("{{{}}}", several.join(", "));
            errors.invalid(&at, shown.as_str(), &format!("{wanted}, but multiple fields are set"));
        }
    }
    if spec.has("sharedCounters") && spec.has("devices") {
        errors.invalid(&at, "", "only one of `sharedCounters` or `devices` is allowed");
    }
    let (devices, devices_at) = (spec.list("devices"), at.field("devices"));
    let special = |device: &Value| !device.list("taints").is_empty() || !device.list("consumesCounters").is_empty();
    let most = if devices.iter().any(special) { MOST_SPECIAL_DEVICES } else { MOST_DEVICES };
    each(devices, most, &devices_at, errors, |one, at, errors| {
        let before = old.list("devices").iter().find(|other| other["name"] == one["name"]);
        device(one, before, spec.flag("perDeviceNodeSelection"), at, errors);
    });
    twice(devices, most, &devices_at, errors, name);
    let (sets, sets_at) = (spec.list("sharedCounters"), at.field("sharedCounters"));
    each(sets, MOST_COUNTER_SETS, &sets_at, errors, |set, at, errors| {
        counter_set(set, "name", at, errors);
        counters_of(set, at, errors);
    });
    twice(sets, MOST_COUNTER_SETS, &sets_at, errors, name);
}

/// The object whose fields name the nodes of the devices.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    OfSlice,
    OfDevice,
}

/// Returns on which nodes devices are; which of the fields that say it are there.
fn nodes(of: &Value, asked: Asked, at: &Path<'_>, errors: &mut Errors) -> Vec<&'static str> {
    let mut set = Vec::new();
    match of.some("nodeName").and_then(Value::as_str) {
        Some("") => {
            let detail = match asked {
                Asked::OfSlice => "must be either unset or set to a non-empty string",
                Asked::OfDevice => "must not be empty",
            };
            errors.invalid(&at.field("nodeName"), "", detail);
        }
        Some(name) => {
            set.push("`nodeName`");
            errors.each_invalid(&at.field("nodeName"), name, &names::object_name(name));
        }
        None => {}
    }
    if let Some(selector) = of.some("nodeSelector") {
        set.push("`nodeSelector`");
        let at = at.field("nodeSelector");
        node_selector(selector, &at, errors);
        let terms = selector.list("nodeSelectorTerms");
        if asked == Asked::OfSlice && terms.len() != 1 {
            let shown = Shown::Plain(Value::from(terms).to_string());
            errors.invalid(&at.field("nodeSelectorTerms"), shown, "must have exactly one node selector term");
        }
    }
    match of.get("allNodes").and_then(Value::as_bool) {
        Some(true) => set.push("`allNodes`"),
        Some(false) => errors.invalid(&at.field("allNodes"), false, "must be either unset or set to true"),
        None => {}
    }
    set
}

fn device(device: &Value, old: Option<&Value>, chooses_nodes: bool, at: &Path<'_>, errors: &mut Errors) {
    label(device, "name", at, errors);
    attributes(device, at, errors);
    let same = |name: &str| old.is_some_and(|old| old.get(name) == device.get(name));
    if !same("capacity") {
        capacity(device, at, errors);
    }
    if !same("taints") {
        each(device.list("taints"), MOST_TAINTS, &at.field("taints"), errors, taint);
    }
    let (consumed, consumed_at) = (device.list("consumesCounters"), at.field("consumesCounters"));
    each(consumed, MOST_CONSUMED_SETS, &consumed_at, errors, consumption);
    twice(consumed, MOST_CONSUMED_SETS, &consumed_at, errors, |one| one.text("counterSet").to_owned());
    if chooses_nodes {
        let wanted = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
        match nodes(device, Asked::OfDevice, at, errors).as_slice() {
            [] => errors.required(at, wanted),
            [_] => {}
            several => errors.invalid(at, format!("{{{}}}", several.join(", ")).as_str(), wanted),
        }
    } else if ["nodeName", "nodeSelector", "allNodes"].iter().any(|name| device.has(name)) {
        let detail = "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true \
                      in the ResourceSlice spec";
        errors.invalid(at, Shown::Plain("null".to_owned()), detail);
    }
    binding(device, at, errors);
}

fn taint(taint: &Value, at: &Path<'_>, errors: &mut Errors) {
    qualified(taint.text("key"), &at.field("key"), errors);
    let value = taint.text("value");
    errors.each_invalid(&at.field("value"), value, &names::label_value(value));
    match taint.text("effect") {
        "" => errors.required(&at.field("effect"), ""),
        effect if EFFECTS.contains(&effect) => {}
        effect => errors.not_supported(&at.field("effect"), effect, &EFFECTS),
    }
}
