//! Canaries: a Deployment is rolled out in steps, and goes no further than its step whatever happens meanwhile.

use std::time::Duration;

use belay::daemon::UnderWay;
use belay_core::rollout::canary::{CanaryAnswer, CanaryMark};
use belay_core::rollout::{Outcome, ReasonCode, StepKind, marks};
use serde_json::json;

use crate::support::canary::{
    PodSampling, ask, assert_as_the_manifest_says, canary_steps, kill_in_each_step, live, lose_the_history, until_step,
    web, with_steps,
};
use crate::support::daemon::{World, broken, image, path_of};
use crate::support::tap::{Fate, Tap};

const WEB: &str = "Deployment default/web";

/// Returns a cluster with the first version live.
async fn world(steps: &str) -> World {
    let mut world = World::embedded().await;
    let first = world.push("web.yaml", &web(steps, "web:1"), "First version");
    world.start();
    world.through(&first).await;
    assert_eq!(canary_steps(&world, &first, WEB), Vec::<String>::new(), "nothing is to be kept when it is new");
    world
}

#[tokio::test(start_paused = true)]
async fn a_good_version_goes_through_all_steps() {
    let steps = "1 1m, 50% 2m";
    let mut world = world(steps).await;
    let sampling = PodSampling::of(world.cluster.as_ref().unwrap().client_as("admin"));
    let second = world.push("web.yaml", &web(steps, "web:2"), "Second version");
    until_step(&mut world, &second, "canary step 1 of 2: 1 of 1 new pods are ready; watched until").await;
    let locked = live(&world).await;
    assert_eq!(
        (&locked["spec"]["paused"], &locked["spec"]["strategy"]["rollingUpdate"]["maxSurge"]),
        (&json!(true), &json!(1))
    );
    assert_eq!(locked["status"]["availableReplicas"], 4, "the old pods stay available: {:#}", locked["status"]);
    tokio::time::sleep(Duration::from_secs(50)).await;
    assert_eq!((sampling.most_new(), sampling.fewest_old()), (1, 4));
    until_step(&mut world, &second, "canary step 2 of 2: 2 of 2 new pods are ready; watched until").await;
    tokio::time::sleep(Duration::from_secs(110)).await;
    assert_eq!((sampling.most_new(), sampling.fewest_old()), (2, 4));
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
    assert_eq!(image(&live(&world).await), "web:2");
    assert_as_the_manifest_says(&world).await;
}

#[tokio::test(start_paused = true)]
async fn a_failure_in_a_step_goes_back_after_that_many_pods() {
    let steps = "1 5m, 50% 5m";
    let crashes = r#"crash-after=40s,code=3,log=\"no database\""#;
    for (fate, code, log) in [
        (crashes, ReasonCode::CanaryFailed, true),
        ("never-ready", ReasonCode::ProgressDeadlineExceeded, false),
        ("image-pull-error", ReasonCode::ProgressDeadlineExceeded, false),
    ] {
        let mut world = world(steps).await;
        let sampling = PodSampling::of(world.cluster.as_ref().unwrap().client_as("admin"));
        let bad = world.push("web.yaml", &with_steps(steps, &broken("web", fate)), "Second version");
        world.through(&bad).await;
        let record = world.record(&bad, WEB);
        let reason = record.reason.clone().unwrap();
        assert_eq!((record.outcome, &reason.code), (Outcome::RolledBack, &code), "{fate}: {record:#?}");
        if log {
            assert!(reason.message.contains("it failed within canary step 1 of 2"), "{reason:?}");
            assert!(reason.message.contains("container app, exit code 3"), "{reason:?}");
        }
        assert_eq!((sampling.most_new(), sampling.fewest_old()), (1, 4), "{fate}");
        assert_eq!(image(&live(&world).await), "web:1");
        assert_as_the_manifest_says(&world).await;
        assert!(live(&world).await["metadata"]["annotations"][marks::HOLD].is_string());
        let lasted = record.ended.unwrap().duration_since(record.started).as_secs();
        assert!(lasted < 120, "{fate}: {lasted} s");
    }
}

