//! Events: what happened, in the older form and in the newer one, which has an `eventTime`.

use serde_json::Value;

use super::super::look::Look;
use super::errors::{Errors, Path};
use super::names;

/// So many letters may a reason and the like have.
const SHORT: usize = 128;
/// So many letters may what is said have.
const LONG: usize = 1024;

/// An event of the core group.
pub fn core(object: &Value, errors: &mut Errors) {
    event(object, "involvedObject", "reportingComponent", "message", errors);
}

/// An event of `events.k8s.io`, new or changed.
pub fn newer(object: &Value, errors: &mut Errors) {
    event(object, "regarding", "reportingController", "note", errors);
}

/// What is asked of a new event of `events.k8s.io` besides.
pub fn newer_alone(object: &Value, errors: &mut Errors) {
    if !object.has("eventTime") {
        errors.required(&Path::root("eventTime"), "");
    }
    let ty = object.text("type");
    if !["Normal", "Warning"].contains(&ty) {
        errors.invalid(&Path::root("type"), "", &format!("has invalid value: {ty}"));
    }
    if object.int("deprecatedCount").unwrap_or_default() != 0 {
        errors.invalid(&Path::root("count"), "", "needs to be unset");
    }
}

fn event(object: &Value, about: &str, controller: &str, message: &str, errors: &mut Errors) {
    if !object.has("eventTime") {
        return namespaces(object, about, errors);
    }
    let at = Path::root(controller);
    let by = object.text(controller);
    if by.is_empty() {
        errors.required(&at, "");
    }
    errors.each_invalid(&at, by, &names::qualified_name(by));
    for field in ["reportingInstance", "action", "reason"] {
        let text = object.text(field);
        if text.is_empty() {
            errors.required(&Path::root(field), "");
        } else if text.len() > SHORT {
            errors.invalid(&Path::root(field), "", &format!("can have at most {SHORT} characters"));
        }
    }
    if object.text(message).len() > LONG {
        errors.invalid(&Path::root("message"), "", &format!("can have at most {LONG} characters"));
    }
}

/// An event is where what it is about is.
fn namespaces(object: &Value, about: &str, errors: &mut Errors) {
    let own = object["metadata"].text("namespace");
    let about = object[about].text("namespace");
    let elsewhere = if about.is_empty() { !matches!(own, "" | "default") } else { about != own };
    if elsewhere {
        let at = Path::root("involvedObject.namespace");
        errors.invalid(&at, about, "does not match event.namespace");
    }
}
