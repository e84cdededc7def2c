//! The cluster's text of an object: anybody who may write to the cluster can write its annotations, and a custom
//! controller its status.

use std::collections::BTreeSet;

use belay_core::manifest::ObjectKey;
use belay_core::rollout::health::account_of_pod;
use belay_core::rollout::rolling_update::{Ask, Live, RollingUpdate};
use belay_core::rollout::{
    self, Baseline, Hold, IgnoredFields, Judge, Known, TemplateMarks, Workload, body, changes, differs, held_body,
    marks, rollback_target, same_template, with_template,
};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

const KINDS: [(&str, &str); 7] = [
    ("apps", "Deployment"),
    ("apps", "StatefulSet"),
    ("apps", "DaemonSet"),
    ("", "ReplicationController"),
    ("batch", "Job"),
    ("", "Secret"),
    ("example.com", "Widget"),
];

/// The value that nobody may see.
const SECRET: &str = "s3cr3t-Val-ue";

/// Whatever stands on an object, nothing panics, nothing comes from nothing, and no value of a Secret is shown. The bytes
/// are an object, or lines `annotation=value`.
pub fn live_object(data: &[u8]) {
    let live = object(data);
    for (group, kind) in KINDS {
        let (group, kind) = (group.to_owned(), kind.to_owned());
        let key = ObjectKey { group, kind, namespace: Some("default".to_owned()), name: "web".to_owned() };
        judged(&key, &live);
        taken_back(&key, &live);
    }
    read(&live);
    compared(&live);
    replaced(&live);
}

fn object(data: &[u8]) -> Value {
    if let Ok(object) = serde_json::from_slice::<Value>(data) {
        return object;
    }
    let text = String::from_utf8_lossy(data);
    let lines = text.lines().filter_map(|line| line.split_once('='));
    let annotations: serde_json::Map<String, Value> =
        lines.map(|(name, value)| (name.to_owned(), Value::from(value))).collect();
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default", "generation": 2, "annotations": annotations},
        "spec": {
            "replicas": 2, "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}, "annotations": annotations},
                "spec": {"containers": [{"name": "app", "image": "web:1"}]},
            },
        },
        "status": {"observedGeneration": 2, "replicas": 2, "updatedReplicas": 1},
    })
}

/// Returns the same object, as a manifest would have it.
fn wanted() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "replicas": 3, "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "app", "image": "web:2"}]},
            },
        },
    })
}

fn judged(key: &ObjectKey, live: &Value) {
    let now: Timestamp = "2026-01-01T00:00:00Z".parse().expect("a time");
    let deadline = rollout::progress_deadline_seconds(key, live);
    assert!(deadline.is_none_or(|seconds| seconds > 0), "{deadline:?}");
    for budget in [None, Some(SignedDuration::MAX)] {
        let judge = Judge::new(key.clone(), Baseline::of(key, live), now);
        let mut judge = budget.map_or(judge.clone(), |budget| judge.with_budget(budget));
        for at in [now, now + SignedDuration::from_secs(5), Timestamp::MAX] {
            let verdict = judge.observe(live, at);
            assert_eq!(verdict, judge.clone().observe(live, at), "the same object, the same verdict");
            assert!(judge.overdue(at).is_none() || judge.due().is_some_and(|due| due <= at));
        }
    }
}

/// Plans to go back, from everything that the object could stand for.
fn taken_back(key: &ObjectKey, live: &Value) {
    let found = rollout::revisions(&[live.clone(), json!({"revision": 1, "data": live}), wanted()]);
    assert!(found.is_sorted_by(|newer, older| newer.number >= older.number));
    let known = Known {
        commit: Some("1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d".parse().expect("a commit")),
        template: wanted()["spec"]["template"].clone(),
        marks: TemplateMarks::on(live),
    };
    for good in [None, Some(&known)] {
        let failing = &live["spec"]["template"];
        if let Ok(way) = rollback_target(failing, good, &found, std::slice::from_ref(&known)) {
            assert!(!same_template(&way.template, failing), "back to where it is");
            let sent = with_template(wanted(), &way.template);
            assert_eq!(sent["spec"]["template"], way.template);
        }
    }
    let Some(workload) = Workload::of(key) else { return };
    for number in [0, 1, -1, i64::MAX] {
        if let Ok(revision) = rollout::target(workload, "web", live, &found, number) {
            assert!(number == 0 || revision.number == number);
            drop(rollout::as_kubectl_would(workload, live, Some(live), &revision.template));
        }
    }
}

