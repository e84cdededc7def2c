//! Hooks of a Helm chart that do not run themselves: they are there while a hook of their events runs, and gone after the last of
//! these, where their policy says so. Pods that are hooks run as Jobs do.

use std::time::Duration;

use belay_core::manifest::ObjectKey;
use belay_core::rollout::{Outcome, SourceState};

use crate::hooks_of_charts_run_in_order::{WELL, applied, chart, ended, hook, with_policy};
use crate::support::daemon::{World, config_map, deployment, image, path_of};

const ALL: &str = "pre-install,pre-upgrade,post-install,post-upgrade";
const SCRIPT: &str = "api/v1/namespaces/default/configmaps/script";

/// Returns a ConfigMap that is a hook, which Jobs may need.
fn script(events: &str, value: &str, policy: &str) -> String {
    let annotations = format!(
        "annotations: {{helm.sh/hook: '{events}', helm.sh/hook-weight: '-5', helm.sh/hook-delete-policy: '{policy}'}}"
    );
    config_map("script", value).replace("  name: script\n", &format!("  name: script\n  {annotations}\n"))
}

/// Waits until a hook of a commit runs, and checks that the ConfigMap is there with this value.
async fn has_its_script(world: &mut World, commit: &str, object: &str, value: &str) {
    let runs = |source: &belay::daemon::SourceStatus| {
        let is_it = |key: &ObjectKey| key.to_string() == object;
        let way = source.under_way.iter().find(|(key, _)| is_it(key));
        way.is_some_and(|(_, way)| way.commit.as_str() == commit && way.outcome == Outcome::UnderWay)
    };
    world.until("it runs", runs).await;
    assert_eq!(world.get(SCRIPT).await.unwrap_or_else(|| panic!("no script for {object}"))["data"]["A"], value);
}

async fn is_synced(world: &mut World) {
    world.until("it is synced", |source| source.state() == SourceState::Synced && source.settled).await;
}

/// Checks that the script is gone, that nobody misses it, and that nothing is written about that.
async fn is_not_missed(world: &mut World) {
    let count = world.records().len();
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert_eq!(world.get(SCRIPT).await, None);
    is_synced(world).await;
    assert_eq!(world.records().len(), count, "{:#?}", world.outcomes());
}

#[tokio::test(start_paused = true)]
async fn what_others_need_is_there_for_all_events_and_gone_after_the_last() {
    for (events, first_run, last_run) in [
        ("pre-install,pre-upgrade", "migrate", "migrate"),
        ("post-install,post-upgrade", "smoke", "smoke"),
        (ALL, "migrate", "smoke"),
    ] {
        let Some((mut world, _)) = chart().await else { return };
        let runs = [first_run, last_run].map(|name| format!("Job default/{name}"));
        let second = world.push("chart/templates/script.yaml", &script(events, "1", "hook-succeeded"), "A script");
        for run in &runs {
            has_its_script(&mut world, &second, run, "1").await;
        }
        world.through(&second).await;
        is_synced(&mut world).await;
        assert_eq!(world.record(&second, "ConfigMap default/script").outcome, Outcome::Complete);
        is_not_missed(&mut world).await;
        world.stop().await;
        world.start();
        is_not_missed(&mut world).await;
        let third = world.push("chart/templates/web.yaml", &deployment("web", "web:3", ""), "Another version");
        for run in &runs {
            has_its_script(&mut world, &third, run, "1").await;
        }
        world.through(&third).await;
        assert_eq!(world.record(&third, "ConfigMap default/script").outcome, Outcome::Complete, "it was made anew");
        is_not_missed(&mut world).await;
    }
}

#[tokio::test(start_paused = true)]
async fn it_is_not_missed_after_the_history_was_lost() {
    let Some((mut world, _)) = chart().await else { return };
    let migrate = with_policy(&hook("migrate", "pre-install,pre-upgrade", "migrate:2", WELL), "hook-succeeded");
    world.repository.write("chart/templates/migrate.yaml", migrate);
    let second = world.push("chart/templates/script.yaml", &script(ALL, "1", "hook-succeeded"), "A script");
    world.through(&second).await;
    is_synced(&mut world).await;
    world.stop().await;
    std::fs::remove_dir_all(world.repository.beside("state")).unwrap();
    world.start();
    is_synced(&mut world).await;
    is_not_missed(&mut world).await;
    let third = world.push("chart/templates/web.yaml", &deployment("web", "web:3", ""), "Another version");
    for run in ["Job default/migrate", "Job default/smoke"] {
        has_its_script(&mut world, &third, run, "1").await;
    }
    world.through(&third).await;
    is_not_missed(&mut world).await;
}

