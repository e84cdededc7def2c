//! Tests of rights, with nothing but a store: no server, no requests.

use serde_json::{Value, json};

use super::{Attributes, Authorization, Authorizer};
use crate::api::call::User;
use crate::api::registry::Registry;
use crate::api::route::Target;
use crate::api::store::Store;

const GROUP: &str = "rbac.authorization.k8s.io";

/// Asks the roles and bindings that are given.
fn authorizer(objects: &[(&str, &str, Value)]) -> Authorizer {
    Authorizer::new(Store::of(objects), Authorization::Rbac)
}

fn role(name: &str, verbs: &[&str]) -> (&'static str, &'static str, Value) {
    let rule = json!({ "verbs": verbs, "apiGroups": [""], "resources": ["pods"] });
    (GROUP, "roles", json!({ "metadata": { "name": name, "namespace": "a" }, "rules": [rule] }))
}

fn binding(role: &str, user: &str) -> (&'static str, &'static str, Value) {
    let subject = json!({ "kind": "User", "name": user });
    let metadata = json!({ "name": format!("{role}-{user}"), "namespace": "a" });
    let reference = json!({ "kind": "Role", "name": role });
    (GROUP, "rolebindings", json!({ "metadata": metadata, "roleRef": reference, "subjects": [subject] }))
}

fn user(name: &str) -> User {
    User { name: name.to_owned(), ..User::default() }
}

fn pods<'a>(verb: &'a str, namespace: &'a str) -> Attributes<'a> {
    Attributes { verb, group: "", resource: "pods", namespace: Some(namespace), name: "", path: "" }
}

#[test]
fn a_role_gives_rights_where_it_is_bound() {
    let rules = authorizer(&[role("reader", &["get"]), binding("reader", "ann"), binding("gone", "bob")]);
    assert!(rules.may(&user("ann"), &pods("get", "a")));
    assert!(!rules.may(&user("ann"), &pods("delete", "a")), "another verb");
    assert!(!rules.may(&user("ann"), &pods("get", "b")), "another namespace");
    let refused = rules.demand(&user("bob"), &pods("get", "a")).unwrap_err();
    assert!(
        refused.message.ends_with("RBAC: role.rbac.authorization.k8s.io \"gone\" not found"),
        "{}",
        refused.message
    );
}

#[test]
fn nobody_gives_rights_that_they_do_not_have() {
    let rules = authorizer(&[role("reader", &["get"]), binding("reader", "ann")]);
    let resource = Registry::built_in().any_version(GROUP, "roles").unwrap().clone();
    let roles = Target { resource, namespace: Some("a".to_owned()), name: None, subresource: None, watch: false };
    let give = |verbs: &[&str]| rules.may_grant(&roles, Some(&user("ann")), None, &role("new", verbs).2);
    assert_eq!(give(&["get"]), Ok(()));
    let refused = give(&["get", "delete"]).unwrap_err();
    let lacking = "{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"delete\"]}";
    assert!(refused.code == 403 && refused.message.ends_with(lacking), "{}", refused.message);
}
