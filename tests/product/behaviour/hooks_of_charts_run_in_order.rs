//! Hooks of a Helm chart: what is before the rest runs before it, runs again when the chart changes, and stops its chart alone
//! when it fails.

use std::time::Duration;

use belay_core::rollout::{Outcome, SourceState};
use serde_json::Value;

use crate::support::daemon::{World, config_map, deployment, image, path_of, real_tools};

pub fn hook(name: &str, events: &str, image: &str, fate: &str) -> String {
    format!(
        "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: {name}\n  annotations: {{helm.sh/hook: '{events}'}}\nspec:\n  \
         backoffLimit: 0\n  template:\n    metadata:\n      annotations: {{kubelet.belay.dev/fate: '{fate}'}}\n    spec:\n      \
         restartPolicy: Never\n      containers:\n      - {{name: app, image: '{image}'}}\n"
    )
}

fn job(name: &str) -> String {
    format!("apis/batch/v1/namespaces/default/jobs/{name}")
}

pub const WELL: &str = "exit-after=5s,code=0";

pub async fn uid(world: &World, name: &str) -> Value {
    world.get(&job(name)).await.unwrap_or_else(|| panic!("no job {name}"))["metadata"]["uid"].clone()
}

/// When a record was ended.
pub fn ended(world: &World, commit: &str, object: &str) -> jiff::Timestamp {
    world.record(commit, object).ended.unwrap_or_else(|| panic!("{object} has not ended"))
}

/// When what a record says was applied.
pub fn applied(world: &World, commit: &str, object: &str) -> jiff::Timestamp {
    let record = world.record(commit, object);
    let steps = world.history().steps(record.id).unwrap();
    let step = steps.iter().rev().find(|step| step.kind == belay_core::rollout::StepKind::Applying);
    step.unwrap_or_else(|| panic!("{object} was not applied: {record:#?}")).at
}

pub async fn chart() -> Option<(World, String)> {
    let tools = real_tools()?;
    let mut world = World::embedded().await;
    world.tools = tools;
    world.repository.write("chart/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n");
    let template = |name: &str, text: String| (format!("chart/templates/{name}.yaml"), text);
    for (path, text) in [
        template("migrate", hook("migrate", "pre-install,pre-upgrade", "migrate:1", WELL)),
        template("seed", hook("seed", "pre-install", "seed:1", WELL)),
        template("smoke", hook("smoke", "post-install,post-upgrade", "smoke:1", WELL)),
        template("bye", hook("bye", "pre-delete", "bye:1", WELL)),
        template("web", deployment("web", "web:1", "")),
        template("settings", config_map("settings", "1")),
    ] {
        world.repository.write(path, text);
    }
    world.repository.write("plain.yaml", config_map("plain", "1"));
    let first = world.with_all_of_them().await;
    Some((world, first))
}

#[tokio::test(start_paused = true)]
async fn they_run_before_and_after_the_rest_and_again_when_it_changes() {
    let Some((mut world, first)) = chart().await else { return };
    assert_eq!(world.status().state(), SourceState::Synced, "{:#?}", world.status());
    let migrated = ended(&world, &first, "Job default/migrate");
    assert!(migrated <= applied(&world, &first, "Job default/seed"), "by name");
    let seeded = ended(&world, &first, "Job default/seed");
    for object in ["Deployment default/web", "ConfigMap default/settings"] {
        assert!(seeded <= applied(&world, &first, object), "{object}");
    }
    assert!(ended(&world, &first, "Deployment default/web") <= applied(&world, &first, "Job default/smoke"));
    assert!(applied(&world, &first, "ConfigMap default/plain") < migrated, "the rest does not wait");
    assert!(world.get(&job("bye")).await.is_none(), "nothing is deleted");

    let (migrate, seed, smoke) = (uid(&world, "migrate").await, uid(&world, "seed").await, uid(&world, "smoke").await);
    let second = world.push("chart/templates/web.yaml", &deployment("web", "web:2", ""), "Second version");
    world.through(&second).await;
    assert_eq!(image(&world.get(&path_of("web")).await.unwrap()), "web:2");
    assert_ne!(uid(&world, "migrate").await, migrate, "it ran again");
    assert_ne!(uid(&world, "smoke").await, smoke);
    assert_eq!(uid(&world, "seed").await, seed, "it is for installing");
    assert!(ended(&world, &second, "Job default/migrate") <= applied(&world, &second, "Deployment default/web"));
    assert!(ended(&world, &second, "Deployment default/web") <= applied(&world, &second, "Job default/smoke"));

    // A changed hook for installing changes nothing, and neither does a restart.
    let migrate = uid(&world, "migrate").await;
    world.stop().await;
    world.start();
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!(uid(&world, "migrate").await, migrate);
    let third = world.push("chart/templates/seed.yaml", &hook("seed", "pre-install", "seed:2", WELL), "Other seed");
    world.through(&third).await;
    assert_eq!((uid(&world, "seed").await, uid(&world, "migrate").await), (seed, migrate));
    assert_eq!(world.status().state(), SourceState::Synced, "{:#?}", world.status());
}

