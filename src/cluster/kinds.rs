//! The resource that serves a kind: asked of the cluster's discovery, a group and version at a time, and remembered.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;

use serde::Deserialize;
use tokio::time::Instant;

use super::call::{Purpose, get};
use super::served::escape;
use super::{Cluster, ClusterError, Served};
use belay_core::manifest::{Manifest, other_tool};

/// The time for which the answer that a kind does not exist is believed.
const MISSING_FOR: Duration = Duration::from_secs(2);
/// The most resources of a version.
const RESOURCES: usize = 100_000;
/// The most characters of a kind that are shown of an answer that is of another kind.
const KIND_SHOWN: usize = 60;

/// The known facts about the cluster's kinds.
#[derive(Default)]
pub(super) struct Kinds(Mutex<BTreeMap<String, Version>>);

/// The kinds of one group and version, and when they were asked for.
struct Version {
    resources: KindList,
    asked: Instant,
}

/// The resources of a group and version.
#[derive(Debug, Default, PartialEq, Eq)]
struct KindList {
    kinds: BTreeMap<String, Served>,
    /// The resources whose objects have a status of their own, as a subresource.
    with_status: BTreeSet<String>,
}

impl Cluster {
    /// Returns the resource that serves a kind.
    ///
    /// # Errors
    /// [`ClusterError::Missing`] where the cluster does not know it (yet).
    pub async fn served(&self, api_version: &str, kind: &str) -> Result<Served, ClusterError> {
        if let Some(answer) = self.remembered(api_version, kind) {
            return answer;
        }
        let path = version_path(api_version);
        let what = format!("ask which kinds {api_version} has");
        let resources = match self.call_text(Purpose { what: &what, secret: false }, get(&path)).await {
            Ok(text) => match resources(api_version, &text) {
                Ok(resources) => resources,
                Err(error) => return Err(self.blame(ClusterError::away(&what, error)).await),
            },
            Err(ClusterError::Missing { .. }) => KindList::default(),
            Err(error) => return Err(error),
        };
        let version = Version { resources, asked: Instant::now() };
        self.kinds.0.lock().unwrap_or_else(PoisonError::into_inner).insert(api_version.to_owned(), version);
        self.remembered(api_version, kind).unwrap_or_else(|| Err(missing(api_version, kind)))
    }

    /// Returns true unless the cluster has said that objects of a kind have no status as a subresource.
    #[must_use]
    pub fn has_status(&self, served: &Served) -> bool {
        let known = self.kinds.0.lock().unwrap_or_else(PoisonError::into_inner);
        let resources = known.get(&served.api_version()).map(|version| &version.resources);
        resources.is_none_or(|resources| {
            resources.with_status.contains(&served.resource) || !resources.kinds.contains_key(&served.kind)
        })
    }

    /// Forgets which kinds a group has: one of its definitions has changed.
    pub fn forget_group(&self, group: &str) {
        let mut known = self.kinds.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|api_version, _| group_of(api_version) != group);
    }

    fn remembered(&self, api_version: &str, kind: &str) -> Option<Result<Served, ClusterError>> {
        let known = self.kinds.0.lock().unwrap_or_else(PoisonError::into_inner);
        let version = known.get(api_version)?;
        match version.resources.kinds.get(kind) {
            Some(served) => Some(Ok(served.clone())),
            None if version.asked.elapsed() < MISSING_FOR => Some(Err(missing(api_version, kind))),
            None => None,
        }
    }
}

