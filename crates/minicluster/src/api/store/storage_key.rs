//! The keys under which objects are stored: the resource that they are stored with, and their path there.

use std::sync::Arc;

/// The key of objects that are stored together: the group and the plural of the version in which they are stored.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupResource {
    /// The API group; empty for core.
    pub group: Arc<str>,
    /// The plural.
    pub resource: Arc<str>,
}

impl GroupResource {
    /// Returns the objects of a resource of a group.
    #[must_use]
    pub fn new(group: &str, resource: &str) -> GroupResource {
        GroupResource { group: group.into(), resource: resource.into() }
    }
}

/// A part of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All of it.
    All,
    /// The objects of a namespace.
    Namespace(String),
    /// The object at a path ([`path`]).
    Object(String),
}

impl Scope {
    /// Returns true when a path lies in it.
    #[must_use]
    pub fn contains(&self, path: &str) -> bool {
        match self {
            Scope::All => true,
            Scope::Namespace(namespace) => namespace_of(path) == Some(namespace.as_str()),
            Scope::Object(object) => object == path,
        }
    }
}

/// Returns the path of an object among those of its resource. They are ordered by it.
#[must_use]
pub fn path(namespace: Option<&str>, name: &str) -> String {
    match namespace {
        Some(namespace) => format!("{namespace}/{name}"),
        None => name.to_owned(),
    }
}

/// Returns the namespace that a path begins with, if there is one.
pub fn namespace_of(path: &str) -> Option<&str> {
    path.split_once('/').map(|(namespace, _)| namespace)
}
