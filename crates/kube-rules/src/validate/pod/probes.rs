//! Probes, and the hooks that run when a container starts or stops.

use serde_json::Value;

use super::super::super::value_ext::ValueExt;
use super::super::errors::{Errors, Path, Shown};
use super::super::names;

/// The kind of a container's probe.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Probe {
    /// Kills the container.
    Liveness,
    /// Takes it out of service.
    Readiness,
    /// Holds back the others.
    Startup,
}

/// Checks a probe. `grace_period` is the pod's, in seconds.
pub fn probe(kind: Probe, probe: &Value, at: &Path<'_>, errors: &mut Errors) {
    if probe.is_null() {
        return;
    }
    handler(probe, "probe", at, errors);
    for name in ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"] {
        let value = probe.int(name).unwrap_or_default();
        if value < 0 {
            errors.invalid(&at.field(name), value, "must be greater than or equal to 0");
        }
    }
    if let Some(seconds) = probe.int("terminationGracePeriodSeconds").filter(|seconds| *seconds <= 0) {
        errors.invalid(&at.field("terminationGracePeriodSeconds"), seconds, "must be greater than 0");
    }
    match kind {
        Probe::Liveness | Probe::Startup => {
            if let Some(threshold) = probe.int("successThreshold").filter(|threshold| *threshold != 1) {
                errors.invalid(&at.field("successThreshold"), threshold, "must be 1");
            }
        }
        Probe::Readiness => {
            if let Some(seconds) = probe.int("terminationGracePeriodSeconds") {
                let detail = "must not be set for readinessProbes";
                errors.invalid(&at.field("terminationGracePeriodSeconds"), seconds, detail);
            }
        }
    }
}

/// Checks the handlers after the start and before the stop.
pub fn lifecycle(lifecycle: &Value, grace_period: i64, at: &Path<'_>, errors: &mut Errors) {
    for name in ["postStart", "preStop"] {
        if let Some(hook) = lifecycle.some(name) {
            let at = at.field(name);
            handler(hook, "hook", &at, errors);
            let only = ["exec", "httpGet", "tcpSocket"].iter().all(|other| !hook.has(other));
            if let Some(sleep) = hook.some("sleep").filter(|_| only) {
                let seconds = sleep.int("seconds").unwrap_or_default();
                if seconds < 0 || seconds > grace_period {
                    let detail =
                        format!("must be non-negative and less than terminationGracePeriodSeconds ({grace_period})");
                    errors.invalid(&at.field("sleep"), seconds, &detail);
                }
            }
        }
    }
}

/// Checks the action: exactly one.
fn handler(handler: &Value, what: &str, at: &Path<'_>, errors: &mut Errors) {
    let kinds: &[&str] = if what == "probe" {
        &["exec", "httpGet", "tcpSocket", "grpc"]
    } else {
        &["exec", "httpGet", "tcpSocket", "sleep"]
    };
    let mut found = 0;
    for kind in kinds {
        let Some(action) = handler.some(kind) else { continue };
        let at = at.field(kind);
        if found > 0 {
            errors.forbidden(&at, "may not specify more than 1 handler type");
            continue;
        }
        found += 1;
        match *kind {
            "exec" if action.list("command").is_empty() => {
                errors.required(&at.field("command"), "");
            }
            "httpGet" => http_get(action, &at, errors),
            "tcpSocket" => port(&action["port"], &at.field("port"), errors),
            "grpc" => {
                let port = action.int("port").unwrap_or_default();
                errors.each_invalid(&at.field("port"), port, &names::port_number(port));
            }
            _ => {}
        }
    }
    if found == 0 {
        errors.required(at, "must specify a handler type");
    }
}

fn http_get(action: &Value, at: &Path<'_>, errors: &mut Errors) {
    if action.text("path").is_empty() {
        errors.required(&at.field("path"), "");
    }
    port(&action["port"], &at.field("port"), errors);
    let scheme = action.text("scheme");
    if !["HTTP", "HTTPS"].contains(&scheme) {
        errors.not_supported(&at.field("scheme"), scheme, &["HTTP", "HTTPS"]);
    }
    for header in action.list("httpHeaders") {
        let name = header.text("name");
        errors.each_invalid(&at.field("httpHeaders"), name, &names::http_header(name));
    }
}

/// Checks a port by number or by name.
pub fn port(port: &Value, at: &Path<'_>, errors: &mut Errors) {
    match port {
        Value::String(name) => errors.each_invalid(at, name.as_str(), &names::port_name(name)),
        other => {
            let number = other.as_i64().unwrap_or_default();
            errors.each_invalid(at, Shown::Plain(number.to_string()), &names::port_number(number));
        }
    }
}
