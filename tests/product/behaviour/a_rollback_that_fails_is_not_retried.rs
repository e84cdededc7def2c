//! A rollback that fails is reported, and nothing more is done until a person or a commit acts.

use std::time::Duration;

use belay_core::rollout::{Outcome, StepKind};
use serde_json::json;

use crate::support::daemon::{World, broken, deployment, path_of};

/// Returns the output of `belay show` for a commit.
fn shown(world: &World, commit: &str) -> String {
    let state = world.repository.beside("state");
    let shown = std::process::Command::new(env!("CARGO_BIN_EXE_belay"))
        .args(["show", commit, "--state-dir", &state.display().to_string()])
        .env_clear()
        .env("HOME", world.repository.beside("home"))
        .output()
        .unwrap();
    assert!(shown.status.success(), "{shown:?}");
    String::from_utf8(shown.stdout).unwrap()
}

#[tokio::test(start_paused = true)]
async fn it_is_reported_once() {
    let mut world = World::embedded().await;
    world.config.rollback_budget = "1m".parse().unwrap();
    // The good version reads a ConfigMap that somebody deletes meanwhile: it can't come back.
    let reads = "        envFrom:\n        - configMapRef: {name: settings}\n";
    let settings = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}});
    let request =
        http::Request::post("/api/v1/namespaces/default/configmaps").body(settings.to_string().into_bytes()).unwrap();
    world.client.request::<serde_json::Value>(request).await.unwrap();
    let recreate = |manifest: String| manifest.replace("  selector:", "  strategy: {type: Recreate}\n  selector:");
    let first = recreate(format!("{}{reads}", deployment("web", "web:1", "")));
    let good = world.push("web.yaml", &first, "First version");
    world.start();
    world.through(&good).await;
    let request = http::Request::delete("/api/v1/namespaces/default/configmaps/settings").body(Vec::new()).unwrap();
    world.client.request::<serde_json::Value>(request).await.unwrap();
    let bad = world.push("web.yaml", &recreate(broken("web", "never-ready")), "Broken");
    world.through(&bad).await;
    let record = world.record(&bad, "Deployment default/web");
    assert_eq!(record.outcome, Outcome::RollbackFailed, "{record:#?}");
    assert!(record.reason.unwrap().message.contains("the way back failed too"));
    // The deadline of 30 s is over when it goes back: it has its own, and the budget on top of it.
    let steps = world.history().steps(record.id).unwrap();
    let at = |kind: StepKind| steps.iter().find(|step| step.kind == kind).unwrap().at;
    let took = at(StepKind::Ended).duration_since(at(StepKind::WentBack)).as_secs();
    assert!((60..=100).contains(&took), "{took} s: {steps:#?}");
    let evidence = record.evidence.unwrap();
    let of = |image: &str| evidence.pods.iter().filter(|pod| pod.message.contains(image) || pod.state == image).count();
    assert!(evidence.conditions.iter().any(|line| !line.starts_with("on the way back: ")), "{evidence:#?}");
    assert!(evidence.conditions.iter().any(|line| line.starts_with("on the way back: ")), "{evidence:#?}");
    assert!(of("CreateContainerConfigError") > 0, "of the way back: {evidence:#?}");
    assert!(evidence.pods.len() > of("CreateContainerConfigError"), "of the failure: {evidence:#?}");
    let shown = shown(&world, &bad);
    for part in [
        "Deployment default/web: rollback-failed after ",
        "; the way back failed too: ",
        "\n    Progressing",
        "\n    on the way back: Progressing",
        ", container app: on the way back: ",
    ] {
        assert!(shown.contains(part), "{part:?} is not in {shown}");
    }
    assert!(shown.lines().any(|line| line.contains(", container app") && !line.contains("on the way back")), "{shown}");
    let generation = world.get(&path_of("web")).await.unwrap()["metadata"]["generation"].clone();
    tokio::time::sleep(Duration::from_mins(30)).await;
    assert_eq!(world.get(&path_of("web")).await.unwrap()["metadata"]["generation"], generation);
    let fix = world.push("web.yaml", &recreate(deployment("web", "web:3", "")), "Fix it");
    world.through(&fix).await;
    assert_eq!(world.record(&fix, "Deployment default/web").outcome, Outcome::Complete);
}
