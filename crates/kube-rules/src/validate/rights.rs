//! Roles and who has them.

use serde_json::Value;

use super::super::value_ext::ValueExt;
use super::errors::{Errors, Path};
use super::{names, selector};

const GROUP: &str = "rbac.authorization.k8s.io";
const SUBJECTS: [&str; 3] = ["ServiceAccount", "User", "Group"];

/// The reach of a role.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// In its namespace.
    Namespace,
    /// Everywhere.
    Cluster,
}

/// Checks a Role or ClusterRole, its metadata apart.
pub fn role(object: &Value, reach: Reach, errors: &mut Errors) {
    let rules = Path::root("rules");
    for (index, rule) in object.list("rules").iter().enumerate() {
        let at = rules.index(index);
        if rule.list("verbs").is_empty() {
            errors.required(&at.field("verbs"), "verbs must contain at least one value");
        }
        let urls = rule.list("nonResourceURLs");
        if urls.is_empty() {
            for (name, one) in [("apiGroups", "api group"), ("resources", "resource")] {
                if rule.list(name).is_empty() {
                    let detail = format!("resource rules must supply at least one {one}");
                    errors.required(&at.field(name), &detail);
                }
            }
            continue;
        }
        let at = at.field("nonResourceURLs");
        if reach == Reach::Namespace {
            errors.invalid(&at, &rule["nonResourceURLs"], "namespaced rules cannot apply to non-resource URLs");
        }
        if ["apiGroups", "resources", "resourceNames"].iter().any(|name| !rule.list(name).is_empty()) {
            let detail = "rules cannot apply to both regular resources and non-resource URLs";
            errors.invalid(&at, &rule["nonResourceURLs"], detail);
        }
    }
    if reach == Reach::Cluster && object.has("aggregationRule") {
        aggregation(&object["aggregationRule"], errors);
    }
}

/// Checks the roles that a ClusterRole takes its rules from.
fn aggregation(rule: &Value, errors: &mut Errors) {
    let list = Path::root("aggregationRule.clusterRoleSelectors");
    if rule.list("clusterRoleSelectors").is_empty() {
        errors.required(&list, "at least one clusterRoleSelector required if aggregationRule is non-nil");
    }
    for (index, one) in rule.list("clusterRoleSelectors").iter().enumerate() {
        let at = list.index(index);
        selector::selector(one, &at, errors);
        if selector::matches(one, None).is_none() {
            errors.invalid(&at, &Value::Null, "invalid label selector.");
        }
    }
}

/// Checks a RoleBinding or ClusterRoleBinding, its metadata apart.
pub fn binding(object: &Value, reach: Reach, errors: &mut Errors) {
    let (role, at) = (&object["roleRef"], Path::root("roleRef"));
    if role.text("apiGroup") != GROUP {
        errors.not_supported(&at.field("apiGroup"), role.text("apiGroup"), &[GROUP]);
    }
    let kinds: &[&str] = if reach == Reach::Namespace { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    if !kinds.contains(&role.text("kind")) {
        errors.not_supported(&at.field("kind"), role.text("kind"), kinds);
    }
    if role.text("name").is_empty() {
        errors.required(&at.field("name"), "");
    } else {
        errors.each_invalid(&at.field("name"), role.text("name"), &names::path_segment(role.text("name")));
    }
    let subjects = Path::root("subjects");
    for (index, one) in object.list("subjects").iter().enumerate() {
        subject(one, reach, &subjects.index(index), errors);
    }
}

/// Checks that the role of a binding stays.
pub fn binding_update(old: &Value, new: &Value, errors: &mut Errors) {
    if old["roleRef"] != new["roleRef"] {
        errors.invalid(&Path::root("roleRef"), &new["roleRef"], "cannot change roleRef");
    }
}

fn subject(one: &Value, reach: Reach, at: &Path<'_>, errors: &mut Errors) {
    let (kind, name, group) = (one.text("kind"), one.text("name"), one.text("apiGroup"));
    if name.is_empty() {
        errors.required(&at.field("name"), "");
    }
    match kind {
        "ServiceAccount" => {
            if !name.is_empty() {
                errors.each_invalid(&at.field("name"), name, &names::dns_1123_subdomain(name));
            }
            if !group.is_empty() {
                errors.not_supported(&at.field("apiGroup"), group, &[""]);
            }
            if reach == Reach::Cluster && one.text("namespace").is_empty() {
                errors.required(&at.field("namespace"), "");
            }
        }
        "User" | "Group" => {
            if group != GROUP {
                errors.not_supported(&at.field("apiGroup"), group, &[GROUP]);
            }
        }
        other => errors.not_supported(&at.field("kind"), other, &SUBJECTS),
    }
}
