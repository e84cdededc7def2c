//! The progress deadline passes: evidence, the way back, the hold, the mark, the record.

use std::time::Duration;

use belay_core::rollout::{Hold, Outcome};
use expect_test::expect;
use serde_json::{Value, json};

use crate::support::daemon::{World, broken, deployment, image, path_of};

#[tokio::test(start_paused = true)]
async fn a_bad_image_goes_back_to_the_last_good_revision() {
    let mut world = World::embedded().await;
    world.repository.author("Ada", "ada@example.com");
    let good = world.with_first_version().await;
    let bad = world.push("web.yaml", &broken("web", "image-pull-error"), "Faster images");
    world.through(&bad).await;

    assert_eq!(world.status().held.len(), 1);
    let text = world.rollout_as_text(&bad, "web", &[("good", &good), ("bad", &bad)]).await;
    expect![[r#"
        rolled-back: the rollout exceeded its progress deadline: pod web-… is ImagePullBackOff (container app)…
        back to: <good>, revision 1
        evidence:
          condition Available=True MinimumReplicasAvailable: Deployment has minimum availability.
          condition Progressing=False ProgressDeadlineExceeded: ReplicaSet "web-…" has timed out progressing.
          pod web-…: ImagePullBackOff, container app, 0 restarts
        steps:
          applying
          applied as generation 2
          verdict the rollout exceeded its progress deadline: pod web-… is ImagePullBackOff (container app)…
          evidence saved pods: 1
          going back revision 1 (<good> First version (Ada))
          went back as generation 3
          marked as failed
          ended rolled-back: the rollout exceeded its progress deadline: pod web-… is ImagePullBackOff (container app)…
        live:
          image web:1, 2 available, commit <good>
          held: commit <bad>, the manifest of the record: true
        revisions:
          2: <bad> Faster images (Ada) — failed: the rollout exceeded its progress deadline: pod web-… is ImagePullBackOff (container app)…
          3: <good> First version (Ada)
    "#]].assert_eq(&text);
}

#[tokio::test(start_paused = true)]
async fn a_crash_keeps_the_last_lines() {
    let (mut world, good) = World::with_web().await;
    let bad = world.push("web.yaml", &broken("web", "crash-after=1s"), "A typo");
    world.through(&bad).await;
    let text = world.rollout_as_text(&bad, "web", &[("good", &good), ("bad", &bad)]).await;
    expect![[r#"
        rolled-back: the rollout made no progress within its deadline: pod web-… is CrashLoopBackOff (container app, exit code 1)…
        back to: <good>, revision 1
        evidence:
          condition Progressing=True ReplicaSetUpdated: ReplicaSet "web-…" is progressing.
          condition Available=False MinimumReplicasUnavailable: Deployment does not have minimum availability.
          pod web-…: CrashLoopBackOff, container app, 3 restarts, exit code 1
            log starting web:2
            log ready
            log fatal: unexpected error, exiting with code 1
          pod web-…: CrashLoopBackOff, container app, 3 restarts, exit code 1
            log starting web:2
            log ready
            log fatal: unexpected error, exiting with code 1
        steps:
          applying
          applied as generation 2
          verdict the rollout made no progress within its deadline: pod web-… is CrashLoopBackOff (container app, exit code 1)…
          evidence saved pods: 2
          going back revision 1 (<good> First version (Ada))
          went back as generation 3
          marked as failed
          ended rolled-back: the rollout made no progress within its deadline: pod web-… is CrashLoopBackOff (container app, exit code 1)…
        live:
          image web:1, 2 available, commit <good>
          held: commit <bad>, the manifest of the record: true
        revisions:
          2: <bad> A typo (Ada) — failed: the rollout made no progress within its deadline: pod web-… is CrashLoopBackOff (container app, exit code 1)…
          3: <good> First version (Ada)
    "#]].assert_eq(&text);
}

#[tokio::test(start_paused = true)]
async fn only_the_pod_template_goes_back() {
    let mut world = World::embedded().await;
    let rolling = "  strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}\n";
    let good = world.push("web.yaml", &deployment("web", "web:1", rolling), "First version");
    world.start();
    world.through(&good).await;
    let worse = broken("web", "never-ready")
        .replace("replicas: 2", "replicas: 3")
        .replace("  selector:", "  minReadySeconds: 1\n  strategy: {type: Recreate}\n  selector:");
    let bad = world.push("web.yaml", &worse, "Three, and broken");
    world.through(&bad).await;
    assert_eq!(world.record(&bad, "Deployment default/web").outcome, Outcome::RolledBack);
    let live = world.get(&path_of("web")).await.unwrap();
    assert_eq!((image(&live), &live["spec"]["replicas"]), ("web:1", &Value::from(3)));
    assert_eq!(live["spec"]["minReadySeconds"], 1);
    assert_eq!(live["spec"]["strategy"], json!({"type": "Recreate"}));
    assert_eq!(live["status"]["availableReplicas"], 3);
    // It stays so: nothing of it is drift.
    let generation = live["metadata"]["generation"].clone();
    tokio::time::sleep(Duration::from_mins(30)).await;
    assert_eq!(world.get(&path_of("web")).await.unwrap()["metadata"]["generation"], generation);
}

#[tokio::test(start_paused = true)]
async fn one_bad_workload_delays_no_other() {
    let mut world = World::embedded().await;
    world.repository.write("a.yaml", deployment("a", "web:1", "")).write("b.yaml", deployment("b", "web:1", ""));
    let good = world.repository.commit("Two of them");
    world.repository.push();
    world.start();
    world.through(&good).await;
    world.repository.write("a.yaml", broken("a", "never-ready")).write("b.yaml", deployment("b", "web:2", ""));
    let mixed = world.repository.commit("One good, one bad");
    world.repository.push();
    world.through(&mixed).await;
    let (bad, fine) = (world.record(&mixed, "Deployment default/a"), world.record(&mixed, "Deployment default/b"));
    assert_eq!((bad.outcome, fine.outcome), (Outcome::RolledBack, Outcome::Complete));
    let took = |record: &belay_core::rollout::Record| record.ended.unwrap().duration_since(record.started).as_secs();
    assert!(took(&fine) < 15 && took(&bad) >= 30, "{} s and {} s", took(&fine), took(&bad));
}

#[tokio::test(start_paused = true)]
async fn a_source_that_only_reports_leaves_it() {
    let mut world = World::embedded().await;
    world.config.on_failure = belay::config::OnFailure::Report;
    world.with_first_version().await;
    let bad = world.push("web.yaml", &broken("web", "never-ready"), "Broken");
    world.through(&bad).await;
    assert_eq!(world.record(&bad, "Deployment default/web").outcome, Outcome::Failed);
    let live = world.get(&path_of("web")).await.unwrap();
    assert_eq!((image(&live), Hold::on(&live)), ("web:2", None));
}

/// One after the other fails: each goes back to the last that was well, never to one that failed.
#[tokio::test(start_paused = true)]
async fn never_to_one_that_failed() {
    let (mut world, good) = World::with_web().await;
    for (tag, fate) in [("web:2", "never-ready"), ("web:3", "crash-after=1s"), ("web:4", "image-pull-error")] {
        let bad = world.push("web.yaml", &broken("web", fate).replace("web:2", tag), tag);
        world.through(&bad).await;
        let record = world.record(&bad, "Deployment default/web");
        assert_eq!(record.outcome, Outcome::RolledBack, "{record:#?}");
        assert_eq!(record.back_to.unwrap().as_str(), good, "{tag}");
        assert_eq!(image(&world.get(&path_of("web")).await.unwrap()), "web:1", "{tag}");
    }
}

/// Returns the first version, with pods that run as `robot`. `field` is one of the two names of the field.
fn with_robot(image: &str, field: &str) -> String {
    let spec = format!("    spec:\n      {field}: robot\n      containers");
    deployment("web", image, "").replace("    spec:\n      containers", &spec)
}

/// Returns the accounts that the pods of `web` have by the template, under the new name and under the old one.
fn accounts(live: &Value) -> [&Value; 2] {
    ["serviceAccountName", "serviceAccount"].map(|field| &live["spec"]["template"]["spec"][field])
}

/// A common slip: the template names an account that nobody made. Its pods are refused, and the reason says so. Going back
/// takes both names of the field away; of one of them the server would make the other again.
#[tokio::test(start_paused = true)]
async fn an_account_that_is_not_there_goes_back() {
    for field in ["serviceAccountName", "serviceAccount"] {
        let (mut world, _) = World::with_web().await;
        let bad = world.push("web.yaml", &with_robot("web:2", field), "An account of its own");
        world.through(&bad).await;
        let record = world.record(&bad, "Deployment default/web");
        assert_eq!(record.outcome, Outcome::RolledBack, "{record:#?}");
        let evidence = serde_json::to_string(&record).unwrap();
        assert!(evidence.contains("error looking up service account default/robot"), "{evidence}");
        let live = world.get(&path_of("web")).await.unwrap();
        assert_eq!((image(&live), &live["status"]["availableReplicas"]), ("web:1", &json!(2)));
        assert_eq!(accounts(&live), [&Value::Null; 2], "{field}");
    }
}

/// Under whichever name the manifest has it: what the server adds is no drift, and leaves with the manifest's line.
#[tokio::test(start_paused = true)]
async fn an_account_leaves_with_its_line() {
    let (mut world, _) = World::with_web().await;
    let robot = "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: robot}\n";
    world.push("robot.yaml", robot, "An account");
    for field in ["serviceAccountName", "serviceAccount"] {
        let with = world.push("web.yaml", &with_robot("web:2", field), "With it");
        world.through(&with).await;
        let live = world.get(&path_of("web")).await.unwrap();
        assert_eq!(accounts(&live), [&json!("robot"); 2], "{field}");
        tokio::time::sleep(Duration::from_mins(30)).await;
        assert_eq!(world.get(&path_of("web")).await.unwrap()["metadata"]["generation"], live["metadata"]["generation"]);
        let without = world.push("web.yaml", &deployment("web", "web:3", ""), "Without it");
        world.through(&without).await;
        assert_eq!(world.record(&without, "Deployment default/web").outcome, Outcome::Complete);
        let live = world.get(&path_of("web")).await.unwrap();
        assert_eq!(accounts(&live), [&Value::Null; 2], "{field}");
    }
}