#[tokio::test(start_paused = true)]
async fn a_step_of_no_time_waits_for_a_person() {
    let steps = "25% 0, 50% 1m";
    let mut world = world(steps).await;
    let sampling = PodSampling::of(world.cluster.as_ref().unwrap().client_as("admin"));
    let second = world.push("web.yaml", &web(steps, "web:2"), "Second version");
    until_step(
        &mut world,
        &second,
        "canary step 1 of 2: 1 of 1 new pods are ready; waits for belay promote or belay abort",
    )
    .await;
    tokio::time::sleep(Duration::from_mins(20)).await;
    assert_eq!((sampling.most_new(), sampling.fewest_old()), (1, 4));
    ask(&world, CanaryAnswer::Promote).await;
    until_step(&mut world, &second, "canary step 2 of 2: 2 of 2 new pods are ready; watched until").await;
    world.through(&second).await;
    let record = world.record(&second, WEB);
    assert_eq!(record.outcome, Outcome::Complete, "{record:#?}");
    let notes = world.history().steps(record.id).unwrap();
    let notes: Vec<&str> =
        notes.iter().filter(|step| step.kind == StepKind::Note).map(|step| step.detail.as_str()).collect();
    assert_eq!(notes, ["promoted by ada: looks good"]);
    assert_as_the_manifest_says(&world).await;
}

#[tokio::test(start_paused = true)]
async fn a_person_takes_a_canary_back() {
    let steps = "1 0";
    let mut world = world(steps).await;
    let sampling = PodSampling::of(world.cluster.as_ref().unwrap().client_as("admin"));
    let second = world.push("web.yaml", &web(steps, "web:2"), "Second version");
    until_step(&mut world, &second, "waits for belay promote").await;
    ask(&world, CanaryAnswer::Abort).await;
    world.through(&second).await;
    let record = world.record(&second, WEB);
    let reason = record.reason.clone().unwrap();
    assert_eq!((record.outcome, &reason.code), (Outcome::RolledBack, &ReasonCode::UndoneByHand), "{record:#?}");
    assert!(reason.message.starts_with("taken back by hand (belay abort) by ada: looks good"), "{reason:?}");
    assert_eq!((sampling.most_new(), sampling.fewest_old()), (1, 4));
    assert_eq!(image(&live(&world).await), "web:1");
    assert_as_the_manifest_says(&world).await;
    tokio::time::sleep(Duration::from_mins(30)).await;
    assert_eq!(image(&live(&world).await), "web:1", "it is held");
}

#[tokio::test(start_paused = true)]
async fn nothing_goes_further_while_belay_is_dead() {
    let steps = "1 2m, 2 2m";
    let (mut world, tap) = World::tapped().await;
    let first = world.push("web.yaml", &web(steps, "web:1"), "First version");
    world.start();
    world.through(&first).await;
    let sampling = PodSampling::of(world.cluster.as_ref().unwrap().client_as("admin"));
    // After the write of the step: without the second lock.
    let mut locks = 0;
    tap.rule(move |went, _| {
        let is_lock = went.is_write() && went.path.contains("/deployments/web") && !went.path.contains("dryRun");
        locks += usize::from(is_lock);
        if is_lock && locks == 1 { Fate::DieAfter } else { Fate::Pass }
    });
    let second = world.push("web.yaml", &web(steps, "web:2"), "Second version");
    tap.died().await;
    world.kill().await;
    tokio::time::sleep(Duration::from_mins(20)).await;
    assert_eq!((sampling.most_new(), sampling.fewest_old()), (1, 4));
    assert_eq!(live(&world).await["spec"].get("paused"), None, "the first lock alone holds");
    tap.rule(|_, _| Fate::Pass);
    kill_in_each_step(&mut world, &sampling, &second, [4, 4]).await;
    world.through(&second).await;
    let record = world.record(&second, WEB);
    assert_eq!(record.outcome, Outcome::Complete, "{record:#?}");
    assert_as_the_manifest_says(&world).await;
}

#[tokio::test(start_paused = true)]
async fn a_restart_that_belay_did_not_see_fails_the_step() {
    let steps = "1 10m";
    let mut world = world(steps).await;
    let crashes = r#"crash-after=70s,code=3,log=\"no database\""#;
    let bad = world.push("web.yaml", &with_steps(steps, &broken("web", crashes)), "Second version");
    until_step(&mut world, &bad, "1 of 1 new pods are ready; watched until").await;
    world.kill().await;
    tokio::time::sleep(Duration::from_mins(5)).await;
    world.start();
    world.through(&bad).await;
    let record = world.record(&bad, WEB);
    assert_eq!(record.outcome, Outcome::RolledBack, "{record:#?}");
    assert_eq!(record.reason.unwrap().code, ReasonCode::CanaryFailed);
}

