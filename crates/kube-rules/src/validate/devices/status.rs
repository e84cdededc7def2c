//! The status of a claim to devices.

use serde_json::Value;

use super::super::super::value_ext::ValueExt;
use super::super::conditions::conditions;
use super::super::errors::{Errors, Path, Shown, immutable};
use super::super::names;
use super::super::pod::node_selector;
use super::claims::ClaimRequests;
use super::{MOST_CONFIGURATIONS, binding, configuration, data, driver_name, each, itself, label, pool_name};
use super::{toleration, twice};

/// The most users of a claim.
const MOST_USERS: usize = 256;
const MOST_RESULTS: usize = 32;
/// Conditions of one device.
const MOST_CONDITIONS: usize = 8;
/// Bytes of the name of an interface, and of an address in the hardware.
const LONGEST_INTERFACE: usize = 256;
const LONGEST_HARDWARE_ADDRESS: usize = 128;
const MOST_ADDRESSES: usize = 16;
const SOURCES: [&str; 2] = ["FromClaim", "FromClass"];

/// Checks the changed status of a ResourceClaim.
pub fn claim_status(old: &Value, new: &Value, errors: &mut Errors) {
    let (status, before, at) = (&new["status"], &old["status"], Path::root("status"));
    let requests = ClaimRequests::of(&new["spec"]["devices"]);
    let (users, users_at) = (status.list("reservedFor"), at.field("reservedFor"));
    each(users, MOST_USERS, &users_at, errors, |user, at, errors| {
        for name in ["resource", "name", "uid"].into_iter().filter(|name| user.text(name).is_empty()) {
            errors.required(&at.field(name), "");
        }
    });
    twice(users, MOST_USERS, &users_at, errors, |user| user.text("uid").to_owned());
    let given: Vec<String> = status["allocation"]["devices"].list("results").iter().map(device).collect();
    let (devices, devices_at) = (status.list("devices"), at.field("devices"));
    each(devices, usize::MAX, &devices_at, errors, |one, at, errors| device_status(one, &given, at, errors));
    twice(devices, usize::MAX, &devices_at, errors, device);
    if !users.is_empty() && !status.has("allocation") {
        errors.forbidden(&users_at, "may not be specified when `allocated` is not set");
    } else if new["metadata"].has("deletionTimestamp")
        && users.iter().any(|user| !before.list("reservedFor").contains(user))
    {
        let detail = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set";
        errors.forbidden(&users_at, detail);
    }
    match (before.some("allocation"), status.some("allocation")) {
        (Some(_), Some(_)) => immutable(before, status, "allocation", &at, errors),
        (None, Some(allocation)) => result(allocation, &requests, &at.field("allocation"), errors),
        (_, None) => {}
    }
}

/// Returns the identity of a device.
fn device(of: &Value) -> String {
    ["driver", "pool", "device", "shareID"].map(|name| of.text(name)).join("/")
}

/// Checks the allocation of a claim.
fn result(allocation: &Value, requests: &ClaimRequests<'_>, at: &Path<'_>, errors: &mut Errors) {
    let (devices, devices_at) = (&allocation["devices"], at.field("devices"));
    each(devices.list("results"), MOST_RESULTS, &devices_at.field("results"), errors, |one, at, errors| {
        requests.check(one.text("request"), &at.field("request"), errors);
        named(one, at, errors);
        binding(one, at, errors);
        each(one.list("tolerations"), usize::MAX, &at.field("tolerations"), errors, toleration);
        share(one, at, errors);
    });
    let most = 2 * MOST_CONFIGURATIONS;
    each(devices.list("config"), most, &devices_at.field("config"), errors, |one, at, errors| {
        match one.text("source") {
            "" => errors.required(&at.field("source"), ""),
            source if SOURCES.contains(&source) => {}
            source => errors.not_supported(&at.field("source"), source, &SOURCES),
        }
        requests.check_all(one, at, errors);
        configuration(one, at, errors);
    });
    if let Some(selector) = allocation.some("nodeSelector") {
        node_selector(selector, &at.field("nodeSelector"), errors);
    }
}

/// Checks the names of the driver, the pool and the device.
fn named(of: &Value, at: &Path<'_>, errors: &mut Errors) {
    driver_name(of.text("driver"), &at.field("driver"), errors);
    pool_name(of.text("pool"), &at.field("pool"), errors);
    label(of, "device", at, errors);
}

fn share(of: &Value, at: &Path<'_>, errors: &mut Errors) {
    let Some(uid) = of.some("shareID").and_then(Value::as_str) else { return };
    let at = at.field("shareID");
    let parts: Vec<usize> = uid.split('-').map(str::len).collect();
    let hex = uid.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit());
    if uid.len() != 36 {
        errors.invalid(&at, uid, &format!("error validating uid: invalid UUID length: {}", uid.len()));
    } else if parts != [8, 4, 4, 4, 12] || !hex {
        errors.invalid(&at, uid, "error validating uid: invalid UUID format");
    } else if uid.bytes().any(|byte| byte.is_ascii_uppercase()) {
        let detail = "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase \
                      hexadecimal characters";
        errors.invalid(&at, uid, detail);
    }
}

/// Checks a driver's status of a device that was given.
fn device_status(status: &Value, given: &[String], at: &Path<'_>, errors: &mut Errors) {
    named(status, at, errors);
    share(status, at, errors);
    if !given.contains(&device(status)) {
        errors.invalid(at, Shown::Plain("{}".to_owned()), "must be an allocated device in the claim");
    }
    let (list, list_at) = (status.list("conditions"), at.field("conditions"));
    if list.len() > MOST_CONDITIONS {
        errors.too_many(&list_at, list.len(), MOST_CONDITIONS);
    }
    conditions(list, &list_at, errors);
    if status.get("data").is_some() {
        data(status.get("data"), &at.field("data"), errors);
    }
    let Some(network) = status.some("networkData") else { return };
    let at = at.field("networkData");
    for (name, longest) in [("interfaceName", LONGEST_INTERFACE), ("hardwareAddress", LONGEST_HARDWARE_ADDRESS)] {
        if network.text(name).len() > longest {
            errors.too_long(&at.field(name), longest);
        }
    }
    let (ips, ips_at) = (network.list("ips"), at.field("ips"));
    each(ips, MOST_ADDRESSES, &ips_at, errors, |ip, at, errors| {
        let ip = itself(ip);
        errors.each_invalid(at, ip.as_str(), &names::interface_address(&ip));
    });
    twice(ips, MOST_ADDRESSES, &ips_at, errors, itself);
}
