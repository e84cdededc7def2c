//! FACTS ABOUT KUBERNETES. Facts about its kinds: names, scopes, verbs, fields, how lists merge.
//!
//! A leaf: data, and types to read it with. The data (`kubernetes.json`) is generated from a real API server's
//! discovery, its OpenAPI documents and its Go types by `tests/cluster/fidelity/facts.rs`, which also checks that it
//! still agrees with that server. Facts, not opinions: the conclusions are the reader's own.

mod schema;

use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::Value;

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
    /// Looked up many times.
    types: HashMap<String, Type>,
    documents: BTreeMap<String, Value>,
    by_kind: BTreeMap<(String, String, String), usize>,
    type_names: BTreeMap<(String, String, String), String>,
}

/// Returns the facts, read once.
///
/// # Panics
/// If the data in the program is broken, which its test excludes.
pub fn facts() -> &'static Facts {
    static FACTS: LazyLock<Facts> = LazyLock::new(|| {
        let file: File = serde_json::from_str(include_str!("kubernetes.json")).expect("kubernetes.json is well formed");
        Facts::new(file)
    });
    &FACTS
}

impl Facts {
    /// Returns the resource that serves a kind.
    #[must_use]
    pub fn kind(&self, group: &str, version: &str, kind: &str) -> Option<&Kind> {
        self.by_kind.get(&(group.to_owned(), version.to_owned(), kind.to_owned())).map(|index| &self.kinds[*index])
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
        let name = self.type_name(group, version, kind)?;
        self.types.get(name)
    }

    /// Returns the name of a kind's type in OpenAPI, `io.k8s.api.apps.v1.Deployment`.
    #[must_use]
    pub fn type_name(&self, group: &str, version: &str, kind: &str) -> Option<&str> {
        self.type_names.get(&(group.to_owned(), version.to_owned(), kind.to_owned())).map(String::as_str)
    }

    /// Returns a type by its name in OpenAPI.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<&Type> {
        self.types.get(name)
    }

    /// Returns all types by their names, in no order.
    pub fn types(&self) -> impl Iterator<Item = (&str, &Type)> {
        self.types.iter().map(|(name, ty)| (name.as_str(), ty))
    }

    /// Returns the OpenAPI v3 schemas, by name, without prose.
    #[must_use]
    pub fn documents(&self) -> &BTreeMap<String, Value> {
        &self.documents
    }

    fn new(file: File) -> Facts {
        let kinds: Vec<Kind> = file.kinds.into_iter().map(Kind::from).collect();
        let mut by_kind = BTreeMap::new();
        for (index, kind) in kinds.iter().enumerate() {
            // The first resource of a kind is the one that stores it (`replicationcontrollers` before its subresources).
            by_kind.entry((kind.group.clone(), kind.version.clone(), kind.kind.clone())).or_insert(index);
        }
        let mut types: HashMap<String, Type> = file
            .types
            .iter()
            .map(|(name, document)| (name.clone(), schema::read(document, file.go.get(name))))
            .collect();
        let written: Vec<(String, Vec<String>)> = types
            .iter()
            .filter_map(|(name, ty)| match ty {
                Type::Struct(inner) => Some((name.clone(), schema::always_written(inner, &types))),
                _ => None,
            })
            .collect();
        for (name, fields) in written {
            if let Some(Type::Struct(inner)) = types.get_mut(&name) {
                inner.always_written = fields;
            }
        }
        own_granularly(&mut types, &file.types);
        let type_names = type_names(&file.types);
        Facts { kubernetes: file.kubernetes, kinds, types, documents: file.types, by_kind, type_names }
    }
}

/// Gives a type of its own to a field that may have several owners, though its type elsewhere has one as a whole.
fn own_granularly(types: &mut HashMap<String, Type>, documents: &BTreeMap<String, Value>) {
    for (name, document) in documents {
        let properties = document["properties"].as_object().into_iter().flatten();
        for (field, _) in properties.filter(|(_, document)| document["x-kubernetes-map-type"] == "granular") {
            let Some(Type::Struct(inner)) = types.get_mut(name) else { continue };
            let Some(Type::Named(shared)) = inner.fields.get_mut(field).map(|field| &mut field.ty) else { continue };
            let (of, own) = (shared.to_string(), format!("{} of {field}", &**shared));
            *shared = Name::from(own.clone());
            if let Some(Type::Struct(mut whole)) = types.get(&of).cloned() {
                whole.atomic = false;
                types.insert(own, Type::Struct(whole));
            }
        }
    }
}

/// Maps group, version and kind to type names: a type's name ends in its version and kind; its group is spelled in
/// reverse or shortened, by package.
fn type_names(types: &BTreeMap<String, Value>) -> BTreeMap<(String, String, String), String> {
    const PACKAGES: [(&str, &str); 10] = [
        ("core", ""),
        ("admissionregistration", "admissionregistration.k8s.io"),
        ("apiextensions", "apiextensions.k8s.io"),
        ("apiregistration", "apiregistration.k8s.io"),
        ("authentication", "authentication.k8s.io"),
        ("authorization", "authorization.k8s.io"),
        ("certificates", "certificates.k8s.io"),
        ("flowcontrol", "flowcontrol.apiserver.k8s.io"),
        ("rbac", "rbac.authorization.k8s.io"),
        ("meta", "meta.k8s.io"),
    ];
    const SHORT: [&str; 9] =
        ["coordination", "discovery", "events", "networking", "node", "resource", "scheduling", "storage", "internal"];
    let mut names = BTreeMap::new();
    for name in types.keys() {
        let mut parts = name.rsplit('.');
        let (Some(kind), Some(version), Some(package)) = (parts.next(), parts.next(), parts.next()) else { continue };
        let group = if let Some((_, group)) = PACKAGES.iter().find(|(from, _)| *from == package) {
            (*group).to_owned()
        } else if SHORT.contains(&package) {
            format!("{package}.k8s.io")
        } else {
            package.to_owned()
        };
        names.insert((group, version.to_owned(), kind.to_owned()), name.clone());
    }
    names
}

#[derive(Deserialize)]
struct File {
    kubernetes: String,
    kinds: Vec<DiscoveredKind>,
    types: BTreeMap<String, Value>,
    go: BTreeMap<String, BTreeMap<String, String>>,
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
