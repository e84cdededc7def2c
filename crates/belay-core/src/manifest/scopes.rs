//! The kinds that exist, and if their objects live in a namespace.

use std::collections::{BTreeMap, BTreeSet};

use kube_facts::{Kind, Type, facts};

use super::schema::{CustomShape, Definition, nearest};

/// A kind, whatever its version: group and kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupKind {
    /// The API group; empty for core.
    pub group: String,
    /// The kind.
    pub kind: String,
}

/// The facts about kinds: Kubernetes' own, those that the repository defines, and those that a cluster serves.
#[derive(Clone, Debug, PartialEq)]
pub struct Scopes {
    /// The namespace of objects that name none.
    pub default_namespace: String,
    definitions: BTreeMap<GroupKind, Definition>,
    /// By kind, the versions that the cluster serves, and whether objects live in a namespace.
    served: BTreeMap<GroupKind, (BTreeSet<String>, bool)>,
}

/// The facts about one kind in one version.
#[derive(Clone, Debug)]
pub(super) enum Known<'s> {
    /// One of Kubernetes' own, with the name of its type.
    BuiltIn(&'static Kind, Option<Type>),
    /// Defined in the repository, with the shape of its objects where that is given.
    Defined(&'s Definition, Option<&'s Type>),
    /// Served by the cluster; nothing is known about its fields.
    Served { namespaced: bool },
    /// Perhaps there is one; who knows the cluster must say.
    Custom,
}

/// The reason for which there is no such kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NoSuchKind {
    pub(super) message: String,
    pub(super) hint: Option<String>,
}

impl Scopes {
    /// Returns Kubernetes' own kinds, and nothing else yet. `default_namespace` is where objects go that name no
    /// namespace.
    #[must_use]
    pub fn new(default_namespace: &str) -> Scopes {
        Scopes {
            default_namespace: default_namespace.to_owned(),
            definitions: BTreeMap::new(),
            served: BTreeMap::new(),
        }
    }

    /// Takes up a definition that stands in the repository. One of the same kind is replaced.
    pub fn define(&mut self, definition: Definition) {
        let kind = GroupKind { group: definition.group.clone(), kind: definition.kind.clone() };
        self.definitions.insert(kind, definition);
    }

    /// Forgets the definition of a kind.
    pub fn forget(&mut self, kind: &GroupKind) {
        self.definitions.remove(kind);
    }

    /// Takes up a kind that a cluster serves in a version.
    pub fn serve(&mut self, group: &str, version: &str, kind: &str, namespaced: bool) {
        let kind = GroupKind { group: group.to_owned(), kind: kind.to_owned() };
        let served = self.served.entry(kind).or_insert_with(|| (BTreeSet::new(), namespaced));
        served.0.insert(version.to_owned());
        served.1 = namespaced;
    }

    /// Returns true when objects of a kind live in a namespace; `None` if that is unknown.
    #[must_use]
    pub fn namespaced(&self, kind: &GroupKind) -> Option<bool> {
        if let Some(built_in) = facts().kinds.iter().find(|fact| fact.group == kind.group && fact.kind == kind.kind) {
            return Some(built_in.namespaced);
        }
        let defined = self.definitions.get(kind).map(|definition| definition.namespaced);
        defined.or_else(|| self.served.get(kind).map(|(_, namespaced)| *namespaced))
    }

    pub(super) fn lookup(&self, group: &str, version: &str, kind: &str) -> Result<Known<'_>, NoSuchKind> {
        if let Some(fact) = facts().kind(group, version, kind) {
            let shape = facts().type_name(group, version, kind).map(Type::named);
            return Ok(Known::BuiltIn(fact, shape));
        }
        let key = GroupKind { group: group.to_owned(), kind: kind.to_owned() };
        let served = self.served.get(&key);
        if let Some(definition) = self.definitions.get(&key)
            && let Some((_, shape)) = definition.versions.iter().find(|(name, _)| name == version)
        {
            return Ok(Known::Defined(definition, shape.as_ref().map(CustomShape::get)));
        }
        if let Some((versions, namespaced)) = served {
            if versions.contains(version) {
                return Ok(Known::Served { namespaced: *namespaced });
            }
            let known = versions.iter().map(|version| api_version(group, version)).collect::<Vec<_>>().join(" or ");
            return Err(other_version(kind, &known));
        }
        if let Some(definition) = self.definitions.get(&key) {
            let known: Vec<String> = definition.versions.iter().map(|(name, _)| api_version(group, name)).collect();
            return Err(other_version(kind, &known.join(" or ")));
        }
        no_such_built_in(group, version, kind).map_or(Ok(Known::Custom), Err)
    }
}

fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

fn other_version(kind: &str, known: &str) -> NoSuchKind {
    NoSuchKind {
        message: format!("this version of {kind} is not served"),
        hint: (!known.is_empty()).then(|| format!("write {known}")),
    }
}

/// Returns why Kubernetes has no such kind itself; `None` for a possible custom kind, or one that a newer Kubernetes
/// has.
fn no_such_built_in(group: &str, version: &str, kind: &str) -> Option<NoSuchKind> {
    let kinds = &facts().kinds;
    let same_kind = |fact: &&Kind| fact.kind == kind;
    let kubernetes = &facts().kubernetes;
    let groups = || kinds.iter().map(|fact| fact.group.as_str());
    if let Some(fact) = kinds.iter().find(|fact| fact.group == group && fact.kind == kind) {
        let message = format!("Kubernetes {kubernetes} does not serve {kind} as {}", api_version(group, version));
        return Some(NoSuchKind { message, hint: Some(format!("write {}", fact.api_version())) });
    }
    let known_group = groups().any(|known| known == group);
    let known_version = kinds.iter().any(|fact| fact.group == group && fact.version == version);
    // Groups without a point belong to Kubernetes; the others may be anybody's, and its own grow.
    if known_version || !group.contains('.') {
        let message = if known_version || known_group {
            format!("there is no kind {kind} in {}", api_version(group, version))
        } else {
            format!("there is no API group {group}")
        };
        let elsewhere = kinds.iter().find(same_kind).map(|fact| format!("{kind} is in {}", fact.api_version()));
        let near_kind = || {
            let here = kinds.iter().filter(|fact| fact.group == group).map(|fact| fact.kind.as_str());
            let near = nearest(kind, here).or_else(|| nearest(kind, kinds.iter().map(|fact| fact.kind.as_str())))?;
            let fact = kinds.iter().filter(|fact| fact.kind == near).max_by_key(|fact| fact.group == group)?;
            Some(format!("did you mean {near} of {}?", fact.api_version()))
        };
        let near_group = || nearest(group, groups()).map(|near| format!("did you mean {near}?"));
        return Some(NoSuchKind { message, hint: elsewhere.or_else(near_kind).or_else(near_group) });
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hint(group: &str, version: &str, kind: &str) -> String {
        match Scopes::new("default").lookup(group, version, kind) {
            Ok(_) => "ok".to_owned(),
            Err(no) => no.hint.unwrap_or_default(),
        }
    }

    #[test]
    fn wrong_groups_and_kinds_are_set_right() {
        assert_eq!(hint("apps", "v1", "Deployment"), "ok");
        assert_eq!(hint("extensions", "v1beta1", "Deployment"), "Deployment is in apps/v1");
        assert_eq!(hint("apps", "v1beta1", "Deployment"), "write apps/v1");
        assert_eq!(hint("", "v1", "Deployment"), "Deployment is in apps/v1");
        assert_eq!(hint("apps", "v1", "Deploymnet"), "did you mean Deployment of apps/v1?");
        assert_eq!(hint("app", "v1", "Thing"), "did you mean apps?");
        assert_eq!(hint("policy", "v1beta1", "PodDisruptionBudget"), "write policy/v1");
        assert_eq!(hint("example.com", "v1", "Thing"), "ok");
        assert_eq!(hint("gateway.networking.k8s.io", "v1", "Gateway"), "ok");
        assert_eq!(hint("resource.k8s.io", "v1alpha9", "NewThing"), "ok");
    }

    #[test]
    fn what_the_cluster_serves_counts() {
        let mut scopes = Scopes::new("default");
        scopes.serve("policy", "v1beta1", "PodDisruptionBudget", true);
        scopes.serve("example.com", "v1", "Thing", false);
        assert!(scopes.lookup("policy", "v1beta1", "PodDisruptionBudget").is_ok());
        assert_eq!(
            scopes.namespaced(&GroupKind { group: "example.com".to_owned(), kind: "Thing".to_owned() }),
            Some(false)
        );
        assert_eq!(scopes.lookup("example.com", "v2", "Thing").unwrap_err().hint.unwrap(), "write example.com/v1");
    }
}
