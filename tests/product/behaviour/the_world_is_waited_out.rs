//! Trouble of the infrastructure is waited out, reported, and never rolled back: an API server that does not answer, a
//! controller that does not act, a node that went away, a person who pauses.

use std::time::Duration;

use belay::config::{Drift, Span};
use belay::daemon::Obstacle;
use belay_core::rollout::{Hold, ObjectState, Outcome, SourceState, StepKind};
use minicluster::{MiniCluster, Part, PodLogs, Random, controllers, kubelet};
use serde_json::{Value, json};

use crate::support::daemon::{EPOCH, World, broken, config_map, deployment, image, path_of};
use crate::support::full_disk;
use crate::support::tap::Fate;
use crate::support::workloads::KINDS;

#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_is_asked_again() {
    for code in [409, 429, 500, 503, 504] {
        let (mut world, tap) = World::tapped().await;
        tap.rule(move |_, number| if number < 6 { Fate::Fail(code) } else { Fate::Pass });
        let first = world.push("web.yaml", &deployment("web", "web:1", ""), "First version");
        world.start();
        world.through(&first).await;
        assert_eq!(world.record(&first, "Deployment default/web").outcome, Outcome::Complete, "{code}");
        assert!(world.status().obstacles.trouble.is_empty(), "{:?}", world.status().obstacles.trouble);
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_answers_is_asked_again() {
    let (mut world, tap) = World::tapped().await;
    tap.rule(|_, number| if number < 3 { Fate::Swallow } else { Fate::Pass });
    let first = world.push("web.yaml", &deployment("web", "web:1", ""), "First version");
    world.start();
    world.until("trouble is told", |source| !source.obstacles.trouble.is_empty()).await;
    world.through(&first).await;
    assert_eq!(world.record(&first, "Deployment default/web").outcome, Outcome::Complete);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_is_never_answered_is_asked_for_again() {
    let (mut world, tap) = World::tapped().await;
    let mut swallowed = false;
    tap.rule(move |went, _| {
        let first = !swallowed && went.path.contains("/deployments?") && went.path.contains("labelSelector");
        swallowed |= first;
        if first { Fate::Swallow } else { Fate::Pass }
    });
    let first = world.with_first_version().await;
    assert_eq!(world.record(&first, "Deployment default/web").outcome, Outcome::Complete);
    tokio::time::sleep(Duration::from_mins(2)).await;
    // Only who watches notices that.
    world.delete(&path_of("web")).await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert!(world.get(&path_of("web")).await.is_some());
}

/// Nothing happens in the cluster that could tell that it is over.
#[tokio::test(start_paused = true)]
async fn watches_that_are_back_are_no_trouble_any_more() {
    let (mut world, tap) = World::tapped().await;
    world.with_first_version().await;
    tap.refuse_watches(true);
    // The API server is ready: it is that kind's trouble.
    world
        .until("trouble is told", |source| {
            source.obstacles.trouble.contains_key(&Obstacle::Listing("deployments.apps".to_owned()))
        })
        .await;
    assert_eq!(world.status().state(), SourceState::Degraded);
    tap.refuse_watches(false);
    tokio::time::sleep(Duration::from_mins(3)).await;
    assert!(world.status().obstacles.trouble.is_empty(), "{:?}", world.status().obstacles.trouble);
    assert_eq!(world.status().state(), SourceState::Synced);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_goes_away_in_the_middle_is_no_reason_to_go_back() {
    let (mut world, tap) = World::tapped().await;
    world.with_first_version().await;
    let slow = broken("web", "ready-after=20s");
    let second = world.push("web.yaml", &slow, "Slow to start");
    world.until("it is under way", |source| !source.under_way.is_empty()).await;
    tap.rule(|_, _| Fate::Swallow);
    tokio::time::sleep(Duration::from_mins(5)).await;
    tap.rule(|_, _| Fate::Pass);
    world.through(&second).await;
    assert_eq!(world.record(&second, "Deployment default/web").outcome, Outcome::Complete);
}

/// A deadline that ends while belay can't look at the pods is seen when it can again (found by the simulation, seed 110).
#[tokio::test(start_paused = true)]
async fn a_deadline_that_ends_meanwhile_is_not_missed() {
    let (mut world, tap) = World::tapped().await;
    world.config.fail_fast = true;
    world.with_first_version().await;
    let begun = tokio::time::Instant::now();
    tap.rule(move |went, _| {
        let looks = went.path.contains("/replicasets") || went.path.contains("/pods");
        let away = begun.elapsed() < Duration::from_secs(60);
        if looks && away { Fate::Fail(503) } else { Fate::Pass }
    });
    let bad = world.push("web.yaml", &broken("web", "never-ready"), "Second version");
    world.through(&bad).await;
    assert_eq!(world.record(&bad, "Deployment default/web").outcome, Outcome::RolledBack);
}

#[tokio::test(start_paused = true)]
async fn a_dead_controller_is_waited_for_and_not_for_ever() {
    let clock = belay::clock::Clock::tokio(EPOCH.parse().unwrap());
    let cluster = MiniCluster::builder().clock(clock.clone()).without(Part::Controllers).start().await.unwrap();
    let mut world = World::on(cluster.client_as("belay"), clock, Some(cluster));
    let first = world.push("web.yaml", &deployment("web", "web:1", ""), "First version");
    world.start();
    world.until("it is under way", |source| !source.under_way.is_empty()).await;
    tokio::time::sleep(Duration::from_mins(10)).await;
    let record = world.record(&first, "Deployment default/web");
    assert_eq!(record.outcome, Outcome::UnderWay, "{record:#?}");
    let says = world.status().under_way.values().any(|way| {
        let fault = way.in_the_way.as_ref().is_some_and(|fault| fault.code.as_str() == "ControllerSilent");
        fault && way.message.contains("has not seen")
    });
    assert!(says, "{:?}", world.status().under_way);
    world.through(&first).await;
    ended_in_time(&world, &first, Outcome::Failed, "ControllerSilent");
    assert_eq!(Hold::on(&world.get(&path_of("web")).await.unwrap()), None);
}

/// Asserts that a rollout ended with a fault of the infrastructure as its reason, a deadline and `outage_timeout` after
/// it began.
fn ended_in_time(world: &World, commit: &str, outcome: Outcome, code: &str) {
    let record = world.record(commit, "Deployment default/web");
    let reason = record.reason.clone().unwrap();
    assert_eq!((record.outcome, reason.code.as_str()), (outcome, code), "{record:#?}");
    assert!(reason.message.contains("all of outage_timeout"), "{reason}");
    let verdict = world.history().steps(record.id).unwrap();
    let verdict = verdict.iter().find(|step| step.kind == StepKind::Verdict).unwrap();
    let took = verdict.at.duration_since(record.started).as_secs();
    assert!((600..=600 + 30 + 15 + 30).contains(&took), "{took} s");
}

/// The same with a way back: its controllers die when the second version has come.
#[tokio::test(start_paused = true)]
async fn controllers_that_die_in_the_middle_are_no_reason_to_go_back() {
    let clock = belay::clock::Clock::tokio(EPOCH.parse().unwrap());
    let cluster = MiniCluster::builder().clock(clock.clone()).without(Part::Controllers).start().await.unwrap();
    let options = |seed| controllers::Options::new(clock.clone(), Random::new(seed));
    let first_ones = controllers::start(cluster.client(), &options(1));
    let client = cluster.client();
    let mut world = World::on(cluster.client_as("belay"), clock.clone(), Some(cluster));
    world.config.fail_fast = true;
    world.with_first_version().await;
    first_ones.stop().await;
    let second = world.push("web.yaml", &deployment("web", "web:2", ""), "Second version");
    world.until("it is under way", |source| !source.under_way.is_empty()).await;
    tokio::time::sleep(Duration::from_mins(9)).await;
    assert_eq!(world.record(&second, "Deployment default/web").outcome, Outcome::UnderWay);
    assert_eq!(Hold::on(&world.get(&path_of("web")).await.unwrap()), None);
    let _second_ones = controllers::start(client, &options(2));
    world.through(&second).await;
    assert_eq!(world.record(&second, "Deployment default/web").outcome, Outcome::Complete);
}

async fn nodes_are(world: &World, ready: &str) {
    for node in world.list("api/v1/nodes").await {
        let path = format!("api/v1/nodes/{}/status", node["metadata"]["name"].as_str().unwrap());
        let conditions = json!([{"type": "Ready", "status": ready, "reason": "Said", "message": "by the test"}]);
        world.patch(&path, "node-controller", &json!({"status": {"conditions": conditions}})).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_goes_away_is_no_reason_to_go_back() {
    let (mut world, _) = World::with_web().await;
    let second = world.push("web.yaml", &broken("web", "never-ready"), "Second version");
    world.until("it is under way", |source| !source.under_way.is_empty()).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    nodes_are(&world, "Unknown").await;
    let lost = |source: &belay::daemon::SourceStatus| {
        let in_the_way = source.under_way.values().filter_map(|way| way.in_the_way.as_ref());
        in_the_way.into_iter().any(|reason| reason.code.as_str() == "NodeNotReady")
    };
    world.until("it says what is in the way", lost).await;
    tokio::time::sleep(Duration::from_mins(8)).await;
    let record = world.record(&second, "Deployment default/web");
    assert_eq!(record.outcome, Outcome::UnderWay, "{record:#?}");
    assert_eq!(Hold::on(&world.get(&path_of("web")).await.unwrap()), None);
    // With its nodes back it is the commit that is in the way, and then that is told.
    nodes_are(&world, "True").await;
    world.through(&second).await;
    assert_eq!(world.record(&second, "Deployment default/web").outcome, Outcome::RolledBack);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_stays_away_is_waited_for_and_not_for_ever() {
    let (mut world, _) = World::with_web().await;
    let second = world.push("web.yaml", &broken("web", "never-ready"), "Second version");
    world.until("it is under way", |source| !source.under_way.is_empty()).await;
    nodes_are(&world, "Unknown").await;
    world.through(&second).await;
    ended_in_time(&world, &second, Outcome::RolledBack, "NodeNotReady");
    assert!(Hold::on(&world.get(&path_of("web")).await.unwrap()).is_some());
}

/// belay can't see the pods, and nothing tells it that this will change.
#[tokio::test(start_paused = true)]
async fn pods_that_belay_may_not_read_are_waited_for_and_not_for_ever() {
    let (mut world, tap) = World::tapped().await;
    world.with_first_version().await;
    tap.rule(|went, _| if went.path.contains("/pods") { Fate::Fail(403) } else { Fate::Pass });
    let second = world.push("web.yaml", &broken("web", "never-ready"), "Second version");
    world.through(&second).await;
    ended_in_time(&world, &second, Outcome::RolledBack, "PodsNotReadable");
}

/// A node that says it is ready, and whose kubelet does nothing: of its pods there is nothing to be seen, for ever.
#[tokio::test(start_paused = true)]
async fn a_silent_kubelet_is_waited_for_and_not_for_ever() {
    let clock = belay::clock::Clock::tokio(EPOCH.parse().unwrap());
    let cluster = MiniCluster::builder().clock(clock.clone()).without(Part::Kubelet).start().await.unwrap();
    let options = kubelet::Options::new(clock.clone(), Random::new(1), PodLogs::default());
    let nodes = kubelet::start(cluster.client(), options);
    let mut world = World::on(cluster.client_as("belay"), clock, Some(cluster));
    world.with_first_version().await;
    // The scheduler goes with it: its work is done below.
    nodes.stop().await;
    let node = &world.list("api/v1/nodes").await[0]["metadata"]["name"];
    let second = world.push("web.yaml", &deployment("web", "web:2", ""), "Second version");
    world.until("it is under way", |source| source.under_way.values().any(|way| way.counters.updated > 0)).await;
    let pods = world.list("api/v1/namespaces/default/pods").await;
    let new: Vec<&Value> = pods.iter().filter(|pod| pod["spec"]["containers"][0]["image"] == "web:2").collect();
    assert_eq!(new.len(), 1, "{pods:#?}");
    let name = new[0]["metadata"]["name"].as_str().unwrap();
    let to = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": {"kind": "Node", "name": node}});
    world.create(&format!("api/v1/namespaces/default/pods/{name}/binding"), "scheduler", &to).await;
    tokio::time::sleep(Duration::from_mins(8)).await;
    assert_eq!(world.record(&second, "Deployment default/web").outcome, Outcome::UnderWay);
    let silent = "its node's kubelet has not said a word about it";
    let told = |way: &belay::daemon::UnderWay| way.in_the_way.as_ref().is_some_and(|one| one.message.contains(silent));
    assert!(world.status().under_way.values().any(told), "{:#?}", world.status().under_way);
    world.through(&second).await;
    ended_in_time(&world, &second, Outcome::RolledBack, "Pending");
    assert_eq!(image(&world.get(&path_of("web")).await.unwrap()), "web:1");
}

/// The pods come up a minute later than their deadline, since nobody could tell that they did: what the controller says of
/// them when it can again is not their commit's fault. belay has lost its Lease meanwhile, and takes the rollout up anew.
#[tokio::test(start_paused = true)]
async fn an_outage_of_the_api_server_is_added_to_the_deadline() {
    for code in [None, Some(503)] {
        let (mut world, tap) = World::tapped().await;
        world.with_first_version().await;
        let slow = broken("web", "ready-after=90s");
        let at_once = slow.replace("  selector:", "  strategy: {rollingUpdate: {maxSurge: 2}}\n  selector:");
        let second = world.push("web.yaml", &at_once, "Second version");
        world.until("it is under way", |source| source.under_way.values().any(|way| way.counters.updated > 0)).await;
        tap.rule(move |_, _| code.map_or(Fate::Swallow, Fate::Fail));
        tokio::time::sleep(Duration::from_secs(60)).await;
        tap.rule(|_, _| Fate::Pass);
        world.through(&second).await;
        let record = world.record(&second, "Deployment default/web");
        assert_eq!(record.outcome, Outcome::Complete, "{code:?}: {record:#?}");
    }
}

/// But no longer than that: what does not come up after it either is the commit's fault.
#[tokio::test(start_paused = true)]
async fn an_outage_of_the_api_server_excuses_nothing_that_fails_after_it() {
    let (mut world, tap) = World::tapped().await;
    world.with_first_version().await;
    let second = world.push("web.yaml", &broken("web", "never-ready"), "Second version");
    world.until("it is under way", |source| source.under_way.values().any(|way| way.counters.updated > 0)).await;
    let began = tokio::time::Instant::now();
    tap.rule(|_, _| Fate::Fail(503));
    tokio::time::sleep(Duration::from_secs(60)).await;
    tap.rule(|_, _| Fate::Pass);
    world.through(&second).await;
    let record = world.record(&second, "Deployment default/web");
    assert_eq!(record.outcome, Outcome::RolledBack, "{record:#?}");
    assert!(record.reason.unwrap().message.contains("the API server did not answer for"));
    assert!(began.elapsed() < Duration::from_secs(240), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn who_pauses_is_waited_for_without_a_deadline() {
    let (mut world, _) = World::with_web().await;
    let second = world.push("web.yaml", &broken("web", "ready-after=5s"), "Second version");
    world.until("it is under way", |source| !source.under_way.is_empty()).await;
    world.patch(&path_of("web"), "kubectl-rollout", &json!({"spec": {"paused": true}})).await;
    world.until("it says so", |source| source.under_way.values().any(|way| way.message.starts_with("paused at"))).await;
    tokio::time::sleep(Duration::from_hours(2)).await;
    let record = world.record(&second, "Deployment default/web");
    assert_eq!(record.outcome, Outcome::UnderWay, "{record:#?}");
    assert!(world.status().under_way.values().all(|way| way.until.is_none()), "{:?}", world.status().under_way);
    world.patch(&path_of("web"), "kubectl-rollout", &json!({"spec": {"paused": null}})).await;
    world.through(&second).await;
    assert_eq!(world.record(&second, "Deployment default/web").outcome, Outcome::Complete);
}

#[tokio::test(start_paused = true)]
async fn without_replicas_there_is_nothing_to_wait_for() {
    let mut world = World::embedded().await;
    let none = |image: &str| deployment("web", image, "").replace("replicas: 2", "replicas: 0");
    let first = world.push("web.yaml", &none("web:1"), "First version");
    world.start();
    world.through(&first).await;
    let second = world.push("web.yaml", &none("web:404"), "Second version");
    world.through(&second).await;
    assert_eq!(world.record(&second, "Deployment default/web").outcome, Outcome::Complete);
}

#[tokio::test(start_paused = true)]
async fn what_belay_may_not_write_keeps_nothing_else_waiting() {
    let (mut world, tap) = World::tapped().await;
    tap.rule(|went, _| if went.path.contains("/configmaps/") { Fate::Fail(403) } else { Fate::Pass });
    world.repository.write("settings.yaml", crate::support::daemon::config_map("settings", "1"));
    let first = world.push("web.yaml", &deployment("web", "web:1", ""), "First version");
    world.start();
    let waits = |source: &belay::daemon::SourceStatus| {
        source.under_way.values().all(|one| one.message.contains("does not allow it"))
    };
    world.until("the others go on", |source| source.planned.is_some() && waits(source)).await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(world.record(&first, "Deployment default/web").outcome, Outcome::Complete);
    assert_eq!(world.record(&first, "ConfigMap default/settings").outcome, Outcome::Waiting);
    assert_eq!(world.status().under_way.len(), 1, "{:#?}", world.status());
    // Somebody gives it the right.
    tap.rule(|_, _| Fate::Pass);
    world.through(&first).await;
    assert_eq!(world.record(&first, "ConfigMap default/settings").outcome, Outcome::Complete);
}

/// The disk is full while a good rollout comes to its end, for longer than all limits.
#[tokio::test(start_paused = true)]
async fn a_full_disk_takes_nothing_back() {
    for kind in KINDS {
        let mut world = World::embedded().await;
        world.config.outage_timeout = Span(Duration::from_secs(20));
        let first = world.push("web.yaml", &kind.manifest("web:1", "ready"), "First version");
        world.start();
        world.through(&first).await;
        let second = world.push("web.yaml", &kind.manifest("web:2", "ready-after=10s"), "Second version");
        world.until("it is under way", |source| !source.under_way.is_empty()).await;
        tokio::time::sleep(Duration::from_secs(3)).await;
        let folder = world.repository.beside("state");
        full_disk::fill(&folder, false);
        tokio::time::sleep(Duration::from_secs(100)).await;
        full_disk::empty(&folder);
        world.through(&second).await;
        let record = world.record(&second, &kind.object());
        assert_eq!(record.outcome, Outcome::Complete, "{kind:?}: {record:#?}");
    }
}

/// A head whose plan can't be written down is read again: what changes in the cluster meanwhile is not lost.
#[tokio::test(start_paused = true)]
async fn what_people_do_while_the_disk_is_full_is_put_right_afterwards() {
    let mut world = World::embedded().await;
    world.repository.write("web.yaml", deployment("web", "web:1", ""));
    let first = world.push("db.yaml", &deployment("db", "db:1", ""), "First version");
    world.start();
    world.through(&first).await;
    let folder = world.repository.beside("state");
    full_disk::fill(&folder, false);
    let second = world.push("settings.yaml", &config_map("settings", "1"), "Something else");
    world.until("it is told", |source| source.obstacles.trouble.contains_key(&Obstacle::History)).await;
    // Just after a plan was dropped, so that the repository is not read again yet.
    let by_hand = json!({"spec": {"template": {"spec": {"containers": [{"name": "app", "image": "web:hand"}]}}}});
    world.patch(&path_of("web"), "kubectl", &by_hand).await;
    world.delete(&path_of("db")).await;
    tokio::time::sleep(Duration::from_mins(3)).await;
    assert_eq!(world.status().disagreements().count(), 0, "nobody has put anything right yet");
    full_disk::empty(&folder);
    world.through(&second).await;
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(world.status().summary(), "synced (3 complete)");
    assert_eq!(image(&world.get(&path_of("web")).await.unwrap()), "web:1");
    assert!(world.get(&path_of("db")).await.is_some(), "it is made again");
}

/// A workload that failed and was left is complete with somebody else's image: that is no recovery of its commit.
#[tokio::test(start_paused = true)]
async fn another_image_is_no_recovery() {
    let mut world = World::embedded().await;
    world.config.drift = Drift::Report;
    let first = world.push("web.yaml", &broken("web", "never-ready"), "First version");
    world.start();
    world.through(&first).await;
    let image = json!({"spec": {"template": {
        "metadata": {"annotations": {"kubelet.belay.dev/fate": "ready"}},
        "spec": {"containers": [{"name": "app", "image": "web:hand"}]}}}});
    world.patch(&path_of("web"), "kubectl", &image).await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    let ended = world.status().ended;
    assert!(ended.values().any(|one| one.state == ObjectState::Failed), "{ended:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_slow_list_is_told_within_a_minute() {
    let (mut world, tap) = World::tapped().await;
    world.with_maps(350).await;
    world.stop().await;
    tap.rule(|went, _| {
        let is_page = went.method == "GET" && went.path.contains("/configmaps?limit=");
        if is_page { Fate::After(Duration::from_secs(25)) } else { Fate::Pass }
    });
    world.start();
    let told = |source: &belay::daemon::SourceStatus| {
        let said = source.obstacles.trouble.get(&Obstacle::Listing("configmaps".to_owned())).cloned();
        said.filter(|said| said.contains("is slow to list") && said.contains(" pages with "))
    };
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(told(&world.status()).is_some(), "{:#?}", world.status().obstacles);
    world.until("it is over", |source| source.settled && told(source).is_none()).await;
}
