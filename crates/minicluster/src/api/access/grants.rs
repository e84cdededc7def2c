//! The rights in the roles that are bound to a user, with the binding.

use std::sync::Arc;

use serde_json::Value;

use super::Authorizer;
use crate::api::call::User;
use crate::api::json_pointer::text;
use crate::api::store::Scope;

pub(super) const GROUP: &str = "rbac.authorization.k8s.io";

/// The rights of a user, in a namespace or everywhere.
#[derive(Debug, Default)]
pub(super) struct Grants {
    pub given: Vec<Given>,
    /// Roles that are bound and not there.
    missing: Vec<String>,
}

/// A rule that holds for a user.
#[derive(Debug)]
pub(super) struct Given {
    pub rule: Value,
    /// The binding, the role and whose it is.
    pub through: Arc<str>,
}

impl Grants {
    /// Returns the fault of the bindings.
    pub(super) fn complaint(&self) -> Option<String> {
        match self.missing.as_slice() {
            [] => None,
            [only] => Some(only.clone()),
            more => Some(format!("[{}]", more.join(", "))),
        }
    }
}

impl Authorizer {
    /// Returns the rights of a user, in a namespace or everywhere.
    pub(super) fn grants_of(&self, user: &User, namespace: Option<&str>) -> Grants {
        let mut grants = Grants::default();
        for binding in self.access_objects("clusterrolebindings", &Scope::All) {
            self.add_grants(&mut grants, &binding, user, None);
        }
        if let Some(namespace) = namespace {
            for binding in self.access_objects("rolebindings", &Scope::Namespace(namespace.to_owned())) {
                self.add_grants(&mut grants, &binding, user, Some(namespace));
            }
        }
        grants
    }

    fn add_grants(&self, grants: &mut Grants, binding: &Value, user: &User, namespace: Option<&str>) {
        let Some(subject) = bound(binding, user, namespace.unwrap_or_default()) else { return };
        let (kind, role) = (text(binding, "/roleRef/kind"), text(binding, "/roleRef/name"));
        let Some(rules) = self.rules_of(&binding["roleRef"], namespace) else {
            grants.missing.push(format!("{}.{GROUP} {role:?} not found", kind.to_lowercase()));
            return;
        };
        let name = text(binding, "/metadata/name");
        let binding = match namespace {
            Some(namespace) => format!("RoleBinding \"{name}/{namespace}\""),
            None => format!("ClusterRoleBinding {name:?}"),
        };
        let through: Arc<str> = format!("{binding} of {kind} {role:?} to {subject}").into();
        grants.given.extend(rules.into_iter().map(|rule| Given { rule, through: Arc::clone(&through) }));
    }

    /// Returns the rules of the role that is referred to; `None` if there is no such role.
    pub(super) fn rules_of(&self, reference: &Value, namespace: Option<&str>) -> Option<Vec<Value>> {
        let name = text(reference, "/name");
        let found = match (text(reference, "/kind"), namespace) {
            ("Role", Some(namespace)) => self.access_objects("roles", &Scope::Object(format!("{namespace}/{name}"))),
            ("ClusterRole", _) => self.access_objects("clusterroles", &Scope::Object(name.to_owned())),
            _ => Vec::new(),
        };
        found.first().map(|role| role["rules"].as_array().cloned().unwrap_or_default())
    }

    fn access_objects(&self, resource: &str, scope: &Scope) -> Vec<Value> {
        self.store.all(GROUP, resource, scope).iter().map(|object| object.value()).collect()
    }
}

/// Returns the subject of a binding, of a namespace or of all, that means a user.
fn bound(binding: &Value, user: &User, namespace: &str) -> Option<String> {
    let subjects = binding["subjects"].as_array().into_iter().flatten();
    subjects.into_iter().find_map(|subject| {
        let (kind, name) = (text(subject, "/kind"), text(subject, "/name"));
        match kind {
            "User" if name == user.name => Some(format!("User {name:?}")),
            "Group" if user.groups.iter().any(|group| group == name) => Some(format!("Group {name:?}")),
            "ServiceAccount" => {
                let named = text(subject, "/namespace");
                let home = if named.is_empty() { namespace } else { named };
                let is_it = user.name == format!("system:serviceaccount:{home}:{name}");
                is_it.then(|| format!("ServiceAccount \"{name}/{home}\""))
            }
            _ => None,
        }
    })
}
