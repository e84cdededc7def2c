//! A change by others is corrected, or only reported; fields of another are left to it.

use std::time::Duration;

use belay::config::Drift;
use belay_core::rollout::{Hold, Outcome, Trigger, marks};
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::{Value, json};

use crate::support::daemon::{EPOCH, World, broken, config_map, deployment, image, path_of};
use crate::support::tap::Fate;

async fn settle(world: &mut World, commit: &str) {
    tokio::time::sleep(Duration::from_mins(2)).await;
    world.through(commit).await;
}

#[tokio::test(start_paused = true)]
async fn scaling_by_hand_is_put_right_and_recorded() {
    let (mut world, first) = World::with_web().await;
    world.patch(&path_of("web"), "kubectl-scale", &json!({"spec": {"replicas": 5}})).await;
    settle(&mut world, &first).await;
    assert_eq!(world.get(&path_of("web")).await.unwrap()["spec"]["replicas"], 2);
    let record = world.records().pop().unwrap();
    assert_eq!(record.trigger, Trigger::Drift("kubectl-scale".to_owned()));
    assert_eq!(record.outcome, Outcome::Complete);
    assert_eq!(world.metrics().drift_corrections("shop"), 1);
}

/// Two tools have changed fields of a workload while belay was away: the record names both.
#[tokio::test(start_paused = true)]
async fn all_who_have_changed_it_are_named() {
    let (mut world, first) = World::with_web().await;
    world.stop().await;
    let restart = json!({"spec": {"template": {"metadata": {"annotations": {marks::RESTARTED_AT: EPOCH}}}}});
    let image_by_hand = json!({"spec": {"template": {"spec": {"containers": [{"name": "app", "image": "web:9"}]}}}});
    let scaled = json!({"spec": {"replicas": 5}});
    for (manager, change) in [("kubectl-set", image_by_hand), ("kubectl-scale", scaled), ("kubectl-rollout", restart)] {
        tokio::time::sleep(Duration::from_secs(5)).await;
        world.patch(&path_of("web"), manager, &change).await;
    }
    world.start();
    settle(&mut world, &first).await;
    let live = world.get(&path_of("web")).await.unwrap();
    assert_eq!((image(&live), &live["spec"]["replicas"]), ("web:1", &json!(2)));
    // The person who restarted it has changed nothing that is put right.
    let records = world.records();
    let is_named = |by: &str| records.iter().any(|record| record.trigger == Trigger::Drift(by.to_owned()));
    assert!(is_named("kubectl-scale, kubectl-set"), "{records:#?}");
}

#[tokio::test(start_paused = true)]
async fn or_only_reported() {
    let mut world = World::embedded().await;
    world.config.drift = Drift::Report;
    world.with_first_version().await;
    world.patch(&path_of("web"), "kubectl-scale", &json!({"spec": {"replicas": 5}})).await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert_eq!(world.get(&path_of("web")).await.unwrap()["spec"]["replicas"], 5);
    assert!(world.status().obstacles.trouble.values().any(|trouble| trouble.contains("differs from Git")));
    let events = world.list("api/v1/namespaces/default/events").await;
    assert!(events.iter().any(|event| event["reason"] == "Drifted"));
}

/// Its controllers' reports of it meanwhile are not checked each time.
#[tokio::test(start_paused = true)]
async fn and_costs_nothing_from_then_on() {
    let (mut world, tap) = World::tapped().await;
    world.config.drift = Drift::Report;
    world.with_first_version().await;
    world.patch(&path_of("web"), "kubectl-scale", &json!({"spec": {"replicas": 5}})).await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    tap.take();
    for _ in 0..3 {
        let pods = world.list("api/v1/namespaces/default/pods").await;
        world
            .delete(&format!("api/v1/namespaces/default/pods/{}", pods[0]["metadata"]["name"].as_str().unwrap()))
            .await;
        tokio::time::sleep(Duration::from_mins(1)).await;
    }
    let asked: Vec<_> = tap.take().into_iter().filter(|went| !went.path.contains("/leases/")).collect();
    assert_eq!(asked, []);
    // A change by a person is checked again.
    world.patch(&path_of("web"), "kubectl-scale", &json!({"spec": {"replicas": 2}})).await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert!(world.status().obstacles.trouble.is_empty(), "{:?}", world.status().obstacles.trouble);
}

