//! A ReplicationController replaces no pod by itself: the daemon rolls it as `belay rolling-update` does, with the automatic
//! way back, a hold, and a record like those of the others.

use std::time::Duration;

use belay_core::rollout::{Hold, Outcome, StepKind, marks};
use serde_json::Value;

use crate::support::daemon::{World, image};
use crate::support::tap::{Fate, Tap};

const WEB: &str = "api/v1/namespaces/default/replicationcontrollers/web";
const OBJECT: &str = "ReplicationController default/web";

fn controller(image: &str, fate: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ReplicationController\nmetadata:\n  name: web\n  annotations: \
         {{belay.dev/progress-deadline-seconds: \"60\"}}\nspec:\n  replicas: 3\n  selector: {{app: web}}\n  template:\n    \
         metadata:\n      labels: {{app: web}}\n      annotations: {{kubelet.belay.dev/fate: \"{fate}\"}}\n    spec: \
         {{containers: [{{name: app, image: \"{image}\"}}]}}\n"
    )
}

async fn started() -> (World, Tap, String) {
    let (mut world, tap) = World::tapped().await;
    let first = world.push("web.yaml", &controller("web:1", "ready"), "First version");
    world.start();
    world.through(&first).await;
    assert_eq!(world.record(&first, OBJECT).outcome, Outcome::Complete);
    (world, tap, first)
}

/// Returns the images of all pods; there must be one controller, and as many ready pods as it wants.
async fn images(world: &World) -> Vec<String> {
    let controllers = world.list("api/v1/namespaces/default/replicationcontrollers").await;
    assert_eq!(controllers.len(), 1, "{controllers:#?}");
    let live = &controllers[0];
    assert_eq!((&live["metadata"]["name"], &live["status"]["readyReplicas"]), (&"web".into(), &3.into()), "{live:#}");
    let pods = world.list("api/v1/namespaces/default/pods").await;
    let mut images: Vec<String> = pods.iter().map(|pod| image_of(pod).to_owned()).collect();
    images.dedup();
    assert_eq!(pods.len(), 3);
    images
}

fn image_of(pod: &Value) -> &str {
    pod["spec"]["containers"][0]["image"].as_str().unwrap()
}

#[tokio::test(start_paused = true)]
async fn its_pods_are_replaced_one_by_one() {
    let (mut world, _, _) = started().await;
    let second = world.push("web.yaml", &controller("web:2", "ready-after=2s"), "Second version");
    let (mut fewest, mut counted) = (usize::MAX, Vec::new());
    while world.status().planned.as_ref().is_none_or(|planned| planned.as_str() != second) || !world.status().settled {
        let pods = world.list("api/v1/namespaces/default/pods").await;
        let ready = |pod: &&Value| {
            let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
            conditions.clone().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
        };
        fewest = fewest.min(pods.iter().filter(ready).count());
        assert!(pods.len() <= 4, "{}", pods.len());
        counted.extend(world.status().under_way.values().map(|way| way.counters).filter(|way| way.desired == 3));
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    assert!(fewest >= 3, "{fewest}");
    for updated in 0..=2 {
        let told = counted.iter().any(|way| way.updated == updated && way.available >= 3);
        assert!(told, "never {updated} of 3 updated: {counted:?}");
    }
    assert_eq!(images(&world).await, ["web:2"]);
    let record = world.record(&second, OBJECT);
    assert_eq!((record.outcome, record.reason), (Outcome::Complete, None));
    assert!(world.history().steps(record.id).unwrap().iter().any(|step| step.detail.starts_with("Scaling web-")));
    let live = world.get(WEB).await.unwrap();
    assert_eq!(marks::annotation(&live, marks::COMMIT), Some(second.as_str()));
    assert_eq!(live["metadata"]["labels"]["belay.dev/source"], "shop");
    // And once more, from what the first left behind; then nothing more is done.
    let third = world.push("web.yaml", &controller("web:3", "ready"), "Third version");
    world.through(&third).await;
    assert_eq!(images(&world).await, ["web:3"]);
    let count = world.records().len();
    tokio::time::sleep(Duration::from_mins(3)).await;
    assert_eq!(world.records().len(), count, "{:#?}", world.records().last());
}

#[tokio::test(start_paused = true)]
async fn what_fails_goes_back_and_is_held() {
    for fate in ["never-ready", "image-pull-error", "crash-after=1s"] {
        let (mut world, _, first) = started().await;
        let bad = world.push("web.yaml", &controller("web:2", fate), "Broken");
        world.through(&bad).await;
        let record = world.record(&bad, OBJECT);
        assert_eq!(record.outcome, Outcome::RolledBack, "{fate}: {record:#?}");
        assert_eq!(record.back_to.as_ref().map(|commit| commit.as_str()), Some(first.as_str()));
        assert!(!record.evidence.unwrap().pods.is_empty());
        assert_eq!(images(&world).await, ["web:1"], "{fate}");
        let live = world.get(WEB).await.unwrap();
        assert_eq!(Hold::on(&live).unwrap().commit.as_str(), bad);
        assert_eq!(marks::annotation(&live, marks::COMMIT), Some(first.as_str()));
        // It stays so, and the next one goes through.
        world.stop().await;
        world.start();
        tokio::time::sleep(Duration::from_mins(3)).await;
        assert_eq!(world.get(WEB).await.unwrap()["metadata"]["generation"], live["metadata"]["generation"]);
        let mended = world.push("web.yaml", &controller("web:3", "ready"), "Mended");
        world.through(&mended).await;
        assert_eq!(world.record(&mended, OBJECT).outcome, Outcome::Complete);
        assert_eq!((images(&world).await, Hold::on(&world.get(WEB).await.unwrap())), (vec!["web:3".to_owned()], None));
    }
}

#[tokio::test(start_paused = true)]
async fn a_newer_commit_takes_over_in_the_middle() {
    let (mut world, _, _) = started().await;
    let second = world.push("web.yaml", &controller("web:2", "ready-after=5s"), "Second version");
    world.until("it rolls", |source| source.under_way.values().any(|way| way.message.contains("down to 1"))).await;
    let third = world.push("web.yaml", &controller("web:3", "ready"), "Third version");
    world.through(&third).await;
    assert_eq!(world.record(&second, OBJECT).outcome, Outcome::Superseded);
    assert_eq!(world.record(&third, OBJECT).outcome, Outcome::Complete);
    assert_eq!(images(&world).await, ["web:3"]);
    // Also on the way back.
    world.push("web.yaml", &controller("web:4", "crash-after=1s"), "Broken");
    world
        .until("it goes back", |source| source.under_way.values().any(|way| way.outcome == Outcome::RollingBack))
        .await;
    let fifth = world.push("web.yaml", &controller("web:5", "ready"), "Fifth version");
    world.through(&fifth).await;
    assert_eq!(world.record(&fifth, OBJECT).outcome, Outcome::Complete);
    assert_eq!(images(&world).await, ["web:5"]);
}

/// Kills the daemon at one request after the push.
async fn killed(next: &str, at: usize, fate: Fate) -> (Outcome, Vec<String>, bool, usize) {
    let (mut world, tap, _) = started().await;
    tap.take();
    let mut writes = 0;
    tap.rule(move |went, _| {
        writes += usize::from(went.is_write() && !went.path.contains("/leases") && !went.path.contains("/events"));
        if went.is_write() && writes == at + 1 { fate } else { Fate::Pass }
    });
    let commit = world.push("web.yaml", next, "Next version");
    world.through_a_kill(&tap, &commit).await;
    let writes = tap.take().iter().filter(|went| went.is_write() && !went.path.contains("/leases")).count();
    let live = world.get(WEB).await.unwrap();
    (world.record(&commit, OBJECT).outcome, images(&world).await, Hold::on(&live).is_some(), writes)
}

async fn at_each_write(next: &str, outcome: Outcome, image: &str, held: bool) {
    let (ended, images, hold, writes) = killed(next, usize::MAX - 1, Fate::Pass).await;
    assert_eq!((ended, images.as_slice(), hold), (outcome, [image.to_owned()].as_slice(), held));
    assert!(writes > 8, "{writes}");
    // A few of them, so that it does not take all day; with BELAY_THOROUGH all.
    let every = if std::env::var_os("BELAY_THOROUGH").is_some() { 1 } else { 5 };
    for at in (0..writes).step_by(every) {
        let fate = if at % 2 == 0 { Fate::DieAfter } else { Fate::DieBefore };
        let (ended, images, hold, _) = killed(next, at, fate).await;
        assert_eq!(
            (ended, images.as_slice(), hold),
            (outcome, [image.to_owned()].as_slice(), held),
            "{fate:?} at {at}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn killed_at_any_write_it_goes_on() {
    at_each_write(&controller("web:2", "ready"), Outcome::Complete, "web:2", false).await;
}

#[tokio::test(start_paused = true)]
async fn killed_at_any_write_of_a_failure_it_goes_back() {
    at_each_write(&controller("web:2", "crash-after=1s"), Outcome::RolledBack, "web:1", true).await;
}

#[tokio::test(start_paused = true)]
async fn a_first_one_that_fails_is_left_and_reported() {
    let mut world = World::embedded().await;
    let first = world.push("web.yaml", &controller("web:1", "never-ready"), "First version");
    world.start();
    world.through(&first).await;
    let record = world.record(&first, OBJECT);
    assert_eq!(record.outcome, Outcome::Failed);
    assert!(record.reason.unwrap().message.contains("nothing to go back to"));
}

#[tokio::test(start_paused = true)]
async fn it_gives_up_early_where_asked() {
    let mut world = World::embedded().await;
    world.config.fail_fast = true;
    let first = world.push("web.yaml", &controller("web:1", "ready"), "First version");
    world.start();
    world.through(&first).await;
    let before = world.clock.now();
    let bad = world.push("web.yaml", &controller("web:2", "crash-after=1s").replace("\"60\"", "\"6000\""), "Broken");
    world.through(&bad).await;
    assert_eq!(world.record(&bad, OBJECT).outcome, Outcome::RolledBack);
    assert!(world.clock.now().duration_since(before).as_secs() < 300);
}

#[tokio::test(start_paused = true)]
async fn without_pods_there_is_nothing_to_roll() {
    let mut world = World::embedded().await;
    let none = |image: &str| controller(image, "ready").replace("replicas: 3", "replicas: 0");
    let first = world.push("web.yaml", &none("web:1"), "First version");
    world.start();
    world.through(&first).await;
    let second = world.push("web.yaml", &none("web:2"), "Second version");
    world.through(&second).await;
    assert_eq!(world.record(&second, OBJECT).outcome, Outcome::Complete);
    assert_eq!(image(&world.get(WEB).await.unwrap()), "web:2");
    let steps = world.history().steps(world.record(&second, OBJECT).id).unwrap();
    assert!(steps.iter().all(|step| step.kind != StepKind::Progress || !step.detail.starts_with("Scaling")));
}

/// The pods that crash are another commit's, which is being taken away again for this one.
#[tokio::test(start_paused = true)]
async fn a_newer_commit_is_not_given_up_for_the_pods_of_the_one_before() {
    let (mut world, _, _) = started().await;
    world.push("web.yaml", &controller("web:2", "crash-after=1s"), "Broken");
    let restarts = |pods: &[Value]| {
        let of = |pod: &Value| pod["status"]["containerStatuses"][0]["restartCount"].as_i64().unwrap_or_default();
        pods.iter().map(of).max().unwrap_or_default()
    };
    while restarts(&world.list("api/v1/namespaces/default/pods").await) < 3 {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    world.stop().await;
    world.config.fail_fast = true;
    for (image, fate) in [("web:1", "ready"), ("web:3", "ready")] {
        let newer = world.push("web.yaml", &controller(image, fate), "Without it");
        world.start();
        world.through(&newer).await;
        let record = world.record(&newer, OBJECT);
        assert_eq!(record.outcome, Outcome::Complete, "{:?}", record.reason);
        assert_eq!(images(&world).await, [image]);
        world.stop().await;
    }
}

/// One pod that comes up later than its deadline, since nobody could tell that it did. The shorter outage belay waits out with
/// its Lease; in the longer one it loses that, and takes the rolling update up anew.
#[tokio::test(start_paused = true)]
async fn an_outage_of_the_api_server_is_added_to_the_deadline() {
    for (slow, outage) in [("ready-after=85s", 14), ("ready-after=110s", 60)] {
        let (mut world, tap, _) = started().await;
        let one = controller("web:2", slow).replace("replicas: 3", "replicas: 1");
        let second = world.push("web.yaml", &one, "Second version");
        world.until("it rolls", |source| source.under_way.values().any(|way| way.message.contains("up to 1"))).await;
        tokio::time::sleep(Duration::from_secs(10)).await;
        tap.rule(|_, _| Fate::Fail(503));
        tokio::time::sleep(Duration::from_secs(outage)).await;
        tap.rule(|_, _| Fate::Pass);
        world.through(&second).await;
        let record = world.record(&second, OBJECT);
        assert_eq!(record.outcome, Outcome::Complete, "{slow}: {record:#?}");
    }
}

/// But no longer than that: what does not come up after it either is the commit's fault.
#[tokio::test(start_paused = true)]
async fn an_outage_of_the_api_server_excuses_nothing_that_fails_after_it() {
    let (mut world, tap, _) = started().await;
    let bad = world.push("web.yaml", &controller("web:2", "never-ready"), "Second version");
    world.until("it rolls", |source| source.under_way.values().any(|way| way.message.contains("up to 1"))).await;
    let began = tokio::time::Instant::now();
    tap.rule(|_, _| Fate::Fail(503));
    tokio::time::sleep(Duration::from_secs(60)).await;
    tap.rule(|_, _| Fate::Pass);
    world.through(&bad).await;
    let record = world.record(&bad, OBJECT);
    assert_eq!(record.outcome, Outcome::RolledBack, "{record:#?}");
    assert!(began.elapsed() < Duration::from_mins(6), "{:?}", began.elapsed());
    assert_eq!(images(&world).await, ["web:1"]);
}
