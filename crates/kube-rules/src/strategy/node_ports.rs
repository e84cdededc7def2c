//! The ports that services have on every node.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::super::Effect;
use super::super::value_ext::{ValueExt, restore};
use super::allocate::{Allocate, Unavailable};
use crate::api_error::{ApiError, Cause};

/// The ports on nodes that there are.
pub const NODE_PORTS: std::ops::RangeInclusive<i64> = 30_000..=32_767;
/// The field of the port that says if a node has pods of the service.
pub const HEALTH_CHECK: &str = "healthCheckNodePort";

/// Returns true when ports that name none get one.
fn are_given(spec: &Value) -> bool {
    match spec.text("type") {
        "NodePort" => true,
        "LoadBalancer" => spec.get("allocateLoadBalancerNodePorts") != Some(&Value::Bool(false)),
        _ => false,
    }
}

/// Returns true when a type has ports on nodes at all.
pub fn may_be(spec: &Value) -> bool {
    matches!(spec.text("type"), "NodePort" | "LoadBalancer")
}

/// Returns true when nodes are asked if they have pods of the service.
pub fn has_health_check(spec: &Value) -> bool {
    spec.text("type") == "LoadBalancer" && spec.text("externalTrafficPolicy") == "Local"
}

fn number(of: &Value, name: &str) -> Option<i64> {
    of.int(name).filter(|port| *port != 0)
}

fn numbers(spec: &Value) -> Vec<i64> {
    spec.list("ports").iter().filter_map(|port| number(port, "nodePort")).collect()
}

/// Takes ports over from the stored object if the new one does not name its own: those of the same name.
pub fn keep(old: &Value, new: &mut Value) {
    if are_given(old) && are_given(new) {
        let wanted = numbers(new);
        let known: BTreeMap<&str, i64> =
            old.list("ports").iter().filter_map(|port| Some((port.text("name"), number(port, "nodePort")?))).collect();
        for port in new.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
            if number(port, "nodePort").is_none()
                && let Some(kept) = known.get(port.text("name")).filter(|kept| !wanted.contains(kept))
            {
                port["nodePort"] = json!(kept);
            }
        }
    }
    if has_health_check(old) && has_health_check(new) && number(new, HEALTH_CHECK).is_none() {
        restore(new, old, HEALTH_CHECK);
    }
}

/// Fails with the reason for which a number is no port on nodes, if it is none.
///
/// # Errors
/// Fails with the message for a number out of the range.
pub fn check_range(wanted: i64) -> Result<(), String> {
    if NODE_PORTS.contains(&wanted) {
        return Ok(());
    }
    let (first, last) = (NODE_PORTS.start(), NODE_PORTS.end());
    Err(format!("provided port is not in the valid range. The range of valid ports is {first}-{last}"))
}

/// Checks that a changed service can have the ports that it names, as far as it knows by itself.
///
/// # Errors
/// 422 for the first port that is none, 500 where two have the same.
pub fn check(old: &Value, service: &Value, effect: Effect) -> Result<(), ApiError> {
    let (before, spec) = (&old["spec"], &service["spec"]);
    if !may_be(spec) {
        return Ok(());
    }
    let (known, mut seen) = (numbers(before), Vec::new());
    for (index, port) in spec.list("ports").iter().enumerate() {
        let Some(wanted) = number(port, "nodePort") else { continue };
        if effect == Effect::Stored
            && !known.contains(&wanted)
            && let Err(why) = check_range(wanted)
        {
            let message = format!("Invalid value: {wanted}: {why}");
            let field = Some(format!("spec.ports[{index}].nodePort"));
            let cause = Cause { reason: "FieldValueInvalid", message, field };
            return Err(ApiError::invalid("", "Service", service["metadata"].text("name"), vec![cause]));
        }
        let both = (port.text("protocol"), wanted);
        if seen.contains(&both) {
            return Err(ApiError::internal(format!("duplicate nodePort: {{{} {wanted}}}", both.0)));
        }
        seen.push(both);
    }
    match number(spec, HEALTH_CHECK) {
        Some(wanted) if effect == Effect::Stored && has_health_check(spec) && !has_health_check(before) => {
            check_range(wanted).map_err(|why| no_health_check(wanted, &why))
        }
        _ => Ok(()),
    }
}

/// Returns the error for a port for health checks that can't be had.
pub fn no_health_check(wanted: i64, why: &str) -> ApiError {
    ApiError::internal_error(&format!("failed to allocate requested HealthCheck NodePort {wanted}: {why}"))
}

/// Gives the ports of a service their numbers on nodes.
///
/// # Errors
/// The first number that can't be had.
pub fn assign(old: Option<&Value>, spec: &mut Value, from: &mut dyn Allocate) -> Result<(), Unavailable> {
    if may_be(spec) {
        match old {
            None => first(spec, from)?,
            Some(old) => again(old, spec, from)?,
        }
    }
    if has_health_check(spec) && !old.is_some_and(has_health_check) {
        let wanted = number(spec, HEALTH_CHECK);
        let given = from.node_port(wanted).map_err(|why| unavailable(HEALTH_CHECK.to_owned(), wanted, why))?;
        spec[HEALTH_CHECK] = json!(given);
    }
    Ok(())
}

fn unavailable(field: String, wanted: Option<i64>, why: String) -> Unavailable {
    Unavailable { field: format!("spec.{field}"), wanted: json!(wanted), why }
}

/// Gives one number on the nodes to a port that several protocols serve: that which any of them asks for.
fn first(spec: &mut Value, from: &mut dyn Allocate) -> Result<(), Unavailable> {
    let given = are_given(spec);
    let ports: Vec<Value> = spec.list("ports").to_vec();
    let mut shared: BTreeMap<i64, i64> = BTreeMap::new();
    for (index, port) in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten().enumerate() {
        let (wanted, own) = (number(port, "nodePort"), port.int("port").unwrap_or_default());
        if wanted.is_none() && !given {
            continue;
        }
        let refused = |wanted, why| unavailable(format!("ports[{index}].nodePort"), wanted, why);
        let number = match (shared.get(&own), wanted) {
            (None, _) => {
                let asked = ports.iter().filter(|other| other.int("port").unwrap_or_default() == own);
                let asked = asked.into_iter().find_map(|other| number(other, "nodePort"));
                let number = from.node_port(asked).map_err(|why| refused(asked, why))?;
                shared.insert(own, number);
                number
            }
            (Some(shared), None) => *shared,
            (Some(shared), Some(wanted)) if *shared == wanted => wanted,
            (Some(_), wanted) => from.node_port(wanted).map_err(|why| refused(wanted, why))?,
        };
        port["nodePort"] = json!(number);
    }
    Ok(())
}

/// Keeps existing ports; each other port gets a number of its own.
fn again(old: &Value, spec: &mut Value, from: &mut dyn Allocate) -> Result<(), Unavailable> {
    let given = are_given(spec);
    let mut held = numbers(old);
    for (index, port) in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten().enumerate() {
        let wanted = number(port, "nodePort");
        let is_held = wanted.is_some_and(|wanted| held.contains(&wanted));
        if is_held || (wanted.is_none() && !given) {
            continue;
        }
        let refused = |why| unavailable(format!("ports[{index}].nodePort"), wanted, why);
        let number = from.node_port(wanted).map_err(refused)?;
        held.push(number);
        port["nodePort"] = json!(number);
    }
    Ok(())
}
