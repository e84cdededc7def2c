//! The kinds that the API server has, custom ones included.

use std::collections::BTreeSet;

use kube::client::{APIGroupDiscoveryList, APIResourceDiscovery};

use super::error::Error;
use super::requests::Requests;

/// A kind that can be listed, watched and deleted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DiscoveredKind {
    /// The API group; empty for core.
    pub group: String,
    /// The version that the server prefers.
    pub version: String,
    /// The plural, `deployments`.
    pub plural: String,
    /// The kind, `Deployment`.
    pub kind: String,
    /// True when objects live in a namespace.
    pub namespaced: bool,
    /// True when all objects of a namespace can be deleted at once.
    pub deletes_collections: bool,
}

impl DiscoveredKind {
    /// Returns `v1`, `apps/v1`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// Returns the path of all objects of the kind.
    pub fn path(&self) -> String {
        format!("{}/{}", self.root(), self.plural)
    }

    /// Returns the path of the kind's objects in a namespace, or of all where it knows none.
    pub fn path_in(&self, namespace: &str) -> String {
        if self.namespaced && !namespace.is_empty() {
            format!("{}/namespaces/{namespace}/{}", self.root(), self.plural)
        } else {
            self.path()
        }
    }

    /// Returns the name in messages of namespaces: `deployments.apps`, `pods.`.
    pub fn qualified(&self) -> String {
        format!("{}.{}", self.plural, self.group)
    }

    fn root(&self) -> String {
        if self.group.is_empty() {
            format!("/api/{}", self.version)
        } else {
            format!("/apis/{}/{}", self.group, self.version)
        }
    }
}

/// Reads which kinds can be listed, watched and deleted, each in the version that the server prefers.
///
/// # Errors
/// Fails with the server's error.
pub async fn kinds(requests: &Requests) -> Result<BTreeSet<DiscoveredKind>, Error> {
    let failed = |error: kube::Error| Error::Request {
        action: "read",
        what: "the kinds of the API server".to_owned(),
        source: Box::new(error),
    };
    let client = requests.client();
    let core = client.list_core_api_versions_aggregated().await.map_err(failed)?;
    let others = client.list_api_groups_aggregated().await.map_err(failed)?;
    Ok([core, others].into_iter().flat_map(kinds_of).collect())
}

fn kinds_of(list: APIGroupDiscoveryList) -> Vec<DiscoveredKind> {
    let mut kinds = Vec::new();
    for group in list.items {
        let name = group.metadata.and_then(|metadata| metadata.name).unwrap_or_default();
        let mut known = BTreeSet::new();
        for version in group.versions {
            let version_name = version.version.unwrap_or_default();
            for resource in version.resources {
                let can = |verb: &str| resource.verbs.iter().any(|known| known == verb);
                let usable = can("list") && can("watch") && can("delete");
                if usable && known.insert(resource.resource.clone()) {
                    kinds.push(kind_of(&name, &version_name, &resource));
                }
            }
        }
    }
    kinds
}

fn kind_of(group: &str, version: &str, resource: &APIResourceDiscovery) -> DiscoveredKind {
    let kind = resource.response_kind.as_ref().and_then(|kind| kind.kind.clone());
    DiscoveredKind {
        group: group.to_owned(),
        version: version.to_owned(),
        plural: resource.resource.clone().unwrap_or_default(),
        kind: kind.unwrap_or_default(),
        namespaced: resource.scope.as_deref() == Some("Namespaced"),
        deletes_collections: resource.verbs.iter().any(|verb| verb == "deletecollection"),
    }
}
