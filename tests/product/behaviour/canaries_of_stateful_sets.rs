//! Canaries of StatefulSets: the highest ordinals are replaced first, and no more than the step says.

use std::time::Duration;

use belay_core::rollout::canary::{CanaryAnswer, CanaryMark};
use belay_core::rollout::{Outcome, ReasonCode, marks};
use serde_json::{Value, json};

use crate::support::canary::{
    PodSampling, abort_the_third, ask_at, canary_steps, kill_in_each_step, lose_the_history, of_kind,
    promote_in_the_end, until_step,
};
use crate::support::daemon::{World, image};
use crate::support::tap::{Fate, Tap};
use crate::support::workloads::{KINDS, Kind};

const SET: Kind = KINDS[1];
const WEB: &str = "StatefulSet default/web";
const CRASHES: &str = r#"crash-after=40s,code=3,log=\"no database\""#;

fn web(steps: &str, image: &str) -> String {
    of_kind(SET, steps, image, "ready")
}

fn bad(steps: &str, fate: &str) -> String {
    of_kind(SET, steps, "web:2", fate)
}

async fn live(world: &World) -> Value {
    world.get(&SET.path()).await.unwrap()
}

/// Rolls out the first version.
async fn begin(world: &mut World, manifest: &str) {
    let first = world.push("web.yaml", manifest, "First version");
    world.start();
    world.through(&first).await;
    let record = world.record(&first, WEB);
    assert_eq!(record.outcome, Outcome::Complete, "{record:#?}\n{manifest}");
}

async fn world(steps: &str) -> (World, PodSampling) {
    let mut world = World::embedded().await;
    begin(&mut world, &web(steps, "web:1")).await;
    let sampling = PodSampling::of(world.cluster.as_ref().unwrap().client_as("admin"));
    (world, sampling)
}

async fn tapped(steps: &str) -> (World, Tap, PodSampling) {
    let (mut world, tap) = World::tapped().await;
    begin(&mut world, &web(steps, "web:1")).await;
    let sampling = PodSampling::of(world.cluster.as_ref().unwrap().client_as("admin"));
    (world, tap, sampling)
}

/// Returns the images of the pods, by their names.
async fn pods(world: &World) -> Vec<String> {
    let pods = world.list("api/v1/namespaces/default/pods").await;
    let told = |pod: &Value| {
        let [name, image] =
            [&pod["metadata"]["name"], &pod["spec"]["containers"][0]["image"]].map(|said| said.as_str());
        format!("{}={}", name.unwrap(), image.unwrap())
    };
    let mut told: Vec<String> = pods.iter().map(told).collect();
    told.sort();
    told
}

async fn assert_as_the_manifest_says(world: &World) {
    let live = live(world).await;
    let partition = live["spec"]["updateStrategy"]["rollingUpdate"]["partition"].as_i64();
    assert_eq!(partition.unwrap_or_default(), 0, "{:#}", live["spec"]);
    assert_eq!(marks::annotation(&live, marks::CANARY_STEP), None);
    assert_eq!(marks::annotation(&live, marks::CANARY_REQUEST), None);
}

#[tokio::test(start_paused = true)]
async fn a_good_version_goes_through_all_steps() {
    let steps = "1 1m, 50% 2m";
    let (mut world, sampling) = world(steps).await;
    let second = world.push("web.yaml", &web(steps, "web:2"), "Second version");
    until_step(&mut world, &second, "canary step 1 of 2: 1 of 1 new pods are ready; watched until").await;
    assert_eq!(live(&world).await["spec"]["updateStrategy"]["rollingUpdate"]["partition"], 3);
    assert_eq!(pods(&world).await, ["web-0=web:1", "web-1=web:1", "web-2=web:1", "web-3=web:2"]);
    tokio::time::sleep(Duration::from_secs(50)).await;
    assert_eq!((sampling.most_new(), sampling.fewest_old()), (1, 3));
    until_step(&mut world, &second, "canary step 2 of 2: 2 of 2 new pods are ready; watched until").await;
    tokio::time::sleep(Duration::from_secs(110)).await;
    assert_eq!((sampling.most_new(), sampling.fewest_old()), (2, 2));
    world.through(&second).await;
    let record = world.record(&second, WEB);
    assert_eq!(record.outcome, Outcome::Complete, "{record:#?}");
    assert_eq!(
        canary_steps(&world, &second, WEB),
        [
            "canary step 1 of 2: 1 new pod",
            "canary step 2 of 2: 2 new pods",
            "the canary is over: all pods are replaced"
        ]
    );
    assert_eq!(pods(&world).await, ["web-0=web:2", "web-1=web:2", "web-2=web:2", "web-3=web:2"]);
    assert_as_the_manifest_says(&world).await;
}

