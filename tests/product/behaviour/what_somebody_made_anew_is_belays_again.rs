//! An object that somebody makes anew as it was, by force or from a backup, is all theirs at first. Nothing of it stays
//! that the repository stops to have.

use std::time::Duration;

use belay_core::rollout::Outcome;
use serde_json::{Value, json};

use crate::support::daemon::{World, config_map, deployment, image, path_of};

/// Returns a Deployment with more in it, as it was made anew, and taken up again.
async fn made_anew() -> World {
    let mut world = World::embedded().await;
    world.start();
    let first = world.push("web.yaml", &rich("web:1"), "Much of it");
    world.through(&first).await;
    world.make_anew(&path_of("web")).await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    world
}

fn rich(image: &str) -> String {
    let labels = deployment("web", image, "").replace("spec:\n  replicas", "  labels: {team: a}\nspec:\n  replicas");
    format!("{labels}        env: [{{name: COLOUR, value: red}}]\n      - name: proxy\n        image: proxy:1\n")
}

fn template(live: &Value) -> &Value {
    &live["spec"]["template"]["spec"]
}

#[tokio::test(start_paused = true)]
async fn what_a_commit_takes_out_goes() {
    let mut world = made_anew().await;
    world.patch(&path_of("web"), "kubectl-edit", &json!({"metadata": {"annotations": {"note": "theirs"}}})).await;
    let poor = world.push("web.yaml", &deployment("web", "web:1", ""), "Little of it");
    world.through(&poor).await;
    let record = world.record(&poor, "Deployment default/web");
    assert_eq!((record.outcome, record.rolls_out), (Outcome::Complete, true), "{record:#?}");
    let live = world.get(&path_of("web")).await.unwrap();
    assert_eq!(template(&live)["containers"].as_array().unwrap().len(), 1, "{live:#}");
    assert_eq!(template(&live)["containers"][0].get("env"), None);
    assert_eq!(live["metadata"].get("labels").and_then(|labels| labels.get("team")), None);
    assert_eq!(live["metadata"]["annotations"]["note"], "theirs");
}

#[tokio::test(start_paused = true)]
async fn without_a_rollout_where_the_template_stays() {
    let mut world = made_anew().await;
    let plain = rich("web:1").replace("  labels: {team: a}\n", "").replace("  progressDeadlineSeconds: 30\n", "");
    let plain = world.push("web.yaml", &plain, "No label and no deadline");
    world.through(&plain).await;
    assert!(!world.record(&plain, "Deployment default/web").rolls_out);
    let live = world.get(&path_of("web")).await.unwrap();
    assert_eq!(live["spec"]["progressDeadlineSeconds"], 600, "the server's own");
    assert_eq!(live["metadata"]["labels"], json!({"belay.dev/source": "shop"}));
    assert_eq!(template(&live)["containers"].as_array().unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn nor_does_what_failed_stay_when_it_is_taken_back() {
    let mut world = made_anew().await;
    let before = world.get(&path_of("web")).await.unwrap()["spec"]["template"].clone();
    let more = rich("web:404")
        .replace("red", "blue")
        .replace("proxy:1\n", "proxy:1\n      - name: log\n        image: log:1\n");
    let bad = world.push("web.yaml", &more, "One container more");
    world.until("it is judged", |source| !source.under_way.is_empty()).await;
    world.make_anew(&path_of("web")).await;
    world.through(&bad).await;
    let live = world.get(&path_of("web")).await.unwrap();
    assert_eq!((image(&live), template(&live)), ("web:1", &before["spec"]), "{:#?}", world.records());
}

#[tokio::test(start_paused = true)]
async fn also_of_what_has_no_template() {
    let mut world = World::embedded().await;
    world.start();
    let two = format!("{}  B: \"2\"\n", config_map("settings", "1"));
    let first = world.push("settings.yaml", &two, "Two of them");
    world.through(&first).await;
    let path = "api/v1/namespaces/default/configmaps/settings";
    world.make_anew(path).await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    let less = world.push("settings.yaml", &config_map("settings", "1"), "One of them");
    world.through(&less).await;
    assert_eq!(world.get(path).await.unwrap()["data"], json!({"A": "1"}));
}
