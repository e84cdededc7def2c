//! Finding objects with a label, of any kind.

use std::collections::BTreeSet;

use serde_json::Value;

use super::call::{Purpose, get_as};
use super::pages::Listing;
use super::{Cluster, ClusterError, ObjectText, Served};
use belay_core::manifest::ObjectKey;

/// All kinds in one answer (Kubernetes 1.26 and newer; an older server answers with a list of groups, which names no kind).
const ALL_KINDS: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
                         application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";
/// Metadata of objects without their content: of Secrets, nothing secret.
const ONLY_METADATA: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
/// The verbs that a kind must support before anybody can have applied an object of it, and it can be deleted.
const NEEDED: [&str; 3] = ["delete", "list", "patch"];

impl Cluster {
    /// Returns the kinds whose objects can be listed, patched and deleted, each in the version that its group prefers,
    /// but for Events, of which there are many and which nobody writes. A group whose own server does not answer has
    /// none.
    ///
    /// # Errors
    /// Fails when the API server does not answer, or does not allow it.
    pub async fn all_kinds(&self) -> Result<Vec<Served>, ClusterError> {
        let mut kinds = Vec::new();
        for path in ["/api", "/apis"] {
            let purpose = Purpose { what: "ask which kinds there are", secret: false };
            let answer = self.call(purpose, get_as(path, ALL_KINDS)).await?;
            kinds.extend(answer.value["items"].as_array().into_iter().flatten().flat_map(of_group));
        }
        kinds.retain(|served| served.kind != "Event");
        Ok(kinds)
    }

    /// Returns the objects of a kind that carry `labels` (a selector), everywhere, or in those of `namespaces` that
    /// belay may list where it may not list everywhere, with nothing but their metadata.
    ///
    /// # Errors
    /// Fails when the API server does not answer, or does not allow it.
    pub async fn labelled(
        &self,
        served: &Served,
        namespaces: &BTreeSet<String>,
        labels: &str,
    ) -> Result<Vec<(ObjectKey, Value)>, ClusterError> {
        let everywhere = Listing { accept: ONLY_METADATA, ..Listing::of(served, None, labels) };
        let make = |_, object: ObjectText| {
            let object = without_fields(object.read());
            (served.key_of(&object), object)
        };
        self.pages_where_allowed(everywhere, namespaces, make).await
    }
}

/// The same without the fields that each manager owns, which may be more than all the rest.
fn without_fields(mut object: Value) -> Value {
    let entries = object.pointer_mut("/metadata/managedFields").and_then(Value::as_array_mut);
    for entry in entries.into_iter().flatten() {
        if let Some(entry) = entry.as_object_mut() {
            entry.remove("fieldsV1");
        }
    }
    object
}

/// The kinds of a group in the version that it prefers: the first that it names.
fn of_group(group: &Value) -> Vec<Served> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let version = &group["versions"][0];
    if version["freshness"] == "Stale" {
        return Vec::new();
    }
    let resources = version["resources"].as_array().into_iter().flatten();
    let usable = |resource: &&Value| {
        let verbs = resource["verbs"].as_array();
        NEEDED.iter().all(|needed| verbs.is_some_and(|verbs| verbs.iter().any(|verb| verb == needed)))
    };
    let served = |resource: &Value| Served {
        group: text(&group["metadata"]["name"]),
        version: text(&version["version"]),
        kind: text(&resource["responseKind"]["kind"]),
        resource: text(&resource["resource"]),
        namespaced: resource["scope"] == "Namespaced",
    };
    resources.filter(usable).map(served).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_what_can_have_been_applied_in_the_preferred_version() {
        let resource = |name: &str, kind: &str, verbs: &[&str]| {
            json!({"resource": name, "verbs": verbs,
            "responseKind": {"group": "", "version": "", "kind": kind}, "scope": "Namespaced"})
        };
        let all = ["create", "delete", "get", "list", "patch"];
        let group = json!({"metadata": {"name": "apps"}, "versions": [
            {"version": "v2", "resources": [resource("things", "Thing", &all), resource("reviews", "Review", &["create"])]},
            {"version": "v1", "resources": [resource("olds", "Old", &all)]}]});
        let kinds = of_group(&group);
        assert_eq!(kinds.len(), 1);
        let Served { group, version, kind, resource, namespaced } = &kinds[0];
        let names = [group.as_str(), version, kind, resource];
        assert_eq!((names, *namespaced), (["apps", "v2", "Thing", "things"], true));
    }

    #[test]
    fn nothing_of_a_group_whose_server_is_away() {
        let group = json!({"metadata": {"name": "metrics"}, "versions": [{"version": "v1", "freshness": "Stale",
            "resources": [{"resource": "things", "verbs": ["delete", "list", "patch"]}]}]});
        assert_eq!(of_group(&group), []);
    }
}
