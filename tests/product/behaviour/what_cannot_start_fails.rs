//! A Job, or a hook that is a Pod, of which nothing can start has failed after ten minutes, where nothing else ends the wait for
//! it. One that may still start is waited for.

use std::time::Duration;

use belay::config::OnFailure;
use belay_core::rollout::{Outcome, SourceState};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use crate::hooks_of_charts_run_in_order::{chart, hook};
use crate::support::daemon::{World, config_map, deployment, image, path_of};
use crate::support::tap::Fate;

const NO_IMAGE: &str = "image-pull-error";
const TEN_MINUTES: SignedDuration = SignedDuration::from_mins(10);

/// Returns a Job; `more` is of its spec, `pod` of its pod's.
fn job(name: &str, fate: &str, more: &str, pod: &str) -> String {
    format!(
        "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: {name}\nspec:\n  backoffLimit: 0\n{more}  template:\n    metadata:\n      \
         annotations: {{kubelet.belay.dev/fate: \"{fate}\"}}\n    spec:\n      restartPolicy: Never\n{pod}      containers:\n      \
         - {{name: app, image: 'migrate:1'}}\n"
    )
}

fn path(name: &str) -> String {
    format!("apis/batch/v1/namespaces/default/jobs/{name}")
}

/// Pushes one Job and starts belay. Returns the commit and the time.
fn pushed(world: &mut World, text: &str) -> (String, Timestamp) {
    let commit = world.push("job.yaml", text, "A job");
    let began = world.clock.now();
    world.start();
    (commit, began)
}

/// Returns how long it took until a Job of a commit failed, and the reason.
fn failed(world: &World, commit: &str, object: &str) -> (SignedDuration, String) {
    let record = world.record(commit, object);
    assert_eq!(record.outcome, Outcome::Failed, "{record:#?}");
    (record.ended.unwrap().duration_since(record.started), record.reason.unwrap().to_string())
}

fn is_about_ten_minutes(took: SignedDuration) -> bool {
    (TEN_MINUTES..TEN_MINUTES + SignedDuration::from_secs(30)).contains(&took)
}

#[tokio::test(start_paused = true)]
async fn after_ten_minutes_and_what_may_start_is_waited_for() {
    let mut world = World::embedded().await;
    let init = "      initContainers: [{name: first, image: 'wait:1'}]\n";
    let nowhere = "      nodeSelector: {disk: missing}\n";
    let long_init = "first:exit-after=2400s,code=0;app:exit-after=5s,code=0";
    for (name, text) in [
        ("image", job("image", NO_IMAGE, "", "")),
        ("room", job("room", "exit-after=5s,code=0", "", nowhere)),
        ("several", job("several", NO_IMAGE, "  completions: 4\n  parallelism: 3\n", "")),
        ("init-image", job("init-image", "first:image-pull-error", "", init)),
        ("init", job("init", long_init, "", init)),
        ("slow", job("slow", "start-after=2400s", "", "")),
        ("unready", job("unready", "never-ready,exit-after=2400s,code=0", "", "")),
        ("heals", job("heals", "image-pull-error,for=300s,exit-after=5s,code=0", "", "")),
        ("limited", job("limited", NO_IMAGE, "  activeDeadlineSeconds: 1500\n", "")),
    ] {
        world.repository.write(format!("{name}.yaml"), text);
    }
    let first = world.with_all_of_them().await;
    for name in ["image", "room", "several", "init-image"] {
        let (took, reason) = failed(&world, &first, &format!("Job default/{name}"));
        assert!(is_about_ten_minutes(took), "{name}: {took:#}");
        let delete = format!("kubectl delete job/{name} -n default");
        for part in ["nothing of it could start for 10 minutes: pod ", &format!("{name}-"), &delete, "not taken back"] {
            assert!(reason.contains(part), "{part}: {reason}");
        }
    }
    let reason = failed(&world, &first, "Job default/image").1;
    assert!(reason.contains("ImagePull") && reason.contains("(container app): "), "{reason}");
    let reason = failed(&world, &first, "Job default/room").1;
    assert!(reason.contains("is Unschedulable: 0/3 nodes are available"), "{reason}");
    assert!(failed(&world, &first, "Job default/init-image").1.contains("(container first): "));
    for name in ["init", "slow", "unready", "heals"] {
        let record = world.record(&first, &format!("Job default/{name}"));
        assert_eq!(record.outcome, Outcome::Complete, "{name}: {record:#?}");
    }
    let (took, reason) = failed(&world, &first, "Job default/limited");
    assert!(
        took > SignedDuration::from_mins(20) && reason.contains("longer than specified deadline"),
        "{took:#}: {reason}"
    );
}

