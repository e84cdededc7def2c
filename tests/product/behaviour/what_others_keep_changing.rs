//! Somebody else and belay write the same field, somebody adds to a pod template, deletes what Git has, or puts something in
//! the place of a folder: nobody fights, nothing is silent, and nothing is lost.

use std::time::Duration;

use belay::config::Drift;
use belay::daemon::note_lasting_trouble;
use belay_core::rollout::{ObjectState, Outcome, SourceState};
use serde_json::{Value, json};

use crate::support::daemon::{World, broken, config_map, deployment, image, path_of, short};
use crate::support::repository::Kind;

const MAP: &str = "api/v1/namespaces/default/configmaps/map-0";

fn troubles(world: &World) -> Vec<String> {
    world.status().obstacles.trouble.iter().map(|(place, message)| format!("{place}: {message}")).collect()
}

/// A program that writes a value back as soon as it sees another, for so long. Returns how often it did.
async fn keeps_writing(
    world: &World,
    path: &str,
    patch: &Value,
    is_as_wanted: impl Fn(&Value) -> bool,
    secs: u64,
) -> u64 {
    let mut writes = 0;
    for _ in 0..secs * 4 {
        let live = world.get(path).await.unwrap();
        if !is_as_wanted(&live) {
            world.patch(path, "updater", patch).await;
            writes += 1;
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    writes
}

#[tokio::test(start_paused = true)]
async fn what_another_program_writes_back_is_put_right_ever_later_and_said() {
    let mut world = World::embedded().await;
    let first = world.with_maps(1).await;
    let patch = json!({"data": {"A": "theirs"}});
    let writes = keeps_writing(&world, MAP, &patch, |live| live["data"]["A"] == "theirs", 3600).await;
    assert!((6..=20).contains(&writes), "{writes} writes in an hour");
    let said = troubles(&world);
    let expected = "ConfigMap default/map-0, disagreement: updater and belay disagree about data.A since ";
    assert!(said.iter().any(|text| text.starts_with(expected)), "{said:?}");
    assert_eq!(world.status().state(), SourceState::Degraded);
    assert_eq!(world.status().disagreements().count(), 1);
    let corrections = world.records().iter().filter(|record| record.commit.as_str() == first).count() - 1;
    assert!(corrections <= 4, "the records of corrections are folded into one: {corrections}");
    // The other writer has stopped: the disagreement is over after a while, by itself.
    tokio::time::sleep(Duration::from_hours(1)).await;
    assert_eq!(world.get(MAP).await.unwrap()["data"]["A"], "1");
    assert_eq!(troubles(&world), Vec::<String>::new());
    world.until("it is synced", |source| source.state() == SourceState::Synced).await;
}

#[tokio::test(start_paused = true)]
async fn a_rollout_that_another_program_keeps_overwriting_is_begun_again_ever_later() {
    let (mut world, _) = World::with_web().await;
    let second = world.push("web.yaml", &deployment("web", "web:2", ""), "Second version");
    world.until("it is applied", |source| source.under_way.values().any(|way| way.counters.desired > 0)).await;
    let theirs = json!({"spec": {"template": {"spec": {"containers": [{"name": "app", "image": "web:9"}]}}}});
    let writes = keeps_writing(&world, &path_of("web"), &theirs, |live| image(live) == "web:9", 1800).await;
    assert!((4..=30).contains(&writes), "{writes} writes in half an hour");
    let said = troubles(&world);
    assert!(said.iter().any(|text| text.contains("updater and belay disagree about")), "{said:?}");
    world.through(&second).await;
    assert_eq!(image(&world.get(&path_of("web")).await.unwrap()), "web:2");
    assert_eq!(world.record(&second, "Deployment default/web").outcome, Outcome::Complete);
}

/// Its deadline is of the rollout; while belay waits before it applies the manifest again, none counts.
#[tokio::test(start_paused = true)]
async fn nothing_is_past_its_deadline_while_it_waits_for_another_program() {
    let mut world = World::embedded().await;
    let manifest =
        |image: &str| deployment("web", image, "").replace("progressDeadlineSeconds: 30", "progressDeadlineSeconds: 8");
    assert!(manifest("web:1").contains("progressDeadlineSeconds: 8"), "{}", manifest("web:1"));
    let first = world.push("web.yaml", &manifest("web:1"), "First version");
    world.start();
    world.through(&first).await;
    let theirs = json!({"spec": {"template": {"spec": {"containers": [{"name": "app", "image": "web:9"}]}}}});
    let (mut late, mut waits) = (Vec::new(), 0);
    for _ in 0..2400 {
        if image(&world.get(&path_of("web")).await.unwrap()) != "web:9" {
            world.patch(&path_of("web"), "updater", &theirs).await;
        }
        let (status, now) = (world.status(), world.clock.now());
        for way in status.under_way.values() {
            waits += usize::from(way.message.contains("somebody else keeps changing it"));
            late.extend(
                way.until.filter(|until| now.duration_since(*until).as_secs() >= 2).map(|_| way.message.clone()),
            );
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    assert!(late.is_empty() && waits > 0, "{waits} waits; {} times late: {:?}", late.len(), late.first());
    assert!(troubles(&world).iter().any(|text| text.contains("updater and belay disagree about")));
}

/// Returns the disagreement as it is told, up to its beginning, and the number of corrections.
fn disagreement(world: &World) -> (String, u32) {
    let status = world.status();
    let (object, message) = status.disagreements().next().unwrap_or_else(|| panic!("none: {:?}", troubles(world)));
    let (since, times) = message.split_once(": put right ").unwrap();
    (format!("{object}: {since}"), times.split(' ').next().unwrap().parse().unwrap())
}

/// Stops belay and starts it again. The disagreement is told at once as it was.
async fn starts_again_with_its_disagreement(world: &mut World) {
    let (since, times) = disagreement(world);
    world.stop().await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    world.start();
    world.until("it is told again", |source| source.disagreements().count() == 1).await;
    assert_eq!(disagreement(world), (since, times));
}

#[tokio::test(start_paused = true)]
async fn a_restart_forgets_no_disagreement() {
    let mut world = World::embedded().await;
    world.with_maps(1).await;
    let tells = |world: &World| {
        tokio::spawn(note_lasting_trouble(world.listen(), world.history().clone(), world.clock.clone()))
    };
    let mut telling = tells(&world);
    let patch = json!({"data": {"A": "theirs"}});
    let theirs = |live: &Value| live["data"]["A"] == "theirs";
    keeps_writing(&world, MAP, &patch, theirs, 1800).await;
    let place = ("shop".to_owned(), "ConfigMap default/map-0".to_owned());
    let noted = |world: &World| world.history().noted_lasting().unwrap().disagreements.get(&place).copied();
    let told = noted(&world);
    assert!(told.is_some());
    for _ in 0..3 {
        telling.abort();
        starts_again_with_its_disagreement(&mut world).await;
        telling = tells(&world);
        let writes = keeps_writing(&world, MAP, &patch, theirs, 900).await;
        assert!(writes <= 3, "{writes} writes in 15 minutes");
    }
    assert!(disagreement(&world).1 >= 10, "{:?}", disagreement(&world));
    assert_eq!(noted(&world), told, "it is sent once");
    telling.abort();
    // The other writer has stopped while belay is away.
    world.stop().await;
    world.start();
    tokio::time::sleep(Duration::from_hours(1)).await;
    assert_eq!(world.get(MAP).await.unwrap()["data"]["A"], "1");
    assert_eq!(troubles(&world), Vec::<String>::new());
    world.until("it is synced", |source| source.state() == SourceState::Synced).await;
    world.stop().await;
    world.start();
    world.until("it is synced", |source| source.state() == SourceState::Synced).await;
    assert_eq!(world.status().disagreements().count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_restart_forgets_no_disagreement_about_a_rollout_under_way() {
    let (mut world, _) = World::with_web().await;
    world.push("web.yaml", &deployment("web", "web:2", ""), "Second version");
    world.until("it is applied", |source| source.under_way.values().any(|way| way.counters.desired > 0)).await;
    let theirs = json!({"spec": {"template": {"spec": {"containers": [{"name": "app", "image": "web:9"}]}}}});
    let is_theirs = |live: &Value| image(live) == "web:9";
    keeps_writing(&world, &path_of("web"), &theirs, is_theirs, 600).await;
    for _ in 0..2 {
        starts_again_with_its_disagreement(&mut world).await;
        let writes = keeps_writing(&world, &path_of("web"), &theirs, is_theirs, 600).await;
        assert!(writes <= 4, "{writes} writes in 10 minutes");
    }
}

/// A correction is a rollout of its own: one that is disturbed goes on from the corrections before it, however many of those were
/// complete.
#[tokio::test(start_paused = true)]
async fn a_correction_that_is_disturbed_comes_no_sooner_than_the_next_one_would() {
    let (world, _) = World::with_web().await;
    let theirs = json!({"spec": {"template": {"spec": {"containers": [{"name": "app", "image": "web:9"}]}}}});
    let began = tokio::time::Instant::now();
    let mut writes = 0;
    while began.elapsed() < Duration::from_hours(1) {
        if image(&world.get(&path_of("web")).await.unwrap()) == "web:1" {
            // Every third time the correction is complete before.
            tokio::time::sleep(Duration::from_millis(if writes % 3 == 0 { 8000 } else { 100 })).await;
            world.patch(&path_of("web"), "updater", &theirs).await;
            writes += 1;
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    assert!((8..=15).contains(&writes), "{writes} writes in an hour");
}

/// Each image is another revision: those that were good are pushed out of the few that are kept, and that is said. One
/// that is gone for another reason is not said to be pushed out.
#[tokio::test(start_paused = true)]
async fn revisions_that_are_gone_are_told() {
    for (limit, is_pushed_out) in [(2, true), (1000, false)] {
        let few = |image: &str| deployment("web", image, &format!("  revisionHistoryLimit: {limit}\n"));
        let mut world = World::embedded().await;
        let first = world.push("web.yaml", &few("web:1"), "First version");
        world.start();
        world.through(&first).await;
        let second = world.push("web.yaml", &few("web:2"), "Second version");
        world.through(&second).await;
        if !is_pushed_out {
            let sets = "apis/apps/v1/namespaces/default/replicasets";
            let sets: Vec<Value> = world.list(sets).await.into_iter().filter(|set| image(set) == "web:1").collect();
            assert_eq!(sets.len(), 1);
            let name = sets[0]["metadata"]["name"].as_str().unwrap();
            world.delete(&format!("apis/apps/v1/namespaces/default/replicasets/{name}")).await;
        }
        for number in 0..2000 {
            if image(&world.get(&path_of("web")).await.unwrap()) == "web:2" {
                let next = json!([{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": format!("new:{number}")}]);
                world.json_patch(&path_of("web"), "updater", &next).await;
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        let said = troubles(&world);
        let why = if is_pushed_out { ": so many changes have pushed it out of revisionHistoryLimit" } else { "" };
        let expected = format!("the revision of {} is gone{why}; belay still has its template", short(&first));
        assert!(said.iter().any(|text| text.contains(&expected)), "{limit}: {said:?}");
    }
}

fn unfit() -> Value {
    json!({"spec": {"template": {"spec": {"nodeSelector": {"disk": "none"}}}}})
}

fn selector(live: &Value) -> Option<&Value> {
    live["spec"]["template"]["spec"].get("nodeSelector")
}

#[tokio::test(start_paused = true)]
async fn a_field_that_somebody_adds_to_a_pod_template_goes() {
    let (mut world, first) = World::with_web().await;
    world.patch(&path_of("web"), "kubectl-patch", &unfit()).await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    world.through(&first).await;
    let live = world.get(&path_of("web")).await.unwrap();
    assert_eq!((selector(&live), &live["status"]["availableReplicas"]), (None, &json!(2)));
    assert_eq!(world.records().pop().unwrap().trigger.who().as_deref(), Some("kubectl-patch"));
}

#[tokio::test(start_paused = true)]
async fn or_is_told_and_charged_to_no_commit() {
    let mut world = World::embedded().await;
    world.config.drift = Drift::Report;
    world.with_first_version().await;
    world.patch(&path_of("web"), "kubectl-patch", &unfit()).await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    let said = troubles(&world);
    let expected = "kubectl-patch: spec.template.spec.nodeSelector";
    assert!(said.iter().any(|text| text.contains(expected)), "{said:?}");
    assert_eq!(world.status().state(), SourceState::Degraded);
    let second = world.push("web.yaml", &deployment("web", "web:2", ""), "Second version");
    world.through(&second).await;
    assert_eq!(world.record(&second, "Deployment default/web").outcome, Outcome::Complete);
    assert_eq!(selector(&world.get(&path_of("web")).await.unwrap()), None);
}

#[tokio::test(start_paused = true)]
async fn a_rollback_restores_the_template_of_the_revision_exactly() {
    let mut world = World::embedded().await;
    world.config.drift = Drift::Report;
    world.with_first_version().await;
    let good = world.get(&path_of("web")).await.unwrap()["spec"]["template"].clone();
    let bad = world.push("web.yaml", &broken("web", "never-ready"), "Broken");
    world.until("it is under way", |source| !source.under_way.is_empty()).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let annotated = json!({"spec": {"template": {"metadata": {"annotations": {"team": "a"}}}}});
    world.patch(&path_of("web"), "kubectl-annotate", &annotated).await;
    world.through(&bad).await;
    assert_eq!(world.record(&bad, "Deployment default/web").outcome, Outcome::RolledBack);
    assert_eq!(world.get(&path_of("web")).await.unwrap()["spec"]["template"], good);
}

#[tokio::test(start_paused = true)]
async fn what_a_finalizer_keeps_is_not_complete_until_it_is_made_anew() {
    let mut world = World::embedded().await;
    world.with_maps(1).await;
    let kept = json!({"metadata": {"finalizers": ["example.com/keep"]}});
    world.patch(MAP, "somebody", &kept).await;
    world.delete(MAP).await;
    let waits = |source: &belay::daemon::SourceStatus| {
        let way = source.under_way.values().find(|way| way.message.contains("example.com/keep"));
        way.is_some_and(|way| way.outcome == Outcome::Waiting)
    };
    world.until("it waits", waits).await;
    assert_ne!(world.status().state(), SourceState::Synced);
    let second = world.push("0.yaml", &config_map("map-0", "2"), "Second version");
    world
        .until("the commit is planned", |source| source.planned.as_ref().is_some_and(|at| at.as_str() == second))
        .await;
    world.until("it waits still", waits).await;
    assert_eq!(world.status().counts().of(ObjectState::Waiting), 1);
    world.patch(MAP, "somebody", &json!({"metadata": {"finalizers": null}})).await;
    world.through(&second).await;
    assert_eq!(world.get(MAP).await.unwrap()["data"]["A"], "2");
    assert_eq!(world.record(&second, "ConfigMap default/map-0").outcome, Outcome::Complete);
}

const LOST: &str = "api/v1/namespaces/default/configmaps/lost";

async fn is_complained_about(world: &mut World, head: &str, words: &str) {
    tokio::time::sleep(Duration::from_mins(5)).await;
    world.through(head).await;
    assert!(world.get(LOST).await.is_some(), "{words}");
    assert_eq!(world.status().state(), SourceState::Degraded, "{words}");
    let status = world.status();
    let file = status.ended.iter().find(|(key, _)| key.to_string() == "File lost").map(|(_, file)| file.clone());
    let said = file.and_then(|file| file.reason).map(|reason| reason.message).unwrap_or_default();
    assert!(said.contains(words), "{said:?}, {:?}", troubles(world));
}

async fn becomes(kind: Kind, content: &str, words: &str) {
    let mut world = World::embedded().await;
    world.config.prune = true;
    world.config.prune_limit = "100%".to_owned();
    for name in ["kept", "lost"] {
        world.repository.write(format!("{name}/cm.yaml"), config_map(name, "1"));
    }
    world.with_all_of_them().await;
    world.repository.remove("lost/cm.yaml");
    world.repository.put("lost", kind, content);
    let second = world.repository.commit("Another folder");
    world.repository.push();
    world.through(&second).await;
    is_complained_about(&mut world, &second, words).await;
    // The head is read anew, the mirror is lost, and the history is: the folder is lost nevertheless.
    for forget in [None, Some("state/sources")] {
        world.stop().await;
        forget.iter().for_each(|name| std::fs::remove_dir_all(world.repository.beside(name)).unwrap());
        world.start();
        world.through(&second).await;
        is_complained_about(&mut world, &second, words).await;
    }
    world.stop().await;
    std::fs::remove_file(world.repository.beside("state/history.db")).unwrap();
    world.start();
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert!(world.get(LOST).await.is_some(), "{words}");
    assert_ne!(world.status().state(), SourceState::Synced, "{words}");
    let said = troubles(&world);
    let is_told =
        |said: &String| said.contains(&format!("the folder lost {words}")) && said.contains("ConfigMap default/lost");
    assert!(said.iter().any(is_told), "{said:?}");
    world.stop().await;
    world.start();
    // An object that is put there again, and taken away as a manifest, goes as ever.
    world.repository.remove("lost");
    world.repository.write("lost/cm.yaml", config_map("lost", "2"));
    let third = world.repository.commit("The folder again");
    world.repository.push();
    world.through(&third).await;
    assert_eq!(world.get(LOST).await.unwrap()["data"]["A"], "2");
    assert_eq!(world.status().state(), SourceState::Synced, "{:?}", troubles(&world));
    world.repository.remove("lost/cm.yaml");
    let fourth = world.repository.commit("Away with it");
    world.repository.push();
    world.through(&fourth).await;
    assert_eq!(world.get(LOST).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_folder_that_was_lost_while_belay_was_away_is_a_complaint() {
    let mut world = World::embedded().await;
    world.config.prune = true;
    world.config.prune_limit = "100%".to_owned();
    for name in ["kept", "lost"] {
        world.repository.write(format!("{name}/cm.yaml"), config_map(name, "1"));
    }
    world.with_all_of_them().await;
    world.stop().await;
    world.repository.remove("lost/cm.yaml");
    world.repository.put("lost", Kind::Submodule, "1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d");
    let second = world.repository.commit("Another folder");
    world.repository.push();
    world.start();
    world.through(&second).await;
    is_complained_about(&mut world, &second, "has become a submodule").await;
    let complaint = world.record(&second, "File lost").complaints[0].to_string();
    assert!(complaint.contains("has become a submodule"), "{complaint}");
}

#[tokio::test(start_paused = true)]
async fn a_folder_that_becomes_a_link_is_a_complaint() {
    becomes(Kind::Symlink, "/elsewhere", "has become a symbolic link").await;
}

#[tokio::test(start_paused = true)]
async fn a_folder_that_becomes_a_submodule_is_a_complaint() {
    becomes(Kind::Submodule, "1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d", "has become a submodule").await;
}

#[tokio::test(start_paused = true)]
async fn a_folder_that_becomes_a_file_is_a_complaint() {
    becomes(Kind::File, "../kept", "has become a file").await;
}
