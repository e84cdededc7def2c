//! StatefulSets and DaemonSets are judged, taken back and held as Deployments are; custom kinds are waited for.

use std::time::Duration;

use belay::daemon::SourceStatus;
use belay_core::rollout::{Hold, Outcome, marks};
use jiff::SignedDuration;
use serde_json::json;

use crate::support::daemon::{World, image};

pub const STATEFUL: &str = "apis/apps/v1/namespaces/default/statefulsets/db";
pub const DAEMON: &str = "apis/apps/v1/namespaces/default/daemonsets/agent";

pub fn stateful(image: &str, fate: &str) -> String {
    format!(
        "apiVersion: apps/v1\nkind: StatefulSet\nmetadata:\n  name: db\n  annotations: {{belay.dev/progress-deadline-seconds: \
         \"60\"}}\nspec:\n  replicas: 3\n  serviceName: db\n  selector:\n    matchLabels: {{app: db}}\n  template:\n    \
         metadata:\n      labels: {{app: db}}\n      annotations: {{kubelet.belay.dev/fate: \"{fate}\"}}\n    spec:\n      \
         containers:\n      - name: app\n        image: {image}\n"
    )
}

pub fn daemon(image: &str, fate: &str) -> String {
    stateful(image, fate)
        .replace("StatefulSet", "DaemonSet")
        .replace("  replicas: 3\n  serviceName: db\n", "")
        .replace("db", "agent")
}

async fn started(path: &str, content: &str) -> World {
    let mut world = World::embedded().await;
    let first = world.push(path, content, "First version");
    world.start();
    world.through(&first).await;
    world
}

