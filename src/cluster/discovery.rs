//! Discovery of a cluster: its version, and the kinds that it serves.

use serde::Deserialize;

use super::call::{Purpose, get, get_as};
use super::{Cluster, ClusterError};

/// All kinds of all groups in one answer, if the server can do that; else the groups alone.
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";

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
        let purpose = Purpose { what: "ask for the cluster's version and kinds", secret: false };
        let version = self.call(purpose, get("/version")).await?.value;
        let mut api_versions = Vec::new();
        for path in ["/api", "/apis"] {
            let text = self.call_text(purpose, get_as(path, AGGREGATED)).await?;
            match serde_json::from_str::<DiscoveryAnswer>(&text) {
                Ok(answer) => api_versions.extend(answer.api_versions()),
                Err(error) => {
                    let unreadable = format!("the answer of {path} names no kinds: {error}");
                    return Err(self.blame(ClusterError::away(purpose.what, unreadable)).await);
                }
            }
        }
        api_versions.sort();
        api_versions.dedup();
        let version = version["gitVersion"].as_str().unwrap_or_default().to_owned();
        Ok(Discovered { version, api_versions })
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
    /// Returns the versions, and the kinds as far as they are named.
    fn api_versions(self) -> Vec<String> {
        let mut found = Vec::new();
        for AggregatedGroup { metadata: GroupName { name }, versions } in self.items.into_iter().flatten() {
            for AggregatedVersion { version, resources } in versions.into_iter().flatten() {
                let of_group = if name.is_empty() { version } else { format!("{name}/{version}") };
                let kinds = resources.into_iter().flatten().filter_map(|one| one.response_kind).map(|named| named.kind);
                found.extend(kinds.filter(|kind| !kind.is_empty()).map(|kind| format!("{of_group}/{kind}")));
                found.push(of_group);
            }
        }
        let versions = self.groups.into_iter().flatten().flat_map(|group| group.versions.into_iter().flatten());
        found.extend(versions.map(|version| version.group_version));
        found.extend(self.versions.into_iter().flatten());
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn api_versions(answer: &serde_json::Value) -> Vec<String> {
        serde_json::from_str::<DiscoveryAnswer>(&answer.to_string()).unwrap().api_versions()
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
        assert_eq!(api_versions(&aggregated), ["apps/v1/Deployment", "apps/v1", "v1", "metrics.k8s.io/v1beta1"]);
        let groups = json!({"groups": [
            {"name": "apps", "versions": [{"groupVersion": "apps/v1", "version": "v1"}]},
            {"name": "empty", "versions": null},
        ]});
        assert_eq!(api_versions(&groups), ["apps/v1"]);
        assert_eq!(api_versions(&json!({"kind": "APIVersions", "versions": ["v1"]})), ["v1"]);
        assert_eq!(api_versions(&json!({"kind": "APIGroupList", "groups": null})), Vec::<String>::new());
    }
}
