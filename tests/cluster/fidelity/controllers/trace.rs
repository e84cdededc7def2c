//! The observations of a case, without parts that may differ: names, times, uids.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::observer::Seen;
use crate::token_volumes::without_names as without_token_names;

/// The fields of objects that are left out.
const LEFT_OUT: &[&str] = &[
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "managedFields",
    "lastTransitionTime",
    "lastUpdateTime",
    "lastProbeTime",
    "lastScheduleTime",
    "lastSuccessfulTime",
    "startTime",
    "completionTime",
    "finishedAt",
    "startedAt",
    "podIP",
    "podIPs",
    "hostIP",
    "hostIPs",
    "nodeName",
    "containerID",
    "generateName",
    "deletionTimestamp",
    "namespace",
    "disruptedPods",
    "endpoints.kubernetes.io/last-change-trigger-time",
    "kubectl.kubernetes.io/restartedAt",
    "batch.kubernetes.io/cronjob-scheduled-timestamp",
];

/// A case as it was seen: lines that must be the same on every combination.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace(pub BTreeSet<String>);

impl Trace {
    /// Returns everything that was seen of a namespace, and what the script noted.
    pub fn of(namespace: &str, seen: &Seen, notes: Vec<String>) -> Trace {
        let names = Names::of(namespace, seen);
        let mut lines: BTreeSet<String> =
            notes.into_iter().enumerate().map(|(n, note)| format!("note {n}: {}", names.text(&note))).collect();
        for ((kind, name), object) in &seen.live {
            match *kind {
                "Event" | "Pod" | "ConfigMap" | "ServiceAccount" => {}
                _ => {
                    let mut object = names.normal(object);
                    if *kind == "EndpointSlice" {
                        // The number of steps in which pods come in depends on who is faster.
                        object["metadata"].as_object_mut().map(|metadata| metadata.remove("generation"));
                    }
                    let name = names.text(name);
                    flatten(&format!("{kind} {name}"), &object, &mut lines);
                }
            }
        }
        lines.extend(names.pods(seen));
        lines.extend(names.sizes(seen));
        lines.extend(conditions(seen));
        Trace(lines)
    }

    /// Adds what controllers told; they tell it late, when they are busy. The API server's events about addresses of
    /// Services are left out: it sends them only if one of its watches is behind another.
    pub fn add_events(&mut self, namespace: &str, seen: &Seen) {
        let names = Names::of(namespace, seen);
        let events = seen.all("Event");
        let told = events.iter().filter(|event| event["reportingComponent"] != "ipallocator-repair-controller");
        self.0.extend(told.map(|event| names.event(event)));
    }

    /// Leaves out by which steps the sizes were reached.
    pub fn without_steps(&mut self) {
        // A passing condition is written or not, depending on who writes first; the next one then keeps its message.
        let steps = [
            ".Progressing .message",
            "went through sizes",
            "Scaled up",
            "Scaled down",
            "SuccessfulDelete by",
            ".generation =",
            ".observedGeneration =",
        ];
        self.0.retain(|line| !steps.iter().any(|step| line.contains(step)) && !line.contains(" pods ever of "));
    }

    /// Returns the lines that only one of two traces has.
    pub fn differences(&self, other: &Trace) -> Vec<String> {
        let mine = self.0.difference(&other.0).map(|line| format!("- {line}"));
        mine.chain(other.0.difference(&self.0).map(|line| format!("+ {line}"))).collect()
    }
}

/// One line per field, so that differences are short.
fn flatten(path: &str, value: &Value, lines: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) if !object.is_empty() => {
            for (key, value) in object {
                flatten(&format!("{path} .{key}"), value, lines);
            }
        }
        value => {
            lines.insert(format!("{path} = {value}"));
        }
    }
}

/// The meaning of made-up names: the n-th ReplicaSet, a pod of it, its hash.
struct Names(Vec<(String, String)>);

