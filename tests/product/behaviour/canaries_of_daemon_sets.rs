//! Canaries of DaemonSets: belay replaces the pods of as many nodes as the step says, and its controller none.

use std::time::Duration;

use belay_core::rollout::{Outcome, ReasonCode, marks};
use serde_json::{Value, json};

use crate::support::canary::{
    PodSampling, abort_the_third, lose_the_history, of_kind, on_four_nodes, promote_in_the_end, until_step,
};
use crate::support::daemon::{World, image};
use crate::support::tap::{Fate, Tap};
use crate::support::workloads::{KINDS, Kind};

const DAEMONS: Kind = KINDS[2];
const WEB: &str = "DaemonSet default/web";

fn web(steps: &str, image: &str) -> String {
    of_kind(DAEMONS, steps, image, "ready")
}

async fn live(world: &World) -> Value {
    world.get(&DAEMONS.path()).await.unwrap()
}

/// Returns a cluster of four nodes with the first version live, the tap before it, and the samples of its pods.
async fn world(manifest: &str) -> (World, Tap, PodSampling) {
    let (mut world, tap) = on_four_nodes().await;
    world.config.rollback_window = "5m".parse().unwrap();
    let first = world.push("web.yaml", manifest, "First version");
    world.start();
    world.through(&first).await;
    let record = world.record(&first, WEB);
    assert_eq!(record.outcome, Outcome::Complete, "{record:#?}\n{manifest}");
    let sampling = PodSampling::of(world.cluster.as_ref().unwrap().client_as("admin"));
    (world, tap, sampling)
}

/// Returns the nodes whose pods have an image.
async fn nodes_with(world: &World, image: &str) -> Vec<String> {
    let pods = world.list("api/v1/namespaces/default/pods").await;
    let has_it = |pod: &&Value| pod["spec"]["containers"][0]["image"] == image;
    let mut nodes: Vec<String> =
        pods.iter().filter(has_it).map(|pod| pod["spec"]["nodeName"].as_str().unwrap().to_owned()).collect();
    nodes.sort();
    nodes
}

async fn assert_as_the_manifest_says(world: &World) {
    let live = live(world).await;
    assert_eq!(live["spec"]["updateStrategy"]["type"], "RollingUpdate", "{:#}", live["spec"]);
    assert_eq!(marks::annotation(&live, marks::CANARY_STEP), None);
    assert_eq!(marks::annotation(&live, marks::CANARY_REQUEST), None);
}

#[tokio::test(start_paused = true)]
async fn a_good_version_goes_through_all_steps() {
    let steps = "1 1m, 3 2m";
    let (mut world, _tap, sampling) = world(&web(steps, "web:1")).await;
    let second = world.push("web.yaml", &web(steps, "web:2"), "Second version");
    until_step(&mut world, &second, "canary step 1 of 2: 1 of 1 new pods are ready; watched until").await;
    assert_eq!(live(&world).await["spec"]["updateStrategy"]["type"], "OnDelete");
    let chosen = nodes_with(&world, "web:2").await;
    tokio::time::sleep(Duration::from_secs(50)).await;
    assert_eq!((sampling.most_new(), sampling.fewest_old()), (1, 3));
    until_step(&mut world, &second, "canary step 2 of 2: 3 of 3 new pods are ready; watched until").await;
    assert!(nodes_with(&world, "web:2").await.contains(&chosen[0]), "it keeps its new pod");
    tokio::time::sleep(Duration::from_secs(110)).await;
    assert_eq!((sampling.most_new(), sampling.fewest_old()), (3, 1));
    world.through(&second).await;
    let record = world.record(&second, WEB);
    assert_eq!(record.outcome, Outcome::Complete, "{record:#?}");
    assert_eq!(nodes_with(&world, "web:2").await.len(), 4);
    assert_as_the_manifest_says(&world).await;
}