#[tokio::test(start_paused = true)]
async fn one_that_fails_stops_its_chart_alone_until_it_is_mended() {
    let Some((mut world, _)) = chart().await else { return };
    let fails = hook("migrate", "pre-install,pre-upgrade", "migrate:2", "exit-after=5s,code=3");
    world.repository.write("chart/templates/migrate.yaml", fails);
    world.repository.write("chart/templates/web.yaml", deployment("web", "web:2", ""));
    world.repository.write("plain.yaml", config_map("plain", "2"));
    let bad = world.repository.commit("A bad migration");
    world.repository.push();
    world.through(&bad).await;
    assert_eq!(world.record(&bad, "Job default/migrate").outcome, Outcome::Failed);
    assert_eq!(world.record(&bad, "Deployment default/web").outcome, Outcome::Skipped);
    assert_eq!(image(&world.get(&path_of("web")).await.unwrap()), "web:1", "the chart is not rolled out");
    assert_eq!(world.record(&bad, "ConfigMap default/plain").outcome, Outcome::Complete, "the rest is");
    assert_eq!(world.status().state(), SourceState::Degraded);

    let mended = hook("migrate", "pre-install,pre-upgrade", "migrate:3", WELL);
    let good = world.push("chart/templates/migrate.yaml", &mended, "A good one");
    world.through(&good).await;
    world.until("all is rolled out", |source| source.state() == SourceState::Synced).await;
    assert_eq!(image(&world.get(&path_of("web")).await.unwrap()), "web:2");
}

/// A Job that is left from Helm has its name, and belay did not make it.
#[tokio::test(start_paused = true)]
async fn one_that_somebody_else_made_is_not_deleted() {
    let Some(tools) = real_tools() else { return };
    let mut world = World::embedded().await;
    world.tools = tools;
    let text = hook("migrate", "pre-install,pre-upgrade", "migrate:1", WELL);
    let theirs: Value =
        belay_core::manifest::read_file("a.yaml", text.as_bytes(), &belay_core::manifest::Scopes::new("default"))
            .manifests[0]
            .value();
    world.apply(&job("migrate"), "helm", &theirs).await;
    let before = uid(&world, "migrate").await;
    world.repository.write("chart/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n");
    world.repository.write("chart/templates/migrate.yaml", &text);
    let first = world.with_all_of_them().await;
    let record = world.record(&first, "Job default/migrate");
    assert_eq!(record.outcome, Outcome::Rejected);
    let told = record.complaints[0].to_string();
    assert!(told.contains("was not made by belay") && told.contains("kubectl delete job/migrate -n default"), "{told}");
    assert_eq!(uid(&world, "migrate").await, before);
}

/// Returns a hook with a policy for its deletion.
pub fn with_policy(hook: &str, policy: &str) -> String {
    hook.replace("{helm.sh/hook:", &format!("{{helm.sh/hook-delete-policy: '{policy}', helm.sh/hook:"))
}

#[tokio::test(start_paused = true)]
async fn hooks_for_upgrades_do_not_run_when_the_chart_is_installed() {
    let Some(tools) = real_tools() else { return };
    let mut world = World::embedded().await;
    world.tools = tools;
    world.repository.write("chart/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n");
    for (path, text) in [
        ("before", hook("before", "pre-upgrade", "before:1", WELL)),
        ("after", with_policy(&hook("after", "post-upgrade", "after:1", WELL), "hook-succeeded")),
        ("back", hook("back", "pre-rollback,post-rollback", "back:1", WELL)),
        ("web", deployment("web", "web:1", "")),
    ] {
        world.repository.write(format!("chart/templates/{path}.yaml"), text);
    }
    let first = world.with_all_of_them().await;
    tokio::time::sleep(Duration::from_mins(5)).await;
    world.stop().await;
    world.start();
    tokio::time::sleep(Duration::from_mins(5)).await;
    for name in ["before", "after", "back"] {
        assert!(world.get(&job(name)).await.is_none(), "{name}");
    }
    assert_eq!(world.record(&first, "Deployment default/web").outcome, Outcome::Complete);
    world.until("it is synced", |source| source.state() == SourceState::Synced).await;

    let second = world.push("chart/templates/web.yaml", &deployment("web", "web:2", ""), "Second version");
    world.through(&second).await;
    let done = |world: &World, object: &str| world.record(&second, object).outcome;
    for object in ["Job default/before", "Job default/after", "Deployment default/web"] {
        assert_eq!(done(&world, object), Outcome::Complete, "{object}");
    }
    assert!(ended(&world, &second, "Job default/before") <= applied(&world, &second, "Deployment default/web"));
    assert!(world.get(&job("before")).await.is_some());
    assert!(world.get(&job("after")).await.is_none(), "its policy deletes it");
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert!(world.get(&job("after")).await.is_none(), "it has run");
    assert!(world.get(&job("back")).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_hook_is_deleted_as_its_policy_says_and_runs_again_all_the_same() {
    let Some((mut world, _)) = chart().await else { return };
    let events = "pre-install,pre-upgrade";
    let policy = "before-hook-creation, hook-succeeded,hook-failed";
    let migrate = |image: &str, fate: &str| with_policy(&hook("migrate", events, image, fate), policy);
    let second = world.push("chart/templates/migrate.yaml", &migrate("migrate:2", WELL), "It is deleted");
    world.through(&second).await;
    assert_eq!(world.record(&second, "Job default/migrate").outcome, Outcome::Complete);
    assert!(world.get(&job("migrate")).await.is_none());
    let third = world.push("chart/templates/web.yaml", &deployment("web", "web:3", ""), "Another version");
    world.through(&third).await;
    assert_eq!(world.record(&third, "Job default/migrate").outcome, Outcome::Complete, "it ran again");
    assert_eq!(image(&world.get(&path_of("web")).await.unwrap()), "web:3");
    assert!(world.get(&job("migrate")).await.is_none());
    let bad = world.push("chart/templates/migrate.yaml", &migrate("migrate:4", "exit-after=5s,code=3"), "It fails");
    world.through(&bad).await;
    let record = world.record(&bad, "Job default/migrate");
    assert_eq!(record.outcome, Outcome::Failed);
    assert!(record.evidence.is_some_and(|evidence| !evidence.pods.is_empty()), "it was saved before");
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert!(world.get(&job("migrate")).await.is_none(), "it is deleted, and does not run again by itself");
}
