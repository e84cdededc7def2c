//! What users may do: the roles that are bound to them.

use serde_json::Value;

use super::Authorization;
use crate::minicluster::api::call::{Call, User};
use crate::minicluster::api::route::Target;
use crate::minicluster::api::store::{Page, Scope};
use crate::minicluster::api::write::text;
use crate::minicluster::api::{ApiError, ApiServer};

/// What somebody wants to do.
#[derive(Clone, Copy, Debug)]
pub struct Attributes<'a> {
    /// The verb, `get`.
    pub verb: &'a str,
    /// The API group, for objects.
    pub group: &'a str,
    /// The resource, with a subresource as `pods/log`; empty where a path is meant.
    pub resource: &'a str,
    /// The namespace, where there is one.
    pub namespace: Option<&'a str>,
    /// The name; empty for all.
    pub name: &'a str,
    /// The path, where no object is meant.
    pub path: &'a str,
}

impl ApiServer {
    /// Refuses what a user may not do to objects.
    ///
    /// # Errors
    /// 403.
    pub(in crate::minicluster::api) fn authorize(
        &self,
        call: &Call,
        target: &Target,
        verb: &str,
    ) -> Result<(), ApiError> {
        if self.access().authorization == Authorization::AllowAll {
            return Ok(());
        }
        let definition = &target.resource.definition;
        let resource = match &target.subresource {
            Some(subresource) => format!("{}/{subresource}", definition.resource),
            None => definition.resource.clone(),
        };
        let name = target.name.as_deref().unwrap_or_default();
        let attributes = Attributes {
            verb,
            group: &definition.group,
            resource: &resource,
            // A namespace lies in itself.
            namespace: target
                .namespace
                .as_deref()
                .or(target.name.as_deref().filter(|_| target.resource.is("", "namespaces"))),
            name,
            path: "",
        };
        if self.may(&call.user, &attributes) {
            return Ok(());
        }
        let place = match &target.namespace {
            Some(namespace) => format!("in the namespace {namespace:?}"),
            None => "at the cluster scope".to_owned(),
        };
        let why = format!(
            "User {:?} cannot {verb} resource {resource:?} in API group {:?} {place}",
            call.user.name, definition.group
        );
        Err(ApiError::forbidden(&definition.group, &definition.resource, name, &why))
    }

    /// Refuses paths that a user may not see.
    ///
    /// # Errors
    /// 403.
    pub(in crate::minicluster::api) fn authorize_path(&self, call: &Call) -> Result<(), ApiError> {
        let verb = call.method.as_str().to_ascii_lowercase();
        let attributes =
            Attributes { verb: &verb, group: "", resource: "", namespace: None, name: "", path: &call.path };
        if self.may(&call.user, &attributes) {
            return Ok(());
        }
        let why = format!("forbidden: User {:?} cannot {verb} path {:?}", call.user.name, call.path);
        Err(ApiError::generic(403, "Forbidden", why))
    }

    /// Refuses to let a user act as another.
    pub(super) fn may_impersonate(&self, user: &User, name: &str) -> Result<(), ApiError> {
        let attributes =
            Attributes { verb: "impersonate", group: "", resource: "users", namespace: None, name, path: "" };
        if self.may(user, &attributes) {
            return Ok(());
        }
        let why = format!(
            "User {:?} cannot impersonate resource \"users\" in API group \"\" at the cluster scope",
            user.name
        );
        Err(ApiError::forbidden("", "users", name, &why))
    }

    /// Whether a user may do something.
    pub(in crate::minicluster::api) fn may(&self, user: &User, attributes: &Attributes<'_>) -> bool {
        self.access().authorization == Authorization::AllowAll
            || user.groups.iter().any(|group| group == "system:masters")
            || self.rules_of(user, attributes.namespace).iter().any(|rule| allows(rule, attributes))
    }

    /// The rules that hold for a user, in a namespace or everywhere.
    pub(super) fn rules_of(&self, user: &User, namespace: Option<&str>) -> Vec<Value> {
        let mut rules = Vec::new();
        for binding in self.access_objects("clusterrolebindings", &Scope::All) {
            if binds(&binding, user, "") {
                rules.extend(self.rules_behind(&binding, None));
            }
        }
        let Some(namespace) = namespace else { return rules };
        for binding in self.access_objects("rolebindings", &Scope::Namespace(namespace.to_owned())) {
            if binds(&binding, user, namespace) {
                rules.extend(self.rules_behind(&binding, Some(namespace)));
            }
        }
        rules
    }

