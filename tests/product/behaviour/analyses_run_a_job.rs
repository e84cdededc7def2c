//! Analyses: a Job of the repository judges the version.

use std::time::Duration;

use belay_core::rollout::analysis::{AnalysisVerdict, JobCondition, Measured, Measurement};
use belay_core::rollout::canary::CanaryAnswer;
use belay_core::rollout::{Outcome, ReasonCode, Record, StepKind};
use serde_json::{Value, json};

use crate::jobs_run_once::job;
use crate::support::canary::{ask, until_step};
use crate::support::daemon::{World, config_map, deployment, image, path_of, short};
use crate::support::prometheus::{analyses, before_analyses, measured};

const WEB: &str = "Deployment default/web";
const JOBS: &str = "apis/batch/v1/namespaces/default/jobs";
const SMOKE: &str = "[[analysis]]\nname = 'smoke'\njob = 'smoke/job.yaml'\n";

/// Returns a cluster with the first version live, and with a bake time of two minutes and the file of a Job of this fate for the next one.
async fn world(config: &str, fate: &str) -> World {
    let (mut world, first) = before_analyses(config, Duration::ZERO).await;
    world.start();
    world.through(&first).await;
    world.repository.write("smoke/job.yaml", job("smoke", "smoke:1", fate, "  backoffLimit: 0\n"));
    world
}

fn push_second(world: &mut World) -> String {
    world.push("web.yaml", &deployment("web", "web:2", ""), "Second version")
}

fn push_canary(world: &mut World, steps: &str) -> String {
    let annotated = format!("name: web\n  annotations: {{belay.dev/canary: \"{steps}\"}}\nspec");
    let canary = deployment("web", "web:2", "").replace("name: web\nspec", &annotated);
    world.push("web.yaml", &canary, "Second version")
}

/// Pushes the second version, and returns its record when it has ended.
async fn second(world: &mut World) -> Record {
    let second = push_second(world);
    world.through(&second).await;
    world.record(&second, WEB)
}