#[tokio::test(start_paused = true)]
async fn a_newer_commit_begins_its_own_canary_and_a_revert_none() {
    let steps = "1 5m";
    let mut world = world(steps).await;
    let sampling = PodSampling::of(world.cluster.as_ref().unwrap().client_as("admin"));
    let second = world.push("web.yaml", &web(steps, "web:2"), "Second version");
    until_step(&mut world, &second, "1 of 1 new pods are ready; watched until").await;
    let third = world.push("web.yaml", &web(steps, "web:3"), "Third version");
    until_step(&mut world, &third, "1 of 1 new pods are ready; watched until").await;
    assert_eq!(world.record(&second, WEB).outcome, Outcome::Superseded);
    assert_eq!(image(&live(&world).await), "web:3");
    assert_eq!(sampling.fewest_old(), 4);
    let new = world.list("api/v1/namespaces/default/pods").await;
    let count = |image: &str| new.iter().filter(|pod| pod["spec"]["containers"][0]["image"] == image).count();
    assert_eq!((count("web:1"), count("web:3")), (4, 1), "{new:#?}");
    let began = world.clock.now();
    let back = world.push("web.yaml", &web(steps, "web:1"), "Revert to the first version");
    world.through(&back).await;
    assert_eq!(world.record(&third, WEB).outcome, Outcome::Superseded);
    assert_eq!(world.record(&back, WEB).outcome, Outcome::Complete);
    assert!(world.clock.now().duration_since(began).as_secs() < 60, "the way back is never slow");
    assert_eq!((canary_steps(&world, &back, WEB), sampling.fewest_old()), (Vec::<String>::new(), 4));
    assert_as_the_manifest_says(&world).await;
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_leaves_the_template_alone_leaves_the_step() {
    let steps = "1 5m, 2 5m";
    let mut world = world(steps).await;
    let sampling = PodSampling::of(world.cluster.as_ref().unwrap().client_as("admin"));
    let second = world.push("web.yaml", &web(steps, "web:2"), "Second version");
    until_step(&mut world, &second, "1 of 1 new pods are ready; watched until").await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    let labelled = web(steps, "web:2").replace("name: web\n  ann", "name: web\n  labels: {team: shop}\n  ann");
    let label = world.push("web.yaml", &labelled, "Name the team");
    until_step(&mut world, &label, "1 of 1 new pods are ready; watched until").await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    let present = live(&world).await;
    assert_eq!(present["metadata"]["labels"]["team"], "shop");
    assert_eq!((&present["spec"]["paused"], sampling.most_new(), sampling.fewest_old()), (&json!(true), 1, 4));
    assert_eq!(marks::annotation(&present, marks::COMMIT), Some(second.as_str()), "its template is of that one");
    world.through(&label).await;
    assert_eq!(world.record(&label, WEB).outcome, Outcome::Complete);
    assert_as_the_manifest_says(&world).await;
}

#[tokio::test(start_paused = true)]
async fn a_canary_survives_the_loss_of_the_history() {
    let steps = "1 3m";
    let mut world = world(steps).await;
    let sampling = PodSampling::of(world.cluster.as_ref().unwrap().client_as("admin"));
    let second = world.push("web.yaml", &web(steps, "web:2"), "Second version");
    lose_the_history(&mut world, &second).await;
    assert_eq!((sampling.most_new(), sampling.fewest_old()), (1, 4));
    world.until("it is over", |source| source.under_way.is_empty()).await;
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!(image(&live(&world).await), "web:2");
    assert_as_the_manifest_says(&world).await;
}

#[tokio::test(start_paused = true)]
async fn a_quota_without_room_is_waited_for() {
    let steps = "2 1m";
    let mut world = world(steps).await;
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "pods"}, "spec": {"hard": {"pods": "4"}}});
    world.create("api/v1/namespaces/default/resourcequotas", "admin", &quota).await;
    let second = world.push("web.yaml", &web(steps, "web:2"), "Second version");
    world
        .until("it waits for room", |source| {
            let said = |way: &UnderWay| way.in_the_way.as_ref().is_some_and(|reason| reason.message.contains("quota"));
            source.under_way.values().any(said)
        })
        .await;
    world
        .patch("api/v1/namespaces/default/resourcequotas/pods", "admin", &json!({"spec": {"hard": {"pods": "9"}}}))
        .await;
    world.through(&second).await;
    assert_eq!(world.record(&second, WEB).outcome, Outcome::Complete);
    assert_as_the_manifest_says(&world).await;
}