    fn rules_behind(&self, binding: &Value, namespace: Option<&str>) -> Vec<Value> {
        let name = text(binding, "/roleRef/name");
        let found = match (text(binding, "/roleRef/kind"), namespace) {
            ("Role", Some(namespace)) => self.access_objects("roles", &Scope::Object(format!("{namespace}/{name}"))),
            ("ClusterRole", _) => self.access_objects("clusterroles", &Scope::Object(name.to_owned())),
            _ => Vec::new(),
        };
        let mut rules: Vec<Value> =
            found.iter().flat_map(|role| role["rules"].as_array().cloned().unwrap_or_default()).collect();
        // A role that gathers others' rules by their labels.
        for selector in found
            .iter()
            .flat_map(|role| role["aggregationRule"]["clusterRoleSelectors"].as_array().cloned().unwrap_or_default())
        {
            let Some(selector) = crate::minicluster::api::selector::LabelSelector::from_object(&selector) else {
                continue;
            };
            for role in self.access_objects("clusterroles", &Scope::All) {
                if selector.matches(|key| role["metadata"]["labels"][key].as_str()) {
                    rules.extend(role["rules"].as_array().cloned().unwrap_or_default());
                }
            }
        }
        rules
    }

    fn access_objects(&self, resource: &str, scope: &Scope) -> Vec<Value> {
        let registry = self.registry();
        let Some(known) = registry.any_version("rbac.authorization.k8s.io", resource) else { return Vec::new() };
        let snapshot = self.store().snapshot(&known.shelf, scope, &Page::default());
        snapshot.map(|snapshot| snapshot.objects.iter().map(|object| object.value()).collect()).unwrap_or_default()
    }
}

fn binds(binding: &Value, user: &User, namespace: &str) -> bool {
    let subjects = binding["subjects"].as_array().into_iter().flatten();
    subjects.into_iter().any(|subject| {
        let name = text(subject, "/name");
        match text(subject, "/kind") {
            "User" => name == user.name,
            "Group" => user.groups.iter().any(|group| group == name),
            "ServiceAccount" => {
                let named = text(subject, "/namespace");
                let home = if named.is_empty() { namespace } else { named };
                user.name == format!("system:serviceaccount:{home}:{name}")
            }
            _ => false,
        }
    })
}

fn allows(rule: &Value, wanted: &Attributes<'_>) -> bool {
    let list = |key: &str| rule[key].as_array().into_iter().flatten().filter_map(Value::as_str);
    let has = |key: &str, value: &str| list(key).any(|known| known == "*" || known == value);
    if !has("verbs", wanted.verb) {
        return false;
    }
    if wanted.resource.is_empty() {
        return list("nonResourceURLs").any(|known| {
            known == "*"
                || known == wanted.path
                || known.strip_suffix('*').is_some_and(|start| wanted.path.starts_with(start))
        });
    }
    let below = wanted.resource.split_once('/').map(|(_, subresource)| format!("*/{subresource}"));
    has("apiGroups", wanted.group)
        && (has("resources", wanted.resource) || below.is_some_and(|below| has("resources", &below)))
        && (list("resourceNames").next().is_none() || list("resourceNames").any(|known| known == wanted.name))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn wanted<'a>(verb: &'a str, resource: &'a str, name: &'a str) -> Attributes<'a> {
        Attributes { verb, group: "apps", resource, namespace: Some("a"), name, path: "" }
    }

    #[test]
    fn a_rule_allows_what_it_names() {
        let rule = json!({ "verbs": ["get"], "apiGroups": ["apps"], "resources": ["deployments", "*/scale"] });
        assert!(allows(&rule, &wanted("get", "deployments", "x")));
        assert!(allows(&rule, &wanted("get", "replicasets/scale", "x")));
        assert!(!allows(&rule, &wanted("get", "deployments/status", "x")));
        assert!(!allows(&rule, &wanted("list", "deployments", "x")));
        let named = json!({ "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "resourceNames": ["x"] });
        assert!(allows(&named, &wanted("delete", "pods", "x")) && !allows(&named, &wanted("delete", "pods", "y")));
        let path = json!({ "verbs": ["get"], "nonResourceURLs": ["/api/*", "/version"] });
        let at = |path: &'static str| Attributes { path, ..wanted("get", "", "") };
        assert!(allows(&path, &at("/api/v1")) && allows(&path, &at("/version")) && !allows(&path, &at("/metrics")));
    }
}
