//! The objects of storage drivers: their own description, and their work for volumes.

use std::collections::BTreeMap;

use serde_json::Value;

use super::super::super::quantity::Quantity;
use super::super::super::value_ext::{ValueExt, repeated_texts, repeated_values, restore};
use super::super::counts::not_negative;
use super::super::errors::{Errors, Path, immutable};
use super::super::{names, selector};

const GROUP_POLICIES: [&str; 3] = ["File", "None", "ReadWriteOnceWithFSType"];
const LIFECYCLES: [&str; 2] = ["Persistent", "Ephemeral"];

/// Checks the name of a driver.
pub fn driver_name(name: &str, at: &Path<'_>, errors: &mut Errors) {
    if name.is_empty() {
        errors.required(at, "");
        return;
    }
    if name.len() > 63 {
        errors.too_long(at, 63);
    }
    errors.each_invalid(at, name, &names::dns_1123_subdomain(&name.to_lowercase()));
}

/// Checks a CSIDriver, its metadata apart.
pub fn driver(object: &Value, errors: &mut Errors) {
    let name = object["metadata"].text("name");
    let name_at = Path::root("metadata.name");
    driver_name(name, &name_at, errors);
    let (spec, at) = (&object["spec"], Path::root("spec"));
    for name in ["attachRequired", "podInfoOnMount", "storageCapacity"] {
        if !spec.has(name) {
            errors.required(&at.field(name), "");
        }
    }
    if spec.has("fsGroupPolicy") {
        errors.one_of(spec, "fsGroupPolicy", &GROUP_POLICIES, &at);
    } else {
        errors.required(&at.field("fsGroupPolicy"), "");
    }
    let tokens_at = at.field("tokenRequests");
    let tokens = spec.list("tokenRequests");
    let repeated = repeated_texts(tokens, "audience");
    for (index, token) in tokens.iter().enumerate() {
        let at = tokens_at.index(index);
        if repeated[index] {
            errors.duplicate(&at.field("audience"), token.text("audience"));
            continue;
        }
        let Some(seconds) = token.int("expirationSeconds") else { continue };
        let at = at.field("expirationSeconds");
        if seconds < 600 {
            errors.invalid(&at, seconds, "may not specify a duration less than 10 minutes");
        }
        if seconds > 1 << 32 {
            errors.invalid(&at, seconds, "may not specify a duration larger than 2^32 seconds");
        }
    }
    let modes_at = at.field("volumeLifecycleModes");
    for mode in spec.list("volumeLifecycleModes") {
        let mode = mode.as_str().unwrap_or_default();
        if !LIFECYCLES.contains(&mode) {
            errors.not_supported(&modes_at, mode, &LIFECYCLES);
        }
    }
    if !spec.has("seLinuxMount") {
        errors.required(&at.field("seLinuxMount"), "");
    }
    if let Some(period) = spec.int("nodeAllocatableUpdatePeriodSeconds").filter(|period| *period < 10) {
        let at = at.field("nodeAllocatableUpdatePeriodSeconds");
        errors.invalid(&at, period, "must be greater than or equal to 10 seconds");
    }
    if spec.has("serviceAccountTokenInSecrets") && tokens.is_empty() {
        let detail = "serviceAccountTokenInSecrets is set but no tokenRequests are specified";
        errors.invalid(&at.field("serviceAccountTokenInSecrets"), spec.flag("serviceAccountTokenInSecrets"), detail);
    }
}

/// Checks a changed CSIDriver.
pub fn driver_update(old: &Value, new: &Value, errors: &mut Errors) {
    let (before, after, at) = (&old["spec"], &new["spec"], Path::root("spec"));
    if before.flag("attachRequired") != after.flag("attachRequired") {
        // The field has this spelling there.
        errors.invalid(&at.field("attachedRequired"), after.flag("attachRequired"), "field is immutable");
    }
    immutable(before, after, "volumeLifecycleModes", &at, errors);
}

/// Checks a CSINode, its metadata apart.
pub fn node(object: &Value, errors: &mut Errors) {
    let list = Path::root("spec.drivers");
    let drivers = object["spec"].list("drivers");
    let repeated = repeated_texts(drivers, "name");
    for (index, driver) in drivers.iter().enumerate() {
        let at = list.index(index);
        let (name, id) = (driver.text("name"), driver.text("nodeID"));
        driver_name(name, &at.field("name"), errors);
        let id_at = at.field("nodeID");
        if id.is_empty() {
            errors.required(&id_at, "");
        }
        if id.len() > 256 {
            errors.invalid(&id_at, id, "must be 256 characters or less");
        }
        not_negative(&driver["allocatable"], "count", &at.field("allocatable"), errors);
        if repeated[index] {
            errors.duplicate(&list.index(index).field("name"), name);
        }
        let keys = driver.list("topologyKeys");
        let repeated = repeated_values(keys);
        for (index, key) in keys.iter().enumerate() {
            let text = key.as_str().unwrap_or_default();
            if text.is_empty() {
                errors.required(&at, "");
            }
            if repeated[index] {
                errors.duplicate(&at, text);
            }
            errors.each_invalid(&at, text, &names::qualified_name(text));
        }
    }
}

/// Checks a changed CSINode: a driver that stays may only change how much it can hold.
pub fn node_update(old: &Value, new: &Value, errors: &mut Errors) {
    let list = Path::root("spec.drivers");
    let mut drivers: BTreeMap<&str, &Value> = BTreeMap::new();
    for driver in new["spec"].list("drivers") {
        drivers.entry(driver.text("name")).or_insert(driver);
    }
    for before in old["spec"].list("drivers") {
        let Some(&now) = drivers.get(before.text("name")) else { continue };
        let mut same = now.clone();
        restore(&mut same, before, "allocatable");
        if same != *before {
            errors.invalid(&list, now, "field is immutable");
        }
    }
}

/// Checks a CSIStorageCapacity, its metadata apart.
pub fn capacity(object: &Value, errors: &mut Errors) {
    selector::selector(&object["nodeTopology"], &Path::root("nodeTopology"), errors);
    let class = object.text("storageClassName");
    let at = Path::root("storageClassName");
    errors.each_invalid(&at, class, &names::dns_1123_subdomain(class));
    // `maximumVolumeSize` may be anything: the reference does not check it.
    if let Some(text) = object.some("capacity").and_then(Value::as_str)
        && Quantity::parse(text).is_ok_and(|amount| amount.sign() < 0)
    {
        errors.invalid(&Path::root("capacity"), text, "must be greater than or equal to 0");
    }
}

/// Checks a changed CSIStorageCapacity.
pub fn capacity_update(old: &Value, new: &Value, errors: &mut Errors) {
    for name in ["nodeTopology", "storageClassName"] {
        immutable(old, new, name, &Path::root(""), errors);
    }
}