#[tokio::test(start_paused = true)]
async fn a_stateful_set_goes_back_and_its_stuck_pod_with_it() {
    for fate in ["never-ready", "image-pull-error", "crash-after=1s"] {
        let mut world = started("db.yaml", &stateful("db:1", "ready")).await;
        let good = world.repository.tip().unwrap();
        let bad = world.push("db.yaml", &stateful("db:2", fate), "Broken");
        world.through(&bad).await;
        let record = world.record(&bad, "StatefulSet default/db");
        assert_eq!(record.outcome, Outcome::RolledBack, "{fate}: {record:#?}");
        assert_eq!(record.back_to.as_ref().map(|commit| commit.as_str()), Some(good.as_str()));
        let live = world.get(STATEFUL).await.unwrap();
        assert_eq!((image(&live), &live["status"]["readyReplicas"]), ("db:1", &json!(3)), "{fate}");
        assert_eq!(Hold::on(&live).unwrap().commit.as_str(), bad);
        assert_eq!(marks::annotation(&live, marks::COMMIT), Some(good.as_str()));
        for pod in world.list("api/v1/namespaces/default/pods").await {
            assert_eq!(pod["spec"]["containers"][0]["image"], "db:1", "{fate}");
        }
        let revisions = world.list("apis/apps/v1/namespaces/default/controllerrevisions").await;
        let marked = |cause: &&str| cause.contains(marks::FAILED);
        let causes: Vec<&str> =
            revisions.iter().filter_map(|one| marks::annotation(one, marks::CHANGE_CAUSE)).collect();
        assert_eq!(causes.iter().filter(|cause| marked(cause)).count(), 1, "{causes:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_newer_commit_gets_past_the_stuck_pod_of_a_stateful_set() {
    let mut world = started("db.yaml", &stateful("db:1", "ready")).await;
    world.push("db.yaml", &stateful("db:2", "image-pull-error"), "Broken");
    world.until("it is under way", |source| !source.under_way.is_empty()).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    let fixed = world.push("db.yaml", &stateful("db:3", "ready"), "Its fix");
    world.through(&fixed).await;
    assert_eq!(world.record(&fixed, "StatefulSet default/db").outcome, Outcome::Complete);
    let live = world.get(STATEFUL).await.unwrap();
    assert_eq!((image(&live), &live["status"]["readyReplicas"]), ("db:3", &json!(3)));
}

/// The pods of a revision of which nobody knows any more whether it was fine: those that can't run are deleted.
#[tokio::test(start_paused = true)]
async fn so_it_is_with_the_history_lost_in_between() {
    let mut world = started("db.yaml", &stateful("db:1", "crash-after=1s")).await;
    world.push("db.yaml", &stateful("db:2", "image-pull-error"), "Broken");
    world.until("it is under way", |source| !source.under_way.is_empty()).await;
    world.stop().await;
    std::fs::remove_dir_all(world.repository.beside("state")).unwrap();
    let fixed = world.push("db.yaml", &stateful("db:3", "ready"), "Its fix");
    world.start();
    world.through(&fixed).await;
    assert_eq!(world.record(&fixed, "StatefulSet default/db").outcome, Outcome::Complete);
}

/// A pod that crashes holds nothing that its next start would not lose, too.
#[tokio::test(start_paused = true)]
async fn what_was_complete_and_crashes_keeps_no_fix_waiting() {
    let mut world = started("db.yaml", &stateful("db:1", "crash-after=20s")).await;
    tokio::time::sleep(Duration::from_mins(10)).await;
    let fixed = world.push("db.yaml", &stateful("db:2", "ready"), "Its fix");
    let begun = tokio::time::Instant::now();
    world.through(&fixed).await;
    assert_eq!(world.record(&fixed, "StatefulSet default/db").outcome, Outcome::Complete);
    assert!(begun.elapsed() < Duration::from_mins(1), "{:?}", begun.elapsed());
}

/// A pod of a revision that was fine may hold data, so it stays; whoever asks is told that it is in the way.
#[tokio::test(start_paused = true)]
async fn what_a_stateful_set_waits_for_is_named() {
    let mut world = started("db.yaml", &stateful("db:1", "ready")).await;
    let fate = json!({"metadata": {"annotations": {"kubelet.belay.dev/fate": "never-ready"}}});
    world.patch("api/v1/namespaces/default/pods/db-0", "somebody", &fate).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    let next = world.push("db.yaml", &stateful("db:2", "ready"), "Better");
    let said = |source: &SourceStatus| source.under_way.values().find_map(|way| way.in_the_way.clone());
    world.until("what is in the way is said", |source| said(source).is_some()).await;
    let said = said(&world.status()).unwrap().message;
    assert!(said.starts_with("its controller waits for pod db-0 of another revision, which is "), "{said}");
    let pods = world.list("api/v1/namespaces/default/pods").await;
    assert!(pods.iter().all(|pod| pod["spec"]["containers"][0]["image"] == "db:1"), "{pods:#?}");
    world.delete("api/v1/namespaces/default/pods/db-0").await;
    world.through(&next).await;
    assert_eq!(world.record(&next, "StatefulSet default/db").outcome, Outcome::Complete);
}

#[tokio::test(start_paused = true)]
async fn a_stateful_set_has_belays_own_deadline() {
    let mut world = started("db.yaml", &stateful("db:1", "ready")).await;
    let bad = world.push("db.yaml", &stateful("db:2", "never-ready"), "Broken");
    let before = world.clock.now();
    world
        .until("it goes back", |source| source.under_way.values().any(|way| way.outcome == Outcome::RollingBack))
        .await;
    let took = world.clock.now().duration_since(before).as_secs();
    assert!((60..120).contains(&took), "{took} s");
    world.through(&bad).await;
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_put_right_fails_no_rollout() {
    for (file, first, second, object) in [
        ("db.yaml", stateful("db:1", "ready"), stateful("db:2", "ready-after=20s"), "StatefulSet default/db"),
        ("agent.yaml", daemon("agent:1", "ready"), daemon("agent:2", "ready-after=20s"), "DaemonSet default/agent"),
    ] {
        let mut world = started(file, &first).await;
        let good = world.push(file, &second, "Slow");
        world.until("it rolls", |source| source.under_way.values().any(|way| way.until.is_some())).await;
        let due = |world: &World| world.status().under_way.values().find_map(|way| way.until).expect("a deadline");
        let left = due(&world).duration_since(world.clock.now());
        world.clock.jump(86_400);
        world.until("it moves", move |source| source.under_way.values().all(|way| way.counters.updated > 0)).await;
        let now_left = due(&world).duration_since(world.clock.now());
        assert!((now_left - left).abs() < SignedDuration::from_secs(60), "{now_left} {left}");
        world.through(&good).await;
        assert_eq!(world.record(&good, object).outcome, Outcome::Complete);
    }
}

#[tokio::test(start_paused = true)]
async fn a_good_stateful_set_completes() {
    let mut world = started("db.yaml", &stateful("db:1", "ready")).await;
    let good = world.push("db.yaml", &stateful("db:2", "ready-after=5s"), "Better");
    world.through(&good).await;
    assert_eq!(world.record(&good, "StatefulSet default/db").outcome, Outcome::Complete);
    let live = world.get(STATEFUL).await.unwrap();
    assert_eq!(live["status"]["currentRevision"], live["status"]["updateRevision"]);
}

#[tokio::test(start_paused = true)]
async fn a_daemon_set_goes_back() {
    let mut world = started("agent.yaml", &daemon("agent:1", "ready")).await;
    let good = world.push("agent.yaml", &daemon("agent:2", "ready"), "Better");
    world.through(&good).await;
    assert_eq!(world.record(&good, "DaemonSet default/agent").outcome, Outcome::Complete);
    let bad = world.push("agent.yaml", &daemon("agent:3", "image-pull-error"), "Broken");
    world.through(&bad).await;
    let record = world.record(&bad, "DaemonSet default/agent");
    assert_eq!(record.outcome, Outcome::RolledBack, "{record:#?}");
    let live = world.get(DAEMON).await.unwrap();
    assert_eq!(image(&live), "agent:2");
    assert_eq!(live["status"]["numberAvailable"], live["status"]["desiredNumberScheduled"]);
    assert!(Hold::on(&live).is_some());
}

#[tokio::test(start_paused = true)]
async fn what_can_not_change_is_refused_with_the_choices() {
    let mut world = started("agent.yaml", &daemon("agent:1", "ready")).await;
    let other = daemon("agent:1", "ready").replace("{app: agent}", "{app: other}");
    let second = world.push("agent.yaml", &other, "Another selector");
    world.through(&second).await;
    let record = world.record(&second, "DaemonSet default/agent");
    assert_eq!(record.outcome, Outcome::Rejected);
    let hint = record.complaints[0].hint.clone().unwrap_or_default();
    assert!(hint.contains("another name") && hint.contains("kubectl delete daemonset/agent -n default"), "{record:#?}");
}

const DEFINITION: &str = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: bases.example.com}\nspec:\n  group: \
     example.com\n  scope: Namespaced\n  names: {plural: bases, singular: base, kind: Base, listKind: BaseList}\n  versions:\n  - \
     name: v1\n    served: true\n    storage: true\n    subresources: {status: {}}\n    schema:\n      openAPIV3Schema:\n        type: \
     object\n        x-kubernetes-preserve-unknown-fields: true\n";

/// Returns an object of a custom kind that has just been made, and of which nobody says anything yet.
async fn custom() -> (World, String) {
    let mut world = World::embedded().await;
    world.repository.write("definition.yaml", DEFINITION);
    world
        .repository
        .write("base.yaml", "apiVersion: example.com/v1\nkind: Base\nmetadata: {name: one}\nspec: {size: 1}\n");
    let first = world.repository.commit("A custom kind");
    world.repository.push();
    world.start();
    while world.get(BASE).await.is_none() {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    (world, first)
}

const BASE: &str = "apis/example.com/v1/namespaces/default/bases/one";

async fn says(world: &World, status: &str, reason: &str) {
    let generation = world.get(BASE).await.unwrap()["metadata"]["generation"].clone();
    let condition = json!({"type": "Ready", "status": status, "reason": reason, "message": reason});
    let conditions = if reason == "Stalled" {
        json!([condition, {"type": "Stalled", "status": "True", "message": "no room"}])
    } else {
        json!([condition])
    };
    let status = json!({"status": {"observedGeneration": generation, "conditions": conditions}});
    world.patch(&format!("{BASE}/status"), "operator", &status).await;
}

#[tokio::test(start_paused = true)]
async fn a_custom_kind_is_waited_for() {
    let (mut world, first) = custom().await;
    says(&world, "False", "Provisioning").await;
    tokio::time::sleep(Duration::from_hours(1)).await;
    assert_eq!(world.record(&first, "Base default/one").outcome, Outcome::UnderWay);
    says(&world, "True", "Done").await;
    world.through(&first).await;
    assert_eq!(world.record(&first, "Base default/one").outcome, Outcome::Complete);
}

#[tokio::test(start_paused = true)]
async fn a_custom_kind_that_stalls_is_reported_and_not_taken_back() {
    let (mut world, first) = custom().await;
    says(&world, "False", "Stalled").await;
    world.through(&first).await;
    let record = world.record(&first, "Base default/one");
    assert_eq!(record.outcome, Outcome::Failed);
    assert!(record.reason.unwrap().message.contains("no room"));
    assert!(Hold::on(&world.get(BASE).await.unwrap()).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_custom_kind_is_well_when_it_says_so_of_what_is_written_now() {
    let (mut world, first) = custom().await;
    let says = |generation: i64, status: &str| {
        let available = json!({"type": "Available", "status": status, "reason": "Said", "message": status});
        json!({"status": {"observedGeneration": generation, "conditions": [available]}})
    };
    // As before it was written.
    world.patch(&format!("{BASE}/status"), "operator", &says(0, "True")).await;
    tokio::time::sleep(Duration::from_hours(1)).await;
    assert_eq!(world.record(&first, "Base default/one").outcome, Outcome::UnderWay);
    world.patch(&format!("{BASE}/status"), "operator", &says(1, "True")).await;
    world.through(&first).await;
    assert_eq!(world.record(&first, "Base default/one").outcome, Outcome::Complete);
}

#[tokio::test(start_paused = true)]
async fn a_custom_kind_goes_back_where_it_asks_for_it() {
    let (mut world, first) = custom().await;
    says(&world, "True", "Done").await;
    world.through(&first).await;
    let asks = "apiVersion: example.com/v1\nkind: Base\nmetadata:\n  name: one\n  annotations: {belay.dev/on-failure: \
                roll-back}\nspec: {size: 2}\n";
    let bad = world.push("base.yaml", asks, "Twice the size");
    while world.get(BASE).await.unwrap()["spec"]["size"] != 2 {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    says(&world, "False", "Stalled").await;
    world.through(&bad).await;
    assert_eq!(world.record(&bad, "Base default/one").outcome, Outcome::RolledBack);
    let live = world.get(BASE).await.unwrap();
    assert_eq!((&live["spec"]["size"], Hold::on(&live).unwrap().commit.as_str()), (&json!(1), bad.as_str()));
}
