//! The promises of every life, whatever its fate.

use jiff::SignedDuration;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::tests::{Case, Play, moment};

/// Words of which fates are put together; impossible combinations are refused, which is fine too.
fn any_fate() -> impl Strategy<Value = String> {
    let words = prop::sample::select(vec![
        "ready",
        "ready-after=3s",
        "never-ready",
        "start-after=2s",
        "unready-after=4s",
        "unhealthy-after=5s",
        "crash-after=2s",
        "crash-after=0s",
        "exit-after=3s",
        "oom-after=4s",
        "code=3",
        "image-pull-error",
        "for=12s",
        "evict-after=40s",
        "stop-after=3s",
        "hang",
        "log=text",
    ]);
    let fate = prop::collection::vec(words, 1..4).prop_map(|words| words.join(","));
    prop::collection::vec((prop::sample::select(vec!["", "app:", "side:", "init:"]), fate), 0..4).prop_map(|sections| {
        sections.into_iter().map(|(name, fate)| format!("{name}{fate}")).collect::<Vec<_>>().join(";")
    })
}

fn any_case() -> impl Strategy<Value = Case> {
    let policy = prop::sample::select(vec!["Always", "OnFailure", "Never"]);
    let delete = prop::option::of((0..60_u32, prop::sample::select(vec![0, 1, 5, 30])));
    let probe = prop::option::of((0..5, 1..5, 1..4));
    (any_fate(), policy, delete, probe, any::<bool>(), any::<bool>()).prop_map(
        |(fate, policy, delete, probe, init, sidecar)| {
            let probe = probe.map(|(delay, period, failures)| {
                json!({"tcpSocket": {"port": 80}, "initialDelaySeconds": delay, "periodSeconds": period,
                       "failureThreshold": failures})
            });
            let app = json!({"name": "app", "image": "nginx:1", "readinessProbe": probe, "livenessProbe": probe,
                             "startupProbe": probe, "envFrom": [{"configMapRef": {"name": "settings"}}]});
            let mut before = Vec::new();
            if init {
                before.push(json!({"name": "init", "image": "busybox:1"}));
            }
            if sidecar {
                before.push(json!({"name": "side", "image": "busybox:1", "restartPolicy": "Always"}));
            }
            let acts: Vec<Value> = delete.map(|(at, grace)| json!({"at": format!("{at}s"), "delete": grace})).into_iter().collect();
            serde_json::from_value(json!({
                "about": "", "until": "20m", "then": acts, "objects": {"configmap/settings": []},
                "pod": {"metadata": {"name": "web", "annotations": {"kubelet.example.com/fate": fate}},
                        "spec": {"restartPolicy": policy, "terminationGracePeriodSeconds": 5, "initContainers": before, "containers": [app]}},
            }))
            .unwrap()
        },
    )
}

proptest! {
    #[test]
    fn lives_keep_their_promises(case in any_case()) {
        let deleted = case.then.first().map(|act| moment(&act.at) + SignedDuration::from_secs(act.delete.unwrap() + 1));
        let removable = case.then.first().is_some_and(|act| act.delete != Some(0));
        let trace = Play::new(case).run();
        prop_assert!(trace.lines().count() < 3000, "{trace}");
        if let Some(deleted) = deleted {
            let end = trace.lines().rev().find(|line| line.contains("Succeeded ") || line.contains("Failed "));
            let end = end.unwrap_or_else(|| panic!("it never ends:\n{trace}"));
            let end: f64 = end.split('s').next().unwrap().trim().parse().unwrap();
            prop_assert!(end <= deleted.as_second() as f64, "{end} is late:\n{trace}");
            let early = trace.lines().any(|line| line.contains("PodCompleted") || line.contains("PodFailed"));
            prop_assert!(!removable || early || trace.contains("removes it"), "{trace}");
        }
    }
}
