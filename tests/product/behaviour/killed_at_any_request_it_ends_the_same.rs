//! `kill -9` at each step of a rollout and of a rollback loses no record, repeats no write that matters, and ends as
//! without the kill.

use belay_core::rollout::{Hold, Outcome, marks};
use serde_json::{Value, json};

use crate::support::daemon::{World, broken, deployment, path_of};
use crate::support::tap::Fate;

/// The end of a run, in all parts that may not depend on kills.
#[derive(Debug, PartialEq)]
struct End {
    outcome: Outcome,
    reason: Option<String>,
    records: usize,
    deployment: Value,
    revisions: Vec<Value>,
}

/// Brings up a good version, then pushes `next` and lets `fate` befall one of the requests that follow.
async fn run(next: &str, dies: Option<(usize, Fate)>) -> (End, usize) {
    let (mut world, tap) = World::tapped().await;
    world.repository.author("Ada", "ada@example.com").at(1_700_000_000);
    world.with_first_version().await;
    tap.take();
    if let Some((at, fate)) = dies {
        tap.rule(move |_, number| if number == at { fate } else { Fate::Pass });
    }
    let commit = world.push("web.yaml", next, "Next version");
    world.through_a_kill(&tap, &commit).await;
    let requests = tap.take().len();
    (end(&world, &commit).await, requests)
}

async fn end(world: &World, commit: &str) -> End {
    let live = world.get(&path_of("web")).await.unwrap();
    let sets = world.get("apis/apps/v1/namespaces/default/replicasets").await.unwrap();
    let shown = |object: &Value| {
        json!({
            "generation": object["metadata"]["generation"], "image": object["spec"]["template"]["spec"]["containers"][0]["image"],
            "commit": marks::annotation(object, marks::COMMIT), "cause": cause(object),
            "revision": marks::revision(object), "replicas": object["spec"]["replicas"],
            "held": Hold::on(object).map(|hold| (hold.manifest, hold.commit, hold.template)),
        })
    };
    let mut revisions: Vec<Value> = sets["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|set| {
            let mut shown = shown(set);
            // The number of its controller's writes depends on timing.
            shown["generation"] = Value::Null;
            shown
        })
        .collect();
    revisions.sort_by_key(ToString::to_string);
    let record = world.record(commit, "Deployment default/web");
    let reason = record.reason.map(|reason| reason.code.to_string());
    End { outcome: record.outcome, reason, records: world.records().len(), deployment: shown(&live), revisions }
}

/// Returns the change-cause, and whether it is marked as failed. The state of the pods just then depends on timing.
fn cause(object: &Value) -> Option<(&str, bool)> {
    let cause = marks::annotation(object, marks::CHANGE_CAUSE)?;
    Some(cause.split_once(marks::FAILED).map_or((cause, false), |(cause, _)| (cause, true)))
}

async fn at_every_request(next: &str, outcome: Outcome) {
    let (expected, requests) = run(next, None).await;
    assert_eq!(expected.outcome, outcome);
    assert!(requests >= 3, "{requests}");
    for at in 0..requests {
        for fate in [Fate::DieBefore, Fate::DieAfter] {
            let (ended, _) = run(next, Some((at, fate))).await;
            assert_eq!(ended, expected, "killed at request {at} of {requests}: {fate:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn through_a_rollout() {
    at_every_request(&deployment("web", "web:2", ""), Outcome::Complete).await;
}

#[tokio::test(start_paused = true)]
async fn through_a_rollback() {
    at_every_request(&broken("web", "image-pull-error"), Outcome::RolledBack).await;
}