/// A hook that is only for the installation is not made again for an upgrade, also where its manifest changes.
#[tokio::test(start_paused = true)]
async fn one_that_is_only_for_the_installation_goes_for_good() {
    let Some((mut world, _)) = chart().await else { return };
    let script = |value: &str| script("pre-install", value, "hook-succeeded");
    let second = world.push("chart/templates/script.yaml", &script("1"), "A script");
    world.through(&second).await;
    is_not_missed(&mut world).await;
    let third = world.push("chart/templates/script.yaml", &script("2"), "Another one");
    world.through(&third).await;
    assert_eq!(world.record(&third, "ConfigMap default/script").outcome, Outcome::Unchanged);
    is_not_missed(&mut world).await;
}

/// A hook that a failed Job needs stays for the next try.
#[tokio::test(start_paused = true)]
async fn it_stays_while_one_of_its_events_has_failed() {
    let Some((mut world, _)) = chart().await else { return };
    let events = "pre-install,pre-upgrade";
    world.repository.write("chart/templates/script.yaml", script(events, "1", "hook-succeeded,hook-failed"));
    let fails = hook("migrate", events, "migrate:2", "exit-after=5s,code=3");
    let bad = world.push("chart/templates/migrate.yaml", &fails, "A bad migration");
    world.through(&bad).await;
    assert_eq!(world.record(&bad, "Job default/migrate").outcome, Outcome::Failed);
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert!(world.get(SCRIPT).await.is_some());
    world.delete(SCRIPT).await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert!(world.get(SCRIPT).await.is_some(), "it is missed");
    let good = world.push("chart/templates/migrate.yaml", &hook("migrate", events, "migrate:3", WELL), "A good one");
    world.through(&good).await;
    is_synced(&mut world).await;
    is_not_missed(&mut world).await;
}

/// Without a policy it is that of Helm, `before-hook-creation`: it stays until the next run, which replaces it. Nothing that
/// holds data is deleted.
#[tokio::test(start_paused = true)]
async fn others_stay() {
    let Some((mut world, _)) = chart().await else { return };
    let events = "pre-install,pre-upgrade";
    let volume = "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata:\n  name: work\n  annotations: {helm.sh/hook: \
                  'pre-install,pre-upgrade', helm.sh/hook-delete-policy: hook-succeeded}\nspec:\n  accessModes: [ReadWriteOnce]\n  \
                  resources: {requests: {storage: 1Gi}}\n";
    world.repository.write("chart/templates/work.yaml", volume);
    let second = world.push("chart/templates/script.yaml", &script(events, "1", "before-hook-creation"), "A script");
    world.through(&second).await;
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert!(world.get(SCRIPT).await.is_some());
    assert!(world.get("api/v1/namespaces/default/persistentvolumeclaims/work").await.is_some());
    world.delete(SCRIPT).await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert!(world.get(SCRIPT).await.is_some(), "it is missed");
}

/// Returns a Pod that is a hook.
fn pod(name: &str, events: &str, policy: &str, fate: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {name}\n  annotations: {{helm.sh/hook: '{events}', \
         helm.sh/hook-delete-policy: '{policy}', kubelet.belay.dev/fate: '{fate}'}}\nspec:\n  restartPolicy: Never\n  \
         containers:\n  - {{name: app, image: 'app:1'}}\n"
    )
}

fn path_of_pod(name: &str) -> String {
    format!("api/v1/namespaces/default/pods/{name}")
}

