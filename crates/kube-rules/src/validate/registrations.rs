//! The objects that are registered with the server: other servers, webhooks, policies.

use std::collections::BTreeSet;

use serde_json::Value;

use super::super::value_ext::{ValueExt, repeated_texts, repeated_values};
use super::errors::{Errors, Path};
use super::{names, selector};

const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
const SCOPES: [&str; 3] = ["*", "Cluster", "Namespaced"];
/// The answers to a request when nobody can be asked.
pub const FAILURES: [&str; 2] = ["Fail", "Ignore"];
/// The precision with which a rule is matched.
pub const MATCHES: [&str; 2] = ["Equivalent", "Exact"];
const SIDE_EFFECTS: [&str; 2] = ["None", "NoneOnDryRun"];
const REVIEWS: [&str; 2] = ["v1", "v1beta1"];
const URL: &str = "; desired format: https://host[/path]";

/// Checks the name of an APIService, which follows from its group and version.
pub fn api_service_name(object: &Value, errors: &mut Errors) {
    let spec = &object["spec"];
    let (name, group, version) = (object["metadata"].text("name"), spec.text("group"), spec.text("version"));
    let wanted = format!("{version}.{group}");
    let problems = names::path_segment(name);
    if !problems.is_empty() {
        errors.each_invalid(&Path::root("metadata.name"), name, &problems);
    } else if name != wanted {
        let detail = format!("must be `spec.version+\".\"+spec.group`: \"{wanted}\"");
        errors.invalid(&Path::root("metadata.name"), name, &detail);
    }
}

/// Checks an APIService, its metadata apart.
pub fn api_service(object: &Value, errors: &mut Errors) {
    let (spec, at) = (&object["spec"], Path::root("spec"));
    let (group, version) = (spec.text("group"), spec.text("version"));
    if group.is_empty() {
        if version != "v1" {
            let detail = "only v1 may have an empty group and it better be legacy kube";
            errors.required(&at.field("group"), detail);
        }
    } else {
        errors.each_invalid(&at.field("group"), group, &names::dns_1123_subdomain(group));
    }
    errors.each_invalid(&at.field("version"), version, &names::dns_1035_label(version));
    for (name, most) in [("groupPriorityMinimum", 20_000), ("versionPriority", 1_000)] {
        let number = spec.int(name).unwrap_or_default();
        if number <= 0 || number > most {
            let detail = format!("must be positive and less than {most}");
            errors.invalid(&at.field(name), number, &detail);
        }
    }
    served_by(spec, &at, errors);
}

/// Checks the service of an APIService.
fn served_by(spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    let bundle = spec.text("caBundle");
    let size = (bundle.len() / 4 * 3).saturating_sub(bundle.bytes().rev().take_while(|byte| *byte == b'=').count());
    let skips = spec.flag("insecureSkipTLSVerify");
    let Some(service) = spec.some("service") else {
        if size != 0 {
            let shown = format!("{size} bytes");
            errors.invalid(&at.field("caBundle"), &*shown, "local APIServices may not have a caBundle");
        }
        if skips {
            let detail = "local APIServices may not have insecureSkipTLSVerify";
            errors.invalid(&at.field("insecureSkipTLSVerify"), true, detail);
        }
        return;
    };
    let service_at = at.field("service");
    for name in ["namespace", "name"] {
        if service.text(name).is_empty() {
            errors.required(&service_at.field(name), "");
        }
    }
    if let Some(port) = service.int("port").filter(|port| !(1..=65_535).contains(port)) {
        let detail = "port is not valid: must be between 1 and 65535, inclusive";
        errors.invalid(&service_at.field("port"), port, detail);
    }
    if skips && size != 0 {
        errors.invalid(&at.field("insecureSkipTLSVerify"), true, "may not be true if caBundle is present");
    }
}

/// Checks a webhook configuration, its metadata apart.
pub fn webhooks(object: &Value, errors: &mut Errors) {
    let list = Path::root("webhooks");
    let hooks = object.list("webhooks");
    let repeated = repeated_texts(hooks, "name");
    for (index, hook) in hooks.iter().enumerate() {
        let at = list.index(index);
        webhook(hook, &at, errors);
        let (reviews, reviews_at) = (hook.list("admissionReviewVersions"), at.field("admissionReviewVersions"));
        if reviews.is_empty() {
            errors.required(&reviews_at, "must specify one of v1, v1beta1");
        } else {
            review_versions(reviews, &reviews_at, errors);
        }
        let name = hook.text("name");
        if !name.is_empty() && repeated[index] {
            errors.duplicate(&at.field("name"), name);
        }
    }
}

