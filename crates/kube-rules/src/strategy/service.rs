//! Services: fields that depend on their type, and the addresses and ports that the server gives them.

use serde_json::{Value, json};

use super::super::value_ext::{ValueExt, put_missing, remove, restore};
use super::allocate::{Allocate, Unavailable};
use super::node_ports;

/// Completes a new service.
pub fn create(service: &mut Value) {
    let spec = &mut service["spec"];
    mirror_address(spec, &Value::Null);
    drop_what_a_type_lacks(spec, &Value::Null);
}

/// Completes a changed service: addresses and ports that it does not name are kept if its type has them.
pub fn update(old: &Value, service: &mut Value) {
    keep_addresses(&old["spec"], &mut service["spec"]);
    mirror_address(&mut service["spec"], &old["spec"]);
    drop_what_a_type_lacks(&mut service["spec"], &old["spec"]);
}

fn has_address(spec: &Value) -> bool {
    spec.text("type") != "ExternalName"
}

/// Takes addresses and ports over from the stored object if the new one does not name its own.
pub fn keep_addresses(old: &Value, new: &mut Value) {
    if has_address(old) && has_address(new) {
        if new.text("clusterIP").is_empty() {
            restore(new, old, "clusterIP");
        }
        let same_address = new.text("clusterIP") == old.text("clusterIP");
        for name in ["clusterIPs", "ipFamilies"] {
            if same_address && new.list(name).is_empty() {
                restore(new, old, name);
            }
        }
        if same_address && new.text("ipFamilyPolicy").is_empty() {
            restore(new, old, "ipFamilyPolicy");
        }
    }
    node_ports::keep(old, new);
}

/// Keeps `clusterIP` the first of `clusterIPs`; a client may know only the one.
fn mirror_address(spec: &mut Value, old: &Value) {
    let one = spec.text("clusterIP").to_owned();
    let first = spec.list("clusterIPs").first().and_then(Value::as_str).unwrap_or_default().to_owned();
    if old.is_null() {
        if !one.is_empty() && first.is_empty() {
            spec["clusterIPs"] = json!([one]);
        }
        return;
    }
    let (old_one, old_several) = (old.text("clusterIP"), old.list("clusterIPs"));
    let changed_one = one != old_one;
    let changed_several = spec.list("clusterIPs") != old_several;
    if changed_one && !one.is_empty() && spec.list("clusterIPs").is_empty() {
        spec["clusterIPs"] = json!([one]);
    } else if changed_one && !changed_several {
        if one.is_empty() {
            remove(spec, "clusterIPs");
        } else if one != first {
            spec["clusterIPs"] = json!([one]);
        }
    } else if changed_several && !changed_one && spec.list("clusterIPs").is_empty() {
        remove(spec, "clusterIP");
    }
}

/// Drops a field that the type lacks, unless the client has just set it.
fn drop_what_a_type_lacks(spec: &mut Value, old: &Value) {
    let same = |spec: &Value, name: &str| spec.get(name) == old.get(name);
    if !old.is_null() && has_address(old) && !has_address(spec) {
        for name in ["clusterIP", "clusterIPs"] {
            if same(spec, name) {
                remove(spec, name);
            }
        }
        for name in ["ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"] {
            if same(spec, name) {
                remove(spec, name);
            }
        }
    }
    if !old.is_null() && node_ports::may_be(old) && !node_ports::may_be(spec) {
        let old_ports: Vec<i64> = old.list("ports").iter().filter_map(|port| port.int("nodePort")).collect();
        let kept =
            spec.list("ports").iter().all(|port| port.int("nodePort").is_none_or(|port| old_ports.contains(&port)));
        if let (Some(Value::Array(ports)), true) = (spec.get_mut("ports"), kept) {
            for port in ports {
                remove(port, "nodePort");
            }
        }
    }
    let outside =
        |spec: &Value| node_ports::may_be(spec) || (has_address(spec) && !spec.list("externalIPs").is_empty());
    if !old.is_null() && outside(old) && !outside(spec) && same(spec, "externalTrafficPolicy") {
        remove(spec, "externalTrafficPolicy");
    }
    if !old.is_null()
        && node_ports::has_health_check(old)
        && !node_ports::has_health_check(spec)
        && same(spec, node_ports::HEALTH_CHECK)
    {
        remove(spec, node_ports::HEALTH_CHECK);
    }
    let balanced = |spec: &Value| spec.text("type") == "LoadBalancer";
    if !old.is_null() && balanced(old) && !balanced(spec) {
        for name in ["allocateLoadBalancerNodePorts", "loadBalancerClass"] {
            if same(spec, name) {
                remove(spec, name);
            }
        }
    }
}

/// Gives a service that passed every check its addresses and ports; `old` is its former state. To be called before it
/// is stored, also for a dry run (with an allocator that keeps nothing).
///
/// # Errors
/// The first thing that can't be had.
pub fn assign_addresses(service: &mut Value, old: Option<&Value>, from: &mut dyn Allocate) -> Result<(), Unavailable> {
    let spec = &mut service["spec"];
    if has_address(spec) {
        let wanted = spec.text("clusterIP").to_owned();
        if wanted != "None" {
            let asked = (!wanted.is_empty()).then_some(wanted.as_str());
            let address = from.address(asked).map_err(|why| Unavailable {
                field: "spec.clusterIPs[0]".to_owned(),
                wanted: json!(wanted),
                why,
            })?;
            spec["clusterIP"] = json!(address);
            spec["clusterIPs"] = json!([address]);
        }
        if wanted != "None" || !spec.entries("selector").is_empty() {
            let family = if spec.text("clusterIP").contains(':') { "IPv6" } else { "IPv4" };
            put_missing(spec, "ipFamilies", json!([family]));
            put_missing(spec, "ipFamilyPolicy", "SingleStack");
        } else {
            // Nobody selects, so nobody knows: a headless service without a selector takes any family.
            put_missing(spec, "ipFamilyPolicy", "RequireDualStack");
            put_missing(spec, "ipFamilies", json!(["IPv4", "IPv6"]));
        }
    }
    node_ports::assign(old.map(|old| &old["spec"]), spec, from)
}
