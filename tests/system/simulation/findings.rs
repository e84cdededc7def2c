//! The common parts of checkers: findings, and the reading of requests and objects.

use std::fmt;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::repository::Key;

/// Something that must never be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The checker that found it.
    pub checker: &'static str,
    pub what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.checker, self.what)
    }
}

/// The findings of one checker.
pub struct Findings {
    checker: &'static str,
    pub all: Vec<Finding>,
}

impl Findings {
    /// Returns nothing yet.
    pub fn of(checker: &'static str) -> Findings {
        Findings { checker, all: Vec::new() }
    }

    /// Something.
    pub fn add(&mut self, what: impl Into<String>) {
        self.all.push(Finding { checker: self.checker, what: what.into() });
    }

    /// Something, unless all is well.
    pub fn demand(&mut self, well: bool, what: impl FnOnce() -> String) {
        if !well {
            self.add(what());
        }
    }
}

const KINDS: [(&str, &str); 13] = [
    ("deployments", "Deployment"),
    ("statefulsets", "StatefulSet"),
    ("daemonsets", "DaemonSet"),
    ("replicasets", "ReplicaSet"),
    ("controllerrevisions", "ControllerRevision"),
    ("configmaps", "ConfigMap"),
    ("secrets", "Secret"),
    ("pods", "Pod"),
    ("events", "Event"),
    ("namespaces", "Namespace"),
    ("jobs", "Job"),
    ("replicationcontrollers", "ReplicationController"),
    ("horizontalpodautoscalers", "HorizontalPodAutoscaler"),
];

/// Returns the object that a path of the API names: kind and name. A list has none.
pub fn key_of_path(path: &str) -> Option<Key> {
    let path = path.split('?').next()?;
    let mut words = path.rsplit('/');
    let (name, plural) = (words.next()?, words.next()?);
    let kind = KINDS.iter().find(|(known, _)| *known == plural)?.1;
    (words.next()? == "default" || kind == "Namespace").then(|| (kind.to_owned(), name.to_owned()))
}

/// Returns the path of an object.
pub fn path_of(key: &Key) -> String {
    let plural = KINDS.iter().find(|(_, kind)| *kind == key.0).map_or("", |(plural, _)| plural);
    let group = match key.0.as_str() {
        "ConfigMap" | "Secret" | "Pod" | "Event" | "ReplicationController" => "api/v1",
        "HorizontalPodAutoscaler" => "apis/autoscaling/v2",
        "Job" => "apis/batch/v1",
        _ => "apis/apps/v1",
    };
    format!("/{group}/namespaces/default/{plural}/{}", key.1)
}

/// Returns true when a path is a Lease's: it decides about the writer.
pub fn is_lease(path: &str) -> bool {
    path.contains("/leases")
}

/// Returns true when an object is of the second source.
pub fn is_beside(key: &Key) -> bool {
    key.1.starts_with("side-")
}

/// Returns true when objects of a kind have a pod template.
pub fn is_workload(key: &Key) -> bool {
    ["Deployment", "StatefulSet", "DaemonSet"].contains(&key.0.as_str())
}

/// Returns the image of the first container of an object's pod template.
pub fn image(object: &Value) -> Option<&str> {
    object.pointer("/spec/template/spec/containers/0/image")?.as_str()
}

/// Returns the parts of a pod template that ever change: its image and its variable.
pub fn template(object: &Value) -> Option<(String, String)> {
    let variable = object.pointer("/spec/template/spec/containers/0/env/0/value").and_then(Value::as_str);
    Some((image(object)?.to_owned(), variable.unwrap_or_default().to_owned()))
}

/// Returns the parts of a pod's template that ever change.
pub fn pod_template(pod: &Value) -> Option<(String, String)> {
    template(&json!({"spec": {"template": pod}}))
}

/// Returns true when a pod has crashed again and again: three times at least, the last of it a while ago, so that it
/// could be seen.
pub fn is_crashing(pod: &Value, now: Timestamp) -> bool {
    const A_WHILE: SignedDuration = SignedDuration::from_secs(10);
    let app = &pod["status"]["containerStatuses"][0];
    let last = app["lastState"]["terminated"]["finishedAt"].as_str().and_then(|at| at.parse::<Timestamp>().ok());
    let there = pod["metadata"].get("deletionTimestamp").is_none();
    there && app["restartCount"].as_i64() >= Some(3) && last.is_some_and(|last| now.duration_since(last) > A_WHILE)
}

/// Returns an annotation of an object.
pub fn annotation<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    object["metadata"]["annotations"].get(name)?.as_str()
}

/// Returns the hold on an object: the text of its annotation, read.
pub fn hold(object: &Value) -> Option<Value> {
    serde_json::from_str(annotation(object, "belay.dev/hold")?).ok()
}

/// Returns the version of an object.
pub fn version(object: &Value) -> String {
    object["metadata"]["resourceVersion"].to_string()
}

/// Returns true when a workload has fewer pods that are available, and as its template says, than it wants.
pub fn is_unwell(live: &Value) -> bool {
    let (spec, status) = (&live["spec"], &live["status"]);
    let number = |names: &[&Value]| names.iter().find_map(|value| value.as_u64());
    let wanted = number(&[&spec["replicas"], &status["desiredNumberScheduled"]]).unwrap_or(1);
    let available = number(&[&status["availableReplicas"], &status["numberAvailable"], &status["succeeded"]]);
    let updated = number(&[&status["updatedReplicas"], &status["updatedNumberScheduled"]]).unwrap_or(wanted);
    available.unwrap_or_default() < wanted || updated < wanted
}

/// Returns the workload that an object says it comes after.
pub fn after(object: &Value) -> Option<Key> {
    let (kind, name) = annotation(object, "belay.dev/after")?.split_once('/')?;
    let kind = KINDS.iter().find(|(_, known)| known.eq_ignore_ascii_case(kind))?.1;
    Some((kind.to_owned(), name.to_owned()))
}