fn webhook(hook: &Value, at: &Path<'_>, errors: &mut Errors) {
    let name = hook.text("name");
    let name_at = at.field("name");
    if name.is_empty() {
        errors.required(&name_at, "");
    } else {
        let said = names::dns_1123_subdomain(name);
        errors.each_invalid(&name_at, name, &said);
        if said.is_empty() && name.split('.').count() < 3 {
            errors.invalid(&name_at, name, "should be a domain with at least three segments separated by dots");
        }
    }
    let rules = at.field("rules");
    for (index, rule) in hook.list("rules").iter().enumerate() {
        rule_of(rule, &rules.index(index), errors);
    }
    errors.one_of(hook, "failurePolicy", &FAILURES, at);
    errors.one_of(hook, "matchPolicy", &MATCHES, at);
    let effects = hook.text("sideEffects");
    if !hook.has("sideEffects") {
        errors.required(&at.field("sideEffects"), "must specify one of None, NoneOnDryRun");
    } else if !SIDE_EFFECTS.contains(&effects) {
        errors.not_supported(&at.field("sideEffects"), effects, &SIDE_EFFECTS);
    }
    if let Some(seconds) = hook.int("timeoutSeconds").filter(|seconds| !(1..=30).contains(seconds)) {
        let detail = "the timeout value must be between 1 and 30 seconds";
        errors.invalid(&at.field("timeoutSeconds"), seconds, detail);
    }
    for name in ["namespaceSelector", "objectSelector"] {
        selector::selector(&hook[name], &at.field(name), errors);
    }
    errors.one_of(hook, "reinvocationPolicy", &["IfNeeded", "Never"], at);
    client(&hook["clientConfig"], &at.field("clientConfig"), errors);
    conditions(hook.list("matchConditions"), &at.field("matchConditions"), errors);
}

/// Checks the client of a webhook: an address, or a service.
pub fn client(config: &Value, at: &Path<'_>, errors: &mut Errors) {
    match (config.some("url").and_then(Value::as_str), config.some("service")) {
        (None, None) | (Some(_), Some(_)) => errors.required(at, "exactly one of url or service is required"),
        (Some(url), None) => url_of(url, &at.field("url"), errors),
        (None, Some(service)) => {
            let at = at.field("service");
            // The real server takes the one for the other.
            for (name, said) in [("namespace", "name"), ("name", "namespace")] {
                if service.text(name).is_empty() {
                    errors.required(&at.field(said), "");
                }
            }
            let port = service.int("port").unwrap_or(443);
            if !(1..=65_535).contains(&port) {
                let detail = "port is not valid: must be between 1 and 65535, inclusive";
                errors.invalid(&at.field("port"), port, detail);
            }
            if let Some(path) = service.some("path").and_then(Value::as_str) {
                service_path(path, &at.field("path"), errors);
            }
        }
    }
}

fn url_of(url: &str, at: &Path<'_>, errors: &mut Errors) {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let host = if scheme.is_empty() { "" } else { rest.split(['/', '?', '#']).next().unwrap_or_default() };
    if scheme != "https" {
        errors.invalid(at, scheme, &format!("'https' is the only allowed URL scheme{URL}"));
    }
    if host.is_empty() {
        errors.invalid(at, "", &format!("host must be specified{URL}"));
    }
    if let Some((user, _)) = host.rsplit_once('@') {
        errors.invalid(at, user, "user information is not permitted in the URL");
    }
    if let Some((_, fragment)) = rest.split_once('#') {
        errors.invalid(at, fragment, "fragments are not permitted in the URL");
    }
    let query = rest.split('#').next().and_then(|rest| rest.split_once('?'));
    if let Some((_, query)) = query {
        errors.invalid(at, query, "query parameters are not permitted in the URL");
    }
}

fn service_path(path: &str, at: &Path<'_>, errors: &mut Errors) {
    if path.is_empty() || path == "/" {
        return;
    }
    if !path.starts_with('/') {
        errors.invalid(at, path, "must start with a '/'");
    }
    let inner: String = path.chars().skip(1).collect();
    let inner = inner.strip_suffix('/').unwrap_or(&inner);
    for (index, part) in inner.split('/').enumerate() {
        if part.is_empty() {
            errors.invalid(at, path, &format!("segment[{index}] may not be empty"));
            continue;
        }
        for detail in names::dns_1123_subdomain(part) {
            errors.invalid(at, path, &format!("segment[{index}]: {detail}"));
        }
    }
}

