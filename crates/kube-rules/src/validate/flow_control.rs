//! The limits of concurrent requests for each user.

use serde_json::Value;

use super::super::value_ext::ValueExt;
use super::errors::{Errors, Path, Shown};
use super::names;

const SUBJECTS: [&str; 3] = ["Group", "ServiceAccount", "User"];
const METHODS: [&str; 2] = ["ByNamespace", "ByUser"];
const VERBS: [&str; 9] = ["create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"];
const LEVELS: [&str; 2] = ["Exempt", "Limited"];
const RESPONSES: [&str; 2] = ["Queue", "Reject"];
/// The last place of a schema.
const LAST: i64 = 10_000;
/// So many queues may a level have.
const QUEUES: i64 = 10_000_000;

/// Checks a FlowSchema, its metadata apart.
pub fn flow_schema(object: &Value, errors: &mut Errors) {
    let (spec, at) = (&object["spec"], Path::root("spec"));
    let name = object["metadata"].text("name");
    let place = spec.int("matchingPrecedence").unwrap_or_default();
    let place_at = at.field("matchingPrecedence");
    if place <= 0 {
        errors.invalid(&place_at, place, "must be a positive value");
    }
    if place > LAST {
        errors.invalid(&place_at, place, &format!("must not be greater than {LAST}"));
    }
    if place == 1 && name != "exempt" {
        errors.invalid(&place_at, place, "only the schema named 'exempt' may have matchingPrecedence 1");
    }
    if let Some(method) = spec.some("distinguisherMethod")
        && !METHODS.contains(&method.text("type"))
    {
        let shown = Shown::Plain(method.to_string());
        errors.not_supported(&at.field("distinguisherMethod.type"), shown, &METHODS);
    }
    let level = spec["priorityLevelConfiguration"].text("name");
    let level_at = at.field("priorityLevelConfiguration.name");
    if level.is_empty() {
        errors.required(&level_at, "must reference a priority level");
    } else {
        errors.each_invalid(&level_at, level, &names::object_name(level));
    }
    let list = at.field("rules");
    for (index, rule) in spec.list("rules").iter().enumerate() {
        rule_of(rule, &list.index(index), errors);
    }
}

fn rule_of(rule: &Value, at: &Path<'_>, errors: &mut Errors) {
    let subjects = at.field("subjects");
    if rule.list("subjects").is_empty() {
        errors.required(&subjects, "subjects must contain at least one value");
    }
    for (index, one) in rule.list("subjects").iter().enumerate() {
        subject(one, &subjects.index(index), errors);
    }
    if rule.list("resourceRules").is_empty() && rule.list("nonResourceRules").is_empty() {
        errors.required(at, "at least one of resourceRules and nonResourceRules has to be non-empty");
    }
    let list = at.field("resourceRules");
    for (index, rule) in rule.list("resourceRules").iter().enumerate() {
        resource_rule(rule, &list.index(index), errors);
    }
    let list = at.field("nonResourceRules");
    for (index, rule) in rule.list("nonResourceRules").iter().enumerate() {
        url_rule(rule, &list.index(index), errors);
    }
}

fn subject(subject: &Value, at: &Path<'_>, errors: &mut Errors) {
    let kind = subject.text("kind");
    let sources = [("ServiceAccount", "serviceAccount"), ("User", "user"), ("Group", "group")];
    if !SUBJECTS.contains(&kind) {
        errors.not_supported(&at.field("kind"), kind, &SUBJECTS);
        return;
    }
    for (known, name) in sources {
        match (known == kind, subject.some(name)) {
            (true, None) => {
                let detail = format!("{name} is required when subject kind is '{kind}'");
                errors.required(&at.field(name), &detail);
            }
            (true, Some(named)) => named_subject(known, named, &at.field(name), errors),
            (false, Some(_)) => {
                let detail = format!("{name} is forbidden when subject kind is not '{known}'");
                errors.forbidden(&at.field(name), &detail);
            }
            (false, None) => {}
        }
    }
}