#[tokio::test(start_paused = true)]
async fn what_the_manifest_does_not_name_is_nobodys_business() {
    let (mut world, first) = World::with_web().await;
    let others = json!({"metadata": {"annotations": {"team": "a"}, "labels": {"tier": "web"}},
        "spec": {"minReadySeconds": 1}});
    world.patch(&path_of("web"), "somebody", &others).await;
    settle(&mut world, &first).await;
    let live = world.get(&path_of("web")).await.unwrap();
    assert_eq!((&live["spec"]["minReadySeconds"], &live["metadata"]["labels"]["tier"]), (&json!(1), &json!("web")));
    assert_eq!(world.records().len(), 1);
}

/// The server writes a thousand thousandths as one, fills in what was left out, and counts: none of that is drift.
#[tokio::test(start_paused = true)]
async fn what_the_server_makes_of_a_manifest_is_no_drift() {
    let mut world = World::embedded().await;
    let resources = "        resources: {limits: {cpu: 1000m, memory: 1024Mi}, requests: {cpu: 0.5}}\n";
    let first = world.push("web.yaml", &(deployment("web", "web:1", "") + resources), "First version");
    world.start();
    world.through(&first).await;
    let before = world.get(&path_of("web")).await.unwrap();
    assert_eq!(before["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["cpu"], "1");
    // Also if it is looked at again, for somebody else has written beside belay.
    world.patch(&path_of("web"), "somebody", &json!({"metadata": {"labels": {"team": "a"}}})).await;
    settle(&mut world, &first).await;
    world.stop().await;
    world.start();
    settle(&mut world, &first).await;
    let after = world.get(&path_of("web")).await.unwrap();
    assert_eq!(after["spec"], before["spec"]);
    assert_eq!(after["metadata"]["generation"], before["metadata"]["generation"]);
    assert_eq!(world.records().len(), 1, "{:?}", world.outcomes());
}

/// As an admission webhook would: the images come from a mirror, in the dry run and in earnest.
fn mirrored(client: kube::Client) -> kube::Client {
    let namespace = client.default_namespace().to_owned();
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let client = client.clone();
        async move {
            if request.method() != http::Method::PATCH {
                return client.send(request).await;
            }
            let (parts, body) = request.into_parts();
            let sent = String::from_utf8(body.collect().await?.to_bytes().to_vec()).unwrap();
            let mirrored = sent.replace("\"image\":\"web:", "\"image\":\"mirror.example.com/web:");
            client.send(http::Request::from_parts(parts, Body::from(mirrored.into_bytes()))).await
        }
    });
    kube::Client::new(service, namespace)
}

#[tokio::test(start_paused = true)]
async fn what_a_webhook_makes_of_it_is_no_drift() {
    let mut world = World::behind(mirrored).await;
    let first = world.with_first_version().await;
    let before = world.get(&path_of("web")).await.unwrap();
    assert_eq!(image(&before), "mirror.example.com/web:1");
    // Also if it is looked at again, for somebody else has written beside belay.
    world.patch(&path_of("web"), "somebody", &json!({"metadata": {"labels": {"team": "a"}}})).await;
    settle(&mut world, &first).await;
    world.stop().await;
    world.start();
    settle(&mut world, &first).await;
    let after = world.get(&path_of("web")).await.unwrap();
    assert_eq!(after["metadata"]["generation"], before["metadata"]["generation"]);
    assert_eq!(world.records().len(), 1, "{:?}", world.outcomes());
    // It is taken back, held and mended like any other.
    let bad = world.push("web.yaml", &broken("web", "never-ready"), "Broken");
    world.through(&bad).await;
    settle(&mut world, &bad).await;
    assert_eq!(world.record(&bad, "Deployment default/web").outcome, Outcome::RolledBack);
    assert_eq!(image(&world.get(&path_of("web")).await.unwrap()), "mirror.example.com/web:1");
    assert_eq!(world.status().held.len(), 1);
    let fix = world.push("web.yaml", &deployment("web", "web:3", ""), "Fix it");
    world.through(&fix).await;
    settle(&mut world, &fix).await;
    assert_eq!(image(&world.get(&path_of("web")).await.unwrap()), "mirror.example.com/web:3");
    assert_eq!(world.records().len(), 3, "{:?}", world.outcomes());
}