#[tokio::test(start_paused = true)]
async fn the_chart_waits_for_a_pod_that_is_a_hook_and_it_runs_again() {
    let Some((mut world, _)) = chart().await else { return };
    let events = "pre-install,pre-upgrade";
    world.repository.write("chart/templates/script.yaml", script(events, "1", "hook-succeeded"));
    world.repository.write("chart/templates/web.yaml", deployment("web", "web:2", ""));
    world.repository.write("chart/templates/stays.yaml", pod("stays", events, "before-hook-creation", WELL));
    let goes = pod("goes", events, "hook-succeeded", "exit-after=30s,code=0");
    let second = world.push("chart/templates/goes.yaml", &goes, "Pods");
    has_its_script(&mut world, &second, "Pod default/goes", "1").await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(world.get(&path_of_pod("goes")).await.unwrap()["status"]["phase"], "Running");
    assert_eq!(image(&world.get(&path_of("web")).await.unwrap()), "web:1", "it waits");
    // A restart does not take it for complete.
    world.stop().await;
    world.start();
    world.through(&second).await;
    assert_eq!(world.record(&second, "Pod default/goes").outcome, Outcome::Complete);
    assert!(ended(&world, &second, "Pod default/goes") <= applied(&world, &second, "Deployment default/web"));
    assert!(world.get(&path_of_pod("goes")).await.is_none(), "its policy deletes it");
    let before = world.get(&path_of_pod("stays")).await.unwrap();
    assert_eq!(before["status"]["phase"], "Succeeded");
    is_not_missed(&mut world).await;
    assert!(world.get(&path_of_pod("goes")).await.is_none(), "it has run");
    world.delete(&path_of_pod("stays")).await;
    is_not_missed(&mut world).await;
    assert!(world.get(&path_of_pod("stays")).await.is_none(), "it has run");

    let third = world.push("chart/templates/web.yaml", &deployment("web", "web:3", ""), "Another version");
    has_its_script(&mut world, &third, "Pod default/goes", "1").await;
    world.through(&third).await;
    for object in ["Pod default/goes", "Pod default/stays", "Deployment default/web"] {
        assert_eq!(world.record(&third, object).outcome, Outcome::Complete, "{object}");
    }
    let fourth = world.push("chart/templates/web.yaml", &deployment("web", "web:4", ""), "One more");
    let third_run = world.get(&path_of_pod("stays")).await.unwrap()["metadata"]["uid"].clone();
    world.through(&fourth).await;
    let run = world.get(&path_of_pod("stays")).await.unwrap();
    assert_ne!(run["metadata"]["uid"], third_run, "it ran again");
    assert_eq!(run["status"]["phase"], "Succeeded");
    is_not_missed(&mut world).await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_fails_stops_its_chart_until_it_is_mended() {
    let Some((mut world, _)) = chart().await else { return };
    let events = "pre-install,pre-upgrade";
    let check = |policy: &str, fate: &str| pod("check", events, policy, fate);
    world.repository.write("chart/templates/web.yaml", deployment("web", "web:2", ""));
    let fails = check("hook-failed", "exit-after=5s,code=3");
    let bad = world.push("chart/templates/check.yaml", &fails, "It fails");
    world.through(&bad).await;
    let record = world.record(&bad, "Pod default/check");
    assert_eq!(record.outcome, Outcome::Failed);
    let reason = record.reason.unwrap().message;
    assert!(reason.contains("the pod failed") && reason.contains("ended with 3"), "{reason}");
    assert!(record.evidence.is_some_and(|evidence| !evidence.pods.is_empty()));
    assert_eq!(world.record(&bad, "Deployment default/web").outcome, Outcome::Skipped);
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert!(world.get(&path_of_pod("check")).await.is_none(), "it is deleted, and does not run again by itself");
    assert_eq!(world.status().state(), SourceState::Degraded);

    let stuck = world.push("chart/templates/check.yaml", &check("", "exit-after=5s,code=4"), "It fails again");
    world.through(&stuck).await;
    assert_eq!(world.record(&stuck, "Pod default/check").outcome, Outcome::Failed);
    world.stop().await;
    world.start();
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!(world.record(&stuck, "Pod default/check").outcome, Outcome::Failed);

    let good = world.push("chart/templates/check.yaml", &check("", WELL), "A good one");
    world.through(&good).await;
    is_synced(&mut world).await;
    assert_eq!(image(&world.get(&path_of("web")).await.unwrap()), "web:2");
}

/// A Pod that was left by Helm has its name, and belay did not make it.
#[tokio::test(start_paused = true)]
async fn a_pod_that_somebody_else_made_is_not_deleted() {
    let Some((mut world, _)) = chart().await else { return };
    let text = pod("check", "pre-install,pre-upgrade", "before-hook-creation", WELL);
    let theirs =
        belay_core::manifest::read_file("a.yaml", text.as_bytes(), &belay_core::manifest::Scopes::new("default"))
            .manifests[0]
            .value();
    world.apply(&path_of_pod("check"), "helm", &theirs).await;
    let before = world.get(&path_of_pod("check")).await.unwrap()["metadata"]["uid"].clone();
    let second = world.push("chart/templates/check.yaml", &text, "A check");
    world.through(&second).await;
    let record = world.record(&second, "Pod default/check");
    assert_eq!(record.outcome, Outcome::Rejected);
    let told = record.complaints[0].to_string();
    assert!(told.contains("was not made by belay") && told.contains("kubectl delete pod/check -n default"), "{told}");
    assert_eq!(world.get(&path_of_pod("check")).await.unwrap()["metadata"]["uid"], before);
}
