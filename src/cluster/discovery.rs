//! Discovery of a cluster: its version, and the kinds that it serves.

use serde::Deserialize;

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
        let purpose = Purpose { what: "ask for the cluster's version and kinds", secret: false };
        let version = self.call(purpose, get("/version")).await?.value;
        let mut api_versions = Vec::new();
        for path in ["/api", "/apis"] {
            let text = self.call_text(purpose, get_as(path, AGGREGATED)).await?;
            let answer = serde_json::from_str::<DiscoveryAnswer>(&text).map_err(|error| error.to_string());
            match answer.and_then(DiscoveryAnswer::api_versions) {
                Ok(versions) => api_versions.extend(versions),
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
    /// Returns the versions, and the kinds as far as they are named and there is room for them.
    ///
    /// # Errors
    /// The versions alone are too many.
    fn api_versions(self) -> Result<Vec<String>, String> {
        let (mut found, mut kinds_of) = (Vec::new(), Vec::new());
        for AggregatedGroup { metadata: GroupName { name }, versions } in self.items.into_iter().flatten() {
            for AggregatedVersion { version, resources } in versions.into_iter().flatten() {
                let of_group = if name.is_empty() { version } else { format!("{name}/{version}") };
                let kinds = resources.into_iter().flatten().filter_map(|one| one.response_kind).map(|named| named.kind);
                kinds_of.push((of_group.clone(), kinds.filter(|kind| !kind.is_empty()).collect::<Vec<String>>()));
                found.push(of_group);
            }
        }
        let versions = self.groups.into_iter().flatten().flat_map(|group| group.versions.into_iter().flatten());
        found.extend(versions.map(|version| version.group_version));
        found.extend(self.versions.into_iter().flatten());
        let length = |words: &[String]| words.iter().map(String::len).sum::<usize>();
        if length(&found) > KINDS {
            return Err(format!("its versions have more than {} MiB", KINDS >> 20));
        }
        let whole = kinds_of.iter().map(|(of_group, kinds)| (of_group.len() + 1) * kinds.len() + length(kinds));
        if length(&found) + whole.sum::<usize>() <= KINDS {
            let named = |(of_group, kinds): (String, Vec<String>)| {
                kinds.into_iter().map(move |kind| format!("{of_group}/{kind}"))
            };
            found.extend(kinds_of.into_iter().flat_map(named));
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn api_versions(answer: &serde_json::Value) -> Vec<String> {
        let mut found = serde_json::from_str::<DiscoveryAnswer>(&answer.to_string()).unwrap().api_versions().unwrap();
        found.sort();
        found
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
    fn very_many_kinds_are_left_out_and_very_many_versions_refused() {
        let answer = |group: &str, kinds: usize, versions: usize| {
            let resources: Vec<_> =
                (0..kinds).map(|at| json!({"responseKind": {"kind": format!("Kind{at}")}})).collect();
            let version = |at: usize| json!({"version": format!("v{at}"), "resources": resources});
            let versions: Vec<_> = (0..versions).map(version).collect();
            let answer = json!({"items": [{"metadata": {"name": group}, "versions": versions}]}).to_string();
            serde_json::from_str::<DiscoveryAnswer>(&answer).unwrap().api_versions()
        };
        assert_eq!(answer("ec2.aws.upbound.io", 3_000, 2).unwrap().len(), 6_002);
        assert_eq!(answer(&"g".repeat(20_000), 1_000, 1).unwrap().len(), 1, "the version without its kinds");
        assert!(answer(&"g".repeat(20_000), 0, 100).unwrap_err().contains("1 MiB"));
    }
}