#[tokio::test(start_paused = true)]
async fn a_failure_in_a_step_goes_back_after_that_many_pods() {
    let steps = "1 5m, 50% 5m";
    for (fate, code) in [
        (r#"crash-after=40s,code=3,log=\"no database\""#, ReasonCode::CanaryFailed),
        ("never-ready", ReasonCode::ProgressDeadlineExceeded),
    ] {
        let (mut world, _tap, sampling) = world(&web(steps, "web:1")).await;
        let bad = world.push("web.yaml", &of_kind(DAEMONS, steps, "web:2", fate), "Second version");
        world.through(&bad).await;
        let record = world.record(&bad, WEB);
        let reason = record.reason.clone().unwrap();
        assert_eq!((record.outcome, &reason.code), (Outcome::RolledBack, &code), "{fate}: {record:#?}");
        assert_eq!((sampling.most_new(), sampling.fewest_old()), (1, 3), "{fate}");
        assert_eq!(nodes_with(&world, "web:1").await.len(), 4, "{fate}");
        assert_as_the_manifest_says(&world).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_person_promotes_a_step_and_takes_another_back() {
    let (mut world, _tap, sampling) = world(&web("1 0", "web:1")).await;
    promote_in_the_end(&mut world, &sampling, DAEMONS, &web("1 0", "web:2")).await;
    assert_as_the_manifest_says(&world).await;
    abort_the_third(&mut world, DAEMONS, &web("1 0", "web:3")).await;
    assert_eq!(nodes_with(&world, "web:2").await.len(), 4);
    assert_as_the_manifest_says(&world).await;
}

#[tokio::test(start_paused = true)]
async fn nothing_goes_further_while_belay_is_dead_and_the_nodes_stay_the_same() {
    let steps = "2 5m";
    for write in 1..=3 {
        let (mut world, tap, sampling) = world(&web(steps, "web:1")).await;
        // The write of the step, or the deletion of a pod.
        let mut writes = 0;
        tap.rule(move |went, _| {
            let is_write = went.is_write() && !went.path.contains("dryRun");
            let is_of_it = is_write && (went.path.contains("/daemonsets/web") || went.path.contains("/pods/"));
            writes += usize::from(is_of_it);
            if is_of_it && writes == write { Fate::DieAfter } else { Fate::Pass }
        });
        let second = world.push("web.yaml", &web(steps, "web:2"), "Second version");
        tap.died().await;
        world.kill().await;
        tokio::time::sleep(Duration::from_mins(20)).await;
        assert_eq!(sampling.most_new(), write - 1);
        tap.rule(|_, _| Fate::Pass);
        world.start();
        until_step(&mut world, &second, "2 of 2 new pods are ready; watched until").await;
        assert_eq!((sampling.most_new(), sampling.fewest_old()), (2, 2));
        world.through(&second).await;
        assert_eq!(world.record(&second, WEB).outcome, Outcome::Complete);
        assert_as_the_manifest_says(&world).await;
    }
}

#[tokio::test(start_paused = true)]
async fn as_many_nodes_at_once_as_the_manifest_allows() {
    for (bound, fewest) in [("1", 3), ("50%", 2)] {
        let bounded = |image: &str| {
            let strategy =
                format!("spec:\n  updateStrategy: {{rollingUpdate: {{maxUnavailable: {bound}}}}}\n  selector");
            web("75% 1m", image).replacen("spec:\n  selector", &strategy, 1)
        };
        let (mut world, _tap, sampling) = world(&bounded("web:1")).await;
        let second = world.push("web.yaml", &bounded("web:2"), "Second version");
        until_step(&mut world, &second, "3 of 3 new pods are ready; watched until").await;
        assert_eq!((sampling.most_new(), sampling.fewest_ready()), (3, fewest), "{bound}");
        world.through(&second).await;
        assert_eq!(world.record(&second, WEB).outcome, Outcome::Complete);
        let live = live(&world).await;
        let expected = bound.parse::<i64>().map_or(json!(bound), |number| json!(number));
        assert_eq!(live["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"], expected);
        assert_as_the_manifest_says(&world).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_newer_commit_takes_the_same_nodes_and_a_revert_has_no_steps() {
    let steps = "1 5m";
    let (mut world, _tap, sampling) = world(&web(steps, "web:1")).await;
    let second = world.push("web.yaml", &web(steps, "web:2"), "Second version");
    until_step(&mut world, &second, "1 of 1 new pods are ready; watched until").await;
    let third = world.push("web.yaml", &web("1 0", "web:3"), "Third version");
    until_step(&mut world, &third, "waits for belay promote").await;
    assert_eq!(world.record(&second, WEB).outcome, Outcome::Superseded);
    assert_eq!(nodes_with(&world, "web:3").await.len(), 1);
    assert!(sampling.fewest_old() >= 2, "{}", sampling.fewest_old());
    // So long that the first version was not complete lately.
    tokio::time::sleep(Duration::from_mins(20)).await;
    let began = world.clock.now();
    let back = world.push("web.yaml", &web(steps, "web:1"), "Revert to the first version");
    world.through(&back).await;
    assert_eq!(world.record(&back, WEB).outcome, Outcome::Complete);
    assert!(world.clock.now().duration_since(began).as_secs() < 60, "the way back is never slow");
    assert_eq!(nodes_with(&world, "web:1").await.len(), 4);
    assert_as_the_manifest_says(&world).await;
}

#[tokio::test(start_paused = true)]
async fn people_with_kubectl_do_not_get_past_a_step() {
    let steps = "1 10m";
    let (mut world, _tap, _) = world(&web(steps, "web:1")).await;
    let second = world.push("web.yaml", &web(steps, "web:2"), "Second version");
    until_step(&mut world, &second, "1 of 1 new pods are ready; watched until").await;
    let rolling = json!({"spec": {"updateStrategy": {"type": "RollingUpdate"}}});
    world.patch(&DAEMONS.path(), "kubectl-edit", &rolling).await;
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(live(&world).await["spec"]["updateStrategy"]["type"], "OnDelete");
    let labelled = web(steps, "web:2").replacen("  name: web\n", "  name: web\n  labels: {team: shop}\n", 1);
    let label = world.push("web.yaml", &labelled, "Name the team");
    until_step(&mut world, &label, "watched until").await;
    world.through(&label).await;
    assert_eq!(world.record(&label, WEB).outcome, Outcome::Complete);
    assert_eq!(image(&live(&world).await), "web:2");
    assert_as_the_manifest_says(&world).await;
}

#[tokio::test(start_paused = true)]
async fn a_canary_survives_the_loss_of_the_history() {
    let steps = "1 3m";
    let (mut world, _tap, sampling) = world(&web(steps, "web:1")).await;
    let second = world.push("web.yaml", &web(steps, "web:2"), "Second version");
    lose_the_history(&mut world, &second).await;
    assert_eq!((sampling.most_new(), sampling.fewest_old()), (1, 3));
    world.until("it is over", |source| source.under_way.is_empty()).await;
    assert_eq!(nodes_with(&world, "web:2").await.len(), 4);
    assert_as_the_manifest_says(&world).await;
}
