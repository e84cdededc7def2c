//! Bounds hold whatever the parameters are; the same seed gives the same timeline.

use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::bounds::Bounds;
use super::ended::SimulationEnd;
use super::recording::Recording;
use super::scenario::Scenario;
use super::timeline::{RolloutEvent, Side, Timeline};
use belay_core::manifest::ObjectKey;
use belay_core::rollout::ReasonCode;
use minicluster::NodeSpec;

fn key(kind: &str) -> ObjectKey {
    ObjectKey {
        group: "apps".to_owned(),
        kind: kind.to_owned(),
        namespace: Some("default".to_owned()),
        name: "web".to_owned(),
    }
}

fn workload(kind: &str, image: &str, spec: &Value, fate: &str) -> Value {
    let mut object = json!({
        "apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "web"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}, "annotations": {"kubelet.belay.dev/fate": fate}},
                "spec": {"containers": [{"name": "web", "image": image}]},
            },
        },
    });
    for (field, value) in spec.as_object().into_iter().flatten() {
        object["spec"][field] = value.clone();
    }
    object
}

fn scenario(kind: &str, before: &Value, after: &Value, fate: &str, seed: u64) -> (Recording, Timeline, Bounds) {
    let scenario = Scenario {
        seed,
        nodes: NodeSpec::several(3),
        provided: Vec::new(),
        key: key(kind),
        before: Some(workload(kind, "web:1", before, "ready")),
        after: workload(kind, "web:2", after, fate),
        watch_on: None,
    };
    let recording = scenario.run().unwrap();
    let timeline = Timeline::of(&recording);
    let bounds = Bounds::of(&recording, &timeline);
    (recording, timeline, bounds)
}

fn amount() -> impl Strategy<Value = Value> {
    prop_oneof![(0..5_u32).prop_map(|pods| json!(pods)), (0..=100_u32).prop_map(|share| json!(format!("{share}%")))]
}

/// The API server refuses limits that are both written as 0.
fn not_both_zero(surge: &Value, unavailable: Value) -> Value {
    let is_zero = |amount: &Value| *amount == json!(0) || *amount == json!("0%");
    if is_zero(surge) && is_zero(&unavailable) { json!(1) } else { unavailable }
}

fn fate() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["ready", "ready-after=4s", "stop-after=5s", "ready-after=300ms,stop-after=100ms"])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10, max_shrink_iters: 40, ..ProptestConfig::default() })]

    #[test]
    fn a_deployment_keeps_its_bounds(
        had in 0..9_u32, wants in 1..9_u32, same in any::<bool>(), surge in amount(), unavailable in amount(),
        wait in 0..4_u32, fate in fate(), seed in any::<u64>(),
    ) {
        let had = if same { wants } else { had };
        let unavailable = not_both_zero(&surge, unavailable);
        let spec = |replicas: u32| json!({
            "replicas": replicas, "minReadySeconds": wait,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}},
        });
        let (recording, timeline, bounds) = scenario("Deployment", &spec(had), &spec(wants), fate, seed);
        let complete = matches!(recording.end, SimulationEnd::Complete { .. });
        prop_assert!(complete, "{:?}", recording.end);
        prop_assert!(bounds.held_at_most() && bounds.held_at_least(), "{bounds:?}\n{:?}", timeline.moments);
        let last = timeline.moments.last().unwrap().counts;
        prop_assert_eq!((last.old.pods, last.new.available, last.stopping), (0, u64::from(wants), 0));
    }

    #[test]
    fn a_broken_deployment_keeps_its_bounds_and_fails_at_its_deadline(
        replicas in 1..9_u32, surge in amount(), unavailable in amount(), deadline in 2..600_u64,
        fate in prop::sample::select(vec!["never-ready", "image-pull-error", "crash-after=0s"]),
    ) {
        let unavailable = not_both_zero(&surge, unavailable);
        let spec = json!({
            "replicas": replicas, "progressDeadlineSeconds": deadline,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}},
        });
        let (recording, timeline, bounds) = scenario("Deployment", &spec, &spec, fate, 7);
        let SimulationEnd::Failed { at, reason, condition } = &recording.end else { panic!("{:?}", recording.end) };
        prop_assert_eq!(&reason.code, &ReasonCode::ProgressDeadlineExceeded);
        // The last progress is made within seconds, and times in objects are whole seconds.
        let within = Duration::from_secs(deadline)..Duration::from_secs(deadline + 8);
        prop_assert!(within.contains(at), "{at:?} for {deadline} s");
        prop_assert!(bounds.held_at_most() && bounds.held_at_least(), "{bounds:?}\n{:?}", timeline.moments);
        prop_assert_eq!(condition.as_deref(), Some("Progressing=False, ProgressDeadlineExceeded"));
        is_back(&recording, &timeline, u64::from(replicas));
    }

    #[test]
    fn a_stateful_set_keeps_its_bounds(
        replicas in 1..7_u32, unavailable in 1..4_u32, parallel in any::<bool>(), fate in fate(),
    ) {
        let spec = json!({
            "replicas": replicas, "serviceName": "web",
            "podManagementPolicy": if parallel { "Parallel" } else { "OrderedReady" },
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": unavailable}},
        });
        let (recording, timeline, bounds) = scenario("StatefulSet", &spec, &spec, fate, 7);
        let complete = matches!(recording.end, SimulationEnd::Complete { .. });
        prop_assert!(complete, "{:?}", recording.end);
        prop_assert!(bounds.held_at_most() && bounds.held_at_least(), "{bounds:?}\n{:?}", timeline.moments);
    }
}

