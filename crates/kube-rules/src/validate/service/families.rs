//! The addresses of services, and the families that they are of.

use serde_json::Value;

use super::super::super::strategy::{HEALTH_CHECK, has_health_check};
use super::super::super::value_ext::{ValueExt, repeated_values};
use super::super::addresses::legacy_address;
use super::super::errors::{Errors, Path, Shown};

const FAMILIES: [&str; 2] = ["IPv4", "IPv6"];
const POLICIES: [&str; 3] = ["PreferDualStack", "RequireDualStack", "SingleStack"];
/// The one family that there are addresses of.
const OURS: &str = "IPv4";

/// Checks the fields that come before everything else, since addresses are given out first.
pub fn before_all(object: &Value, errors: &mut Errors) {
    let spec = &object["spec"];
    if spec.text("type") == "ExternalName" {
        return;
    }
    related(spec, errors);
    if !errors.is_empty() {
        return;
    }
    let (addresses, families) = (spec.list("clusterIPs"), spec.list("ipFamilies"));
    let at = Path::root("spec");
    let policy = spec.some("ipFamilyPolicy").and_then(Value::as_str);
    for (name, list) in [("clusterIPs", addresses), ("ipFamilies", families)] {
        if list.len() == 2 && !matches!(policy, Some("RequireDualStack" | "PreferDualStack")) {
            let detail = format!("must be RequireDualStack or PreferDualStack when multiple '{name}' are specified");
            let shown = policy.map_or_else(|| Shown::Plain("null".to_owned()), Shown::Text);
            errors.invalid(&at.field("ipFamilyPolicy"), shown, &detail);
        }
    }
    let named = addresses.iter().enumerate().take_while(|(_, address)| *address != "None");
    for (index, address) in named.filter(|(index, _)| *index >= families.len()) {
        let family = family(address.as_str().unwrap_or_default());
        if family != OURS {
            let detail = format!("{family} is not configured on this cluster");
            errors.invalid(&at.field("clusterIPs").index(index), &Value::from(addresses), &detail);
        }
    }
    let anyone = super::is_headless(spec) && spec.entries("selector").is_empty();
    if !errors.is_empty() || anyone {
        return;
    }
    if policy == Some("RequireDualStack") {
        let detail = "this cluster is not configured for dual-stack services";
        errors.invalid(&at.field("ipFamilyPolicy"), "RequireDualStack", detail);
    }
    let list = at.field("ipFamilies");
    for (index, family) in families.iter().enumerate().filter(|(_, family)| *family != OURS) {
        errors.invalid(&list.index(index), family, "not configured on this cluster");
    }
}

fn family(address: &str) -> &'static str {
    if address.contains(':') { "IPv6" } else { "IPv4" }
}

/// Checks that addresses, families and policy agree.
pub fn related(spec: &Value, errors: &mut Errors) {
    if spec.text("type") == "ExternalName" {
        return;
    }
    let at = Path::root("spec");
    let (one, addresses) = (spec.text("clusterIP"), spec.list("clusterIPs"));
    let (list, all) = (at.field("clusterIPs"), Value::from(addresses));
    let mut broken = false;
    match (one.is_empty(), addresses.first()) {
        (true, Some(_)) => {
            broken = true;
            errors.invalid(&list, &all, "must be empty when `clusterIP` is not specified");
        }
        (false, None) => errors.required(&list, ""),
        (false, Some(first)) if first != one => {
            broken = true;
            errors.invalid(&list, &all, "first value must match `clusterIP`");
        }
        _ => {}
    }
    let families_at = at.field("ipFamilies");
    let families = spec.list("ipFamilies");
    let repeated = repeated_values(families);
    for (index, family) in families.iter().enumerate() {
        if !FAMILIES.iter().any(|known| family == known) {
            errors.not_supported(&families_at.index(index), family, &FAMILIES);
        }
        if repeated[index] {
            errors.duplicate(&families_at.index(index), family);
        }
    }
    errors.one_of(spec, "ipFamilyPolicy", &POLICIES, &at);
    for (index, address) in addresses.iter().enumerate() {
        let text = address.as_str().unwrap_or_default();
        if index == 0 && text == "None" {
            if addresses.len() > 1 {
                broken = true;
                errors.invalid(&list, &all, "'None' must be the first and only value");
            }
        } else {
            let before = errors.0.len();
            legacy_address(text, &list.index(index), errors);
            broken |= errors.0.len() > before;
        }
    }
    if addresses.len() > 2 {
        errors.invalid(&list, &all, "may only hold up to 2 values");
    }
    if broken {
        return;
    }
    if let [first, second] = addresses
        && family(first.as_str().unwrap_or_default()) == family(second.as_str().unwrap_or_default())
    {
        errors.invalid(&list, &all, "may specify no more than one IP for each IP family");
    }
    if super::is_headless(spec) {
        return;
    }
    for (index, (address, wanted)) in addresses.iter().zip(families).enumerate() {
        let text = address.as_str().unwrap_or_default();
        if let Some(wanted) = wanted.as_str().filter(|wanted| FAMILIES.contains(wanted) && family(text) != *wanted) {
            let detail = format!("expected an {wanted} value as indicated by `ipFamilies[{index}]`");
            errors.invalid(&list.index(index), text, &detail);
        }
    }
}

/// Checks the changed addresses of a service.
pub fn update(old: &Value, new: &Value, errors: &mut Errors) {
    let (before, after, at) = (&old["spec"], &new["spec"], Path::root("spec"));
    if [before, after].iter().any(|spec| spec.text("type") == "ExternalName") {
        return;
    }
    if !(super::is_headless(before) && super::is_headless(after)) {
        kept(before, after, "clusterIPs", "primary clusterIP can not be unset", &at, errors);
    }
    // Families that are not named follow from the addresses.
    if !after.list("ipFamilies").is_empty() {
        kept(before, after, "ipFamilies", "primary ipFamily can not be unset", &at, errors);
    }
    let balanced = |spec: &Value| spec.text("type") == "LoadBalancer";
    if balanced(before) && balanced(after) && before.get("loadBalancerClass") != after.get("loadBalancerClass") {
        let at = at.field("loadBalancerClass");
        errors.invalid(&at, after.get("loadBalancerClass").unwrap_or(&Value::Null), "may not change once set");
    } else {
        super::balancer_class(after, &at, errors);
    }
    let port = |spec: &Value| spec.int(HEALTH_CHECK).unwrap_or_default();
    if has_health_check(before) && has_health_check(after) && port(before) != port(after) {
        errors.forbidden(&at.field(HEALTH_CHECK), "field is immutable");
    }
}

/// Checks that the first of a list stays, and a second one that stays at all.
fn kept(before: &Value, after: &Value, name: &str, unset: &str, at: &Path<'_>, errors: &mut Errors) {
    let (was, is, list) = (before.list(name), after.list(name), at.field(name));
    let all = Value::from(is);
    if was.len() == is.len() {
        for (index, _) in was.iter().zip(is).enumerate().filter(|(_, (was, is))| was != is) {
            errors.invalid(&list.index(index), &all, "may not change once set");
        }
        return;
    }
    match (was.first(), is.first()) {
        (Some(_), None) => errors.invalid(&list.index(0), Shown::Plain("null".to_owned()), unset),
        (Some(was), Some(is)) if was != is => errors.invalid(&list.index(0), &all, "may not change once set"),
        _ => {}
    }
}