/// Returns the group of `apps/v1`; empty for `v1`.
fn group_of(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

/// Returns the path at which an API server lists the kinds of a version.
fn version_path(api_version: &str) -> String {
    match api_version.split_once('/') {
        Some((group, version)) => format!("/apis/{}/{}", escape(group), escape(version)),
        None => format!("/api/{}", escape(api_version)),
    }
}

/// Returns the paths of the requests that a manifest leads to, before the cluster has said how its kind is served:
/// which kinds its version has, and the object, below the plural that most kinds have.
///
/// # Errors
/// [`ClusterError::Refused`] where its names make no request.
pub fn paths_of(manifest: &Manifest) -> Result<[http::Uri; 2], ClusterError> {
    let (group, version) = manifest.api_version.split_once('/').unwrap_or(("", &manifest.api_version));
    let kind = manifest.key.kind.clone();
    let served = Served {
        group: group.to_owned(),
        version: version.to_owned(),
        resource: format!("{}s", kind.to_lowercase()),
        kind,
        namespaced: manifest.key.namespace.is_some(),
    };
    let purpose = Purpose { what: "ask for an object", secret: false };
    let uri = |path: &str| Ok(get(path).build(purpose)?.uri().clone());
    Ok([uri(&version_path(&manifest.api_version))?, uri(&served.path_of(&manifest.key))?])
}

fn missing(api_version: &str, kind: &str) -> ClusterError {
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    let message = match other_tool(group, kind) {
        Some(tool) => format!(
            "the cluster does not know it, and belay does not act on it: it is {tool}'s (`belay import` writes the source that does \
             the same)"
        ),
        None => "the cluster does not know it; is its CustomResourceDefinition installed?".to_owned(),
    };
    ClusterError::Missing { what: format!("kind {kind} of {api_version}"), message }
}

/// The list of the resources that a server serves.
#[derive(Deserialize)]
struct ResourceList {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    resources: Option<Vec<Resource>>,
}

#[derive(Deserialize)]
struct Resource {
    name: String,
    kind: String,
    #[serde(default)]
    namespaced: bool,
}

/// The kinds of a list of resources. A server may say anything; it is no answer that a kind does not exist.
fn resources(api_version: &str, text: &str) -> Result<KindList, String> {
    let unreadable = |error: &dyn std::fmt::Display| format!("the answer is no list of resources: {error}");
    if !text.trim_ascii_start().starts_with('{') {
        return Err(unreadable(&"it is no JSON object"));
    }
    let list: ResourceList = serde_json::from_str(text).map_err(|error| unreadable(&error))?;
    if !matches!(&*list.kind, "" | "APIResourceList") {
        let shown: String = list.kind.chars().filter(char::is_ascii_alphanumeric).take(KIND_SHOWN).collect();
        return Err(format!("the answer is no list of resources, but of kind {shown}"));
    }
    let named = list.resources.as_ref().map_or(0, Vec::len);
    if named > RESOURCES {
        return Err(format!("the answer names {named} resources, more than {RESOURCES}"));
    }
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let served = |Resource { name, kind, namespaced }| Served {
        group: group.to_owned(),
        version: version.to_owned(),
        kind,
        resource: name,
        namespaced,
    };
    let (stored, below): (Vec<_>, Vec<_>) =
        list.resources.into_iter().flatten().partition(|resource| !resource.name.contains('/'));
    let with_status = below.iter().filter_map(|resource| resource.name.strip_suffix("/status"));
    Ok(KindList {
        with_status: with_status.map(ToOwned::to_owned).collect(),
        kinds: stored.into_iter().map(served).map(|served| (served.kind.clone(), served)).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_resources_is_read_and_nothing_else_is_one() {
        let of = |text: &str| resources("apps/v1", text);
        let list = r#"{"kind": "APIResourceList", "groupVersion": "apps/v1", "resources": [
            {"name": "deployments", "singularName": "", "namespaced": true, "kind": "Deployment", "verbs": []},
            {"name": "deployments/status", "namespaced": true, "kind": "Deployment", "verbs": []},
            {"name": "deployments/scale", "namespaced": true, "kind": "Scale", "group": "autoscaling", "verbs": []}]}"#;
        let KindList { kinds: served, with_status } = of(list).unwrap();
        assert_eq!(with_status, BTreeSet::from(["deployments".to_owned()]));
        assert_eq!(served.keys().map(String::as_str).collect::<Vec<_>>(), ["Deployment"]);
        assert_eq!(served["Deployment"].address(), "/apis/apps/v1/deployments");
        for empty in ["{}", r#"{"kind": "APIResourceList", "resources": null}"#] {
            assert_eq!(of(empty).unwrap(), KindList::default(), "{empty}");
        }
        for (other, said) in [
            ("", "no list of resources"),
            ("<html>", "no list of resources"),
            ("[]", "no list of resources"),
            (r#"{"kind": "Secret\u001b[31m"}"#, "but of kind Secret31m"),
            (r#"{"resources": [{"name": 1, "kind": "A"}]}"#, "no list of resources"),
            (r#"{"resources": {"name": "a"}}"#, "no list of resources"),
        ] {
            let error = of(other).unwrap_err();
            assert!(error.contains(said), "{other}: {error}");
        }
        let many: Vec<String> = (0..100_000).map(|n| format!(r#"{{"name": "n{n}", "kind": "K{n}"}}"#)).collect();
        assert_eq!(of(&format!(r#"{{"resources": [{}]}}"#, many.join(","))).unwrap().kinds.len(), 100_000);
        let more = format!(r#"{{"resources": [{0},{0}]}}"#, many.join(","));
        assert!(of(&more).unwrap_err().contains("names 200000 resources"));
    }
}