#[tokio::test(start_paused = true)]
async fn people_with_kubectl_do_not_get_past_a_step() {
    let steps = "1 10m";
    let mut world = world(steps).await;
    let sampling = PodSampling::of(world.cluster.as_ref().unwrap().client_as("admin"));
    let second = world.push("web.yaml", &web(steps, "web:2"), "Second version");
    until_step(&mut world, &second, "1 of 1 new pods are ready; watched until").await;
    for (what, patch) in [
        ("kubectl rollout resume", json!({"spec": {"paused": null}})),
        ("kubectl rollout pause", json!({"spec": {"paused": true}})),
        ("kubectl rollout resume", json!({"spec": {"paused": null}})),
    ] {
        world.patch(&path_of("web"), "kubectl-rollout", &patch).await;
        tokio::time::sleep(Duration::from_secs(20)).await;
        assert_eq!(live(&world).await["spec"]["paused"], true, "{what}");
        assert_eq!((sampling.most_new(), sampling.fewest_old()), (1, 4), "{what}");
    }
    let less = json!({"spec": {"minReadySeconds": 0}});
    world.patch(&path_of("web"), "kubectl-edit", &less).await;
    tokio::time::sleep(Duration::from_secs(20)).await;
    let spec = live(&world).await["spec"].clone();
    assert!(spec["minReadySeconds"].as_i64() > Some(1000) && spec["paused"] == true, "{spec:#}");
    assert_eq!(sampling.most_new(), 1);
    world.through(&second).await;
    assert_eq!(world.record(&second, WEB).outcome, Outcome::Complete);
    assert_as_the_manifest_says(&world).await;
}

#[tokio::test(start_paused = true)]
async fn an_undo_with_kubectl_takes_a_canary_back_with_its_locks() {
    let steps = "1 10m";
    let mut world = world(steps).await;
    let before = live(&world).await["spec"]["template"].clone();
    let second = world.push("web.yaml", &web(steps, "web:2"), "Second version");
    until_step(&mut world, &second, "1 of 1 new pods are ready; watched until").await;
    // kubectl refuses the undo of a paused Deployment.
    let undo = json!({"spec": {"paused": null, "template": before}});
    world.patch(&path_of("web"), "kubectl-rollout", &undo).await;
    world.through(&second).await;
    let record = world.record(&second, WEB);
    assert_eq!(record.outcome, Outcome::RolledBack, "{record:#?}");
    assert_eq!(record.reason.unwrap().code, ReasonCode::UndoneByHand);
    assert_eq!(image(&live(&world).await), "web:1");
    assert_as_the_manifest_says(&world).await;
}

#[tokio::test(start_paused = true)]
async fn an_autoscaler_may_change_the_number_of_pods_meanwhile() {
    let steps = "2 5m";
    let without_number = |image: &str| web(steps, image).replace("  replicas: 4\n", "");
    let mut world = World::embedded().await;
    let first = world.push("web.yaml", &without_number("web:1"), "First version");
    world.start();
    world.through(&first).await;
    world.patch(&path_of("web"), "autoscaler", &json!({"spec": {"replicas": 4}})).await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    let sampling = PodSampling::of(world.cluster.as_ref().unwrap().client_as("admin"));
    let second = world.push("web.yaml", &without_number("web:2"), "Second version");
    until_step(&mut world, &second, "2 of 2 new pods are ready; watched until").await;
    for replicas in [5, 6, 3] {
        world.patch(&path_of("web"), "autoscaler", &json!({"spec": {"replicas": replicas}})).await;
        tokio::time::sleep(Duration::from_secs(40)).await;
        assert!(sampling.most_new() <= 2, "{replicas}: {}", sampling.most_new());
        assert!(sampling.fewest_old() >= 1);
    }
    world.through(&second).await;
    let record = world.record(&second, WEB);
    assert_eq!(record.outcome, Outcome::Complete, "{record:#?}");
    assert_eq!(live(&world).await["spec"]["replicas"], 3);
    assert_as_the_manifest_says(&world).await;
}