/// A field that the manifest no longer names is whose it has become meanwhile; without an owner it goes.
#[tokio::test(start_paused = true)]
async fn fields_that_were_given_to_another_stay_given() {
    let mut world = World::embedded().await;
    let with_both = deployment("web", "web:1", "  minReadySeconds: 1\n");
    let first = world.push("web.yaml", &with_both, "First version");
    world.start();
    world.through(&first).await;
    let applied =
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {"replicas": 2}});
    let request = http::Request::patch(format!("/{}?fieldManager=scaler", path_of("web")))
        .header("Content-Type", "application/apply-patch+yaml")
        .body(applied.to_string().into_bytes())
        .unwrap();
    world.client.request::<Value>(request).await.unwrap();
    let without = with_both.replace("  replicas: 2\n", "").replace("  minReadySeconds: 1\n", "");
    let second = world.push("web.yaml", &without, "Another says how many");
    world.through(&second).await;
    let live = world.get(&path_of("web")).await.unwrap();
    assert_eq!((&live["spec"]["replicas"], live["spec"].get("minReadySeconds")), (&json!(2), None));
    world.patch(&path_of("web"), "scaler", &json!({"spec": {"replicas": 5}})).await;
    settle(&mut world, &second).await;
    assert_eq!(world.get(&path_of("web")).await.unwrap()["spec"]["replicas"], 5);
    let third = world.push("web.yaml", &without.replace("web:1", "web:2"), "Second version");
    world.through(&third).await;
    let live = world.get(&path_of("web")).await.unwrap();
    assert_eq!((&live["spec"]["replicas"], image(&live)), (&json!(5), "web:2"));
}

#[tokio::test(start_paused = true)]
async fn what_is_deleted_is_made_again() {
    let (mut world, first) = World::with_web().await;
    world.delete(&path_of("web")).await;
    settle(&mut world, &first).await;
    assert_eq!(world.get(&path_of("web")).await.unwrap()["status"]["availableReplicas"], 2);
}

/// A source has settled only after that; `run --once` waits for it.
#[tokio::test(start_paused = true)]
async fn what_was_done_while_no_daemon_ran_is_put_right_before_it_has_settled() {
    let (mut world, tap) = World::tapped().await;
    for name in ["gone", "changed"] {
        world.repository.write(format!("{name}.yaml"), deployment(name, "web:1", ""));
    }
    world.repository.write("map.yaml", config_map("map", "1"));
    world.with_all_of_them().await;
    let map = "api/v1/namespaces/default/configmaps/map";
    let (bad, web) = (broken("held", "never-ready"), deployment("held", "web:1", ""));
    world.push("held.yaml", &web, "Another one");
    world.until("it is complete", |source| source.settled && source.objects == 4).await;
    let bad = world.push("held.yaml", &bad, "Broken");
    world.through(&bad).await;
    world.kill().await;
    world.delete(&path_of("gone")).await;
    world.delete(&path_of("held")).await;
    world.delete(map).await;
    let other = json!({ "spec": { "template": { "spec": { "containers": [{ "name": "app", "image": "other" }] } } } });
    world.patch(&path_of("changed"), "kubectl-edit", &other).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    // The lists of the watches come late, as those of a large cluster do.
    let is_of_a_watch = |path: &str| path.contains("labelSelector=");
    tap.rule(move |went, _| if is_of_a_watch(&went.path) { Fate::After(Duration::from_secs(7)) } else { Fate::Pass });
    world.start();
    world.through(&bad).await;
    assert!(world.get(map).await.is_some());
    for name in ["gone", "changed", "held"] {
        let live = world.get(&path_of(name)).await.unwrap_or_else(|| panic!("{name} is gone"));
        assert_eq!((image(&live), Hold::on(&live).is_some()), ("web:1", name == "held"), "{name}");
    }
}

