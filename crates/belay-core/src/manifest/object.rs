//! The name of an object, and the place of its manifest.

use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The name of one Kubernetes object, whatever its version: group, kind, namespace, name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct ObjectKey {
    /// The API group; empty for core.
    pub group: String,
    /// The kind, `Deployment`.
    pub kind: String,
    /// The namespace; `None` for objects without one.
    pub namespace: Option<String>,
    /// The name.
    pub name: String,
}

impl ObjectKey {
    /// Returns true when the kind is one of Kubernetes' own: then its scope is known, and no two keys name one object.
    #[must_use]
    pub fn is_built_in(&self) -> bool {
        kube_facts::facts().kinds.iter().any(|kind| kind.group == self.group && kind.kind == self.kind)
    }

    /// Returns true when the key that a manifest has may name the live object with another one. `namespaced` is the scope with
    /// which the cluster serves the kind: where it is cluster-wide, a namespace means nothing. Where it is not, a manifest
    /// whose definition says otherwise has no namespace.
    #[must_use]
    pub fn may_name(&self, live: &ObjectKey, namespaced: bool) -> bool {
        let is_in_it = !namespaced || self.namespace.is_none() || self.namespace == live.namespace;
        is_in_it && self.name == live.name && self.kind == live.kind && self.group == live.group
    }
}

impl fmt::Display for ObjectKey {
    /// Writes `Deployment shop/web`, or `Namespace shop`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{} {namespace}/{}", self.kind, self.name),
            None => write!(f, "{} {}", self.kind, self.name),
        }
    }
}

/// A place in a file. Lines and columns count from 1; columns count characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Place {
    /// The path of the file, from the root of the repository.
    pub path: Arc<str>,
    /// The line.
    pub line: u32,
    /// The column.
    pub column: u32,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.path, self.line, self.column)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_means_nothing_where_the_kind_is_cluster_wide() {
        let key = |namespace: Option<&str>| ObjectKey {
            group: "example.com".to_owned(),
            kind: "Zone".to_owned(),
            namespace: namespace.map(str::to_owned),
            name: "one".to_owned(),
        };
        for (written, live, namespaced, expected) in [
            (Some("shop"), None, false, true),
            (Some("shop"), Some("default"), false, true),
            (None, None, false, true),
            (Some("shop"), Some("shop"), true, true),
            (Some("shop"), Some("default"), true, false),
            (None, Some("default"), true, true),
        ] {
            assert_eq!(key(written).may_name(&key(live), namespaced), expected, "{written:?} {live:?} {namespaced}");
        }
        let other = ObjectKey { name: "two".to_owned(), ..key(None) };
        assert!(!other.may_name(&key(None), false));
        let other = ObjectKey { group: "example.org".to_owned(), ..key(None) };
        assert!(!other.may_name(&key(None), false) && !other.is_built_in());
        assert!(ObjectKey { group: String::new(), kind: "Namespace".to_owned(), ..key(None) }.is_built_in());
    }
}