/// One that is not to run has no time that could be over, and an annotation allows one as long as it takes.
#[tokio::test(start_paused = true)]
async fn what_is_suspended_or_never_to_fail_is_left() {
    let mut world = World::embedded().await;
    let never = job("never", NO_IMAGE, "", "").replacen(
        "  name: never\n",
        "  name: never\n  annotations: {belay.dev/progress-deadline-seconds: \"2147483647\"}\n",
        1,
    );
    for (name, text) in [
        ("suspended", job("suspended", NO_IMAGE, "  suspend: true\n", "")),
        ("none", job("none", NO_IMAGE, "  parallelism: 0\n", "")),
        ("theirs", job("theirs", NO_IMAGE, "  managedBy: example.com/queue\n", "")),
        ("never", never),
    ] {
        world.repository.write(format!("{name}.yaml"), text);
    }
    let first = world.repository.commit("Four jobs");
    world.repository.push();
    world.start();
    tokio::time::sleep(Duration::from_mins(40)).await;
    assert_eq!(world.status().under_way.len(), 4, "{:#?}", world.outcomes());
    assert!(world.outcomes().iter().all(|(_, outcome)| *outcome == Outcome::UnderWay), "{:#?}", world.outcomes());
    // Somebody resumes it: its time begins then.
    let resumed = world.clock.now();
    world.patch(&path("suspended"), "kubectl", &json!({"spec": {"suspend": false}})).await;
    world.until("it has failed", |source| source.under_way.len() == 3).await;
    let record = world.record(&first, "Job default/suspended");
    assert_eq!(record.outcome, Outcome::Failed);
    assert!(record.ended.unwrap().duration_since(resumed) >= TEN_MINUTES);
}

#[tokio::test(start_paused = true)]
async fn a_restart_in_the_middle_does_not_begin_anew() {
    let mut world = World::embedded().await;
    let (first, began) = pushed(&mut world, &job("migrate", NO_IMAGE, "", ""));
    for minutes in [4, 3] {
        tokio::time::sleep(Duration::from_mins(minutes)).await;
        world.kill().await;
        world.start();
    }
    world.through(&first).await;
    assert_eq!(world.record(&first, "Job default/migrate").outcome, Outcome::Failed);
    let took = world.clock.now().duration_since(began);
    assert!(is_about_ten_minutes(took), "{took:#}");
    // It has failed, and stays so.
    let records = world.records().len();
    world.stop().await;
    world.start();
    tokio::time::sleep(Duration::from_mins(30)).await;
    assert_eq!((world.records().len(), world.status().state()), (records, SourceState::Degraded));
}

/// Before a restart it could start again, and after it it can't: that is another time.
#[tokio::test(start_paused = true)]
async fn a_time_that_was_over_before_a_restart_does_not_count() {
    let mut world = World::embedded().await;
    let nowhere = "      nodeSelector: {disk: fast}\n";
    let (first, _) = pushed(&mut world, &job("migrate", "start-after=1800s", "", nowhere));
    tokio::time::sleep(Duration::from_mins(8)).await;
    world.patch("api/v1/nodes/node-1", "kubectl", &json!({"metadata": {"labels": {"disk": "fast"}}})).await;
    tokio::time::sleep(Duration::from_mins(8)).await;
    world.stop().await;
    world.start();
    world.through(&first).await;
    assert_eq!(world.record(&first, "Job default/migrate").outcome, Outcome::Complete);
}