impl Names {
    fn of(namespace: &str, seen: &Seen) -> Names {
        // Nodes are taken in no particular order.
        let nodes = (1..=10).map(|number| (format!("{namespace}-{number}"), "some node".to_owned()));
        let mut names: BTreeMap<String, String> = nodes.collect();
        let mut owners: BTreeMap<String, usize> = BTreeMap::new();
        let mut known: BTreeSet<(&str, String)> = BTreeSet::new();
        for step in &seen.history {
            let labels = &step.object["metadata"]["labels"];
            let fresh = known.insert((step.kind, step.name.clone()));
            match step.kind {
                "ReplicaSet" | "ControllerRevision" | "EndpointSlice" if fresh => {
                    let owner = &step.object["metadata"]["ownerReferences"][0]["name"];
                    let owner = owner.as_str().unwrap_or("nobody").to_owned();
                    let number = owners.entry(format!("{}{owner}", step.kind)).or_default();
                    *number += 1;
                    let made_up = step.name.starts_with(&format!("{owner}-"));
                    let short = match step.kind {
                        "ReplicaSet" => "set",
                        "EndpointSlice" => "slice",
                        _ => "revision",
                    };
                    if made_up {
                        names.insert(step.name.clone(), format!("{owner}#{short}{number}"));
                        let hash = step.name[owner.len() + 1..].to_owned();
                        names.insert(hash, format!("hash{number}"));
                    }
                    for label in ["controller-revision-hash", "controller.kubernetes.io/hash", "pod-template-hash"] {
                        if let Some(hash) = labels[label].as_str() {
                            names.entry(hash.to_owned()).or_insert_with(|| format!("hash{number}"));
                        }
                    }
                }
                "Job" if fresh => {
                    // Named for its minute.
                    let owner = &step.object["metadata"]["ownerReferences"][0];
                    if owner["kind"] == "CronJob" {
                        let owner = owner["name"].as_str().unwrap_or_default().to_owned();
                        let number = owners.entry(format!("Job{owner}")).or_default();
                        *number += 1;
                        names.insert(step.name.clone(), format!("{owner}#job{number}"));
                    }
                }
                "Pod" if fresh => {
                    if let Some(prefix) = step.object["metadata"]["generateName"].as_str() {
                        names.insert(step.name.clone(), format!("{prefix}pod"));
                    }
                }
                _ => {}
            }
        }
        let mut names: Vec<(String, String)> = names.into_iter().collect();
        names.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        Names(names)
    }

    fn text(&self, text: &str) -> String {
        let mut text = text.to_owned();
        // Pods stand for their ReplicaSets' names, which are made up as well.
        for _ in 0..2 {
            for (name, meaning) in &self.0 {
                if name.len() > 3 && text.contains(name.as_str()) {
                    text = text.replace(name, meaning);
                }
            }
        }
        without_token_names(&without_refused_names(&without_uids(text)))
    }

    fn normal(&self, value: &Value) -> Value {
        match value {
            Value::Object(object) => {
                let mut normal = Map::new();
                for (key, value) in object {
                    if LEFT_OUT.contains(&key.as_str()) {
                        continue;
                    }
                    let value = if key == "conditions" { by_type(value) } else { value.clone() };
                    normal.insert(self.text(key), self.normal(&value));
                }
                Value::Object(normal)
            }
            Value::Array(items) => Value::Array(items.iter().map(|item| self.normal(item)).collect()),
            Value::String(text) => Value::String(self.text(text)),
            other => other.clone(),
        }
    }

    fn event(&self, event: &Value) -> String {
        let text = |value: &Value| self.text(value.as_str().unwrap_or_default());
        let about = &event["involvedObject"];
        let message = text(&event["message"]);
        let message = message.trim_start_matches("(combined from similar events): ");
        format!(
            "Event {} {}: {} {} by {}: {message}",
            text(&about["kind"]),
            text(&about["name"]),
            text(&event["type"]),
            text(&event["reason"]),
            text(&event["source"]["component"]),
        )
    }

