//! Every file of `tests/cases/kubelet/placing` is a cluster, its events, and the nodes of its pods.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Decision, Scheduler};
use crate::kubelet::pod::{Pod, SeenPod};
use crate::work_count::{Counted, counted};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    /// The subject of the case; for people.
    #[expect(dead_code, reason = "for people")]
    about: String,
    /// Names and differences from an ordinary node.
    nodes: BTreeMap<String, Value>,
    /// Each with `metadata` and `spec`; `count` makes several of it.
    pods: Vec<Value>,
    #[serde(default)]
    then: Vec<Act>,
    /// One line a decision.
    placing: String,
}

/// A later event: it is applied, then all pods are placed that can be.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
enum Act {
    /// A node comes or changes.
    #[serde(rename = "node")]
    Node(String, Value),
    /// A node goes.
    #[serde(rename = "no node")]
    NoNode(String),
    /// A pod comes or changes.
    #[serde(rename = "pod")]
    Pod(Value),
    /// A pod goes.
    #[serde(rename = "no pod")]
    NoPod(String),
    /// A pod could not be bound.
    #[serde(rename = "not bound")]
    NotBound(String),
}

#[test]
fn pods_are_placed_as_their_cases_say() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/kubelet/placing");
    let mut failed = Vec::new();
    let mut count = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        // Through JSON, where an enum is a map with one key; in YAML it would be a tag.
        let value: Value = serde_yaml::from_str(&text).unwrap();
        let case: Case = serde_json::from_value(value).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let expected = case.placing.clone();
        let placing = play(case);
        count += 1;
        if placing != expected {
            failed.push(format!("{}:\n{placing}instead of\n{expected}", path.file_name().unwrap().display()));
        }
    }
    assert!(count > 0 && failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn many_nodes_are_all_used() {
    let mut scheduler = Scheduler::default();
    for number in 0..250 {
        scheduler.node_seen(node(&format!("node-{number:03}"), &json!({})));
    }
    let owner = json!({"controller": true, "kind": "ReplicaSet", "apiVersion": "apps/v1", "name": "web", "uid": "rs"});
    let mut used: BTreeMap<String, usize> = BTreeMap::new();
    for number in 0..500 {
        let pod = json!({"metadata": {"ownerReferences": [owner]}});
        see(&mut scheduler, pod, &format!("web-{number}"), &mut String::new());
    }
    while let Some(decision) = scheduler.next() {
        let Decision::Bind { node, .. } = decision else { panic!("{decision:?}") };
        *used.entry(node).or_default() += 1;
    }
    assert_eq!(used.len(), 250);
    assert!(used.values().all(|count| (1..=3).contains(count)), "{used:?}");
}

/// Returns how often labels are held against selectors while so many pods of one template are placed, each as far from
/// the others as can be.
fn matches_of_spread(pods: usize) -> usize {
    let mut scheduler = Scheduler::default();
    for number in 0..20 {
        scheduler.node_seen(node(&format!("node-{number:03}"), &json!({})));
    }
    let selector = json!({"matchLabels": {"app": "web"}});
    let term = json!({"topologyKey": "kubernetes.io/hostname", "labelSelector": selector});
    let spec = json!({
        "topologySpreadConstraints": [{
            "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "topologyKey": "kubernetes.io/hostname",
            "labelSelector": selector,
        }],
        "affinity": {"podAntiAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term}],
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "other"}}},
            ],
        }},
    });
    counted(Counted::Matched);
    let mut used: BTreeMap<String, usize> = BTreeMap::new();
    for number in 0..pods {
        let pod = json!({"metadata": {"labels": {"app": "web"}}, "spec": spec});
        see(&mut scheduler, pod, &format!("web-{number:03}"), &mut String::new());
        while let Some(decision) = scheduler.next() {
            let Decision::Bind { node, .. } = decision else { panic!("{decision:?}") };
            *used.entry(node).or_default() += 1;
        }
    }
    assert_eq!(used.into_values().collect::<Vec<_>>(), vec![pods / 20; 20], "they are spread");
    counted(Counted::Matched)
}

#[test]
fn a_pod_that_is_spread_is_as_much_work_as_the_one_before() {
    let [first, second, third] = [100, 200, 300].map(matches_of_spread);
    assert_eq!(third - second, second - first, "{first} {second} {third}");
}