fn named_subject(kind: &str, subject: &Value, at: &Path<'_>, errors: &mut Errors) {
    let name = subject.text("name");
    if name.is_empty() {
        errors.required(&at.field("name"), "");
    } else if kind == "ServiceAccount" && name != "*" {
        errors.each_invalid(&at.field("name"), name, &names::object_name(name));
    }
    if kind == "ServiceAccount" {
        let namespace = subject.text("namespace");
        if namespace.is_empty() {
            errors.required(&at.field("namespace"), "must specify namespace for service account");
        } else {
            errors.each_invalid(&at.field("namespace"), namespace, &names::dns_1123_label(namespace));
        }
    }
}

/// Checks a list that names everything with a star names nothing else.
fn all_or_some(list: &[Value], at: &Path<'_>, required: &str, what: &str, errors: &mut Errors) {
    if list.is_empty() {
        errors.required(at, required);
    } else if list.len() > 1 && list.iter().any(|one| one == "*") {
        errors.invalid(at, &Value::from(list), &format!("if '*' is present, must not specify other {what}"));
    }
}

fn verbs(rule: &Value, at: &Path<'_>, errors: &mut Errors) {
    let (verbs, at) = (rule.list("verbs"), at.field("verbs"));
    if verbs.len() == 1 && verbs[0] == "*" {
        return;
    }
    let known = |verb: &Value| VERBS.iter().any(|known| verb == known);
    if verbs.is_empty() {
        errors.required(&at, "verbs must contain at least one value");
    } else if verbs.iter().any(|verb| verb == "*") {
        errors.invalid(&at, &Value::from(verbs), "if '*' is present, must not specify other verbs");
    } else if !verbs.iter().all(known) {
        errors.not_supported(&at, &Value::from(verbs), &VERBS);
    }
}

fn resource_rule(rule: &Value, at: &Path<'_>, errors: &mut Errors) {
    verbs(rule, at, errors);
    let (groups, resources) = (rule.list("apiGroups"), rule.list("resources"));
    let required = "resource rules must supply at least one api group";
    all_or_some(groups, &at.field("apiGroups"), required, "api groups", errors);
    let required = "resource rules must supply at least one resource";
    all_or_some(resources, &at.field("resources"), required, "resources", errors);
    let (namespaces, list) = (rule.list("namespaces"), at.field("namespaces"));
    if namespaces.is_empty() && !rule.flag("clusterScope") {
        let detail = "resource rules that are not cluster scoped must supply at least one namespace";
        errors.required(&list, detail);
    } else if namespaces.len() > 1 && namespaces.iter().any(|one| one == "*") {
        errors.invalid(&list, &Value::from(namespaces), "if '*' is present, must not specify other namespaces");
    } else {
        for (index, namespace) in namespaces.iter().enumerate().filter(|(_, namespace)| *namespace != "*") {
            let text = namespace.as_str().unwrap_or_default();
            for detail in names::dns_1123_label(text) {
                let detail = format!("each member of this list must be '*' or a DNS-1123 label; {detail}");
                errors.invalid(&list.index(index), text, &detail);
            }
        }
    }
}

fn url_rule(rule: &Value, at: &Path<'_>, errors: &mut Errors) {
    verbs(rule, at, errors);
    let (urls, list) = (rule.list("nonResourceURLs"), at.field("nonResourceURLs"));
    if urls.is_empty() {
        errors.required(&list, "nonResourceURLs must contain at least one value");
    } else if urls.len() > 1 && urls.iter().any(|url| url == "*") {
        errors.invalid(&list, &Value::from(urls), "if '*' is present, must not specify other non-resource URLs");
    } else if urls.iter().any(|url| url != "*") {
        for (index, url) in urls.iter().enumerate() {
            let text = url.as_str().unwrap_or_default();
            url_path(text, &list.index(index), errors);
        }
    }
}

fn url_path(path: &str, at: &Path<'_>, errors: &mut Errors) {
    if path.is_empty() {
        errors.invalid(at, path, "must not be empty");
    } else if !path.starts_with('/') {
        errors.invalid(at, path, "must start with slash");
    } else if path.contains(' ') {
        errors.invalid(at, path, "must not contain white-space");
    } else if path.contains("//") {
        errors.invalid(at, path, "must not contain double slash");
    } else if path.trim_end_matches('*').contains('*') || (path.ends_with('*') && !path.ends_with("/*")) {
        errors.invalid(at, path, "wildcard can only do suffix matching");
    }
}

