//! The key of an object: its namespace and name.

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// An object's namespace and name; the namespace is empty for objects of the whole cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// The namespace, or nothing.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl Key {
    /// Returns the key of `name` in `namespace`.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Key {
        Key { namespace: namespace.into(), name: name.into() }
    }

    /// Returns the key of the object with this metadata.
    pub fn of(metadata: &ObjectMeta) -> Key {
        Key::new(namespace_of(metadata), name_of(metadata))
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() { f.write_str(&self.name) } else { write!(f, "{}/{}", self.namespace, self.name) }
    }
}

/// Returns the name; empty if there is none.
pub fn name_of(metadata: &ObjectMeta) -> &str {
    metadata.name.as_deref().unwrap_or_default()
}

/// Returns the namespace; empty for objects of the whole cluster.
pub fn namespace_of(metadata: &ObjectMeta) -> &str {
    metadata.namespace.as_deref().unwrap_or_default()
}

/// Returns the uid; empty if there is none.
pub fn uid_of(metadata: &ObjectMeta) -> &str {
    metadata.uid.as_deref().unwrap_or_default()
}

/// Returns the `resourceVersion` as a number, which it is on every server since Kubernetes 1.35 promises it; 0 for
/// none.
pub fn version_of(metadata: &ObjectMeta) -> u64 {
    metadata.resource_version.as_deref().and_then(|version| version.parse().ok()).unwrap_or(0)
}

/// Returns true when the object has been asked to go.
pub fn is_terminating(metadata: &ObjectMeta) -> bool {
    metadata.deletion_timestamp.is_some()
}

/// Returns the value of an annotation.
pub fn annotation<'a>(metadata: &'a ObjectMeta, name: &str) -> Option<&'a str> {
    metadata.annotations.as_ref()?.get(name).map(String::as_str)
}

/// Returns the value of a label.
pub fn label<'a>(metadata: &'a ObjectMeta, name: &str) -> Option<&'a str> {
    metadata.labels.as_ref()?.get(name).map(String::as_str)
}