async fn held() -> (World, String) {
    let (mut world, _) = World::with_web().await;
    let bad = world.push("web.yaml", &broken("web", "never-ready"), "Broken");
    world.through(&bad).await;
    assert_eq!(world.record(&bad, "Deployment default/web").outcome, Outcome::RolledBack);
    (world, bad)
}

#[tokio::test(start_paused = true)]
async fn while_a_manifest_is_held_all_but_its_template() {
    let (mut world, bad) = held().await;
    world.patch(&path_of("web"), "kubectl-scale", &json!({"spec": {"replicas": 5}})).await;
    settle(&mut world, &bad).await;
    let live = world.get(&path_of("web")).await.unwrap();
    assert_eq!((&live["spec"]["replicas"], image(&live)), (&json!(2), "web:1"));
    assert_eq!(Hold::on(&live).unwrap().commit.as_str(), bad);
    let record = world.records().pop().unwrap();
    assert_eq!((record.trigger, record.rolls_out), (Trigger::Drift("kubectl-scale".to_owned()), false));
}

#[tokio::test(start_paused = true)]
async fn while_a_manifest_is_held_its_template_stays_the_good_one() {
    let (mut world, bad) = held().await;
    let template = json!({"spec": {"template": {"spec": {"containers": [{"name": "app", "image": "mine:1"}]}}}});
    world.patch(&path_of("web"), "kubectl-edit", &template).await;
    settle(&mut world, &bad).await;
    let live = world.get(&path_of("web")).await.unwrap();
    assert_eq!(image(&live), "web:1");
    assert_eq!(Hold::on(&live).unwrap().commit.as_str(), bad);
    // The next failure still goes back to what was good.
    let worse = world.push("web.yaml", &broken("web", "crash-after=1s"), "Broken otherwise");
    world.through(&worse).await;
    assert_eq!(world.record(&worse, "Deployment default/web").outcome, Outcome::RolledBack);
    assert_eq!(image(&world.get(&path_of("web")).await.unwrap()), "web:1");
}

/// Creates an object as `kubectl apply` does: with its manager, and its annotation.
async fn made_by_kubectl(world: &World, manifest: &str) {
    let mut object: Value = serde_yaml::from_str(manifest).unwrap();
    let last = object.to_string();
    object["metadata"]["namespace"] = json!("default");
    object["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"] = json!(last);
    world.create("apis/apps/v1/namespaces/default/deployments", "kubectl-client-side-apply", &object).await;
}

#[tokio::test(start_paused = true)]
async fn what_kubectl_applied_is_taken_over_and_leaves_nothing_behind() {
    let mut world = World::embedded().await;
    let more = "        env: [{name: OLD, value: \"1\"}]\n";
    let paused = deployment("web", "web:1", "  minReadySeconds: 3\n");
    made_by_kubectl(&world, &format!("{paused}{more}")).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    let first = world.push("web.yaml", &deployment("web", "web:1", ""), "Without two fields");
    world.start();
    world.through(&first).await;
    let live = world.get(&path_of("web")).await.unwrap();
    assert_eq!(live["spec"].get("minReadySeconds"), None, "{live:#}");
    assert_eq!(live["spec"]["template"]["spec"]["containers"][0].get("env"), None, "{live:#}");
    let managers: Vec<&str> = live["metadata"]["managedFields"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|one| one["manager"].as_str())
        .collect();
    assert!(!managers.contains(&"kubectl-client-side-apply"), "{managers:?}");
    assert!(live["metadata"]["annotations"].get("kubectl.kubernetes.io/last-applied-configuration").is_none());
    let record = world.record(&first, "Deployment default/web");
    assert_eq!((record.outcome, record.rolls_out), (Outcome::Complete, true), "a field of the template goes");
}

fn autoscaler() -> Value {
    json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "web"},
        "spec": {"minReplicas": 1, "maxReplicas": 9,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}})
}

const AUTOSCALERS: &str = "apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";

