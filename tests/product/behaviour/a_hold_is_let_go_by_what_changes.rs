//! A hold is let go when the manifest changes in Git, or a ConfigMap that its template names, or when somebody takes it
//! off.

use std::time::Duration;

use belay_core::rollout::{Hold, Outcome, Trigger, marks};
use serde_json::{Value, json};

use crate::support::daemon::{World, broken, deployment, image, path_of};
use crate::support::tap::{Fate, Went};
use crate::support::workloads::KINDS;

#[tokio::test(start_paused = true)]
async fn a_fix_rolls_out() {
    let (mut world, _) = held("").await;
    let fix = world.push("web.yaml", &deployment("web", "web:3", ""), "Fix it");
    world.through(&fix).await;
    assert_eq!(world.record(&fix, "Deployment default/web").outcome, Outcome::Complete);
    let live = world.get(&path_of("web")).await.unwrap();
    assert_eq!((image(&live), Hold::on(&live)), ("web:3", None));
    assert!(world.status().held.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_revert_takes_the_hold_off_without_a_rollout() {
    let (mut world, _) = held("").await;
    let revert = world.push("web.yaml", &deployment("web", "web:1", ""), "Revert");
    world.through(&revert).await;
    let record = world.record(&revert, "Deployment default/web");
    assert_eq!((record.outcome, record.rolls_out), (Outcome::Complete, false));
    let live = world.get(&path_of("web")).await.unwrap();
    assert_eq!((image(&live), Hold::on(&live)), ("web:1", None));
}

/// A person who makes it anew has the hold among their own fields, until belay takes its marks back.
#[tokio::test(start_paused = true)]
async fn also_where_somebody_has_made_it_anew() {
    let (mut world, _) = held("").await;
    let anew = world.make_anew(&path_of("web")).await;
    assert!(Hold::on(&anew).is_some());
    tokio::time::sleep(Duration::from_mins(1)).await;
    let revert = world.push("web.yaml", &deployment("web", "web:1", ""), "Revert");
    world.through(&revert).await;
    let live = world.get(&path_of("web")).await.unwrap();
    assert_eq!((image(&live), Hold::on(&live)), ("web:1", None));
}

#[tokio::test(start_paused = true)]
async fn going_on_to_the_held_manifest_again_is_held() {
    let (mut world, _) = held("").await;
    let note = world.push("note.yaml", "# nothing\n", "Nothing");
    world.through(&note).await;
    let again = world.push("web.yaml", &format!("# A comment.\n{}", broken("web", "never-ready")), "A comment");
    world.through(&again).await;
    let live = world.get(&path_of("web")).await.unwrap();
    assert!(Hold::on(&live).is_some(), "a comment is no change of the manifest");
}

#[tokio::test(start_paused = true)]
async fn a_named_config_map_that_changes_lets_go() {
    let (mut world, _) = held("        envFrom:\n        - configMapRef: {name: settings}\n").await;
    let settings = world.push("settings.yaml", &settings("2"), "Other settings");
    world.through(&settings).await;
    // The manifest is as broken as before: it is tried again, and taken back again.
    let record = world.record(&settings, "Deployment default/web");
    assert_eq!((record.outcome, record.rolls_out), (Outcome::RolledBack, true), "{record:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_named_secret_that_changes_lets_go() {
    let secret = |value: &str| settings(value).replace("ConfigMap", "Secret").replace("\ndata:", "\nstringData:");
    let (mut world, bad) = held("        envFrom:\n        - secretRef: {name: settings, optional: true}\n").await;
    // One that it does not name changes nothing.
    let other = world.push("other.yaml", &secret("1").replace("settings", "other"), "Another secret");
    world.through(&other).await;
    assert_eq!(Hold::on(&world.get(&path_of("web")).await.unwrap()).unwrap().commit.as_str(), bad);
    let named = world.push("secret.yaml", &secret("2"), "A secret");
    world.through(&named).await;
    let record = world.record(&named, "Deployment default/web");
    assert_eq!((record.outcome, record.rolls_out), (Outcome::RolledBack, true), "{record:#?}");
}

#[tokio::test(start_paused = true)]
async fn whoever_takes_it_off_gets_a_retry() {
    let (mut world, bad) = held("").await;
    world.patch(&path_of("web"), "belay", &json!({"metadata": {"annotations": {marks::HOLD: null}}})).await;
    world.until("it is tried again", |source| source.under_way.len() == 1).await;
    world.through(&bad).await;
    let tries: Vec<_> = world.records().into_iter().filter(|record| record.commit.as_str() == bad).collect();
    assert_eq!(tries.len(), 2, "{tries:#?}");
    assert_eq!((tries[1].trigger.clone(), tries[1].outcome), (Trigger::Retry, Outcome::RolledBack));
}

/// Somebody asks for another try while a correction of the held object is on its way to the server.
#[tokio::test(start_paused = true)]
async fn also_while_it_is_put_right() {
    for kind in KINDS {
        let (mut world, tap) = World::tapped().await;
        let labelled =
            |manifest: String| manifest.replacen("  name: web\n", "  name: web\n  labels: {team: shop}\n", 1);
        let first = world.push("web.yaml", &labelled(kind.manifest("web:1", "ready-after=1s")), "First version");
        world.start();
        world.through(&first).await;
        let bad = world.push("web.yaml", &labelled(kind.manifest("web:2", "never-ready")), "Broken");
        world.through(&bad).await;
        assert!(Hold::on(&world.get(&kind.path()).await.unwrap()).is_some(), "{kind:?}");
        let path = kind.path();
        let is_correction = move |went: &Went| went.method == "PATCH" && went.is_write() && went.path.contains(&path);
        tap.take();
        let slow = is_correction.clone();
        tap.rule(move |went, _| if slow(went) { Fate::After(Duration::from_secs(9)) } else { Fate::Pass });
        world.patch(&kind.path(), "kubectl", &json!({"metadata": {"labels": {"team": "other"}}})).await;
        for _ in 0..600 {
            if tap.take().iter().any(&is_correction) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        world.patch(&kind.path(), "belay", &json!({"metadata": {"annotations": {marks::HOLD: null}}})).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        tap.rule(|_, _| Fate::Pass);
        world.through(&bad).await;
        let records = world.records();
        let tries = records.iter().filter(|record| record.trigger == Trigger::Retry && record.commit.as_str() == bad);
        assert_eq!(
            tries.map(|record| record.outcome).collect::<Vec<_>>(),
            [Outcome::RolledBack],
            "{kind:?}: {records:#?}"
        );
    }
}

/// The hold goes together with something else that belay puts right.
#[tokio::test(start_paused = true)]
async fn also_together_with_another_change() {
    let off = json!({"metadata": {"annotations": {marks::HOLD: null}}});
    let other = json!({"metadata": {"labels": {"belay.dev/source": "other"}}});
    let both = json!({"metadata": {"annotations": {marks::HOLD: null}, "labels": {"belay.dev/source": "other"}}});
    let team = json!({"metadata": {"annotations": {marks::HOLD: null}, "labels": {"team": "other"}}});
    for kind in KINDS {
        let labelled =
            |manifest: String| manifest.replacen("  name: web\n", "  name: web\n  labels: {team: shop}\n", 1);
        for (case, patches, is_away) in [
            ("the label before", vec![&other, &off], false),
            ("the label with it", vec![&both], false),
            ("while belay is away", vec![&team], true),
            ("the label while belay is away", vec![&both], true),
        ] {
            let mut world = World::embedded().await;
            let first = world.push("web.yaml", &labelled(kind.manifest("web:1", "ready-after=1s")), "First version");
            world.start();
            world.through(&first).await;
            let bad = world.push("web.yaml", &labelled(kind.manifest("web:2", "never-ready")), "Broken");
            world.through(&bad).await;
            if is_away {
                world.stop().await;
            }
            for patch in patches {
                world.patch(&kind.path(), "kubectl-label", patch).await;
            }
            if is_away {
                world.start();
            }
            tokio::time::sleep(Duration::from_mins(2)).await;
            world.through(&bad).await;
            let records = world.records();
            let tries: Vec<_> = records.iter().filter(|record| record.trigger == Trigger::Retry).collect();
            let outcomes: Vec<_> = tries.iter().map(|record| record.outcome).collect();
            assert_eq!(outcomes, [Outcome::RolledBack], "{kind:?}, {case}: {records:#?}");
        }
    }
}

async fn held(more: &str) -> (World, String) {
    let mut world = World::embedded().await;
    let with = |manifest: String| format!("{manifest}{more}");
    world.repository.write("settings.yaml", settings("1")).write("web.yaml", with(deployment("web", "web:1", "")));
    let good = world.repository.commit("First version");
    world.repository.push();
    world.start();
    world.through(&good).await;
    let bad = world.push("web.yaml", &with(broken("web", "never-ready")), "Broken");
    world.through(&bad).await;
    assert_eq!(world.record(&bad, "Deployment default/web").outcome, Outcome::RolledBack);
    (world, bad)
}

fn settings(value: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: settings\ndata:\n  A: \"{value}\"\n")
}

/// The bad commit is reverted while the workload is not well on its last good revision: the commit is complete when the
/// workload is.
#[tokio::test(start_paused = true)]
async fn a_revert_is_complete_when_the_workload_is() {
    for kind in KINDS.into_iter().filter(|kind| kind.name != "ReplicationController") {
        let mut world = World::embedded().await;
        let good = world.push("web.yaml", &kind.manifest("web:1", "ready"), "First version");
        world.start();
        world.through(&good).await;
        let bad = world.push("web.yaml", &kind.manifest("web:2", "never-ready"), "Broken");
        world.through(&bad).await;
        let suspend = |why: Value| json!({"metadata": {"annotations": {"belay.dev/suspend": why}}});
        world.patch(&kind.path(), "kubectl-annotate", &suspend(json!("an incident"))).await;
        let gone = json!({"spec": {"template": {"spec": {"containers": [{"name": "app", "image": "web:2:404"}]}}}});
        world.patch(&kind.path(), "kubectl-set", &gone).await;
        tokio::time::sleep(Duration::from_mins(1)).await;
        world.patch(&kind.path(), "kubectl-annotate", &suspend(Value::Null)).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        let revert = world.push("web.yaml", &kind.manifest("web:1", "ready"), "Revert");
        world.through(&revert).await;
        let pods = world.list("api/v1/namespaces/default/pods").await;
        let is_well = |pod: &Value| pod["status"]["containerStatuses"][0]["ready"] == true && image_of(pod) == "web:1";
        assert!(!pods.is_empty() && pods.iter().all(is_well), "{kind:?}: {pods:#?} {:#?}", world.records());
        let complete = world.record(&revert, &kind.object()).outcome == Outcome::Complete;
        // The controller of a StatefulSet waits for the pod that can't be pulled: belay deletes that.
        assert!(complete, "{kind:?}: {:#?}", world.records());
    }
}

fn image_of(pod: &Value) -> &str {
    pod["spec"]["containers"][0]["image"].as_str().unwrap_or_default()
}