/// Checks a PriorityLevelConfiguration, its metadata apart.
pub fn priority_level(object: &Value, errors: &mut Errors) {
    let (spec, at) = (&object["spec"], Path::root("spec"));
    match spec.text("type") {
        "" => errors.required(&at.field("type"), ""),
        "Exempt" => {
            if spec.has("limited") {
                errors.forbidden(&at.field("limited"), "must be nil if the type is not Limited");
            }
            if let Some(exempt) = spec.some("exempt") {
                shares(exempt, &at.field("exempt"), errors);
            }
        }
        "Limited" => {
            if spec.has("exempt") {
                errors.forbidden(&at.field("exempt"), "must be nil if the type is Limited");
            }
            match spec.some("limited") {
                None => errors.required(&at.field("limited"), "must not be empty when type is Limited"),
                Some(limits) => limited(limits, &at.field("limited"), errors),
            }
        }
        other => errors.not_supported(&at.field("type"), other, &LEVELS),
    }
}

fn shares(level: &Value, at: &Path<'_>, errors: &mut Errors) {
    if let Some(shares) = level.int("nominalConcurrencyShares").filter(|shares| *shares < 0) {
        errors.invalid(&at.field("nominalConcurrencyShares"), shares, "must be a non-negative integer");
    }
    lendable(level, at, errors);
}

fn lendable(level: &Value, at: &Path<'_>, errors: &mut Errors) {
    if let Some(percent) = level.int("lendablePercent").filter(|percent| !(0..=100).contains(percent)) {
        errors.invalid(&at.field("lendablePercent"), percent, "must be between 0 and 100, inclusive");
    }
}

fn limited(limits: &Value, at: &Path<'_>, errors: &mut Errors) {
    let shares_given = limits.int("nominalConcurrencyShares").unwrap_or_default();
    if shares_given < 0 {
        errors.invalid(&at.field("nominalConcurrencyShares"), shares_given, "must be a non-negative integer");
    }
    let (response, response_at) = (&limits["limitResponse"], at.field("limitResponse"));
    match response.text("type") {
        "" => errors.required(&response_at.field("type"), ""),
        "Reject" => {
            if response.has("queuing") {
                let detail = "must be nil if limited.limitResponse.type is not Limited";
                errors.forbidden(&response_at.field("queuing"), detail);
            }
        }
        "Queue" => match response.some("queuing") {
            None => {
                errors.required(
                    &response_at.field("queuing"),
                    "must not be empty if limited.limitResponse.type is Limited",
                );
            }
            Some(queuing) => queues(queuing, &response_at.field("queuing"), errors),
        },
        other => errors.not_supported(&response_at.field("type"), other, &RESPONSES),
    }
    lendable(limits, at, errors);
    if let Some(percent) = limits.int("borrowingLimitPercent").filter(|percent| *percent < 0) {
        errors.invalid(&at.field("borrowingLimitPercent"), percent, "if specified, must be a non-negative integer");
    }
}

fn queues(queuing: &Value, at: &Path<'_>, errors: &mut Errors) {
    let number = |name: &str| queuing.int(name).unwrap_or_default();
    if number("queueLengthLimit") <= 0 {
        errors.invalid(&at.field("queueLengthLimit"), number("queueLengthLimit"), "must be positive");
    }
    let (queues, hand) = (number("queues"), number("handSize"));
    if queues <= 0 {
        errors.invalid(&at.field("queues"), queues, "must be positive");
    } else if queues > QUEUES {
        let detail = format!("must not be greater than {QUEUES}");
        errors.invalid(&at.field("queues"), queues, &detail);
    }
    if hand <= 0 {
        errors.invalid(&at.field("handSize"), hand, "must be positive");
    } else if hand > queues {
        errors.invalid(&at.field("handSize"), hand, &format!("should not be greater than queues ({queues})"));
    }
}
