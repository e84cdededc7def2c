//! FACTS ABOUT KUBERNETES. Facts about its kinds: names, scopes, verbs, fields, how lists merge.
//!
//! A leaf: data, and types to read it with. The data (`kubernetes.json`) is generated from a real API server's
//! discovery, its OpenAPI documents and its Go types by `tests/cluster/fidelity/facts.rs`, which also checks that it
//! still agrees with that server. Facts, not opinions: the conclusions are the reader's own.

mod schema;

use std::collections::BTreeMap;
use std::sync::{LazyLock, OnceLock};

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

pub use schema::{Field, Go, List, ListKind, Map, Name, Omit, Patch, Scalar, Struct, Type};

/// One resource of one version of one group, as discovery describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kind {
    /// The API group; empty for core.
    pub group: String,
    /// The version, `v1`.
    pub version: String,
    /// The kind, `Deployment`.
    pub kind: String,
    /// The plural in paths, `deployments`.
    pub resource: String,
    /// The singular, `deployment`.
    pub singular: String,
    /// Short names, `deploy`.
    pub short_names: Vec<String>,
    /// Categories, `all`.
    pub categories: Vec<String>,
    /// True when objects live in a namespace.
    pub namespaced: bool,
    /// The verbs that the resource answers, sorted.
    pub verbs: Vec<String>,
    /// The subresources of an object of it.
    pub subresources: Vec<Subresource>,
}

/// A subresource, as discovery describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subresource {
    /// Its name, `scale`.
    pub name: String,
    /// The group of the kind that it speaks; empty together with `version` where it is the parent's.
    pub group: String,
    /// The version of the kind that it speaks; empty if it is the parent's.
    pub version: String,
    /// The kind that it speaks, `Scale`.
    pub kind: String,
    /// The verbs that it answers, sorted.
    pub verbs: Vec<String>,
}

impl Kind {
    /// Returns `apps/v1`, or `v1` for core.
    #[must_use]
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }
}

/// All facts.
pub struct Facts {
    /// The version of the server that they were taken from, `v1.36.3`.
    pub kubernetes: String,
    /// Its resources, in the order in which its discovery lists them.
    pub kinds: Vec<Kind>,
    types: BTreeMap<&'static str, WrittenType>,
    type_names: BTreeMap<(&'static str, &'static str, &'static str), &'static str>,
}

/// A type as it is written. It is read when it is first asked for: a program needs few of them.
struct WrittenType {
    document: &'static RawValue,
    /// The declarations of its fields in Go.
    go: Option<&'static RawValue>,
    read: OnceLock<Type>,
}

impl WrittenType {
    fn document(&self) -> Value {
        serde_json::from_str(self.document.get()).expect("kubernetes.json is well formed")
    }

    fn read(&self) -> &Type {
        self.read.get_or_init(|| {
            let go =
                self.go.map(|go| serde_json::from_str(go.get()).expect("kubernetes.json says how Go declares fields"));
            schema::read(&self.document(), go.as_ref())
        })
    }
}

/// Returns the facts, read once.
///
/// # Panics
/// If the data in the program is broken, which its test excludes.
pub fn facts() -> &'static Facts {
    static FACTS: LazyLock<Facts> = LazyLock::new(|| {
        let file: File<'_> =
            serde_json::from_str(include_str!("kubernetes.json")).expect("kubernetes.json is well formed");
        Facts::new(file)
    });
    &FACTS
}

impl Facts {
    /// Returns the resource that serves a kind.
    #[must_use]
    pub fn kind(&self, group: &str, version: &str, kind: &str) -> Option<&Kind> {
        // The first resource of a kind is the one that stores it (`replicationcontrollers` before its subresources).
        self.kinds.iter().find(|known| known.group == group && known.version == version && known.kind == kind)
    }

    /// Returns the resource of that plural name.
    #[must_use]
    pub fn resource(&self, group: &str, version: &str, resource: &str) -> Option<&Kind> {
        self.kinds.iter().find(|kind| kind.group == group && kind.version == version && kind.resource == resource)
    }

    /// Returns the kind that a word means as people write it: `deployment`, `deployments.apps`, `deploy`; case does not
    /// count.
    #[must_use]
    pub fn called(&self, word: &str) -> Option<&Kind> {
        let (name, group) = word.split_once('.').map_or((word, None), |(name, group)| (name, Some(group)));
        let lower = name.to_ascii_lowercase();
        let fits = |kind: &&Kind| {
            let named = kind.resource == lower || kind.singular == lower || kind.short_names.contains(&lower);
            named && group.is_none_or(|group| group == kind.group)
        };
        self.kinds.iter().find(fits)
    }

    /// Returns the type of the objects of a kind; also for kinds that are only spoken (`Scale`, `Eviction`,
    /// `DeleteOptions`).
    #[must_use]
    pub fn schema(&self, group: &str, version: &str, kind: &str) -> Option<&Type> {
        self.named(self.type_name(group, version, kind)?)
    }

    /// Returns the name of a kind's type in OpenAPI, `io.k8s.api.apps.v1.Deployment`.
    #[must_use]
    pub fn type_name(&self, group: &str, version: &str, kind: &str) -> Option<&str> {
        self.type_names.get(&(group, version, kind)).copied()
    }