#[tokio::test(start_paused = true)]
async fn a_failure_in_a_step_goes_back_after_that_many_pods() {
    let steps = "1 5m, 50% 5m";
    for (fate, code) in [
        (CRASHES, ReasonCode::CanaryFailed),
        ("never-ready", ReasonCode::ProgressDeadlineExceeded),
        ("image-pull-error", ReasonCode::ProgressDeadlineExceeded),
    ] {
        let (mut world, sampling) = world(steps).await;
        let second = world.push("web.yaml", &bad(steps, fate), "Second version");
        world.through(&second).await;
        let record = world.record(&second, WEB);
        let reason = record.reason.clone().unwrap();
        assert_eq!((record.outcome, &reason.code), (Outcome::RolledBack, &code), "{fate}: {record:#?}");
        assert_eq!((sampling.most_new(), sampling.fewest_old()), (1, 3), "{fate}");
        assert_eq!(pods(&world).await, ["web-0=web:1", "web-1=web:1", "web-2=web:1", "web-3=web:1"], "{fate}");
        assert_as_the_manifest_says(&world).await;
        assert!(live(&world).await["metadata"]["annotations"][marks::HOLD].is_string());
        let lasted = record.ended.unwrap().duration_since(record.started).as_secs();
        assert!(lasted < 150, "{fate}: {lasted} s");
    }
}

#[tokio::test(start_paused = true)]
async fn a_person_promotes_a_step_and_takes_another_back() {
    let (mut world, sampling) = world("1 0").await;
    promote_in_the_end(&mut world, &sampling, SET, &web("1 0", "web:2")).await;
    assert_as_the_manifest_says(&world).await;
    abort_the_third(&mut world, SET, &web("1 0", "web:3")).await;
    assert_eq!(pods(&world).await, ["web-0=web:2", "web-1=web:2", "web-2=web:2", "web-3=web:2"]);
    assert_as_the_manifest_says(&world).await;
    tokio::time::sleep(Duration::from_mins(30)).await;
    assert_eq!(image(&live(&world).await), "web:2", "it is held");
}