/// Asserts that the rollout was rolled back wholly, step by step.
fn is_back(recording: &Recording, timeline: &Timeline, pods: u64) {
    let back = recording.back.as_ref().unwrap();
    assert!(matches!(back.end, SimulationEnd::Complete { .. }), "{:?}", back.end);
    let last = timeline.moments.last().unwrap().counts;
    assert_eq!((last.old.available, last.new.pods, last.stopping), (pods, 0, 0), "{:?}", timeline.steps);
    let turns = timeline.steps.iter().filter(|step| matches!(step.act, RolloutEvent::Failed | RolloutEvent::TakenBack));
    let turns: Vec<_> = turns.map(|step| (step.act, step.detail.as_deref().unwrap_or_default())).collect();
    assert!(matches!(turns[..], [(RolloutEvent::Failed, _), (RolloutEvent::TakenBack, "to revision 1")]), "{turns:?}");
    assert!(timeline.steps.is_sorted_by_key(|step| step.at), "{:?}", timeline.steps);
}

#[test]
fn what_fails_is_taken_back_whatever_it_is() {
    for (kind, spec, pods) in [
        ("Deployment", json!({"replicas": 3, "strategy": {"type": "Recreate"}, "progressDeadlineSeconds": 30}), 3),
        ("StatefulSet", json!({"replicas": 3, "serviceName": "web"}), 3),
        ("DaemonSet", json!({}), 3),
    ] {
        let (recording, timeline, _) = scenario(kind, &spec, &spec, "never-ready", 7);
        assert!(matches!(recording.end, SimulationEnd::Failed { .. }), "{kind}: {:?}", recording.end);
        is_back(&recording, &timeline, pods);
    }
}

#[test]
fn a_daemon_set_keeps_its_bounds() {
    for rolling in
        [json!({"maxUnavailable": 1}), json!({"maxSurge": 2, "maxUnavailable": 0}), json!({"maxUnavailable": "60%"})]
    {
        let spec = json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": rolling}});
        let (recording, timeline, bounds) = scenario("DaemonSet", &spec, &spec, "ready-after=2s", 7);
        assert!(matches!(recording.end, SimulationEnd::Complete { .. }), "{:?}", recording.end);
        assert!(bounds.held_at_most() && bounds.held_at_least(), "{bounds:?}\n{:?}", timeline.moments);
        assert_eq!(timeline.moments.last().unwrap().counts.new.available, 3);
    }
}

#[test]
fn recreate_never_mixes_versions() {
    let spec = json!({"replicas": 4, "strategy": {"type": "Recreate"}});
    let (_, timeline, _) = scenario("Deployment", &spec, &spec, "ready", 7);
    let first_new =
        timeline.steps.iter().find(|step| step.act == RolloutEvent::Created && step.side == Side::New).unwrap();
    let gone =
        timeline.steps.iter().filter(|step| step.act == RolloutEvent::Gone).map(|step| step.names.len()).sum::<usize>();
    assert_eq!(gone, 4);
    assert!(timeline.steps.iter().filter(|step| step.act == RolloutEvent::Gone).all(|step| step.at <= first_new.at));
}

#[test]
fn the_same_seed_gives_the_same_film() {
    let spec = json!({"replicas": 6});
    let timeline = |seed| {
        let (_, timeline, _) = scenario("Deployment", &spec, &spec, "ready-after=3s", seed);
        timeline.steps.iter().map(|step| format!("{step:?}")).collect::<Vec<_>>()
    };
    assert_eq!(timeline(3), timeline(3));
    assert_ne!(timeline(3), timeline(4));
}

