//! A kind as the cluster serves it, and the paths of its objects.

use std::fmt::Write as _;

use serde_json::Value;

use belay_core::manifest::ObjectKey;

/// A kind as the cluster serves it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Served {
    /// The API group; empty for core.
    pub group: String,
    /// The version.
    pub version: String,
    /// The kind.
    pub kind: String,
    /// The plural in paths.
    pub resource: String,
    /// True when objects live in a namespace.
    pub namespaced: bool,
}

impl Served {
    /// Returns `apps/v1`, or `v1`.
    #[must_use]
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// Returns the path of this kind's objects on the API server: `/apis/apps/v1/deployments`.
    #[must_use]
    pub fn address(&self) -> String {
        self.path(None, "")
    }

    /// Returns the path of this kind's objects in a namespace, or everywhere.
    #[must_use]
    pub fn address_in(&self, namespace: Option<&str>) -> String {
        self.path(namespace, "")
    }

    /// Returns true for an address of a list of the kind, in any namespace.
    #[must_use]
    pub fn is_listed_at(&self, address: &str) -> bool {
        let all = self.path(None, "");
        let (version, resource) = all.rsplit_once('/').unwrap_or_default();
        let between = address.strip_prefix(version).and_then(|rest| rest.strip_suffix(resource));
        between.is_some_and(|between| between == "/" || between.starts_with("/namespaces/"))
    }

    /// Returns the path of one object, or of all of them where `name` is empty.
    pub(super) fn path(&self, namespace: Option<&str>, name: &str) -> String {
        let mut path = if self.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", escape(&self.group)) };
        path.push('/');
        path.push_str(&escape(&self.version));
        if let Some(namespace) = namespace.filter(|_| self.namespaced) {
            path.push_str("/namespaces/");
            path.push_str(&escape(namespace));
        }
        path.push('/');
        path.push_str(&escape(&self.resource));
        if !name.is_empty() {
            path.push('/');
            path.push_str(&escape(name));
        }
        path
    }

    /// Returns the key of an object of this kind.
    pub fn key_of(&self, object: &Value) -> ObjectKey {
        let text = |field: &str| object["metadata"][field].as_str().map(str::to_owned);
        let (group, kind) = (self.group.clone(), self.kind.clone());
        ObjectKey { group, kind, namespace: text("namespace"), name: text("name").unwrap_or_default() }
    }

    /// Returns the path of the object with that name.
    pub(super) fn path_of(&self, key: &ObjectKey) -> String {
        self.path(key.namespace.as_deref(), &key.name)
    }
}

/// Returns a name as one segment of a path.
pub(super) fn escape(name: &str) -> String {
    let mut escaped = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            // Writing to a String can't fail.
            let _ = write!(escaped, "%{byte:02X}");
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_that_of_one_group_and_version() {
        let served = |group: &str| Served {
            group: group.to_owned(),
            version: "v1".to_owned(),
            kind: "Service".to_owned(),
            resource: "services".to_owned(),
            namespaced: true,
        };
        for (group, address, expected) in [
            ("", "/api/v1/services", true),
            ("", "/api/v1/namespaces/shop/services", true),
            ("", "/apis/serving.knative.dev/v1/services", false),
            ("serving.knative.dev", "/apis/serving.knative.dev/v1/services", true),
            ("serving.knative.dev", "/apis/serving.knative.dev/v1/namespaces/shop/services", true),
            ("", "/api/v1/pods", false),
        ] {
            assert_eq!(served(group).is_listed_at(address), expected, "{group:?} {address}");
        }
    }

    #[test]
    fn names_can_not_leave_their_segment() {
        assert_eq!(escape("../secrets?x=ü"), "..%2Fsecrets%3Fx%3D%C3%BC");
        let served = Served {
            group: "apps".to_owned(),
            version: "v1".to_owned(),
            kind: "Deployment".to_owned(),
            resource: "deployments".to_owned(),
            namespaced: true,
        };
        assert_eq!(served.path(Some("shop"), "web"), "/apis/apps/v1/namespaces/shop/deployments/web");
        assert_eq!(served.path(None, ""), "/apis/apps/v1/deployments");
    }
}