#[tokio::test(start_paused = true)]
async fn nothing_goes_further_while_belay_is_dead() {
    let steps = "1 2m, 2 2m";
    let (mut world, tap, sampling) = tapped(steps).await;
    tap.rule(|went, _| {
        let is_lock = went.is_write() && went.path.contains("/statefulsets/web") && !went.path.contains("dryRun");
        if is_lock { Fate::DieAfter } else { Fate::Pass }
    });
    let second = world.push("web.yaml", &web(steps, "web:2"), "Second version");
    tap.died().await;
    world.kill().await;
    tokio::time::sleep(Duration::from_mins(20)).await;
    assert_eq!((sampling.most_new(), sampling.fewest_old()), (1, 3));
    tap.rule(|_, _| Fate::Pass);
    kill_in_each_step(&mut world, &sampling, &second, [3, 2]).await;
    world.through(&second).await;
    assert_eq!(world.record(&second, WEB).outcome, Outcome::Complete);
    assert_as_the_manifest_says(&world).await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_of_a_person_survives_a_kill_at_any_write() {
    for answer in [CanaryAnswer::Promote, CanaryAnswer::Abort] {
        for write in 1..=3 {
            for fate in [Fate::DieBefore, Fate::DieAfter] {
                let (mut world, tap, _) = tapped("1 0").await;
                let second = world.push("web.yaml", &web("1 0", "web:2"), "Second version");
                until_step(&mut world, &second, "waits for belay promote").await;
                let mut writes = 0;
                tap.rule(move |went, _| {
                    let is_of_it = went.is_write() && went.path.contains("/statefulsets/web");
                    writes += usize::from(is_of_it);
                    if is_of_it && writes == write { fate } else { Fate::Pass }
                });
                ask_at(&world, &SET.path(), answer).await;
                world.through_a_kill(&tap, &second).await;
                let record = world.record(&second, WEB);
                let case = format!("{answer:?}, {fate:?} at write {write}: {record:#?}");
                let expected = match answer {
                    CanaryAnswer::Promote => (Outcome::Complete, "web:2"),
                    CanaryAnswer::Abort => (Outcome::RolledBack, "web:1"),
                };
                assert_eq!((record.outcome, image(&live(&world).await)), expected, "{case}");
                assert_as_the_manifest_says(&world).await;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_newer_commit_begins_its_own_canary_and_a_revert_none() {
    let steps = "1 5m";
    let mut world = World::embedded().await;
    world.config.rollback_window = "5m".parse().unwrap();
    begin(&mut world, &web(steps, "web:1")).await;
    let sampling = PodSampling::of(world.cluster.as_ref().unwrap().client_as("admin"));
    // A version whose pod the controller would wait for.
    let second = world.push("web.yaml", &bad(steps, "never-ready"), "Second version");
    until_step(&mut world, &second, "canary step 1 of 1: 0 of 1 new pods are ready").await;
    let third = world.push("web.yaml", &web(steps, "web:3"), "Third version");
    until_step(&mut world, &third, "1 of 1 new pods are ready; watched until").await;
    assert_eq!(world.record(&second, WEB).outcome, Outcome::Superseded);
    assert_eq!(pods(&world).await, ["web-0=web:1", "web-1=web:1", "web-2=web:1", "web-3=web:3"]);
    // So long that the first version was not complete lately.
    let waits = world.push("web.yaml", &web("1 0", "web:3"), "Wait for a person");
    until_step(&mut world, &waits, "waits for belay promote").await;
    tokio::time::sleep(Duration::from_mins(20)).await;
    let began = world.clock.now();
    let back = world.push("web.yaml", &web(steps, "web:1"), "Revert to the first version");
    world.through(&back).await;
    assert_eq!(world.record(&back, WEB).outcome, Outcome::Complete);
    assert!(world.clock.now().duration_since(began).as_secs() < 60, "the way back is never slow");
    assert_eq!((canary_steps(&world, &back, WEB), sampling.fewest_old()), (Vec::<String>::new(), 3));
    assert_as_the_manifest_says(&world).await;
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_changes_the_number_of_pods_keeps_the_step() {
    let steps = "1 5m, 2 5m";
    let (mut world, sampling) = world(steps).await;
    let second = world.push("web.yaml", &web(steps, "web:2"), "Second version");
    until_step(&mut world, &second, "1 of 1 new pods are ready; watched until").await;
    let more = web(steps, "web:2").replace("replicas: 4", "replicas: 6");
    let more = world.push("web.yaml", &more, "Six pods");
    until_step(&mut world, &more, "1 of 1 new pods are ready; watched until").await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(live(&world).await["spec"]["updateStrategy"]["rollingUpdate"]["partition"], 5);
    // Its highest ordinal was new already, and stays so.
    assert_eq!(sampling.most_new(), 2);
    world.through(&more).await;
    assert_eq!(world.record(&more, WEB).outcome, Outcome::Complete);
    assert_as_the_manifest_says(&world).await;
}

#[tokio::test(start_paused = true)]
async fn an_autoscaler_may_change_the_number_of_pods_meanwhile() {
    let steps = "2 9m";
    let without_number = |image: &str| web(steps, image).replace("  replicas: 4\n", "");
    let mut world = World::embedded().await;
    begin(&mut world, &without_number("web:1")).await;
    world.patch(&SET.path(), "autoscaler", &json!({"spec": {"replicas": 4}})).await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    let second = world.push("web.yaml", &without_number("web:2"), "Second version");
    until_step(&mut world, &second, "2 of 2 new pods are ready; watched until").await;
    for (replicas, partition) in [(6, 4), (9, 7), (3, 1), (2, 1), (4, 2)] {
        world.patch(&SET.path(), "autoscaler", &json!({"spec": {"replicas": replicas}})).await;
        tokio::time::sleep(Duration::from_secs(70)).await;
        let live = live(&world).await;
        assert_eq!(live["spec"]["updateStrategy"]["rollingUpdate"]["partition"], partition, "{replicas}");
        assert_eq!(live["spec"]["replicas"], replicas);
    }
    // It was the highest of two for a while, and stays new.
    assert_eq!(pods(&world).await, ["web-0=web:1", "web-1=web:2", "web-2=web:2", "web-3=web:2"]);
    world.through(&second).await;
    assert_eq!(world.record(&second, WEB).outcome, Outcome::Complete);
    assert_as_the_manifest_says(&world).await;
}

#[tokio::test(start_paused = true)]
async fn people_with_kubectl_do_not_get_past_a_step() {
    let steps = "1 10m";
    let (mut world, sampling) = world(steps).await;
    let second = world.push("web.yaml", &web(steps, "web:2"), "Second version");
    until_step(&mut world, &second, "1 of 1 new pods are ready; watched until").await;
    for strategy in [
        json!({"type": "OnDelete", "rollingUpdate": null}),
        json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 4}}),
        json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 3, "maxUnavailable": 2}}),
    ] {
        world.patch(&SET.path(), "kubectl-edit", &json!({"spec": {"updateStrategy": strategy}})).await;
        tokio::time::sleep(Duration::from_secs(20)).await;
        let present = live(&world).await["spec"]["updateStrategy"].clone();
        assert_eq!(
            (&present["type"], &present["rollingUpdate"]["partition"]),
            (&json!("RollingUpdate"), &json!(3)),
            "{strategy}"
        );
        assert_eq!((sampling.most_new(), sampling.fewest_old()), (1, 3), "{strategy}");
    }
    world.through(&second).await;
    assert_eq!(world.record(&second, WEB).outcome, Outcome::Complete);
    assert_as_the_manifest_says(&world).await;
}

