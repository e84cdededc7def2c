//! Claims to devices, and templates of them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::super::super::value_ext::ValueExt;
use super::super::errors::{Errors, Path, Shown, immutable};
use super::super::names;
use super::super::storage::claims::template_metadata;
use super::{
    Expressions, MOST_CONFIGURATIONS, MOST_REQUESTS, configuration, each, full_attribute_name, itself, label, name,
};
use super::{selectors, toleration, twice};

const MOST_CONSTRAINTS: usize = 32;
/// The most alternatives of a request.
const MOST_ALTERNATIVES: usize = 8;

/// Checks a ResourceClaim, its metadata apart.
pub fn claim(object: &Value, errors: &mut Errors) {
    spec(&object["spec"], Expressions::New, &Path::root("spec"), errors);
}

/// Checks a changed ResourceClaim: nothing but its status may change.
pub fn claim_update(old: &Value, new: &Value, errors: &mut Errors) {
    immutable(old, new, "spec", &Path::root(""), errors);
}

/// Checks a ResourceClaimTemplate, its metadata apart.
pub fn template(object: &Value, errors: &mut Errors) {
    any_template(object, Expressions::New, errors);
}

fn any_template(object: &Value, expressions: Expressions, errors: &mut Errors) {
    let (template, at) = (&object["spec"], Path::root("spec"));
    template_metadata(&template["metadata"], &at.field("metadata"), errors);
    spec(&template["spec"], expressions, &at.field("spec"), errors);
}

/// Checks a changed ResourceClaimTemplate: nothing may change.
pub fn template_update(old: &Value, new: &Value, errors: &mut Errors) {
    any_template(new, Expressions::Kept, errors);
    immutable(old, new, "spec", &Path::root(""), errors);
}

/// The requests of a claim, and the alternatives in each.
pub(super) struct ClaimRequests<'a>(BTreeMap<&'a str, BTreeSet<&'a str>>);

impl<'a> ClaimRequests<'a> {
    /// Returns those of a claim's `devices`.
    pub(super) fn of(devices: &'a Value) -> ClaimRequests<'a> {
        let alternatives =
            |request: &'a Value| request.list("firstAvailable").iter().map(|one| one.text("name")).collect();
        ClaimRequests(devices.list("requests").iter().map(|one| (one.text("name"), alternatives(one))).collect())
    }

    fn has(&self, name: &str) -> bool {
        match name.split_once('/') {
            None => self.0.contains_key(name),
            Some((request, one)) => self.0.get(request).is_some_and(|alternatives| alternatives.contains(one)),
        }
    }

    /// Looks at a reference to a request, or to one of its alternatives.
    pub(super) fn check(&self, name: &str, at: &Path<'_>, errors: &mut Errors) {
        const DETAIL: &str = "must be the name of a request in the claim or the name of a request and a subrequest \
                              separated by '/'";
        let parts: Vec<&str> = name.split('/').collect();
        if parts.len() > 2 {
            return errors.invalid(at, name, DETAIL);
        }
        for part in parts {
            errors.each_invalid(at, part, &names::dns_1123_label(part));
        }
        if !self.has(name) {
            errors.invalid(at, name, DETAIL);
        }
    }

    /// Looks at the references of a constraint or a configuration.
    pub(super) fn check_all(&self, of: &Value, at: &Path<'_>, errors: &mut Errors) {
        let (list, at) = (of.list("requests"), at.field("requests"));
        each(list, MOST_REQUESTS, &at, errors, |name, at, errors| self.check(&itself(name), at, errors));
        twice(list, MOST_REQUESTS, &at, errors, itself);
    }
}

fn spec(spec: &Value, expressions: Expressions, at: &Path<'_>, errors: &mut Errors) {
    let (devices, at) = (&spec["devices"], at.field("devices"));
    let requests = ClaimRequests::of(devices);
    let (list, list_at) = (devices.list("requests"), at.field("requests"));
    each(list, MOST_REQUESTS, &list_at, errors, |one, at, errors| request(one, expressions, at, errors));
    twice(list, MOST_REQUESTS, &list_at, errors, name);
    let constraints = devices.list("constraints");
    each(constraints, MOST_CONSTRAINTS, &at.field("constraints"), errors, |one, at, errors| {
        constraint(one, &requests, at, errors);
    });
    each(devices.list("config"), MOST_CONFIGURATIONS, &at.field("config"), errors, |one, at, errors| {
        requests.check_all(one, at, errors);
        configuration(one, at, errors);
    });
}

fn request(request: &Value, expressions: Expressions, at: &Path<'_>, errors: &mut Errors) {
    const DETAIL: &str = "exactly one of `exactly` or `firstAvailable` is required";
    label(request, "name", at, errors);
    let (list, list_at) = (request.list("firstAvailable"), at.field("firstAvailable"));
    match (request.some("exactly"), list.is_empty()) {
        (None, true) => errors.required(at, DETAIL),
        (Some(_), false) => {
            let none = Shown::Plain("null".to_owned());
            errors.invalid(at, none, &format!("{DETAIL}, but multiple fields are set"));
        }
        (None, false) => {
            each(list, MOST_ALTERNATIVES, &list_at, errors, |one, at, errors| {
                label(one, "name", at, errors);
                wanted(one, expressions, at, errors);
            });
            twice(list, MOST_ALTERNATIVES, &list_at, errors, name);
        }
        (Some(exact), true) => wanted(exact, expressions, &at.field("exactly"), errors),
    }
}

/// Checks the requested devices, and their number.
fn wanted(request: &Value, expressions: Expressions, at: &Path<'_>, errors: &mut Errors) {
    let (class, class_at) = (request.text("deviceClassName"), at.field("deviceClassName"));
    if class.is_empty() {
        errors.required(&class_at, "");
    } else {
        errors.each_invalid(&class_at, class, &names::dns_1123_subdomain(class));
    }
    selectors(request, expressions, at, errors);
    let (count, count_at) = (request.int("count").unwrap_or_default(), at.field("count"));
    match request.text("allocationMode") {
        "All" if count != 0 => {
            errors.invalid(&count_at, count, "must not be specified when allocationMode is 'All'");
        }
        "All" => {}
        "ExactCount" if count <= 0 => errors.invalid(&count_at, count, "must be greater than zero"),
        "ExactCount" => {}
        other => errors.not_supported(&at.field("allocationMode"), other, &["All", "ExactCount"]),
    }
    each(request.list("tolerations"), usize::MAX, &at.field("tolerations"), errors, toleration);
}

fn constraint(constraint: &Value, requests: &ClaimRequests<'_>, at: &Path<'_>, errors: &mut Errors) {
    requests.check_all(constraint, at, errors);
    let text = |name: &str| constraint.some(name).and_then(Value::as_str);
    if let Some(name) = text("matchAttribute") {
        full_attribute_name(name, &at.field("matchAttribute"), errors);
    } else if let Some(name) = text("distinctAttribute") {
        full_attribute_name(name, &at.field("distinctAttribute"), errors);
    } else {
        let detail =
            "exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, but multiple fields are set";
        errors.required(at, detail);
    }
}
