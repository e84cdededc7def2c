//! Discovery of a cluster: its version, and the kinds that it serves.

use serde::Deserialize;
use tracing::warn;

use super::call::{Purpose, get, get_as};
use super::{Cluster, ClusterError};

/// All kinds of all groups in one answer, if the server can do that; else the groups alone.
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";

/// The bytes of the kinds that are kept. A tool gets them as arguments, of which Linux takes 2 MiB; with more of them the versions
/// of the groups are kept, without kinds.
const KINDS: usize = 1 << 20;

/// The facts that a cluster gives about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Discovered {
    /// `v1.36.3`.
    pub version: String,
    /// `apps/v1`, and if the server lists them at once, `apps/v1/Deployment`; sorted.
    pub api_versions: Vec<String>,
}

impl Cluster {
    /// Discovers version and kinds of the cluster in three requests.
    ///
    /// # Errors
    /// As [`ClusterError`] sorts them.
    pub async fn discover(&self) -> Result<Discovered, ClusterError> {
        let version = self.version().await?;
        let purpose = Purpose { what: "ask for the cluster's kinds", secret: false };
        let mut found = ServedVersions::default();
        for path in ["/api", "/apis"] {
            let text = self.call_text(purpose, get_as(path, AGGREGATED)).await?;
            match serde_json::from_str::<DiscoveryAnswer>(&text) {
                Ok(answer) => answer.add_to(&mut found),
                Err(error) => {
                    let unreadable = format!("the answer of {path} names no kinds: {error}");
                    return Err(self.blame(ClusterError::away(purpose.what, unreadable)).await);
                }
            }
        }
        Ok(Discovered { version, api_versions: found.names() })
    }

    /// Returns the version of the API server, `v1.36.3`.
    ///
    /// # Errors
    /// As [`ClusterError`] sorts them.
    pub async fn version(&self) -> Result<String, ClusterError> {
        let purpose = Purpose { what: "ask for the cluster's version", secret: false };
        let version = self.call(purpose, get("/version")).await?.value;
        Ok(version["gitVersion"].as_str().unwrap_or_default().to_owned())
    }
}