#[tokio::test(start_paused = true)]
async fn an_undo_with_kubectl_takes_a_canary_back_with_its_lock() {
    for is_dead in [false, true] {
        let steps = "1 10m";
        let (mut world, sampling) = world(steps).await;
        let before = live(&world).await["spec"]["template"].clone();
        let second = world.push("web.yaml", &web(steps, "web:2"), "Second version");
        until_step(&mut world, &second, "1 of 1 new pods are ready; watched until").await;
        if is_dead {
            world.kill().await;
        }
        world.patch(&SET.path(), "kubectl-rollout", &json!({"spec": {"template": before}})).await;
        if is_dead {
            world.start();
        }
        world.through(&second).await;
        let record = world.record(&second, WEB);
        assert_eq!(record.outcome, Outcome::RolledBack, "{is_dead}: {record:#?}");
        assert_eq!(record.reason.unwrap().code, ReasonCode::UndoneByHand);
        tokio::time::sleep(Duration::from_mins(2)).await;
        assert_eq!(pods(&world).await, ["web-0=web:1", "web-1=web:1", "web-2=web:1", "web-3=web:1"]);
        assert_eq!(sampling.most_new(), 1);
        assert_as_the_manifest_says(&world).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_canary_survives_the_loss_of_the_history() {
    let steps = "1 3m";
    let (mut world, sampling) = world(steps).await;
    let second = world.push("web.yaml", &web(steps, "web:2"), "Second version");
    lose_the_history(&mut world, &second).await;
    assert_eq!((sampling.most_new(), sampling.fewest_old()), (1, 3));
    world.until("it is over", |source| source.under_way.is_empty()).await;
    assert_eq!(pods(&world).await, ["web-0=web:2", "web-1=web:2", "web-2=web:2", "web-3=web:2"]);
    assert_as_the_manifest_says(&world).await;
}

#[tokio::test(start_paused = true)]
async fn some_rollouts_have_no_steps() {
    let one = |image: &str| web("1 0", image).replace("replicas: 4", "replicas: 1");
    let mut world = World::embedded().await;
    begin(&mut world, &one("web:1")).await;
    let second = world.push("web.yaml", &one("web:2"), "Second version of one pod");
    world.through(&second).await;
    assert_eq!(
        (world.record(&second, WEB).outcome, canary_steps(&world, &second, WEB)),
        (Outcome::Complete, Vec::new())
    );

    let mut world = World::embedded().await;
    let ill = world.push("web.yaml", &bad("1 0", "never-ready"), "Never ready");
    world.start();
    world.through(&ill).await;
    let fix = world.push("web.yaml", &web("1 0", "web:1"), "Fix it");
    world.through(&fix).await;
    assert_eq!((world.record(&fix, WEB).outcome, canary_steps(&world, &fix, WEB)), (Outcome::Complete, Vec::new()));

    let (mut world, sampling) = self::world("1 0").await;
    let by_hand = json!({"spec": {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}}});
    world.patch(&SET.path(), "kubectl-patch", &by_hand).await;
    let second = world.push("web.yaml", &web("1 0", "web:2"), "Second version beside a partition by hand");
    world.through(&second).await;
    assert_eq!((sampling.most_new(), canary_steps(&world, &second, WEB)), (2, Vec::new()));
    assert_eq!(CanaryMark::on(&live(&world).await), None);
}

#[tokio::test(start_paused = true)]
async fn ordinals_may_start_anywhere_and_pods_be_managed_in_parallel() {
    for more in ["  ordinals: {start: 5}\n", "  podManagementPolicy: Parallel\n"] {
        let start = if more.contains("ordinals") { 5 } else { 0 };
        let of =
            |image: &str| web("1 1m, 3 1m", image).replace("spec:\n  replicas", &format!("spec:\n{more}  replicas"));
        let mut world = World::embedded().await;
        begin(&mut world, &of("web:1")).await;
        let sampling = PodSampling::of(world.cluster.as_ref().unwrap().client_as("admin"));
        let second = world.push("web.yaml", &of("web:2"), "Second version");
        until_step(&mut world, &second, "1 of 1 new pods are ready; watched until").await;
        let highest = format!("web-{}=web:2", start + 3);
        assert_eq!((pods(&world).await.pop(), sampling.most_new()), (Some(highest), 1), "{more}");
        until_step(&mut world, &second, "3 of 3 new pods are ready; watched until").await;
        assert_eq!((sampling.most_new(), sampling.fewest_old()), (3, 1), "{more}");
        world.through(&second).await;
        assert_eq!(world.record(&second, WEB).outcome, Outcome::Complete);
        assert_as_the_manifest_says(&world).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_set_that_a_person_makes_anew_from_a_step_loses_its_lock() {
    let (mut world, _) = world("1 0").await;
    let second = world.push("web.yaml", &web("1 0", "web:2"), "Second version");
    until_step(&mut world, &second, "waits for belay promote").await;
    world.make_anew(&SET.path()).await;
    world.through(&second).await;
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!(pods(&world).await, ["web-0=web:2", "web-1=web:2", "web-2=web:2", "web-3=web:2"]);
    let live = live(&world).await;
    assert_eq!(live["spec"]["updateStrategy"]["rollingUpdate"]["partition"], 0);
    assert_eq!(CanaryMark::on(&live), None, "a mark without its lock");
}
