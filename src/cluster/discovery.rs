//! Discovery of a cluster: its version, and the kinds that it serves.

use serde_json::Value;

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
            let answer = self.call(purpose, get_as(path, AGGREGATED)).await?.value;
            api_versions.extend(served(&answer));
        }
        api_versions.sort();
        api_versions.dedup();
        let version = version["gitVersion"].as_str().unwrap_or_default().to_owned();
        Ok(Discovered { version, api_versions })
    }
}

/// Returns the versions, and the kinds, of an answer in either form.
fn served(answer: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().map(ToOwned::to_owned);
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut found = Vec::new();
    for group in list(&answer["items"]) {
        let name = text(&group["metadata"]["name"]).unwrap_or_default();
        for version in list(&group["versions"]) {
            let Some(number) = text(&version["version"]) else { continue };
            let of_group = if name.is_empty() { number } else { format!("{name}/{number}") };
            let kinds = list(&version["resources"]).into_iter().filter_map(|one| text(&one["responseKind"]["kind"]));
            found.extend(kinds.map(|kind| format!("{of_group}/{kind}")));
            found.push(of_group);
        }
    }
    let groups = list(&answer["groups"]).into_iter().flat_map(|group| list(&group["versions"]));
    found.extend(groups.filter_map(|version| text(&version["groupVersion"])));
    found.extend(list(&answer["versions"]).iter().filter_map(text));
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn both_forms_are_read() {
        let resources = json!([{"resource": "deployments", "responseKind": {"group": "apps", "version": "v1", "kind": "Deployment"}}]);
        let aggregated = json!({"items": [
            {"metadata": {"name": "apps"}, "versions": [{"version": "v1", "resources": resources}]},
            {"metadata": {}, "versions": [{"version": "v1", "resources": []}]},
        ]});
        assert_eq!(served(&aggregated), ["apps/v1/Deployment", "apps/v1", "v1"]);
        let groups = json!({"groups": [{"name": "apps", "versions": [{"groupVersion": "apps/v1", "version": "v1"}]}]});
        assert_eq!(served(&groups), ["apps/v1"]);
        assert_eq!(served(&json!({"kind": "APIVersions", "versions": ["v1"]})), ["v1"]);
        assert_eq!(served(&json!("nonsense")), Vec::<String>::new());
    }
}
