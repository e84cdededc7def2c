//! Nobody gives rights that they do not have, unless they may.

use serde_json::{Value, json};

use super::grants::GROUP;
use super::permission_atom::{PermissionAtom, permission_atoms};
use super::{Attributes, Authorizer};
use crate::api::ApiError;
use crate::api::call::User;
use crate::api::json_pointer::text;
use crate::api::route::Target;

impl Authorizer {
    /// Refuses roles and bindings that give more rights than their author has.
    ///
    /// # Errors
    /// 403; 404 where the role that is to be bound is not there.
    pub fn may_grant(
        &self,
        target: &Target,
        requester: Option<&User>,
        old: Option<&Value>,
        new: &Value,
    ) -> Result<(), ApiError> {
        let Some(user) = requester.filter(|_| target.resource.definition.group == GROUP) else { return Ok(()) };
        if old.is_some_and(|old| differs_only_for_collection(old, new)) {
            return Ok(());
        }
        let namespace = target.namespace.as_deref();
        let name = text(new, "/metadata/name");
        match target.resource.definition.resource.as_str() {
            resource @ ("roles" | "clusterroles") => {
                if self.may(user, &Attributes { verb: "escalate", group: GROUP, resource, namespace, name, path: "" }) {
                    return Ok(());
                }
                self.may_gather(target, user, new)?;
                let rules = new["rules"].as_array().cloned().unwrap_or_default();
                self.has_all(target, user, name, &rules)
            }
            _ => self.may_bind(target, user, new),
        }
    }

    /// Checks that a role that takes up others' rules gives nothing that its writer lacks.
    fn may_gather(&self, target: &Target, user: &User, role: &Value) -> Result<(), ApiError> {
        if !role["aggregationRule"].is_object() {
            return Ok(());
        }
        let everything = [
            json!({ "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"] }),
            json!({ "verbs": ["*"], "nonResourceURLs": ["*"] }),
        ];
        let name = text(role, "/metadata/name");
        self.has_all(target, user, name, &everything).map_err(|_| {
            let why = "must have cluster-admin privileges to use an aggregationRule";
            ApiError::forbidden(GROUP, &target.resource.definition.resource, name, why)
        })
    }

    fn may_bind(&self, target: &Target, user: &User, binding: &Value) -> Result<(), ApiError> {
        let reference = &binding["roleRef"];
        let namespace = target.namespace.as_deref();
        let resource = format!("{}s", text(reference, "/kind").to_lowercase());
        let name = text(reference, "/name");
        let bind = Attributes { verb: "bind", group: GROUP, resource: &resource, namespace, name, path: "" };
        if self.may(user, &bind) {
            return Ok(());
        }
        let Some(rules) = self.rules_of(reference, namespace) else {
            return Err(ApiError::not_found(GROUP, &target.resource.definition.resource, name));
        };
        self.has_all(target, user, text(binding, "/metadata/name"), &rules)
    }

    fn has_all(&self, target: &Target, user: &User, name: &str, rules: &[Value]) -> Result<(), ApiError> {
        let grants = self.grants_of(user, target.namespace.as_deref());
        let lacks =
            |permission_atom: &PermissionAtom<'_>| !grants.given.iter().any(|given| permission_atom.is_in(&given.rule));
        let lacking: Vec<PermissionAtom<'_>> = rules.iter().flat_map(permission_atoms).filter(lacks).collect();
        if lacking.is_empty() {
            return Ok(());
        }
        let groups: Vec<String> = user.groups.iter().map(|group| format!("{group:?}")).collect();
        let mut why = format!(
            "user {:?} (groups=[{}]) is attempting to grant RBAC permissions not currently held:\n{}",
            user.name,
            groups.join(" "),
            told(&lacking).join("\n")
        );
        if let Some(complaint) = grants.complaint() {
            why.push_str(&format!("; resolution errors: {complaint}"));
        }
        Err(ApiError::forbidden(GROUP, &target.resource.definition.resource, name, &why))
    }
}

/// Lists the lacking rights, a line for each thing with all its verbs, in the order of the reference.
fn told(lacking: &[PermissionAtom<'_>]) -> Vec<String> {
    let mut things: Vec<(String, Vec<&str>)> = Vec::new();
    for permission_atom in lacking {
        let (thing, verb) = match permission_atom {
            PermissionAtom::Path { verb, path } => (format!("NonResourceURLs:[{path:?}]"), verb),
            PermissionAtom::Resource { verb, group, resource, name } => {
                let named = name.map(|name| format!(", ResourceNames:[{name:?}]")).unwrap_or_default();
                (format!("APIGroups:[{group:?}], Resources:[{resource:?}]{named}"), verb)
            }
        };
        let together = matches!(permission_atom, PermissionAtom::Resource { .. });
        match things.iter_mut().find(|(known, _)| together && *known == thing) {
            Some((_, verbs)) => verbs.push(verb),
            None => things.push((thing, vec![verb])),
        }
    }
    let line = |(thing, verbs): (String, Vec<&str>)| {
        let verbs: Vec<String> = verbs.iter().map(|verb| format!("{verb:?}")).collect();
        format!("{{{thing}, Verbs:[{}]}}", verbs.join(" "))
    };
    let mut lines: Vec<String> = things.into_iter().map(line).collect();
    lines.sort_unstable();
    lines
}

/// Returns true when two states of an object differ only in fields that the garbage collector changes.
fn differs_only_for_collection(old: &Value, new: &Value) -> bool {
    let rest = |object: &Value| {
        let mut rest = object.clone();
        if let Some(metadata) = rest["metadata"].as_object_mut() {
            for key in ["ownerReferences", "finalizers", "managedFields", "resourceVersion"] {
                metadata.remove(key);
            }
        }
        rest
    };
    rest(old) == rest(new)
}
