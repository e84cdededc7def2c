//! Strict manifests: each complaint has its place and a hint, and the other files go on.

use belay_core::rollout::{Outcome, Record};

use crate::support::daemon::{World, deployment, path_of};

async fn with(bad: &str) -> (World, Vec<Record>) {
    let mut world = World::embedded().await;
    world.repository.write("bad.yaml", bad).write("good.yaml", deployment("web", "web:1", ""));
    let commit = world.repository.commit("One good, one bad");
    world.repository.push();
    world.start();
    world.through(&commit).await;
    assert_eq!(world.record(&commit, "Deployment default/web").outcome, Outcome::Complete);
    let bad = world.records().into_iter().filter(|record| record.outcome == Outcome::Rejected).collect();
    (world, bad)
}

fn complaint(records: &[Record], place: &str, says: &str) {
    let all: Vec<String> = records.iter().flat_map(|record| &record.complaints).map(ToString::to_string).collect();
    assert!(
        all.iter().any(|text| text.starts_with(place) && text.contains(says)),
        "no {says:?} at {place} in {all:#?}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_unknown_field() {
    let (world, bad) = with(&deployment("bad", "web:1", "").replace("image:", "imagee:")).await;
    complaint(&bad, "bad.yaml:16:9", "image");
    assert_eq!(bad[0].object.to_string(), "Deployment default/bad");
    assert_eq!(world.get(&path_of("bad")).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_written_twice() {
    let (_, bad) =
        with(&deployment("bad", "web:1", "").replace("  replicas: 2\n", "  replicas: 2\n  replicas: 3\n")).await;
    complaint(&bad, "bad.yaml:7:3", "replicas");
}

#[tokio::test(start_paused = true)]
async fn a_wrong_type() {
    let (_, bad) = with(&deployment("bad", "web:1", "").replace("replicas: 2", "replicas: \"2\"")).await;
    complaint(&bad, "bad.yaml:6:13", "");
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_written_twice() {
    let twice = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";
    let (world, bad) = with(&format!("{twice}---\n{twice}")).await;
    complaint(&bad, "bad.yaml:", "");
    assert!(bad.iter().any(|record| record.object.to_string() == "ConfigMap default/a"), "{bad:#?}");
    assert_eq!(world.get("api/v1/namespaces/default/configmaps/a").await, None);
}

#[tokio::test(start_paused = true)]
async fn what_only_the_server_can_see() {
    let (_, bad) =
        with(&deployment("bad", "web:1", "").replace("matchLabels: {app: bad}", "matchLabels: {app: other}")).await;
    assert_eq!(bad.len(), 1, "{bad:#?}");
    let text = bad[0].complaints.iter().map(ToString::to_string).collect::<String>();
    assert!(text.contains("bad.yaml:") && text.contains("selector"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_secret_shows_nothing_of_its_values() {
    let (_, bad) = with("apiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata:\n  key: hunter2 is no base64\nstringDataa:\n  other: hunter3\n").await;
    assert!(!bad.is_empty());
    let text = format!("{bad:?}");
    assert!(!text.contains("hunter"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn its_fix_is_applied() {
    let (mut world, _) = with(&deployment("bad", "web:1", "").replace("image:", "imagee:")).await;
    let fix = world.push("bad.yaml", &deployment("bad", "web:1", ""), "Fix the typo");
    world.through(&fix).await;
    assert_eq!(world.record(&fix, "Deployment default/bad").outcome, Outcome::Complete);
}
