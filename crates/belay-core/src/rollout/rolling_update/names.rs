//! The texts on the controllers, and their parsers.

use std::collections::BTreeMap;

use serde_json::Value;

use super::super::marks;
use crate::rollout::judge::health::{is_ready, pod_count};

/// Annotation on the next controller: the size that it is to have in the end.
pub const DESIRED: &str = "kubectl.kubernetes.io/desired-replicas";
/// Annotation on the next controller: `<name>:<uid>` of the one that it replaces.
pub const SOURCE_ID: &str = "kubectl.kubernetes.io/update-source-id";
/// Annotation on the old controller: the size that it had in the beginning.
pub const ORIGINAL: &str = "kubectl.kubernetes.io/original-replicas";
/// Annotation on the old controller: the name of the next one.
pub const NEXT: &str = "kubectl.kubernetes.io/next-controller-id";
/// Annotation on a controller that is about to take over the pods of another: that other's name.
pub const RENAMED_FROM: &str = "belay.dev/renamed-from";
/// Label that keeps such a controller from taking any pod before the other is gone.
pub const RENAMING: &str = "belay.dev/renaming";

/// A live ReplicationController.
#[derive(Clone, Copy, Debug)]
pub(super) struct Controller<'a>(pub &'a Value);

impl<'a> Controller<'a> {
    pub(super) fn name(self) -> &'a str {
        self.0["metadata"]["name"].as_str().unwrap_or_default()
    }

    pub(super) fn uid(self) -> &'a str {
        marks::uid(self.0)
    }

    pub(super) fn annotation(self, name: &str) -> Option<&'a str> {
        marks::annotation(self.0, name)
    }

    /// Returns true when its mark says that it is to take the place of the controller of that name.
    pub(super) fn replaces(self, old: &str) -> bool {
        self.annotation(SOURCE_ID).and_then(|source| source.split_once(':')).is_some_and(|(name, _)| name == old)
    }

    /// Returns the size that it should have.
    pub(super) fn size(self) -> i64 {
        pod_count(&self.0["spec"]["replicas"]).unwrap_or(1)
    }

    /// Returns true when its own controller has seen its present specification, and it has as many pods as it should.
    pub(super) fn is_settled(self) -> bool {
        self.is_observed() && self.0["status"]["replicas"].as_i64().unwrap_or_default() == self.size()
    }

    /// Returns true when its own controller has seen its present specification.
    pub(super) fn is_observed(self) -> bool {
        self.0["status"]["observedGeneration"].as_i64().unwrap_or_default() >= marks::generation(self.0)
    }

    pub(super) fn is_being_deleted(self) -> bool {
        self.0["metadata"].get("deletionTimestamp").is_some()
    }

    /// Returns the labels that its pods have in common. A controller whose manifest names none takes its template's.
    pub(super) fn selector(self) -> BTreeMap<&'a str, &'a str> {
        let written = labels(&self.0["spec"]["selector"]);
        if written.is_empty() { labels(&self.0["spec"]["template"]["metadata"]["labels"]) } else { written }
    }

    /// Returns the selector as a list takes it, without some labels.
    pub(super) fn selector_without(self, left_out: &[&str]) -> String {
        let kept = self.selector().into_iter().filter(|(key, _)| !left_out.contains(key));
        kept.map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",")
    }

    pub(super) fn template_label(self, key: &str) -> Option<&'a str> {
        self.0["spec"]["template"]["metadata"]["labels"].get(key)?.as_str()
    }

    /// Returns the image of a container; of the first where none is named.
    pub(super) fn image(self, container: Option<&str>) -> &'a str {
        let mut containers = self.0["spec"]["template"]["spec"]["containers"].as_array().into_iter().flatten();
        let found = match container {
            Some(name) => containers.find(|one| one["name"] == name),
            None => containers.next(),
        };
        found.and_then(|one| one["image"].as_str()).unwrap_or_default()
    }

    /// Returns true when it controls a pod.
    pub(super) fn owns(self, pod: &Value) -> bool {
        owner(pod).is_some_and(|owner| owner["uid"] == self.uid())
    }

    /// Returns how many of its pods serve: ready, and not being deleted.
    pub(super) fn ready(self, pods: &[Value]) -> i64 {
        let serves =
            |pod: &&Value| self.owns(pod) && pod["metadata"].get("deletionTimestamp").is_none() && is_ready(pod);
        i64::try_from(pods.iter().filter(serves).count()).unwrap_or(i64::MAX)
    }
}

/// Returns the reference to the controller of a pod.
pub(super) fn owner(pod: &Value) -> Option<&Value> {
    pod["metadata"]["ownerReferences"].as_array()?.iter().find(|owner| owner["controller"] == true)
}

pub(super) fn labels(map: &Value) -> BTreeMap<&str, &str> {
    let entries = map.as_object().into_iter().flatten();
    entries.filter_map(|(key, value)| Some((key.as_str(), value.as_str()?))).collect()
}