#[tokio::test(start_paused = true)]
async fn replicas_are_the_autoscalers_where_the_cluster_has_one() {
    let (mut world, first) = World::with_web().await;
    world.create(AUTOSCALERS, "kubectl-create", &autoscaler()).await;
    settle(&mut world, &first).await;
    assert_eq!(world.get(&path_of("web")).await.unwrap()["spec"]["replicas"], 2, "as it was, until it scales");
    world.patch(&path_of("web"), "autoscaler", &json!({"spec": {"replicas": 6}})).await;
    settle(&mut world, &first).await;
    assert_eq!(world.get(&path_of("web")).await.unwrap()["spec"]["replicas"], 6);
    let second = world.push("web.yaml", &deployment("web", "web:2", ""), "Second version");
    world.through(&second).await;
    let live = world.get(&path_of("web")).await.unwrap();
    assert_eq!((&live["spec"]["replicas"], image(&live)), (&json!(6), "web:2"));
    let bad = world.push("web.yaml", &broken("web", "never-ready"), "Broken");
    world.through(&bad).await;
    let live = world.get(&path_of("web")).await.unwrap();
    assert_eq!((&live["spec"]["replicas"], image(&live)), (&json!(6), "web:2"), "also when it goes back");
    // Without the autoscaler the manifest has the word again.
    world.delete(&format!("{AUTOSCALERS}/web")).await;
    settle(&mut world, &bad).await;
    assert_eq!(world.get(&path_of("web")).await.unwrap()["spec"]["replicas"], 2);
}

#[tokio::test(start_paused = true)]
async fn an_autoscaler_that_is_there_before_belay_is_seen() {
    let mut world = World::embedded().await;
    world.create(AUTOSCALERS, "kubectl-create", &autoscaler()).await;
    let sized: Value =
        serde_yaml::from_str(&deployment("web", "web:1", "").replace("replicas: 2", "replicas: 7")).unwrap();
    world.create("apis/apps/v1/namespaces/default/deployments", "kubectl-create", &sized).await;
    world.with_first_version().await;
    assert_eq!(world.get(&path_of("web")).await.unwrap()["spec"]["replicas"], 7);
}

/// Anybody who may patch one object may write another source's name on it. This takes nothing away from belay.
#[tokio::test(start_paused = true)]
async fn the_label_of_another_source_is_drift_on_what_belay_made() {
    let (mut world, first) = World::with_web().await;
    let hijacked = json!({"metadata": {"labels": {"belay.dev/source": "elsewhere"}},
        "spec": {"template": {"spec": {"containers": [{"name": "app", "image": "evil:1"}]}}}});
    world.patch(&path_of("web"), "kubectl-edit", &hijacked).await;
    settle(&mut world, &first).await;
    let live = world.get(&path_of("web")).await.unwrap();
    assert_eq!((image(&live), &live["metadata"]["labels"]["belay.dev/source"]), ("web:1", &json!("shop")));
    let record = world.records().pop().unwrap();
    assert_eq!(record.trigger, Trigger::Drift("kubectl-edit".to_owned()));
    assert_eq!(record.outcome, Outcome::Complete);
    // A fix that comes while the label is wrong is rolled out.
    world.stop().await;
    world.patch(&path_of("web"), "kubectl-edit", &hijacked).await;
    let fix = world.push("web.yaml", &deployment("web", "web:2", ""), "Fix");
    world.start();
    world.through(&fix).await;
    assert_eq!(world.record(&fix, "Deployment default/web").outcome, Outcome::Complete);
    let live = world.get(&path_of("web")).await.unwrap();
    assert_eq!((image(&live), &live["metadata"]["labels"]["belay.dev/source"]), ("web:2", &json!("shop")));
}

/// Also while a rollout is watched, if the watch tells of it as gone.
#[tokio::test(start_paused = true)]
async fn the_label_of_another_source_ends_no_rollout() {
    let (mut world, _) = World::with_web().await;
    let slow = world.push("web.yaml", &broken("web", "ready-after=8s"), "Slow");
    world.until("it is under way", |source| !source.under_way.is_empty()).await;
    world
        .patch(&path_of("web"), "kubectl-label", &json!({"metadata": {"labels": {"belay.dev/source": "elsewhere"}}}))
        .await;
    world.through(&slow).await;
    assert_eq!(world.record(&slow, "Deployment default/web").outcome, Outcome::Complete);
    assert_eq!(world.get(&path_of("web")).await.unwrap()["metadata"]["labels"]["belay.dev/source"], "shop");
}
