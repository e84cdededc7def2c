//! Events: what happened, in the older form and in the newer one, which has an `eventTime`.

use serde_json::Value;

use super::super::look::Look;
use super::errors::{Errors, Path};
use super::names;

const SHORT: usize = 128;
const LONG: usize = 1024;
const ELSEWHERE: &str = "does not match event.namespace";

/// The names of an event's fields, which the two groups call differently.
struct Names {
    object: &'static str,
    controller: &'static str,
    message: &'static str,
}

/// An event of the core group.
pub fn core(object: &Value, errors: &mut Errors) {
    let names = Names { object: "involvedObject", controller: "reportingController", message: "message" };
    event(object, &names, "reportingComponent", errors);
}

/// An event of `events.k8s.io`.
pub fn newer(object: &Value, errors: &mut Errors) {
    let names = Names { object: "regarding", controller: "reportingController", message: "note" };
    event(object, &names, "reportingController", errors);
}

fn event(object: &Value, names: &Names, controller: &str, errors: &mut Errors) {
    let own = object["metadata"].text("namespace");
    let about = object[names.object].text("namespace");
    let elsewhere = if about.is_empty() { !matches!(own, "" | "default") } else { about != own };
    if elsewhere {
        errors.invalid(&Path::root("involvedObject").field("namespace"), about, ELSEWHERE);
    }
    if !object.has("eventTime") {
        return;
    }
    let at = Path::root(names.controller);
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
    if object.text(names.message).len() > LONG {
        errors.invalid(&Path::root("message"), "", &format!("can have at most {LONG} characters"));
    }
}