#[tokio::test(start_paused = true)]
async fn an_outage_of_the_api_server_does_not_count() {
    let (mut world, tap) = World::tapped().await;
    let (first, began) = pushed(&mut world, &job("migrate", NO_IMAGE, "", ""));
    tokio::time::sleep(Duration::from_mins(3)).await;
    tap.rule(|_, _| Fate::Swallow);
    tokio::time::sleep(Duration::from_mins(9)).await;
    tap.rule(|_, _| Fate::Pass);
    world.through(&first).await;
    assert_eq!(world.record(&first, "Job default/migrate").outcome, Outcome::Failed);
    let took = world.clock.now().duration_since(began);
    assert!(took >= SignedDuration::from_mins(18) && took < SignedDuration::from_mins(21), "{took:#}");
}

#[tokio::test(start_paused = true)]
async fn its_commit_goes_back_where_that_is_configured() {
    let mut world = World::embedded().await;
    world.config.on_failure = OnFailure::RollBackCommit;
    world.with_first_version().await;
    world.repository.write("web.yaml", deployment("web", "web:2", ""));
    let second = world.push("job.yaml", &job("migrate", NO_IMAGE, "", ""), "A version and its job");
    world.through(&second).await;
    assert_eq!(world.record(&second, "Job default/migrate").outcome, Outcome::Failed);
    assert_eq!(image(&world.get(&path_of("web")).await.unwrap()), "web:1");
}

/// A newer commit that leaves the Job alone does not put its end off, and one that is made anew has its whole time.
#[tokio::test(start_paused = true)]
async fn newer_commits_do_not_put_it_off() {
    let mut world = World::embedded().await;
    let (_, began) = pushed(&mut world, &job("migrate", NO_IMAGE, "", ""));
    for number in 0..3 {
        tokio::time::sleep(Duration::from_mins(4)).await;
        world.push("map.yaml", &config_map("map", &number.to_string()), "Another thing");
    }
    world.until("it has failed", |source| source.settled).await;
    let took = world.clock.now().duration_since(began);
    assert!(took < SignedDuration::from_mins(13), "{took:#}");
    world.delete(&path("migrate")).await;
    world.until("it is made anew", |source| !source.under_way.is_empty()).await;
    let again = world.clock.now();
    world.until("it has failed again", |source| source.settled).await;
    assert!(world.clock.now().duration_since(again) >= TEN_MINUTES);
}

/// Hooks of a chart that can't start stop it, as others that fail.
#[tokio::test(start_paused = true)]
async fn hooks_that_cannot_start_fail() {
    let Some((mut world, _)) = chart().await else { return };
    let events = "pre-install,pre-upgrade";
    let pod = format!(
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: check\n  annotations: {{helm.sh/hook: '{events}', kubelet.belay.dev/fate: \
         '{NO_IMAGE}'}}\nspec:\n  restartPolicy: Never\n  containers:\n  - {{name: app, image: 'app:1'}}\n"
    );
    world.repository.write("chart/templates/web.yaml", deployment("web", "web:2", ""));
    let second = world.push("chart/templates/check.yaml", &pod, "A pod");
    world.until("it is under way", |source| source.under_way.keys().any(|key| key.kind == "Pod")).await;
    tokio::time::sleep(Duration::from_mins(5)).await;
    world.stop().await;
    world.start();
    world.through(&second).await;
    let (took, reason) = failed(&world, &second, "Pod default/check");
    assert!(is_about_ten_minutes(took), "{took:#}");
    assert!(reason.contains("pod check is ") && reason.contains("kubectl delete pod/check -n default"), "{reason}");
    assert_eq!(image(&world.get(&path_of("web")).await.unwrap()), "web:1");

    world.repository.remove("chart/templates/check.yaml");
    let third = world.push("chart/templates/migrate.yaml", &hook("migrate", events, "migrate:2", NO_IMAGE), "A job");
    world.through(&third).await;
    assert!(is_about_ten_minutes(failed(&world, &third, "Job default/migrate").0));
    assert_eq!(image(&world.get(&path_of("web")).await.unwrap()), "web:1");
}