/// The groups and kinds that an answer names, in any of its three forms. Nothing else of the answer is built: with many
/// definitions it has megabytes. An API server writes a list without elements as `null`, or not at all.
#[derive(Default, Deserialize)]
#[serde(default)]
struct DiscoveryAnswer {
    /// The groups with their kinds.
    items: Option<Vec<AggregatedGroup>>,
    /// The groups alone.
    groups: Option<Vec<Group>>,
    /// The versions of the core group.
    versions: Option<Vec<String>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct AggregatedGroup {
    metadata: GroupName,
    versions: Option<Vec<AggregatedVersion>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct GroupName {
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct AggregatedVersion {
    version: String,
    resources: Option<Vec<AggregatedResource>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct AggregatedResource {
    response_kind: Option<ResponseKind>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ResponseKind {
    kind: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Group {
    versions: Option<Vec<GroupVersion>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct GroupVersion {
    group_version: String,
}

impl DiscoveryAnswer {
    /// Adds its versions, and the kinds of each as far as they are named.
    fn add_to(self, found: &mut ServedVersions) {
        for AggregatedGroup { metadata: GroupName { name }, versions } in self.items.into_iter().flatten() {
            for AggregatedVersion { version, resources } in versions.into_iter().flatten() {
                let of_group = if name.is_empty() { version } else { format!("{name}/{version}") };
                let kinds = resources.into_iter().flatten().filter_map(|one| one.response_kind).map(|named| named.kind);
                found.0.push((of_group, kinds.filter(|kind| !kind.is_empty()).collect()));
            }
        }
        let of_groups = self.groups.into_iter().flatten().flat_map(|group| group.versions.into_iter().flatten());
        let versions = of_groups.map(|version| version.group_version).chain(self.versions.into_iter().flatten());
        found.0.extend(versions.map(|version| (version, Vec::new())));
    }
}

/// The versions that a cluster serves, each with its kinds. The name of a group counts for each of its kinds, so they are put
/// together only when it is known how much that is.
#[derive(Default)]
struct ServedVersions(Vec<(String, Vec<String>)>);

impl ServedVersions {
    /// Returns all names, sorted: without kinds where there is no room for these, and none where there is none for the versions.
    fn names(self) -> Vec<String> {
        // A comma separates two of them.
        let versions: usize = self.0.iter().map(|(version, _)| version.len() + 1).sum();
        let of_version = |(version, kinds): &(String, Vec<String>)| {
            kinds.iter().map(|kind| version.len() + kind.len() + 2).sum::<usize>()
        };
        let kinds: usize = self.0.iter().map(of_version).sum();
        if versions > KINDS {
            warn!(bytes = versions, "the API server names too many versions: charts are rendered without them");
            return Vec::new();
        }
        let has_room = versions + kinds <= KINDS;
        if !has_room {
            warn!(bytes = kinds, "the API server names too many kinds: charts are rendered with the versions alone");
        }
        let mut names = Vec::new();
        for (version, kinds) in self.0 {
            names.extend(kinds.iter().filter(|_| has_room).map(|kind| format!("{version}/{kind}")));
            names.push(version);
        }
        names.sort();
        names.dedup();
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn api_versions(answer: &serde_json::Value) -> Vec<String> {
        let mut found = ServedVersions::default();
        serde_json::from_str::<DiscoveryAnswer>(&answer.to_string()).unwrap().add_to(&mut found);
        found.names()
    }

    #[test]
    fn each_form_is_read() {
        let resources = json!([
            {"resource": "deployments", "scope": "Namespaced",
             "responseKind": {"group": "apps", "version": "v1", "kind": "Deployment"}},
            {"resource": "oddities", "responseKind": null},
        ]);
        let aggregated = json!({"items": [
            {"metadata": {"name": "apps"}, "versions": [{"version": "v1", "resources": resources}]},
            {"metadata": {"creationTimestamp": null}, "versions": [{"version": "v1", "resources": []}]},
            {"metadata": {"name": "metrics.k8s.io"}, "versions": [{"version": "v1beta1", "freshness": "Stale"}]},
            {"metadata": {"name": "empty"}, "versions": null},
        ]});
        assert_eq!(api_versions(&aggregated), ["apps/v1", "apps/v1/Deployment", "metrics.k8s.io/v1beta1", "v1"]);
        let groups = json!({"groups": [
            {"name": "apps", "versions": [{"groupVersion": "apps/v1", "version": "v1"}]},
            {"name": "empty", "versions": null},
        ]});
        assert_eq!(api_versions(&groups), ["apps/v1"]);
        assert_eq!(api_versions(&json!({"kind": "APIVersions", "versions": ["v1"]})), ["v1"]);
        assert_eq!(api_versions(&json!({"kind": "APIGroupList", "groups": null})), Vec::<String>::new());
    }

    /// The name of a group counts for each kind of it: an answer of 4 MB names 2 GB.
    #[test]
    fn very_many_kinds_and_versions_are_left_out() {
        let answer = |group: &str, kinds: usize, versions: usize| {
            let resources: Vec<_> =
                (0..kinds).map(|at| json!({"responseKind": {"kind": format!("Kind{at}")}})).collect();
            let version = |at: usize| json!({"version": format!("v{at}"), "resources": resources});
            let versions: Vec<_> = (0..versions).map(version).collect();
            api_versions(&json!({"items": [{"metadata": {"name": group}, "versions": versions}]})).len()
        };
        assert_eq!(answer("ec2.aws.upbound.io", 3_000, 2), 6_002);
        assert_eq!(answer(&"g".repeat(20_000), 1_000, 1), 1, "the version without its kinds");
        assert_eq!(answer(&"g".repeat(20_000), 0, 100), 0);
    }
}