#[tokio::test(start_paused = true)]
async fn an_unwell_old_revision_never_blocks_its_fix() {
    let steps = "1 0";
    let mut world = World::embedded().await;
    let ill = world.push("web.yaml", &with_steps(steps, &broken("web", "never-ready")), "Never ready");
    world.start();
    world.through(&ill).await;
    let fix = world.push("web.yaml", &web(steps, "web:1"), "Fix it");
    world.through(&fix).await;
    assert_eq!(world.record(&fix, WEB).outcome, Outcome::Complete);
    assert_eq!(canary_steps(&world, &fix, WEB), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_manifest_that_asks_for_no_steps_any_more_has_all_of_its_pods() {
    let mut world = world("1 0, 2 0").await;
    let second = world.push("web.yaml", &web("1 0, 2 0", "web:2"), "Second version");
    until_step(&mut world, &second, "waits for belay promote").await;
    let plain = web("1 0", "web:2").replace("  annotations: {belay.dev/canary: \"1 0\"}\n", "");
    let plain = world.push("web.yaml", &plain, "Without a canary");
    world.through(&plain).await;
    let record = world.record(&plain, WEB);
    assert_eq!(record.outcome, Outcome::Complete, "{record:#?}");
    assert_eq!(image(&live(&world).await), "web:2");
    assert_as_the_manifest_says(&world).await;
}

#[tokio::test(start_paused = true)]
async fn two_canaries_go_side_by_side() {
    let steps = "1 2m";
    let mut world = world(steps).await;
    let other = |image: &str| web(steps, image).replace("web\n", "shop\n").replace("app: web}", "app: shop}");
    let first = world.push("shop.yaml", &other("web:1"), "Another");
    world.through(&first).await;
    world.push("web.yaml", &web(steps, "web:2"), "Second version");
    let bad = with_steps(steps, &broken("web", "crash-after=30s"));
    let bad = bad.replace("web\n", "shop\n").replace("app: web}", "app: shop}");
    let both = world.push("shop.yaml", &bad, "Second version of the other");
    world.through(&both).await;
    world.until("nothing is under way", |source| source.under_way.is_empty()).await;
    assert_eq!(world.record(&both, "Deployment default/shop").outcome, Outcome::RolledBack);
    assert_eq!(image(&live(&world).await), "web:2");
    assert_as_the_manifest_says(&world).await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_of_a_person_survives_a_kill_at_any_write() {
    for answer in [CanaryAnswer::Promote, CanaryAnswer::Abort] {
        for write in 1..=4 {
            for fate in [Fate::DieBefore, Fate::DieAfter] {
                let (mut world, tap) = World::tapped().await;
                let first = world.push("web.yaml", &web("1 0", "web:1"), "First version");
                world.start();
                world.through(&first).await;
                let second = world.push("web.yaml", &web("1 0", "web:2"), "Second version");
                until_step(&mut world, &second, "waits for belay promote").await;
                let mut writes = 0;
                tap.rule(move |went, _| {
                    let is_of_it = went.is_write() && went.path.contains("/deployments/web");
                    writes += usize::from(is_of_it);
                    if is_of_it && writes == write { fate } else { Fate::Pass }
                });
                ask(&world, answer).await;
                world.through_a_kill(&tap, &second).await;
                let record = world.record(&second, WEB);
                let case = format!("{answer:?}, {fate:?} at write {write}: {record:#?}");
                let expected = match answer {
                    CanaryAnswer::Promote => (Outcome::Complete, "web:2"),
                    CanaryAnswer::Abort => (Outcome::RolledBack, "web:1"),
                };
                assert_eq!((record.outcome, image(&live(&world).await)), expected, "{case}");
                let by_hand = record.reason.is_some_and(|reason| reason.code == ReasonCode::UndoneByHand);
                assert_eq!(by_hand, answer == CanaryAnswer::Abort, "{case}");
                assert_as_the_manifest_says(&world).await;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_canary_that_the_cluster_does_not_lock_does_not_begin() {
    let mut world = World::embedded().await;
    let ignored =
        "[[source]]\nrepository = '/srv'\n[[source.ignore]]\nkind = 'Deployment'\nfields = ['/spec/strategy']\n";
    world.config.ignore = belay::config::Config::parse(ignored, "belay.toml").unwrap().source[0].ignore.clone();
    let first = world.push("web.yaml", &web("1 0", "web:1"), "First version");
    world.start();
    world.through(&first).await;
    let second = world.push("web.yaml", &web("1 0", "web:2"), "Second version");
    world.through(&second).await;
    let record = world.record(&second, WEB);
    assert_eq!(record.outcome, Outcome::Rejected, "{record:#?}");
    assert!(record.reason.unwrap().message.contains("its canary can't begin: source.ignore"));
    assert_eq!(image(&live(&world).await), "web:1");
}

#[tokio::test(start_paused = true)]
async fn a_canary_that_is_only_reported_stays_at_its_step() {
    let mut world = World::embedded().await;
    let report = |text: String| text.replace("annotations: {", "annotations: {belay.dev/on-failure: report, ");
    let first = world.push("web.yaml", &report(web("1 1m", "web:1")), "First version");
    world.start();
    world.through(&first).await;
    let sampling = PodSampling::of(world.cluster.as_ref().unwrap().client_as("admin"));
    let bad_text = report(with_steps("1 1m", &broken("web", "crash-after=20s")));
    let bad = world.push("web.yaml", &bad_text, "Crashes");
    world.through(&bad).await;
    assert_eq!(world.record(&bad, WEB).outcome, Outcome::Failed);
    world.stop().await;
    world.start();
    world.through(&bad).await;
    tokio::time::sleep(Duration::from_mins(20)).await;
    assert_eq!((sampling.most_new(), sampling.fewest_old()), (1, 4), "a restart does not go on with it");
    let mark = CanaryMark::on(&live(&world).await).unwrap();
    assert!(mark.failed, "what people ask for is refused: {mark:?}");
    assert_eq!(world.record(&bad, WEB).outcome, Outcome::Failed);
    let edited = json!({"metadata": {"annotations": {"belay.dev/on-failure": "rollback"}}});
    world.patch(&path_of("web"), "somebody", &edited).await;
    tokio::time::sleep(Duration::from_mins(20)).await;
    let live = live(&world).await;
    assert_eq!(marks::annotation(&live, "belay.dev/on-failure"), Some("report"), "the edit is put right");
    assert_eq!(CanaryMark::on(&live), Some(mark), "a correction begins no other look");
    let owned = bad_text.replacen("annotations: {", "annotations: {owner: shop, ", 1);
    let owned = world.push("web.yaml", &owned, "Another annotation of the workload");
    world.through(&owned).await;
    tokio::time::sleep(Duration::from_mins(20)).await;
    let live = self::live(&world).await;
    assert_eq!(marks::annotation(&live, "owner"), Some("shop"));
    assert_eq!(CanaryMark::on(&live), Some(mark), "a commit that leaves the pod template begins none either");
    assert_eq!(world.record(&owned, WEB).outcome, Outcome::Complete);
    let larger = world.push("web.yaml", &bad_text.replace("replicas: 4", "replicas: 5"), "Another number of pods");
    world.through(&larger).await;
    tokio::time::sleep(Duration::from_mins(20)).await;
    assert_eq!(CanaryMark::on(&self::live(&world).await), Some(mark), "nor does one that changes the number of pods");
    assert_eq!((sampling.most_new(), sampling.fewest_old()), (1, 4));
    let fix = world.push("web.yaml", &report(web("1 0", "web:1")), "Back to the first");
    world.through(&fix).await;
    assert_as_the_manifest_says(&world).await;
}

#[tokio::test(start_paused = true)]
async fn a_step_that_goes_on_under_a_newer_commit_is_marked_when_it_fails() {
    let mut world = World::embedded().await;
    let report = |text: String| text.replace("annotations: {", "annotations: {belay.dev/on-failure: report, ");
    let first = world.push("web.yaml", &report(web("1 5m", "web:1")), "First version");
    world.start();
    world.through(&first).await;
    let bad = report(with_steps("1 5m", &broken("web", "crash-after=2m")));
    let second = world.push("web.yaml", &bad, "Crashes");
    until_step(&mut world, &second, "1 of 1 new pods are ready; watched until").await;
    let owned = world.push("web.yaml", &bad.replacen("annotations: {", "annotations: {owner: shop, ", 1), "An owner");
    world.through(&owned).await;
    assert_eq!(world.record(&owned, WEB).outcome, Outcome::Failed);
    assert!(CanaryMark::on(&live(&world).await).unwrap().failed);
}

#[tokio::test(start_paused = true)]
async fn a_canary_whose_way_back_is_refused_stays_at_its_step() {
    for refused in [1, 9] {
        let (mut world, tap) = World::tapped().await;
        let first = world.push("web.yaml", &web("1 5m", "web:1"), "First version");
        world.start();
        world.through(&first).await;
        let sampling = PodSampling::of(world.cluster.as_ref().unwrap().client_as("admin"));
        let bad = with_steps("1 5m", &broken("web", "crash-after=20s"));
        let bad = world.push("web.yaml", &bad, "Crashes");
        until_step(&mut world, &bad, "1 of 1 new pods are ready; watched until").await;
        refuse(&tap, refused);
        world.through(&bad).await;
        assert_eq!(world.record(&bad, WEB).outcome, Outcome::RollbackFailed);
        tap.rule(|_, _| Fate::Pass);
        assert_eq!(
            CanaryMark::on(&live(&world).await).unwrap().failed,
            refused == 1,
            "marked if that is not refused, too"
        );
        tokio::time::sleep(Duration::from_mins(20)).await;
        world.stop().await;
        world.start();
        tokio::time::sleep(Duration::from_mins(20)).await;
        assert_eq!((sampling.most_new(), sampling.fewest_old()), (1, 4), "nothing is done until somebody acts");
        assert_eq!(world.record(&bad, WEB).outcome, Outcome::RollbackFailed);
        let back = world.push("web.yaml", &web("1 5m", "web:1"), "Back to the first");
        world.through(&back).await;
        assert_as_the_manifest_says(&world).await;
    }
}

/// Lets the server refuse the next writes of the Deployment, so many.
fn refuse(tap: &Tap, writes: usize) {
    let mut left = writes;
    tap.rule(move |went, _| {
        let is_refused = left > 0 && went.is_write() && went.path.contains("/deployments/web");
        left -= usize::from(is_refused);
        if is_refused { Fate::Refuse } else { Fate::Pass }
    });
}

#[tokio::test(start_paused = true)]
async fn a_canary_whose_next_step_is_refused_goes_no_further() {
    for (steps, words) in [("1 1m, 2 9m", "canary step 1 of 2"), ("1 1m", "canary step 1 of 1")] {
        let (mut world, tap) = World::tapped().await;
        let report =
            |image: &str| web(steps, image).replace("annotations: {", "annotations: {belay.dev/on-failure: report, ");
        let first = world.push("web.yaml", &report("web:1"), "First version");
        world.start();
        world.through(&first).await;
        let sampling = PodSampling::of(world.cluster.as_ref().unwrap().client_as("admin"));
        let second = world.push("web.yaml", &report("web:2"), "Second version");
        until_step(&mut world, &second, "1 of 1 new pods are ready; watched until").await;
        refuse(&tap, 1);
        world.through(&second).await;
        assert_eq!(world.record(&second, WEB).outcome, Outcome::Failed, "{steps}");
        tokio::time::sleep(Duration::from_mins(20)).await;
        let mark = CanaryMark::on(&live(&world).await).unwrap();
        assert_eq!((mark.words().as_str(), mark.failed), (words, true));
        assert_eq!(sampling.most_new(), 1, "{steps}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_deployment_that_a_person_had_paused_waits_for_them() {
    let mut world = world("1 30s").await;
    world.patch(&path_of("web"), "kubectl-rollout", &json!({"spec": {"paused": true}})).await;
    let second = world.push("web.yaml", &web("1 30s", "web:2"), "Second version");
    until_step(&mut world, &second, "paused by somebody else; belay resume lets it go on").await;
    tokio::time::sleep(Duration::from_mins(30)).await;
    assert_eq!(world.record(&second, WEB).outcome, Outcome::UnderWay);
    world.patch(&path_of("web"), "kubectl-rollout", &json!({"spec": {"paused": null}})).await;
    world.through(&second).await;
    assert_eq!(world.record(&second, WEB).outcome, Outcome::Complete);
    assert_as_the_manifest_says(&world).await;
}

#[tokio::test(start_paused = true)]
async fn an_autoscaler_decides_what_a_percentage_is_of() {
    let mut world = World::embedded().await;
    let first = world.push("web.yaml", &web("50% 0", "web:1"), "First version");
    world.start();
    world.through(&first).await;
    let scaler = json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "web"},
        "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "minReplicas": 2, "maxReplicas": 9}});
    world.create("apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers", "admin", &scaler).await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    world.patch(&path_of("web"), "autoscaler", &json!({"spec": {"replicas": 2}})).await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    let second = world.push("web.yaml", &web("50% 0", "web:2"), "Second version");
    until_step(&mut world, &second, "1 of 1 new pods are ready; waits for belay promote").await;
    assert_eq!(live(&world).await["spec"]["replicas"], 2);
}