async fn until_job(world: &World) -> Value {
    loop {
        if let Some(job) = world.list(JOBS).await.pop() {
            return job;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_version_whose_job_is_complete_passes() {
    let mut world = world(SMOKE, "exit-after=30s,code=0").await;
    let record = second(&mut world).await;
    assert_eq!(record.outcome, Outcome::Complete, "{record:#?}");
    let jobs = world.list(JOBS).await;
    let [job] = jobs.as_slice() else { panic!("{jobs:#?}") };
    let name = job["metadata"]["name"].as_str().unwrap();
    assert!(name.starts_with("web-smoke-"), "{name}");
    let found = measured(&world, &record);
    let [look] = found.as_slice() else { panic!("{found:#?}") };
    let message = format!("the Job {name} is complete");
    assert_eq!(look.measured, Measured::Job { job: name.to_owned(), condition: JobCondition::Complete, message });
    assert_eq!(look.verdict, AnalysisVerdict::Pass);
    let env = job["spec"]["template"]["spec"]["containers"][0]["env"].as_array().unwrap();
    let value = |name: &str| env.iter().find(|one| one["name"] == name).unwrap()["value"].as_str().unwrap();
    assert_eq!(["BELAY_COMMIT", "BELAY_NAME", "BELAY_REVISION"].map(value), [record.commit.as_str(), "web", "2"]);
    let uid = world.get(&path_of("web")).await.unwrap()["metadata"]["uid"].clone();
    assert_eq!(job["metadata"]["ownerReferences"][0]["uid"], uid, "it is deleted with its workload");
}

#[tokio::test(start_paused = true)]
async fn a_version_whose_job_fails_goes_back() {
    let mut world = world(SMOKE, "exit-after=10s,code=3").await;
    let record = second(&mut world).await;
    let reason = record.reason.clone().unwrap();
    assert_eq!((record.outcome, &reason.code), (Outcome::RolledBack, &ReasonCode::AnalysisFailed), "{record:#?}");
    assert!(reason.message.starts_with("analysis \"smoke\": the Job web-smoke-"), "{reason}");
    assert!(
        reason.message.contains(" failed: Job has reached the specified backoff limit; its pod web-smoke-"),
        "{reason}"
    );
    assert!(reason.message.contains("exit code 3"), "{reason}");
    assert_eq!(image(&world.get(&path_of("web")).await.unwrap()), "web:1");
    assert_eq!(world.list(JOBS).await.len(), 1, "its logs can be read; the way back makes none");
}

#[tokio::test(start_paused = true)]
async fn a_job_that_cannot_start_has_no_verdict() {
    for (on_none, outcome) in [("wait", Outcome::Complete), ("pass", Outcome::Complete), ("fail", Outcome::RolledBack)]
    {
        let mut world = world(&format!("{SMOKE}on_none = '{on_none}'\n"), "image-pull-error").await;
        let record = second(&mut world).await;
        assert_eq!(record.outcome, outcome, "{on_none}: {record:#?}");
        let found = measured(&world, &record);
        let is_none = |look: &Measurement| {
            look.verdict == AnalysisVerdict::None && look.numbers().contains("can start: its pod web-smoke-")
        };
        assert!(!found.is_empty() && found.iter().all(is_none), "{found:#?}");
        assert_eq!(world.list(JOBS).await, Vec::<Value>::new(), "{on_none}: it does not outlive the rollout");
        let steps = world.history().steps(record.id).unwrap();
        let is_warned = steps.iter().any(|step| step.detail.contains("without a verdict"));
        assert_eq!(is_warned, on_none == "wait", "{steps:#?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_bake_time_waits_for_a_job_that_runs() {
    for on_none in ["wait", "pass"] {
        let mut world = world(&format!("{SMOKE}on_none = '{on_none}'\n"), "exit-after=200s,code=0").await;
        let record = second(&mut world).await;
        let steps = world.history().steps(record.id).unwrap();
        let at = |kind: StepKind| steps.iter().find(|step| step.kind == kind).unwrap().at;
        let baked = at(StepKind::Ended).duration_since(at(StepKind::Baking)).as_secs();
        assert!((200..=230).contains(&baked), "{on_none}: {baked}");
        assert_eq!(measured(&world, &record).len(), 1, "{on_none}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_kill_makes_no_second_job() {
    let mut world = world(SMOKE, "exit-after=90s,code=0").await;
    let commit = push_second(&mut world);
    let job = until_job(&world).await;
    tokio::time::sleep(Duration::from_secs(20)).await;
    world.kill().await;
    world.start();
    world.through(&commit).await;
    assert_eq!(world.record(&commit, WEB).outcome, Outcome::Complete);
    let jobs = world.list(JOBS).await;
    assert_eq!(jobs.iter().map(|job| &job["metadata"]["uid"]).collect::<Vec<_>>(), [&job["metadata"]["uid"]]);
}

#[tokio::test(start_paused = true)]
async fn a_newer_commit_ends_the_job_of_the_older_one() {
    let mut world = world(SMOKE, "ready").await;
    push_second(&mut world);
    let older = until_job(&world).await;
    world.repository.write("smoke/job.yaml", job("smoke", "smoke:1", "exit-after=10s,code=0", ""));
    let third = world.push("web.yaml", &deployment("web", "web:3", ""), "Third version");
    world.through(&third).await;
    assert_eq!(world.record(&third, WEB).outcome, Outcome::Complete);
    let jobs = world.list(JOBS).await;
    let [newer] = jobs.as_slice() else { panic!("{jobs:#?}") };
    assert_ne!(newer["metadata"]["name"], older["metadata"]["name"]);
}

#[tokio::test(start_paused = true)]
async fn a_job_that_somebody_deletes_is_made_again() {
    let mut world = world(SMOKE, "exit-after=60s,code=0").await;
    let commit = push_second(&mut world);
    let first = until_job(&world).await;
    world.delete(&format!("{JOBS}/{}", first["metadata"]["name"].as_str().unwrap())).await;
    world.through(&commit).await;
    assert_eq!(world.record(&commit, WEB).outcome, Outcome::Complete);
    assert_ne!(world.list(JOBS).await[0]["metadata"]["uid"], first["metadata"]["uid"]);
}

#[tokio::test(start_paused = true)]
async fn a_file_that_is_no_job_has_no_verdict() {
    for (file, told) in [
        (
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n".to_owned(),
            "smoke/job.yaml:1:1: ConfigMap default/a is no Job",
        ),
        (String::new(), "smoke/job.yaml:1:1: the file has 0 objects: an analysis needs exactly one Job"),
        (
            job("smoke", "smoke:1", "ready", "").replace("name: smoke\n", "name: smoke\n  namespace: other\n"),
            "smoke/job.yaml:1:1: the Job is made in the namespace of the workload, default: leave out metadata.namespace, which is other",
        ),
    ] {
        let mut world = world(&format!("{SMOKE}on_none = 'pass'\n"), "ready").await;
        world.repository.write("smoke/job.yaml", file);
        let record = second(&mut world).await;
        assert_eq!(record.outcome, Outcome::Complete, "{record:#?}");
        assert_eq!(measured(&world, &record)[0].numbers(), told);
    }
    let mut world = world(&format!("{SMOKE}on_none = 'pass'\n"), "ready").await;
    world.repository.remove("smoke/job.yaml");
    let record = second(&mut world).await;
    let told = format!("commit {} has no file smoke/job.yaml; a symbolic link is none", short(record.commit.as_str()));
    assert_eq!(measured(&world, &record)[0].numbers(), told);
}

#[tokio::test(start_paused = true)]
async fn a_canary_and_its_bake_time_have_one_job() {
    let mut world = world(SMOKE, "exit-after=30s,code=0").await;
    let commit = push_canary(&mut world, "1 2m");
    world.through(&commit).await;
    let record = world.record(&commit, WEB);
    assert_eq!(record.outcome, Outcome::Complete, "{record:#?}");
    let found = measured(&world, &record);
    assert_eq!(
        found.iter().map(|look| (look.verdict, look.step)).collect::<Vec<_>>(),
        [(AnalysisVerdict::Pass, Some(1))]
    );
    assert_eq!(world.list(JOBS).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_promoted_step_keeps_its_job() {
    let mut world = world(SMOKE, "exit-after=100s,code=0").await;
    let commit = push_canary(&mut world, "1 0");
    let made = until_job(&world).await;
    until_step(&mut world, &commit, "waits for belay promote").await;
    ask(&world, CanaryAnswer::Promote).await;
    world.through(&commit).await;
    let record = world.record(&commit, WEB);
    assert_eq!(record.outcome, Outcome::Complete, "{record:#?}");
    let jobs = world.list(JOBS).await;
    assert_eq!(jobs.iter().map(|job| &job["metadata"]["uid"]).collect::<Vec<_>>(), [&made["metadata"]["uid"]]);
    assert_eq!(measured(&world, &record).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_aborted_step_leaves_no_job() {
    let mut world = world(SMOKE, "ready").await;
    let commit = push_canary(&mut world, "1 0");
    until_job(&world).await;
    until_step(&mut world, &commit, "waits for belay promote").await;
    ask(&world, CanaryAnswer::Abort).await;
    world.through(&commit).await;
    assert_eq!(world.record(&commit, WEB).outcome, Outcome::RolledBack);
    assert_eq!(world.list(JOBS).await, Vec::<Value>::new());
}

#[tokio::test(start_paused = true)]
async fn a_job_that_never_started_has_no_verdict_when_its_deadline_ends_it() {
    for restarts in [false, true] {
        let mut world = world(&format!("{SMOKE}on_none = 'pass'\n"), "ready").await;
        let file = job("smoke", "smoke:1", "image-pull-error", "  activeDeadlineSeconds: 60\n");
        world.repository.write("smoke/job.yaml", file);
        let commit = push_second(&mut world);
        until_job(&world).await;
        tokio::time::sleep(Duration::from_secs(35)).await;
        if restarts {
            world.kill().await;
            tokio::time::sleep(Duration::from_secs(40)).await;
            world.start();
        }
        world.through(&commit).await;
        let record = world.record(&commit, WEB);
        assert_eq!(record.outcome, Outcome::Complete, "{record:#?}");
        let last = measured(&world, &record).pop().unwrap();
        assert_eq!(last.verdict, AnalysisVerdict::None);
        assert_eq!(last.numbers().matches("it was ended by its deadline").count(), 1, "{}", last.numbers());
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_that_is_suspended_refused_or_without_a_node_has_no_verdict() {
    let suspended = job("smoke", "smoke:1", "ready", "  suspend: true\n");
    let refused = job("smoke", "smoke:1", "ready", "  completionMode: Other\n");
    let homeless = job("smoke", "smoke:1", "ready", "")
        .replace("restartPolicy: Never", "restartPolicy: Never\n      nodeSelector: {disk: none}");
    for (file, told) in [(suspended, " is suspended"), (refused, "completionMode"), (homeless, "is Unschedulable")] {
        let mut world = world(&format!("{SMOKE}on_none = 'pass'\n"), "ready").await;
        world.repository.write("smoke/job.yaml", file);
        let record = second(&mut world).await;
        assert_eq!(record.outcome, Outcome::Complete, "{record:#?}");
        let found = measured(&world, &record);
        let is_told = |look: &Measurement| look.verdict == AnalysisVerdict::None && look.numbers().contains(told);
        assert!(!found.is_empty() && found.iter().all(is_told), "{found:#?}");
        assert_eq!(world.list(JOBS).await, Vec::<Value>::new());
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_of_somebody_else_decides_nothing_and_stays() {
    let mut world = world(&format!("{SMOKE}on_none = 'pass'\n"), "exit-after=100s,code=1").await;
    let commit = push_second(&mut world);
    let name = until_job(&world).await["metadata"]["name"].as_str().unwrap().to_owned();
    world.delete(&format!("{JOBS}/{name}")).await;
    let template = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a:1"}]}});
    let other =
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {"template": template}});
    world.create(JOBS, "somebody", &other).await;
    world.through(&commit).await;
    let record = world.record(&commit, WEB);
    assert_eq!(record.outcome, Outcome::Complete, "{record:#?}");
    let last = measured(&world, &record).pop().unwrap();
    assert_eq!(last.numbers(), format!("there is a Job default/{name} that belay has not made"));
    assert_eq!(world.list(JOBS).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn only_a_source_that_names_the_analysis_leaves_the_file_out() {
    let mut world = world(SMOKE, "exit-after=1s,code=0").await;
    let noted = world.push("note.yaml", &config_map("note", "1"), "A note, and the file of the Job");
    world.through(&noted).await;
    assert_eq!(world.list(JOBS).await, Vec::<Value>::new());
    world.stop().await;
    world.config.analysis.clear();
    world.start();
    let again = world.push("note.yaml", &config_map("note", "2"), "Another note");
    world.through(&again).await;
    assert_eq!(world.list(JOBS).await[0]["metadata"]["name"], "smoke", "it is a manifest like others");
}

#[tokio::test(start_paused = true)]
async fn a_job_that_started_unseen_has_failed_when_its_deadline_ends_it() {
    for is_away in [false, true] {
        let mut world = world(&format!("{SMOKE}interval = '100s'\n"), "ready").await;
        world.config.bake = "5m".parse().unwrap();
        let file = job("smoke", "smoke:1", "ready", "  suspend: true\n  activeDeadlineSeconds: 30\n");
        world.repository.write("smoke/job.yaml", file);
        let commit = push_second(&mut world);
        let name = until_job(&world).await["metadata"]["name"].as_str().unwrap().to_owned();
        let looks = |world: &World| measured(world, &world.record(&commit, WEB));
        while looks(&world).is_empty() {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        assert_eq!(looks(&world)[0].numbers(), format!("the Job {name} is suspended"));
        if is_away {
            world.kill().await;
        }
        world.patch(&format!("{JOBS}/{name}"), "somebody", &json!({"spec": {"suspend": false}})).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        if is_away {
            world.start();
        }
        world.through(&commit).await;
        let record = world.record(&commit, WEB);
        let reason = record.reason.clone().unwrap();
        assert_eq!((record.outcome, &reason.code), (Outcome::RolledBack, &ReasonCode::AnalysisFailed), "{record:#?}");
        assert!(reason.message.contains("Job was active longer than specified deadline"), "{is_away}: {reason}");
    }
}

/// Leaves out the Job of the file, which is a manifest like others where no analysis names it.
fn of_analyses(mut jobs: Vec<Value>) -> Vec<Value> {
    jobs.retain(|job| job["metadata"]["name"] != "smoke");
    jobs
}

#[tokio::test(start_paused = true)]
async fn the_job_of_an_analysis_that_leaves_is_deleted() {
    let other = SMOKE.replace("'smoke'", "'other'");
    let moved = SMOKE.replace("smoke/job.yaml", "smoke/other.yaml");
    for (config, jobs) in [(String::new(), 0), (other, 1), (moved, 1)] {
        let mut world = world(SMOKE, "ready").await;
        world.repository.write("smoke/other.yaml", job("smoke", "smoke:1", "ready", "  backoffLimit: 0\n"));
        let commit = push_second(&mut world);
        let former = until_job(&world).await;
        world.stop().await;
        world.config.known_analyses = analyses(&config);
        world.config.analysis = world.config.known_analyses.iter().map(|known| known.name.clone()).collect();
        world.start();
        world.until("it bakes", |source| source.under_way.values().any(|way| way.outcome == Outcome::Baking)).await;
        tokio::time::sleep(Duration::from_secs(20)).await;
        let present = of_analyses(world.list(JOBS).await);
        assert_eq!(present.len(), jobs, "{config}: {present:#?}");
        assert!(present.iter().all(|job| job["metadata"]["name"] != former["metadata"]["name"]), "{present:#?}");
        // The Job of the file never ends, and neither does its record.
        while !world.record(&commit, WEB).outcome.is_final() {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(of_analyses(world.list(JOBS).await), Vec::<Value>::new(), "{config}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_newer_commit_that_asks_for_no_analysis_ends_the_job_of_the_older_one() {
    let mut world = world(SMOKE, "ready").await;
    push_second(&mut world);
    until_job(&world).await;
    let without = deployment("web", "web:3", "")
        .replace("name: web\nspec", "name: web\n  annotations: {belay.dev/analysis: \"\"}\nspec");
    let third = world.push("web.yaml", &without, "Third version, without an analysis");
    world.through(&third).await;
    assert_eq!(world.record(&third, WEB).outcome, Outcome::Complete);
    assert_eq!(world.list(JOBS).await, Vec::<Value>::new());
}