    /// Returns a type by its name in OpenAPI.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<&Type> {
        self.types.get(name).map(WrittenType::read)
    }

    /// Returns all types by their names.
    pub fn types(&self) -> impl Iterator<Item = (&str, &Type)> {
        self.types.iter().map(|(name, written)| (*name, written.read()))
    }

    /// Returns the OpenAPI v3 schema of that name, without prose.
    #[must_use]
    pub fn document(&self, name: &str) -> Option<Value> {
        self.types.get(name).map(WrittenType::document)
    }

    fn new(file: File<'static>) -> Facts {
        let File { kubernetes, kinds, types, go } = file;
        let type_names = type_names(types.keys().copied());
        let written =
            |(name, document)| (name, WrittenType { document, go: go.get(name).copied(), read: OnceLock::new() });
        Facts {
            kubernetes,
            kinds: kinds.into_iter().map(Kind::from).collect(),
            types: types.into_iter().map(written).collect(),
            type_names,
        }
    }
}

/// Maps group, version and kind to type names: a type's name ends in its version and kind; its group is spelled in
/// reverse or shortened, by package.
fn type_names(
    names: impl Iterator<Item = &'static str>,
) -> BTreeMap<(&'static str, &'static str, &'static str), &'static str> {
    const PACKAGES: [(&str, &str); 19] = [
        ("core", ""),
        ("admissionregistration", "admissionregistration.k8s.io"),
        ("apiextensions", "apiextensions.k8s.io"),
        ("apiregistration", "apiregistration.k8s.io"),
        ("authentication", "authentication.k8s.io"),
        ("authorization", "authorization.k8s.io"),
        ("certificates", "certificates.k8s.io"),
        ("coordination", "coordination.k8s.io"),
        ("discovery", "discovery.k8s.io"),
        ("events", "events.k8s.io"),
        ("flowcontrol", "flowcontrol.apiserver.k8s.io"),
        ("internal", "internal.k8s.io"),
        ("meta", "meta.k8s.io"),
        ("networking", "networking.k8s.io"),
        ("node", "node.k8s.io"),
        ("rbac", "rbac.authorization.k8s.io"),
        ("resource", "resource.k8s.io"),
        ("scheduling", "scheduling.k8s.io"),
        ("storage", "storage.k8s.io"),
    ];
    let identified = |name: &'static str| {
        let mut parts = name.rsplit('.');
        let (kind, version, package) = (parts.next()?, parts.next()?, parts.next()?);
        let group = PACKAGES.iter().find(|(from, _)| *from == package).map_or(package, |(_, group)| group);
        Some(((group, version, kind), name))
    };
    names.filter_map(identified).collect()
}

#[derive(Deserialize)]
struct File<'a> {
    kubernetes: String,
    kinds: Vec<DiscoveredKind>,
    #[serde(borrow)]
    types: BTreeMap<&'a str, &'a RawValue>,
    #[serde(borrow)]
    go: BTreeMap<&'a str, &'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DiscoveredKind {
    group: String,
    version: String,
    resource: String,
    response_kind: ResponseKind,
    scope: String,
    singular_resource: String,
    verbs: Vec<String>,
    #[serde(default)]
    short_names: Vec<String>,
    #[serde(default)]
    categories: Vec<String>,
    #[serde(default)]
    subresources: Vec<DiscoveredSubresource>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DiscoveredSubresource {
    subresource: String,
    response_kind: ResponseKind,
    verbs: Vec<String>,
}

#[derive(Deserialize)]
struct ResponseKind {
    group: String,
    version: String,
    kind: String,
}

impl From<DiscoveredKind> for Kind {
    fn from(kind: DiscoveredKind) -> Kind {
        Kind {
            group: kind.group,
            version: kind.version,
            kind: kind.response_kind.kind,
            resource: kind.resource,
            singular: kind.singular_resource,
            short_names: kind.short_names,
            categories: kind.categories,
            namespaced: kind.scope == "Namespaced",
            verbs: kind.verbs,
            subresources: kind.subresources.into_iter().map(Subresource::from).collect(),
        }
    }
}

impl From<DiscoveredSubresource> for Subresource {
    fn from(sub: DiscoveredSubresource) -> Subresource {
        let ResponseKind { group, version, kind } = sub.response_kind;
        Subresource { name: sub.subresource, group, version, kind, verbs: sub.verbs }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stored_kind_has_a_schema() {
        let facts = facts();
        let stored = facts.kinds.iter().filter(|kind| kind.verbs.iter().any(|verb| verb == "watch"));
        let without: Vec<_> = stored
            .filter(|kind| facts.schema(&kind.group, &kind.version, &kind.kind).is_none())
            .map(|kind| &kind.kind)
            .collect();
        assert!(without.is_empty(), "{without:?}");
    }

    #[test]
    fn a_deployments_containers_merge_by_name() {
        let deployment = facts().schema("apps", "v1", "Deployment").unwrap();
        let containers = deployment.at(&["spec", "template", "spec", "containers"]).unwrap();
        let Type::List(list) = containers.ty.resolve() else { panic!("containers is a list") };
        assert_eq!(list.kind, ListKind::Map(vec!["name".to_owned()]));
        assert_eq!(containers.patch.as_ref().unwrap().merge_key.as_deref(), Some("name"));
        let cpu = deployment.at(&["spec", "template", "spec", "containers", "0", "resources", "limits", "cpu"]);
        assert!(cpu.is_none(), "a map's values are not fields");
    }

    #[test]
    fn pointers_keep_their_zeros() {
        let spec = facts().named("io.k8s.api.core.v1.PodSpec").unwrap();
        assert!(spec.at(&["priority"]).unwrap().keeps_zero);
        assert!(!spec.at(&["hostNetwork"]).unwrap().keeps_zero);
    }
}