#[test]
fn one_pod_that_goes_makes_room_for_one_look_at_those_who_wait() {
    let mut scheduler = Scheduler::default();
    scheduler.node_seen(node("node-1", &json!({"status": {"allocatable": {"pods": "10"}}})));
    let owner = json!({"controller": true, "kind": "ReplicaSet", "apiVersion": "apps/v1", "name": "web", "uid": "rs"});
    for number in 0..200 {
        let pod = json!({"metadata": {"ownerReferences": [owner]}});
        see(&mut scheduler, pod, &format!("web-{number:03}"), &mut String::new());
    }
    let decide = |scheduler: &mut Scheduler| {
        let (mut bound, mut waiting) = (0, 0);
        while let Some(decision) = scheduler.next() {
            match decision {
                Decision::Bind { .. } => bound += 1,
                Decision::Wait { message, .. } => {
                    assert_eq!(message.split('.').next(), Some("0/1 nodes are available: 1 Too many pods"));
                    waiting += 1;
                }
                Decision::Preempt { .. } => panic!("nobody is more important"),
            }
        }
        (bound, waiting, counted(Counted::Placed))
    };
    counted(Counted::Placed);
    assert_eq!(decide(&mut scheduler), (10, 190, 11));
    scheduler.pod_gone("web-000");
    assert_eq!(decide(&mut scheduler), (1, 189, 2), "one gets the place, one more is told that there is none");
    // Others than those of its controller are checked by themselves.
    see(&mut scheduler, json!({"metadata": {}}), "single", &mut String::new());
    assert_eq!(decide(&mut scheduler), (0, 1, 1));
}

fn play(case: Case) -> String {
    let mut scheduler = Scheduler::default();
    let mut placing = String::new();
    for (name, differences) in case.nodes {
        scheduler.node_seen(node(&name, &differences));
    }
    for mut pod in case.pods {
        let count = pod.as_object_mut().unwrap().remove("count").and_then(|count| count.as_u64());
        for number in 1..=count.unwrap_or(1) {
            let name = pod["metadata"]["name"].as_str().unwrap();
            let name = if count.is_some() { format!("{name}-{number:02}") } else { name.to_owned() };
            see(&mut scheduler, pod.clone(), &name, &mut placing);
        }
    }
    decide(&mut scheduler, &mut placing);
    for act in case.then {
        match act {
            Act::Node(name, differences) => scheduler.node_seen(node(&name, &differences)),
            Act::NoNode(name) => scheduler.node_gone(&name),
            Act::Pod(pod) => {
                let name = pod["metadata"]["name"].as_str().unwrap().to_owned();
                see(&mut scheduler, pod, &name, &mut placing);
            }
            Act::NoPod(uid) => scheduler.pod_gone(&uid),
            Act::NotBound(uid) => scheduler.not_bound(&uid),
        }
        writeln!(placing, "then").unwrap();
        decide(&mut scheduler, &mut placing);
    }
    placing
}

fn node(name: &str, differences: &Value) -> Node {
    let mut node = json!({
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": {},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}},
    });
    merge(&mut node, differences);
    serde_json::from_value(node).unwrap()
}

fn see(scheduler: &mut Scheduler, mut pod: Value, name: &str, placing: &mut String) {
    merge(&mut pod, &json!({"metadata": {"name": name, "uid": name, "namespace": "default"}}));
    let containers = pod["spec"]["containers"].as_array().cloned().unwrap_or_default();
    merge(&mut pod, &json!({"spec": {"containers": containers}}));
    if let Some(cpu) = pod.as_object_mut().unwrap().remove("cpu") {
        pod["spec"]["containers"] = json!([{"name": "app", "resources": {"requests": {"cpu": cpu}}}]);
    }
    let pod: Pod = serde_json::from_value(pod).unwrap();
    let (pod, _) = SeenPod::read(pod).unwrap();
    scheduler.pod_seen(&Arc::new(pod.clone()));
    if let Some(rejection) = scheduler.reject(&pod).filter(|_| !pod.finished()) {
        writeln!(placing, "{name} is refused: {}: {}", rejection.reason, rejection.message).unwrap();
    }
}

fn decide(scheduler: &mut Scheduler, placing: &mut String) {
    while let Some(decision) = scheduler.next() {
        match decision {
            Decision::Bind { pod, node } => writeln!(placing, "{} goes to {node}", pod.name).unwrap(),
            Decision::Wait { pod, message } => writeln!(placing, "{} waits: {message}", pod.name).unwrap(),
            Decision::Preempt { pod, node, victims, .. } => {
                let victims: Vec<&str> = victims.iter().map(|victim| victim.name.as_str()).collect();
                writeln!(placing, "{} will go to {node} in the place of {}", pod.name, victims.join(", ")).unwrap();
            }
        }
    }
}

fn merge(base: &mut Value, over: &Value) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            for (key, value) in over {
                merge(base.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (base, over) => *base = over.clone(),
    }
}
