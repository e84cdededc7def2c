//! The smallest thing that a rule gives, and whether another rule gives it.

use serde_json::Value;

/// One verb, of one resource or path. Without a name it is all objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PermissionAtom<'a> {
    Path { verb: &'a str, path: &'a str },
    Resource { verb: &'a str, group: &'a str, resource: &'a str, name: Option<&'a str> },
}

impl PermissionAtom<'_> {
    /// Returns true when a rule gives it.
    pub(super) fn is_in(&self, rule: &Value) -> bool {
        let list = |key: &str| texts(rule, key);
        let has = |key: &str, value: &str| list(key).any(|known| known == "*" || known == value);
        match self {
            PermissionAtom::Path { verb, path } => {
                has("verbs", verb) && list("nonResourceURLs").any(|known| covers(known, path))
            }
            PermissionAtom::Resource { verb, group, resource, name } => {
                let below = resource.split_once('/').map(|(_, subresource)| format!("*/{subresource}"));
                has("verbs", verb)
                    && has("apiGroups", group)
                    && (has("resources", resource) || below.is_some_and(|below| has("resources", &below)))
                    && (list("resourceNames").next().is_none()
                        || name.is_some_and(|name| list("resourceNames").any(|known| known == name)))
            }
        }
    }
}

/// Returns true when a path in a rule covers another.
fn covers(known: &str, path: &str) -> bool {
    known == "*" || known == path || known.strip_suffix('*').is_some_and(|start| path.starts_with(start))
}

/// Returns all that a rule gives.
pub(super) fn permission_atoms(rule: &Value) -> Vec<PermissionAtom<'_>> {
    let mut permission_atoms = Vec::new();
    let names: Vec<Option<&str>> = match texts(rule, "resourceNames").map(Some).collect::<Vec<_>>() {
        none if none.is_empty() => vec![None],
        names => names,
    };
    for group in texts(rule, "apiGroups") {
        for resource in texts(rule, "resources") {
            for verb in texts(rule, "verbs") {
                permission_atoms.extend(names.iter().map(|name| PermissionAtom::Resource {
                    verb,
                    group,
                    resource,
                    name: *name,
                }));
            }
        }
    }
    for path in texts(rule, "nonResourceURLs") {
        permission_atoms.extend(texts(rule, "verbs").map(|verb| PermissionAtom::Path { verb, path }));
    }
    permission_atoms
}

fn texts<'a>(rule: &'a Value, key: &str) -> impl Iterator<Item = &'a str> + use<'a> {
    rule[key].as_array().into_iter().flatten().filter_map(Value::as_str)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_rule_covers_what_it_gives_and_no_more() {
        let wanted =
            json!({ "verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"] });
        let lacking = |own: Value| -> usize {
            permission_atoms(&wanted).iter().filter(|permission_atom| !permission_atom.is_in(&own)).count()
        };
        assert_eq!(lacking(json!({ "verbs": ["get"], "apiGroups": ["*"], "resources": ["*"] })), 1);
        assert_eq!(lacking(json!({ "verbs": ["*"], "apiGroups": [""], "resources": ["pods"] })), 0);
        let named =
            |name: &str| json!({ "verbs": ["*"], "apiGroups": [""], "resources": ["pods"], "resourceNames": [name] });
        assert_eq!((lacking(named("a")), lacking(named("b"))), (0, 2));
        let all = json!({ "verbs": ["get"], "apiGroups": [""], "resources": ["pods"] });
        assert!(!permission_atoms(&all)[0].is_in(&named("a")), "one of them is not all");
        let paths = json!({ "verbs": ["get"], "nonResourceURLs": ["/a/*"] });
        let below = json!({ "verbs": ["get"], "nonResourceURLs": ["/a/b", "/a/*"] });
        assert!(permission_atoms(&below).iter().all(|permission_atom| permission_atom.is_in(&paths)));
    }

    #[test]
    fn a_rule_gives_what_it_names() {
        let of = |verb, resource, name| PermissionAtom::Resource { verb, group: "apps", resource, name: Some(name) };
        let rule = json!({ "verbs": ["get"], "apiGroups": ["apps"], "resources": ["deployments", "*/scale"] });
        assert!(of("get", "deployments", "x").is_in(&rule) && of("get", "replicasets/scale", "x").is_in(&rule));
        assert!(!of("get", "deployments/status", "x").is_in(&rule) && !of("list", "deployments", "x").is_in(&rule));
        let named = json!({ "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "resourceNames": ["x"] });
        assert!(of("delete", "pods", "x").is_in(&named) && !of("delete", "pods", "y").is_in(&named));
        assert!(!of("list", "pods", "").is_in(&named));
        let paths = json!({ "verbs": ["get"], "nonResourceURLs": ["/api/*", "/version"] });
        let at = |path| PermissionAtom::Path { verb: "get", path };
        assert!(at("/api/v1").is_in(&paths) && at("/version").is_in(&paths) && !at("/metrics").is_in(&paths));
    }
}
