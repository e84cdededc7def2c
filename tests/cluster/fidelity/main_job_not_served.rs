//! An object that can't be applied on the real control plane keeps no other waiting: a webhook or a conversion that
//! does not answer, a policy, a quota. Real time: these are real processes.

use std::time::Duration;

use tokio::time::Instant;

use belay_core::rollout::Outcome;
use serde_json::{Value, json};

use super::main_job::real_world;
use crate::support::daemon::{World, config_map, deployment};

/// A port of the loopback address at which nobody listens.
const NOBODY: &str = "https://127.0.0.1:9/x";

fn in_namespace(name: &str, namespace: &str, image: &str) -> String {
    deployment(name, image, "").replace("progressDeadlineSeconds: 30", "progressDeadlineSeconds: 8").replacen(
        &format!("name: {name}"),
        &format!("name: {name}\n  namespace: {namespace}"),
        1,
    )
}

fn namespace(name: &str) -> String {
    format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}}}\n")
}

/// Returns a webhook for the Deployments of one namespace.
fn webhook(policy: &str) -> Value {
    json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "one"}, "webhooks": [{"name": "v.example.com", "clientConfig": {"url": NOBODY},
            "admissionReviewVersions": ["v1"], "sideEffects": "None", "timeoutSeconds": 1, "failurePolicy": policy,
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "one"}},
            "rules": [{"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["deployments"]}]}]})
}

/// Waits until an object of a commit has this outcome.
async fn becomes(world: &World, commit: &str, object: &str, outcome: Outcome, within: Duration) -> Duration {
    let began = Instant::now();
    loop {
        let records = world.records();
        let is_it = |record: &&belay_core::rollout::Record| {
            record.commit.as_str() == commit && record.object.to_string() == object && record.outcome == outcome
        };
        if records.iter().any(|record| is_it(&record)) {
            return began.elapsed();
        }
        assert!(
            began.elapsed() < within,
            "{object} is not {outcome:?} within {within:?}: {records:#?}\n{:#?}",
            world.status()
        );
        // Real time: this is a real server.
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_that_is_away_keeps_only_its_objects_waiting_until_a_commit_mends_it() {
    let Some((_plane, nodes, mut world)) = real_world().await else { return };
    let configurations = "apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    world.create(configurations, "somebody", &webhook("Fail")).await;
    let push = |world: &mut World, web: &str, api: &str, message: &str| {
        let (web, api) = (in_namespace("web", "one", web), in_namespace("api", "two", api));
        world.push("all.yaml", &format!("{}---\n{}---\n{web}---\n{api}", namespace("one"), namespace("two")), message)
    };
    let first = push(&mut world, "web:1", "api:1", "First");
    world.start();
    becomes(&world, &first, "Deployment one/web", Outcome::Waiting, Duration::from_secs(30)).await;
    becomes(&world, &first, "Deployment two/api", Outcome::Complete, Duration::from_secs(30)).await;
    let second = push(&mut world, "web:2", "api:2", "Second");
    becomes(&world, &second, "Deployment two/api", Outcome::Complete, Duration::from_secs(30)).await;
    becomes(&world, &second, "Deployment one/web", Outcome::Waiting, Duration::from_secs(30)).await;
    assert!(world.status().blocked_by().is_none(), "{:#?}", world.status());
    let says = |world: &World| world.status().under_way.values().any(|way| way.message.contains("v.example.com"));
    assert!(says(&world), "{:#?}", world.status());
    world.kill().await;
    world.start();
    world.until("it waits again", |source| source.planned.is_some() && !source.under_way.is_empty()).await;
    let mend = world.push("hook.yaml", &webhook("Ignore").to_string(), "Mend the webhook");
    becomes(&world, &mend, "ValidatingWebhookConfiguration one", Outcome::Complete, Duration::from_secs(30)).await;
    becomes(&world, &second, "Deployment one/web", Outcome::Complete, Duration::from_secs(90)).await;
    world.through(&mend).await;
    world.stop().await;
    nodes.stop().await;
}

fn knobs(conversion: &Value) -> Value {
    let version = |name: &str, storage: bool| {
        json!({"name": name, "served": true, "storage": storage,
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}})
    };
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "knobs.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"kind": "Knob", "plural": "knobs", "singular": "knob"}, "conversion": conversion,
            "versions": [version("v1", true), version("v2", false)]}})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversion_that_is_away_keeps_only_its_kind_waiting() {
    let Some((_plane, nodes, mut world)) = real_world().await else { return };
    world.config.prune = true;
    let definitions = "apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let webhook = json!({"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": {"url": NOBODY}}});
    world.create(definitions, "somebody", &knobs(&webhook)).await;
    let stored = json!({"apiVersion": "example.com/v1", "kind": "Knob", "metadata": {"name": "k", "namespace": "default"}, "spec": {"a": 1}});
    let path = "apis/example.com/v1/namespaces/default/knobs";
    for _ in 0..100 {
        // The definition is served a moment later, and its storage may be made ready still.
        let request = http::Request::get(format!("/{path}")).body(Vec::new()).unwrap();
        if world.client.request::<Value>(request).await.is_ok() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    world.create(path, "somebody", &stored).await;
    let first = world.push("web.yaml", &in_namespace("web", "default", "web:1"), "First");
    world.start();
    becomes(&world, &first, "Deployment default/web", Outcome::Complete, Duration::from_secs(30)).await;
    world.repository.write("knob.yaml", "apiVersion: example.com/v2\nkind: Knob\nmetadata: {name: k}\nspec: {a: 2}\n");
    let second = world.push("web.yaml", &in_namespace("web", "default", "web:2"), "Second");
    becomes(&world, &second, "Deployment default/web", Outcome::Complete, Duration::from_secs(30)).await;
    becomes(&world, &second, "Knob default/k", Outcome::Waiting, Duration::from_secs(10)).await;
    assert!(world.status().blocked_by().is_none(), "{:#?}", world.status());
    let third = world.push("settings.yaml", &config_map("settings", "1"), "Third");
    let took = becomes(&world, &third, "ConfigMap default/settings", Outcome::Complete, Duration::from_secs(15)).await;
    eprintln!("a commit beside a kind that can't be listed took {took:?}");
    world
        .patch(
            &format!("{definitions}/knobs.example.com"),
            "somebody",
            &json!({"spec": {"conversion": {"strategy": "None", "webhook": null}}}),
        )
        .await;
    becomes(&world, &second, "Knob default/k", Outcome::Complete, Duration::from_secs(90)).await;
    world.stop().await;
    nodes.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_policy_and_a_quota_refused_is_taken_when_they_are_gone() {
    let Some((_plane, nodes, mut world)) = real_world().await else { return };
    let quotas = "api/v1/namespaces/default/resourcequotas";
    let admission = "apis/admissionregistration.k8s.io/v1";
    let hard = json!({"count/secrets": "0", "services.nodeports": "0"});
    world
        .create(
            quotas,
            "somebody",
            &json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": hard}}),
        )
        .await;
    let policy = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "p"},
        "spec": {"failurePolicy": "Fail", "matchConstraints": {"resourceRules": [
            {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["deployments"]}]},
            "validations": [{"expression": "has(object.metadata.labels) && 'team' in object.metadata.labels", "message": "a team must be named"}]}});
    world.create(&format!("{admission}/validatingadmissionpolicies"), "somebody", &policy).await;
    let binding = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "p"}, "spec": {"policyName": "p", "validationActions": ["Deny"]}});
    world.create(&format!("{admission}/validatingadmissionpolicybindings"), "somebody", &binding).await;
    // Both are in force a moment later: the quota when its controller has counted, the policy when the API server has read it.
    tokio::time::sleep(Duration::from_secs(5)).await;
    world
        .repository
        .write("secret.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {a: hunter2}\n");
    world.repository.write(
        "np.yaml",
        "apiVersion: v1\nkind: Service\nmetadata: {name: np}\nspec: {type: NodePort, ports: [{port: 80}]}\n",
    );
    let first = world.push("web.yaml", &in_namespace("web", "default", "web:1"), "First");
    world.start();
    let objects = ["Secret default/s", "Service default/np", "Deployment default/web"];
    for object in objects {
        becomes(&world, &first, object, Outcome::Rejected, Duration::from_secs(30)).await;
    }
    let why = world.record(&first, "Secret default/s").reason.unwrap().message;
    assert!(why.contains("exceeded quota: q") && !why.contains("hunter2"), "{why}");
    world.delete(&format!("{quotas}/q")).await;
    world.delete(&format!("{admission}/validatingadmissionpolicybindings/p")).await;
    world.delete(&format!("{admission}/validatingadmissionpolicies/p")).await;
    for object in objects {
        becomes(&world, &first, object, Outcome::Complete, Duration::from_mins(2)).await;
    }
    world.through(&first).await;
    assert!(world.status().ended.is_empty(), "{:#?}", world.status());
    world.stop().await;
    nodes.stop().await;
}