/// Plays a canary of two steps, and returns its timeline and the numbers of new pods at the end of each moment before the last write.
fn canary(kind: &str, spec: &Value, fate: &str) -> (Recording, Timeline, Bounds, Vec<u64>) {
    let spec = json!({"replicas": 6}).as_object().cloned().map(|mut all| {
        all.extend(spec.as_object().cloned().unwrap_or_default());
        Value::Object(all)
    });
    let spec = spec.filter(|_| kind != "DaemonSet").unwrap_or(json!({}));
    let annotated = |mut object: Value| {
        object["metadata"]["annotations"] = json!({"belay.dev/canary": "1 2m, 2 1m"});
        object
    };
    let scenario = Scenario {
        seed: 1,
        nodes: NodeSpec::several(6),
        provided: Vec::new(),
        key: key(kind),
        before: Some(annotated(workload(kind, "web:1", &spec, "ready"))),
        after: annotated(workload(kind, "web:2", &spec, fate)),
        watch_on: None,
    };
    let recording = scenario.run().unwrap();
    let timeline = Timeline::of(&recording);
    let bounds = Bounds::of(&recording, &timeline);
    let steps: Vec<Duration> =
        timeline.steps.iter().filter(|step| step.act == RolloutEvent::CanaryStep).map(|step| step.at).collect();
    let most = |from: Duration, to: Duration| {
        let within = timeline.moments.iter().filter(|moment| (from..to).contains(&moment.at));
        within.map(|moment| moment.counts.new.pods).max().unwrap_or_default()
    };
    let ends = steps.iter().skip(1).copied().chain([timeline.length]);
    let most = steps.iter().zip(ends).map(|(from, to)| most(*from, to)).collect();
    (recording, timeline, bounds, most)
}

#[test]
fn a_canary_goes_step_by_step() {
    for (kind, at_most) in [("Deployment", 8), ("StatefulSet", 6), ("DaemonSet", 6)] {
        let (recording, timeline, bounds, most) = canary(kind, &json!({}), "ready");
        let SimulationEnd::Complete { at } = recording.end else { panic!("{kind}: {:#?}", recording.end) };
        assert_eq!(most[..2], [1, 2], "{kind}: no more new pods than the step says: {:#?}", timeline.steps);
        assert_eq!(most.len(), 3, "{kind}");
        assert!(at >= Duration::from_mins(3), "{kind}: each step lasts its time: {at:?}");
        assert_eq!(bounds.at_most, Some(at_most), "{kind}");
        assert!(bounds.held_at_most() && bounds.held_at_least(), "{kind}: {bounds:#?}");
        let spec = &recording.after["spec"];
        assert!(
            spec["minReadySeconds"].as_i64().unwrap_or_default() == 0,
            "{kind}: the fields of the manifest: {spec:#}"
        );
    }
}

#[test]
fn a_canary_that_fails_goes_back_after_its_step() {
    for (kind, fate, code) in [
        ("Deployment", "crash-after=30s", ReasonCode::CanaryFailed),
        ("StatefulSet", "crash-after=30s", ReasonCode::CanaryFailed),
        ("DaemonSet", "crash-after=30s", ReasonCode::CanaryFailed),
        ("Deployment", "never-ready", ReasonCode::ProgressDeadlineExceeded),
    ] {
        let spec = if kind == "Deployment" { json!({"progressDeadlineSeconds": 60}) } else { json!({}) };
        let (recording, timeline, bounds, most) = canary(kind, &spec, fate);
        let SimulationEnd::Failed { reason, .. } = &recording.end else { panic!("{kind}: {:#?}", recording.end) };
        assert_eq!((&reason.code, most.first()), (&code, Some(&1)), "{kind} {fate}: {reason} {:#?}", timeline.steps);
        let back = recording.back.as_ref().unwrap();
        assert!(matches!(back.end, SimulationEnd::Complete { .. }), "{kind} {fate}: {back:#?}");
        let last = timeline.moments.last().unwrap().counts;
        assert_eq!((last.old.available, last.new.pods), (6, 0), "{kind} {fate}");
        assert!(bounds.held_at_most() && bounds.held_at_least(), "{kind} {fate}: {bounds:#?}");
    }
}

#[test]
fn a_canary_needs_another_template_and_a_version_before() {
    let object = |fate: &str| {
        let mut object = workload("Deployment", "web:1", &json!({"replicas": 2}), fate);
        object["metadata"]["annotations"] = json!({"belay.dev/canary": "1 2m"});
        object
    };
    for (before, fate) in [(None, "ready"), (Some(object("ready")), "ready")] {
        let nodes = NodeSpec::several(3);
        let (key, after) = (key("Deployment"), object(fate));
        let scenario = Scenario { seed: 1, nodes, provided: Vec::new(), key, before, after, watch_on: None };
        assert!(!scenario.run().unwrap().has_canary());
    }
}