fn read(live: &Value) {
    let now: Timestamp = "2026-01-01T00:00:00Z".parse().expect("a time");
    if let Some(hold) = Hold::on(live) {
        let written = json!({"metadata": {"annotations": {marks::HOLD: hold.to_annotation()}}});
        assert_eq!(Hold::on(&written).as_ref(), Some(&hold), "what is written is read as the same");
        let sent = held_body(&wanted(), "shop", &TemplateMarks::on(live), &hold, None);
        assert_eq!(Hold::on(&sent), Some(hold));
    }
    let account = account_of_pod(live, &BTreeSet::new(), now);
    assert_eq!(account, account_of_pod(live, &BTreeSet::new(), now));
    for key in [marks::uid(live), marks::annotation(live, marks::SUSPEND).unwrap_or_default()] {
        assert!(key.len() <= live.to_string().len());
    }
    let _ = (marks::revision(live), marks::generation(live), rollout::failure_policy(live, live));
    let template = &live["spec"]["template"];
    assert!(same_template(template, template));
    assert_eq!(rollout::template_hash(template), rollout::template_hash(template));
    let named = rollout::named_configuration(template, Some("default"));
    assert!(named.iter().all(|key| ["ConfigMap", "Secret"].contains(&key.kind.as_str())), "{named:?}");
    let _ = (rollout::applied_fields(live), rollout::give_up_templates(live), rollout::takeover(live, &wanted()));
}

fn compared(live: &Value) {
    let manifest = wanted();
    assert!(changes(live, live).is_empty() && !differs(live, live));
    assert_eq!(changes(live, &manifest).is_empty(), !differs(live, &manifest));
    let mut sent = body(&manifest, "shop", &TemplateMarks::on(live), None);
    assert_eq!(marks::label(&sent, marks::SOURCE), Some("shop"));
    let fields =
        ["/spec/replicas", "/spec/template/spec/containers/*/image", "/spec/template/spec/containers/[name=app]"]
            .map(|field| field.parse().expect("a field"));
    let left = IgnoredFields::of(&fields).leave(sent.clone(), Some(live));
    assert_eq!(
        (&left["kind"], &left["metadata"]),
        (&sent["kind"], &sent["metadata"]),
        "only what is named is left alone"
    );
    sent["metadata"]["managedFields"] = live["metadata"]["managedFields"].clone();
    let _ = rollout::is_as_applied(live, &sent);
    let mut secret = live.clone();
    if let (Some(object), Some(_)) = (secret.as_object_mut(), live.get("metadata")) {
        object.insert("kind".to_owned(), json!("Secret"));
        object.insert("apiVersion".to_owned(), json!("v1"));
        object.insert("data".to_owned(), json!({"password": SECRET}));
        object.insert("stringData".to_owned(), json!({"password": SECRET}));
        let applied = json!({"kubectl.kubernetes.io/last-applied-configuration": secret.to_string()});
        if secret["metadata"].is_object() {
            secret["metadata"]["annotations"] = applied;
        }
        let before = rollout::presentable(&secret);
        let said = format!("{before} {:?} {:?}", changes(&secret, live), changes(live, &secret));
        assert!(!said.contains(SECRET), "{said}");
    }
}

/// An update of ReplicationControllers finds its state in their annotations.
fn replaced(live: &Value) {
    // An object from an API server has the types of its kind, if nothing else.
    let is =
        |path: &str, fine: fn(&Value) -> bool| live.pointer(path).is_none_or(|value| value.is_null() || fine(value));
    let objects = ["", "/metadata", "/metadata/labels", "/metadata/annotations", "/spec", "/spec/selector"];
    let of_template = ["", "/metadata", "/metadata/labels", "/spec"].map(|path| format!("/spec/template{path}"));
    let mut all = objects.into_iter().chain(of_template.iter().map(String::as_str));
    let containers = |value: &Value| value.as_array().is_some_and(|all| all.iter().all(Value::is_object));
    if !live.is_object()
        || !all.all(|path| is(path, Value::is_object))
        || !is("/spec/template/spec/containers", containers)
    {
        return;
    }
    let mut old = live.clone();
    old["metadata"]["name"] = json!("web");
    let Ok(mut update) = RollingUpdate::new(Ask::image("web", "web:3")) else { return };
    let seen = Live { controllers: vec![old, live.clone()], pods: vec![live.clone()] };
    let _ = update.selectors(&seen.controllers);
    // Whatever it says, it says the same of the same.
    assert_eq!(format!("{:?}", update.clone().step(&seen)), format!("{:?}", update.step(&seen)));
    let _ = update.dry_run(&seen);
}
