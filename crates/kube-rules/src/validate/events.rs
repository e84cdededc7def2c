//! Events: those of the older form and of the newer one, which has an `eventTime`.

use serde_json::Value;

use super::super::value_ext::ValueExt;
use super::errors::{Errors, Path};
use super::names;

/// So many letters may a reason and the like have.
const SHORT: usize = 128;
/// The most letters of a message.
const LONG: usize = 1024;

/// Checks an event of the core group.
pub fn core(object: &Value, errors: &mut Errors) {
    event(object, "involvedObject", "reportingComponent", "message", errors);
}

/// Checks an event of `events.k8s.io`, new or changed.
pub fn newer(object: &Value, errors: &mut Errors) {
    event(object, "regarding", "reportingController", "note", errors);
}

/// Checks the further rules of a new event of `events.k8s.io`.
pub fn newer_alone(object: &Value, errors: &mut Errors) {
    series(object, errors);
    if !object.has("eventTime") {
        errors.required(&Path::root("eventTime"), "");
    }
    let ty = object.text("type");
    if !["Normal", "Warning"].contains(&ty) {
        errors.invalid(&Path::root("type"), "", &format!("has invalid value: {ty}"));
    }
    const UNSET: &str = "needs to be unset";
    for (field, said) in [("deprecatedFirstTimestamp", "firstTimestamp"), ("deprecatedLastTimestamp", "lastTimestamp")]
    {
        if object.has(field) {
            errors.invalid(&Path::root(said), "", UNSET);
        }
    }
    if object.int("deprecatedCount").unwrap_or_default() != 0 {
        errors.invalid(&Path::root("count"), "", UNSET);
    }
    let source = &object["deprecatedSource"];
    if !source.text("component").is_empty() || !source.text("host").is_empty() {
        errors.invalid(&Path::root("source"), "", UNSET);
    }
}

/// Checks the number of an event's repetitions, and the time of the last.
fn series(object: &Value, errors: &mut Errors) {
    let Some(series) = object.some("series") else { return };
    if series.int("count").unwrap_or_default() < 2 {
        errors.invalid(&Path::root("series.count"), "", "should be at least 2");
    }
    if !series.has("lastObservedTime") {
        errors.required(&Path::root("series.lastObservedTime"), "");
    }
}

/// Checks a changed event of `events.k8s.io`: it may only come again.
pub fn newer_update(old: &Value, new: &Value, errors: &mut Errors) {
    if old["series"] != new["series"] {
        series(new, errors);
    }
    const FIELDS: [(&str, &str); 13] = [
        ("regarding", "involvedObject"),
        ("reason", "reason"),
        ("note", "message"),
        ("deprecatedSource", "source"),
        ("deprecatedFirstTimestamp", "firstTimestamp"),
        ("deprecatedLastTimestamp", "lastTimestamp"),
        ("deprecatedCount", "count"),
        ("type", "type"),
        ("eventTime", "eventTime"),
        ("action", "action"),
        ("related", "related"),
        ("reportingController", "reportingController"),
        ("reportingInstance", "reportingInstance"),
    ];
    for (field, said) in FIELDS {
        let (before, after) = (old.get(field), new.get(field));
        if before != after {
            let shown = match (before, after) {
                (Some(Value::String(_)), None) => &Value::String(String::new()),
                _ => after.unwrap_or(&Value::Null),
            };
            errors.invalid(&Path::root(said), shown, "field is immutable");
        }
    }
}

fn event(object: &Value, about: &str, controller: &str, message: &str, errors: &mut Errors) {
    if !object.has("eventTime") {
        return namespaces(object, about, errors);
    }
    if object[about].text("namespace").is_empty()
        && !matches!(object["metadata"].text("namespace"), "" | "default" | "kube-system")
    {
        errors.invalid(&Path::root("involvedObject.namespace"), "", "does not match event.namespace");
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

/// Checks that an event is in the namespace of its object.
fn namespaces(object: &Value, about: &str, errors: &mut Errors) {
    let own = object["metadata"].text("namespace");
    let about = object[about].text("namespace");
    let elsewhere = if about.is_empty() { !matches!(own, "" | "default") } else { about != own };
    if elsewhere {
        let at = Path::root("involvedObject.namespace");
        errors.invalid(&at, about, "does not match event.namespace");
    }
}
