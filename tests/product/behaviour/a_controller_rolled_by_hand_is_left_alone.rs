//! A rolling update by a person with `belay rolling-update` is left alone until it is through, and is in the history
//! with the person; then Git's manifest is restored, as after any other change by hand.

use std::time::Duration;

use belay::cluster::{Cluster, Pace};
use belay_core::rollout::rolling_update::{Ask, ByHand, RollingUpdate};
use belay_core::rollout::{Hold, Outcome, Record, TemplateMarks, Trigger, marks, template_hash};
use serde_json::Value;

use crate::support::daemon::World;

const WEB: &str = "api/v1/namespaces/default/replicationcontrollers/web";
const OBJECT: &str = "ReplicationController default/web";

fn controller(image: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ReplicationController\nmetadata:\n  name: web\nspec:\n  replicas: 2\n  selector: {{app: web}}\n  \
         template:\n    metadata:\n      labels: {{app: web}}\n      annotations: {{kubelet.belay.dev/fate: ready-after=2s}}\n    \
         spec: {{containers: [{{name: app, image: \"{image}\"}}]}}\n"
    )
}

async fn started() -> (World, String) {
    let mut world = World::embedded().await;
    let first = world.push("web.yaml", &controller("web:1"), "First version");
    world.start();
    world.through(&first).await;
    (world, first)
}

fn by(world: &World) -> ByHand {
    ByHand { by: "ada as admin".to_owned(), since: world.clock.now(), source: None, from: None, hold_follows: false }
}

/// Does the same as the command.
async fn roll(world: &World, ask: Ask) -> String {
    let cluster = Cluster::new(world.client.clone(), world.clock.clone());
    cluster.roll("default", RollingUpdate::new(ask).unwrap(), Pace::default(), |_, _| {}).await.unwrap()
}

async fn image(world: &World) -> String {
    let live = world.get(WEB).await.unwrap();
    live["spec"]["template"]["spec"]["containers"][0]["image"].as_str().unwrap().to_owned()
}

fn of(world: &World, word: &str) -> Vec<Record> {
    world.records().into_iter().filter(|record| record.trigger.word() == word).collect()
}

#[tokio::test(start_paused = true)]
async fn it_is_recorded_and_then_put_right() {
    let (mut world, first) = started().await;
    let ask = Ask { by: Some(by(&world)), ..Ask::image("web", "web:9") };
    assert_eq!(roll(&world, ask).await, "replicationcontroller/web rolling updated");
    assert_eq!(of(&world, "drift"), [], "the daemon left it alone");
    world.until("it is put right", |source| source.settled && source.under_way.is_empty()).await;
    let rolled = of(&world, "rolling-update");
    assert_eq!(rolled.len(), 1, "{rolled:#?}");
    assert_eq!(rolled[0].trigger, Trigger::RollingUpdate("ada as admin".to_owned()));
    assert_eq!((rolled[0].outcome, rolled[0].commit.as_str()), (Outcome::Complete, first.as_str()));
    assert!(rolled[0].ended.unwrap() > rolled[0].started, "it began when the command did");
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert_eq!(image(&world).await, "web:1", "Git has the last word");
    let corrected = of(&world, "drift");
    assert_eq!(corrected.len(), 1, "{corrected:#?}");
    assert_eq!(corrected[0].trigger, Trigger::Drift(marks::ROLLING_UPDATE_MANAGER.to_owned()));
    assert_eq!(corrected[0].outcome, Outcome::Complete);
    // Neither is told twice, also not after a restart.
    world.stop().await;
    world.start();
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!((of(&world, "rolling-update").len(), of(&world, "drift").len()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn with_a_commit_it_is_that_commits() {
    let (mut world, _) = started().await;
    world.config.drift = belay::config::Drift::Report;
    world.stop().await;
    world.start();
    let second = world.push("other.yaml", "kind: ConfigMap\napiVersion: v1\nmetadata: {name: other}\n", "Second");
    world.through(&second).await;
    let marks = TemplateMarks { commit: Some(second.clone()), change_cause: Some("by hand".to_owned()) };
    roll(&world, Ask { by: Some(by(&world)), marks, ..Ask::image("web", "web:9") }).await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    let rolled = of(&world, "rolling-update");
    assert_eq!(
        (rolled.len(), rolled[0].commit.as_str(), rolled[0].rolls_out),
        (1, second.as_str(), true),
        "{rolled:#?}"
    );
    assert_eq!(rolled[0].object.to_string(), OBJECT);
    assert_eq!((image(&world).await.as_str(), of(&world, "drift").len()), ("web:9", 0), "drift is only reported");
}

#[tokio::test(start_paused = true)]
async fn a_command_that_was_broken_off_is_waited_for_but_not_for_ever() {
    let (mut world, _) = started().await;
    let ask = Ask { by: Some(by(&world)), ..Ask::image("web", "web:9") };
    let ended = tokio::time::timeout(Duration::from_secs(90), roll(&world, ask)).await;
    assert!(ended.is_err(), "it is under way still: {ended:?}");
    tokio::time::sleep(Duration::from_mins(8)).await;
    let sizes = |all: &[Value]| all.iter().map(|one| one["spec"]["replicas"].as_i64().unwrap()).collect::<Vec<_>>();
    let all = world.list("api/v1/namespaces/default/replicationcontrollers").await;
    assert_eq!(sizes(&all).len(), 2, "{all:#?}");
    assert_eq!(of(&world, "drift"), []);
    tokio::time::sleep(Duration::from_mins(5)).await;
    let all = world.list("api/v1/namespaces/default/replicationcontrollers").await;
    assert_eq!((sizes(&all), image(&world).await.as_str()), (vec![2], "web:1"));
    assert_eq!(of(&world, "rolling-update"), [], "nothing of it was ever through");
    // A newer commit does not wait.
    let ask = Ask { by: Some(by(&world)), ..Ask::image("web", "web:9") };
    let ended = tokio::time::timeout(Duration::from_secs(90), roll(&world, ask)).await;
    assert!(ended.is_err(), "it is under way still: {ended:?}");
    let next = world.push("web.yaml", &controller("web:2"), "Second version");
    let before = world.clock.now();
    world.through(&next).await;
    assert!(world.clock.now().duration_since(before).as_secs() < 240);
    assert_eq!(image(&world).await, "web:2");
    assert_eq!(world.record(&next, OBJECT).outcome, Outcome::Complete);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_put_right_before_the_hold_of_an_undo_is_there() {
    let (mut world, _) = started().await;
    let second = world.push("web.yaml", &controller("web:2"), "Second version");
    world.through(&second).await;
    let ask = Ask { by: Some(ByHand { hold_follows: true, ..by(&world) }), ..Ask::image("web", "web:1") };
    roll(&world, ask).await;
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!((image(&world).await.as_str(), of(&world, "drift").len()), ("web:1", 0));
    assert_eq!(Hold::on(&world.get(WEB).await.unwrap()), None);
    // Killed before the hold, it is nobody's.
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert_eq!(image(&world).await, "web:2");
}

#[tokio::test(start_paused = true)]
async fn what_is_held_stays_held_and_what_was_rolled_stays() {
    let (mut world, _) = started().await;
    let bad = controller("web:2")
        .replace("ready-after=2s", "never-ready")
        .replace("name: web\nspec", "name: web\n  annotations: {belay.dev/progress-deadline-seconds: \"30\"}\nspec");
    let second = world.push("web.yaml", &bad, "Broken");
    world.through(&second).await;
    assert_eq!(world.record(&second, OBJECT).outcome, Outcome::RolledBack);
    roll(&world, Ask { by: Some(by(&world)), ..Ask::image("web", "web:9") }).await;
    tokio::time::sleep(Duration::from_mins(3)).await;
    let live = world.get(WEB).await.unwrap();
    let hold = Hold::on(&live).expect("held");
    assert_eq!((hold.commit.as_str(), image(&world).await.as_str()), (second.as_str(), "web:9"));
    assert_eq!(hold.template, template_hash(&live["spec"]["template"]));
    assert_eq!((of(&world, "rolling-update").len(), of(&world, "retry").len()), (1, 0));
    assert_eq!(of(&world, "drift"), [], "it stays, so there was nothing to put right");
    let mut managers = live["metadata"]["managedFields"].as_array().unwrap().iter();
    assert!(
        managers.any(|one| one["manager"] == "belay" && one["operation"] == "Apply"),
        "it is belay's again: {live:#}"
    );
    let third = world.push("web.yaml", &controller("web:3"), "Mended");
    world.through(&third).await;
    assert_eq!((image(&world).await.as_str(), Hold::on(&world.get(WEB).await.unwrap())), ("web:3", None));
}