    /// Returns how many pods of each sort there are, and how many of each owner there ever were.
    fn pods(&self, seen: &Seen) -> Vec<String> {
        let mut sorts: BTreeMap<String, usize> = BTreeMap::new();
        for pod in seen.all("Pod") {
            let mut pod = self.normal(&pod);
            if let Some(status) = pod["status"].as_object_mut() {
                status.retain(|key, _| key == "phase" || key == "conditions");
            }
            for condition in pod["status"]["conditions"].as_object_mut().into_iter().flatten() {
                *condition.1 = condition.1["status"].clone();
            }
            *sorts.entry(pod.to_string()).or_default() += 1;
        }
        let mut ever: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
        for step in seen.history.iter().filter(|step| step.kind == "Pod") {
            let name = step.object["metadata"]["generateName"].as_str().unwrap_or(&step.name);
            let uid = step.object["metadata"]["uid"].as_str().unwrap_or_default();
            ever.entry(self.text(name)).or_default().insert(uid);
        }
        let sorts = sorts.into_iter().map(|(sort, count)| format!("{count} pods like {sort}"));
        sorts.chain(ever.into_iter().map(|(name, uids)| format!("{} pods ever of {name}", uids.len()))).collect()
    }

    /// Returns the sizes that each ReplicaSet went through.
    fn sizes(&self, seen: &Seen) -> Vec<String> {
        let mut sizes: BTreeMap<String, Vec<i64>> = BTreeMap::new();
        let kinds = ["ReplicaSet", "ReplicationController"];
        for step in seen.history.iter().filter(|step| kinds.contains(&step.kind)) {
            let size = if step.gone { -1 } else { step.object["spec"]["replicas"].as_i64().unwrap_or(1) };
            let sizes = sizes.entry(format!("{} {}", step.kind, self.text(&step.name))).or_default();
            if sizes.last() != Some(&size) {
                sizes.push(size);
            }
        }
        sizes.into_iter().map(|(name, sizes)| format!("{name} went through sizes {sizes:?}")).collect()
    }
}

/// Uids stand in labels and messages as well.
fn without_uids(mut text: String) -> String {
    let is_uid = |part: &str| {
        part.bytes()
            .enumerate()
            .all(|(at, byte)| if [8, 13, 18, 23].contains(&at) { byte == b'-' } else { byte.is_ascii_hexdigit() })
    };
    let mut at = 0;
    while let Some(part) = text.get(at..at + 36) {
        if is_uid(part) {
            text.replace_range(at..at + 36, "<uid>");
        }
        at += 1;
        while at < text.len() && !text.is_char_boundary(at) {
            at += 1;
        }
    }
    text
}

/// Returns a pod that may not be made has a name all the same, by chance.
fn without_refused_names(message: &str) -> String {
    let Some((before, rest)) = message.split_once("pods \"") else { return message.to_owned() };
    let Some((name, after)) = rest.split_once('"') else { return message.to_owned() };
    match name.rsplit_once('-') {
        Some((owner, end)) if end.len() == 5 => format!("{before}pods \"{owner}-pod\"{after}"),
        _ => message.to_owned(),
    }
}

fn by_type(conditions: &Value) -> Value {
    let Some(list) = conditions.as_array() else { return conditions.clone() };
    let entry = |condition: &Value| (condition["type"].as_str().unwrap_or_default().to_owned(), condition.clone());
    Value::Object(list.iter().map(entry).collect())
}

/// Returns every condition that Deployments ever had, but for those that may pass too quickly to be written.
fn conditions(seen: &Seen) -> BTreeSet<String> {
    let mut lines = BTreeSet::new();
    for step in seen.history.iter().filter(|step| step.kind == "Deployment") {
        for one in step.object["status"]["conditions"].as_array().into_iter().flatten() {
            if matches!(
                one["reason"].as_str(),
                Some("ReplicaSetUpdated" | "FoundNewReplicaSet" | "MinimumReplicasUnavailable")
            ) {
                continue;
            }
            lines.insert(format!("{} had {} {} {}", step.name, one["type"], one["status"], one["reason"]));
        }
    }
    lines
}