/// Checks the versions in which a webhook can be asked.
pub fn review_versions(versions: &[Value], at: &Path<'_>, errors: &mut Errors) {
    let mut known = false;
    let repeated = repeated_values(versions);
    for (index, version) in versions.iter().enumerate() {
        let text = version.as_str().unwrap_or_default();
        if repeated[index] {
            errors.invalid(&at.index(index), text, "duplicate version");
            continue;
        }
        errors.each_invalid(&at.index(index), text, &names::dns_1035_label(text));
        known |= REVIEWS.contains(&text);
    }
    if !known {
        errors.invalid(at, &Value::from(versions), "must include at least one of v1, v1beta1");
    }
}

/// Checks a list where a star stands for everything.
fn stars(values: &[Value], at: &Path<'_>, what: &str, errors: &mut Errors) {
    if values.is_empty() {
        errors.required(at, "");
    }
    if values.len() > 1 && values.iter().any(|value| value == "*") {
        errors.invalid(at, &Value::from(values), &format!("if '*' is present, must not specify other {what}"));
    }
}

/// Checks a rule for requests.
pub fn rule_of(rule: &Value, at: &Path<'_>, errors: &mut Errors) {
    let operations = rule.list("operations");
    let list = at.field("operations");
    stars(operations, &list, "operations", errors);
    for (index, operation) in operations.iter().enumerate() {
        if !OPERATIONS.iter().any(|known| operation == known) {
            errors.not_supported(&list.index(index), operation, &OPERATIONS);
        }
    }
    let (groups, versions, resources) = (rule.list("apiGroups"), rule.list("apiVersions"), rule.list("resources"));
    stars(groups, &at.field("apiGroups"), "API groups", errors);
    stars(versions, &at.field("apiVersions"), "API versions", errors);
    let list = at.field("apiVersions");
    for (index, _) in versions.iter().enumerate().filter(|(_, version)| *version == "") {
        errors.required(&list.index(index), "");
    }
    resources_of(resources, &at.field("resources"), errors);
    errors.one_of(rule, "scope", &SCOPES, at);
}

fn resources_of(resources: &[Value], list: &Path<'_>, errors: &mut Errors) {
    if resources.is_empty() {
        errors.required(list, "");
    }
    let texts: Vec<&str> = resources.iter().filter_map(Value::as_str).collect();
    let has = |wanted: &str| texts.contains(&wanted);
    let backwards = |text: &str| text.chars().rev().collect::<String>();
    let known: BTreeSet<String> = texts.iter().filter(|other| **other != "*/*").map(|other| backwards(other)).collect();
    for (index, resource) in texts.iter().enumerate() {
        if resource.is_empty() {
            errors.required(&list.index(index), "");
        }
        let Some(("*", sub)) = resource.split_once('/') else { continue };
        let (end, own) = (backwards(&resource[1..]), backwards(resource));
        // Those with one end stand side by side, and this resource is one of them.
        let mut others = known.range(end.clone()..).take_while(|other| other.starts_with(&end));
        if others.any(|other| *other != own) {
            let detail = format!("if '*/{sub}' is present, must not specify {resource}");
            errors.invalid(&list.index(index), *resource, &detail);
        }
    }
    if texts.len() > 1 && has("*/*") {
        let detail = "if '*/*' is present, must not specify other resources";
        errors.invalid(list, &Value::from(resources), detail);
    }
    if has("*") && texts.iter().any(|resource| !resource.contains('/') && *resource != "*") {
        let detail = "if '*' is present, must not specify other resources without subresources";
        errors.invalid(list, &Value::from(resources), detail);
    }
}

/// Conditions in CEL: their names. The expressions are not compiled.
pub fn conditions(conditions: &[Value], list: &Path<'_>, errors: &mut Errors) {
    let repeated = repeated_texts(conditions, "name");
    for (index, condition) in conditions.iter().enumerate() {
        let (at, name) = (list.index(index), condition.text("name"));
        if condition.text("expression").trim().is_empty() {
            errors.required(&at.field("expression"), "");
        }
        if name.is_empty() {
            errors.required(&at.field("name"), "");
        } else {
            errors.each_invalid(&at.field("name"), name, &names::qualified_name(name));
            if repeated[index] {
                errors.duplicate(&at.field("name"), name);
            }
        }
    }
}
