//! A Job can only complete or fail, by its own controller's word; a changed one is refused with the choices; a CronJob is
//! applied.

use std::time::Duration;

use belay::config::SourceConfig;
use belay::daemon::{leave_finished, plan_once};
use belay_core::rollout::{Outcome, PlanStep, SourceState};
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::{Value, json};

use crate::support::daemon::{World, deployment, image};
use crate::the_number_of_pods_is_judged::wanted;

/// Returns a Job whose pods have a fate; `more` is of its spec.
pub fn job(name: &str, image: &str, fate: &str, more: &str) -> String {
    format!(
        "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: {name}\nspec:\n{more}  template:\n    metadata:\n      annotations: \
         {{kubelet.belay.dev/fate: \"{fate}\"}}\n    spec:\n      restartPolicy: Never\n      containers:\n      - name: \
         app\n        image: {image}\n"
    )
}

fn path(name: &str) -> String {
    format!("apis/batch/v1/namespaces/default/jobs/{name}")
}

fn says(live: &Value, kind: &str) -> Option<String> {
    let conditions = live["status"]["conditions"].as_array()?;
    let found = conditions.iter().find(|one| one["type"] == kind && one["status"] == "True")?;
    Some(found["reason"].as_str().unwrap_or_default().to_owned())
}

#[tokio::test(start_paused = true)]
async fn it_completes_or_fails_as_its_controller_says() {
    let mut world = World::embedded().await;
    let none = "  backoffLimit: 0\n";
    world.repository.write("well.yaml", job("well", "migrate:1", "exit-after=30s,code=0", none));
    world.repository.write("ill.yaml", job("ill", "migrate:1", "exit-after=3s,code=7", none));
    world.repository.write("again.yaml", job("again", "migrate:1", "exit-after=3s,code=1", "  backoffLimit: 1\n"));
    world.repository.write("long.yaml", job("long", "migrate:1", "ready", "  activeDeadlineSeconds: 20\n"));
    let first = world.repository.commit("Four jobs");
    world.repository.push();
    world.start();
    world.until("one runs", |source| source.under_way.keys().any(|key| key.name == "well")).await;
    world.through(&first).await;
    let record = |name: &str| world.record(&first, &format!("Job default/{name}"));
    assert_eq!(record("well").outcome, Outcome::Complete);
    assert!(says(&world.get(&path("well")).await.unwrap(), "Complete").is_some());
    for (name, reason) in
        [("ill", "BackoffLimitExceeded"), ("again", "BackoffLimitExceeded"), ("long", "DeadlineExceeded")]
    {
        let live = world.get(&path(name)).await.unwrap();
        assert_eq!(says(&live, "Failed").as_deref(), Some(reason), "{name}");
        let record = record(name);
        assert_eq!(record.outcome, Outcome::Failed, "{name}: {record:#?}");
        let told = record.reason.unwrap().message;
        assert!(told.contains("the job failed") && told.contains("not taken back"), "{name}: {told}");
    }
    let evidence = record("ill").evidence.unwrap();
    assert!(evidence.pods.iter().any(|pod| pod.exit_code == Some(7)), "{evidence:#?}");
    // It is not tried again.
    let uid = world.get(&path("ill")).await.unwrap()["metadata"]["uid"].clone();
    world.stop().await;
    world.start();
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert_eq!(world.get(&path("ill")).await.unwrap()["metadata"]["uid"], uid);
}

/// Returns a line on which a Job that is there keeps its template, as every API server has it.
fn never_changing(client: kube::Client) -> kube::Client {
    let namespace = client.default_namespace().to_owned();
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let client = client.clone();
        async move {
            let path = request.uri().path().to_owned();
            if request.method() != http::Method::PATCH || !path.contains("/jobs/") {
                return client.send(request).await;
            }
            let (parts, body) = request.into_parts();
            let bytes = body.collect().await.unwrap().to_bytes();
            let sent: Value = serde_json::from_slice(&bytes).unwrap();
            let live = http::Request::get(path).body(Vec::new()).unwrap();
            match client.request::<Value>(live).await {
                Ok(live) if image(&live) != image(&sent) => {
                    let message = "Job.batch is invalid: spec.template: Invalid value: {}: field is immutable";
                    let cause = json!({"field": "spec.template", "message": "Invalid value: {}: field is immutable"});
                    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 422,
                        "reason": "Invalid", "message": message, "details": {"name": "x", "causes": [cause]}});
                    let answer = http::Response::builder().status(422).header("Content-Type", "application/json");
                    Ok(answer.body(Body::from(status.to_string().into_bytes())).unwrap())
                }
                _ => client.send(http::Request::from_parts(parts, Body::from(bytes.to_vec()))).await,
            }
        }
    });
    kube::Client::new(service, namespace)
}

#[tokio::test(start_paused = true)]
async fn a_changed_one_is_refused_with_the_choices_and_each_of_them_works() {
    let mut world = World::behind(never_changing).await;
    let migrate = |name: &str, image: &str| job(name, image, "exit-after=3s,code=0", "");
    let first = world.push("job.yaml", &migrate("migrate", "migrate:1"), "First");
    world.start();
    world.through(&first).await;
    let second = world.push("job.yaml", &migrate("migrate", "migrate:2"), "Second");
    world.through(&second).await;
    let record = world.record(&second, "Job default/migrate");
    assert_eq!(record.outcome, Outcome::Rejected);
    let complaint = &record.complaints[0];
    assert_eq!(&*complaint.place.path, "job.yaml");
    let hint = complaint.hint.clone().unwrap();
    for choice in ["another name", "kubectl delete job/migrate -n default", "CronJob"] {
        assert!(hint.contains(choice), "{choice}: {hint}");
    }
    // A person deletes it: belay makes it anew, as the manifest says now.
    world.delete(&path("migrate")).await;
    world.until("it is made anew", |source| source.under_way.keys().any(|key| key.name == "migrate")).await;
    world.until("it is through", |source| source.settled).await;
    let live = world.get(&path("migrate")).await.unwrap();
    assert_eq!((image(&live), says(&live, "Complete").is_some()), ("migrate:2", true));
    let third = world.push("job.yaml", &migrate("migrate-3", "migrate:3"), "Another name");
    world.through(&third).await;
    assert_eq!(world.record(&third, "Job default/migrate-3").outcome, Outcome::Complete);
    assert!(world.get(&path("migrate")).await.is_some(), "prune is off");
}

#[tokio::test(start_paused = true)]
async fn a_cron_job_is_applied_and_its_jobs_are_its_own() {
    let mut world = World::embedded().await;
    let cron = |schedule: &str| {
        format!(
            "apiVersion: batch/v1\nkind: CronJob\nmetadata: {{name: tidy}}\nspec:\n  schedule: \"{schedule}\"\n  jobTemplate:\n    \
             spec:\n      template:\n        metadata: {{annotations: {{kubelet.belay.dev/fate: \"exit-after=1s,code=1\"}}}}\n        \
             spec: {{restartPolicy: Never, containers: [{{name: app, image: \"tidy:1\"}}]}}\n"
        )
    };
    let first = world.push("cron.yaml", &cron("*/5 * * * *"), "Every five minutes");
    world.start();
    world.through(&first).await;
    assert_eq!(world.record(&first, "CronJob default/tidy").outcome, Outcome::Complete);
    tokio::time::sleep(Duration::from_mins(11)).await;
    let jobs = world.list("apis/batch/v1/namespaces/default/jobs").await;
    assert!(!jobs.is_empty() && jobs.iter().all(|job| job["metadata"]["labels"].get("belay.dev/source").is_none()));
    // A failure of its jobs is nobody's rollout.
    assert_eq!(world.outcomes().len(), 1, "{:?}", world.outcomes());
    let second = world.push("cron.yaml", &cron("0 4 * * *"), "At night");
    world.through(&second).await;
    assert_eq!(world.record(&second, "CronJob default/tidy").outcome, Outcome::Complete);
    let live = world.get("apis/batch/v1/namespaces/default/cronjobs/tidy").await.unwrap();
    assert_eq!(live["spec"]["schedule"], json!("0 4 * * *"));
}

const EXITS: &str = "exit-after=5s,code=0";

/// Returns a Job that was complete, and a Deployment that waits for it.
async fn one_that_is_complete(ttl: &str) -> (World, String) {
    let mut world = World::embedded().await;
    let after = "metadata:\n  annotations: {belay.dev/after: job/once}";
    world.repository.write("web.yaml", deployment("web", "web:1", "").replacen("metadata:", after, 1));
    let first = world.push("job.yaml", &job("once", "once:1", EXITS, ttl), "A job");
    world.start();
    world.through(&first).await;
    assert_eq!(world.record(&first, "Job default/once").outcome, Outcome::Complete);
    (world, first)
}

/// Waits for long, and says whether the Job was made again.
async fn is_made_again(world: &World, name: &str) -> bool {
    for _ in 0..120 {
        tokio::time::sleep(Duration::from_secs(5)).await;
        if world.get(&path(name)).await.is_some() {
            return true;
        }
    }
    false
}

#[tokio::test(start_paused = true)]
async fn one_that_was_complete_is_done_whoever_takes_it_away() {
    let (mut world, first) = one_that_is_complete("").await;
    world.delete(&path("once")).await;
    assert!(!is_made_again(&world, "once").await, "somebody deleted it");
    world.until("it is synced", |source| source.state() == SourceState::Synced).await;
    assert_eq!(world.outcomes().len(), 2, "{:#?}", world.outcomes());
    world.stop().await;
    world.start();
    world.through(&first).await;
    assert!(!is_made_again(&world, "once").await, "belay was restarted");

    // A dependent of it does not wait for ever.
    let after = "metadata:\n  annotations: {belay.dev/after: job/once}";
    let text = deployment("web", "web:2", "").replacen("metadata:", after, 1);
    let second = world.push("web.yaml", &text, "Another version");
    world.through(&second).await;
    assert_eq!(world.record(&second, "Deployment default/web").outcome, Outcome::Complete);

    // Its manifest changes, and it runs for that one.
    let third = world.push("job.yaml", &job("once", "once:2", EXITS, ""), "Another job");
    world.through(&third).await;
    assert_eq!(world.record(&third, "Job default/once").outcome, Outcome::Complete);
    assert_eq!(image(&world.get(&path("once")).await.unwrap()), "once:2");
}

#[tokio::test(start_paused = true)]
async fn one_that_was_complete_is_done_after_the_history_was_lost() {
    let (mut world, first) = one_that_is_complete("").await;
    world.delete(&path("once")).await;
    world.stop().await;
    std::fs::remove_dir_all(world.repository.beside("state")).unwrap();
    world.start();
    world.through(&first).await;
    assert!(!is_made_again(&world, "once").await);
    assert_eq!(world.record(&first, "Job default/once").outcome, Outcome::Unchanged);
    world.until("it is synced", |source| source.state() == SourceState::Synced).await;
}

/// The Lease says so to `belay plan`, which has no history.
#[tokio::test(start_paused = true)]
async fn a_plan_does_not_make_one_again_that_was_complete() {
    let (mut world, _) = one_that_is_complete("").await;
    world.delete(&path("once")).await;
    world.stop().await;
    let cluster = belay::cluster::Cluster::new(world.client.clone(), world.clock.clone());
    let config = SourceConfig { name: "shop".to_owned(), ..SourceConfig::of("") };
    let step = async |text: &str| {
        let wanted = wanted(text);
        let head = wanted.commit.id.clone();
        let mut plan = plan_once(&cluster, "shop", &head, vec![wanted]).await.unwrap();
        leave_finished(&cluster, &config, &mut plan.planned).await;
        plan.planned[0].step.clone()
    };
    let text = job("once", "once:1", EXITS, "");
    assert_eq!(step(&text).await, PlanStep::Unchanged);
    assert!(matches!(step(&text.replace("once:1", "once:2")).await, PlanStep::Apply(_)), "it has not run for this");
    assert!(matches!(step(&text.replace("name: once", "name: other")).await, PlanStep::Apply(_)));
}

#[tokio::test(start_paused = true)]
async fn one_that_goes_at_its_end_is_complete_at_its_commit() {
    const TTL: &str = "  ttlSecondsAfterFinished: 0\n";
    let mut world = World::embedded().await;
    let first = world.push("job.yaml", &job("once", "once:1", EXITS, TTL), "A job that goes");
    world.start();
    world.through(&first).await;
    assert_eq!(world.record(&first, "Job default/once").outcome, Outcome::Complete);
    assert!(!is_made_again(&world, "once").await);

    let fails = job("ill", "ill:1", "exit-after=3s,code=7", &format!("  backoffLimit: 0\n{TTL}"));
    let second = world.push("ill.yaml", &fails, "One that fails");
    world.through(&second).await;
    let record = world.record(&second, "Job default/ill");
    assert_eq!(record.outcome, Outcome::Failed, "{record:#?}");
    assert!(!is_made_again(&world, "ill").await, "it would fail for ever");

    // It goes while belay is away: its events say how it ended.
    for (name, exit, outcome) in [("later", "code=0", Outcome::Complete), ("worse", "code=3", Outcome::Failed)] {
        let text = job(name, "a:1", &format!("exit-after=10s,{exit}"), &format!("  backoffLimit: 0\n{TTL}"));
        let commit = world.push(&format!("{name}.yaml"), &text, name);
        world.until("it runs", |source| source.under_way.keys().any(|key| key.name == name)).await;
        while world.get(&path(name)).await.is_none() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
        world.kill().await;
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert!(world.get(&path(name)).await.is_none(), "its time to live is over");
        world.start();
        world.through(&commit).await;
        assert_eq!(world.record(&commit, &format!("Job default/{name}")).outcome, outcome, "{name}");
        assert!(!is_made_again(&world, name).await, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_is_deleted_while_it_runs_is_made_again() {
    let mut world = World::embedded().await;
    let ttl = "  ttlSecondsAfterFinished: 600\n";
    let first = world.push("job.yaml", &job("once", "once:1", "exit-after=30s,code=0", ttl), "A job");
    world.start();
    world.until("it runs", |source| !source.under_way.is_empty()).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    let uid = world.get(&path("once")).await.unwrap()["metadata"]["uid"].clone();
    world.delete(&path("once")).await;
    world.through(&first).await;
    let live = world.get(&path("once")).await.unwrap_or_else(|| panic!("it is gone: {:#?}", world.records()));
    assert!(live["metadata"]["uid"] != uid && says(&live, "Complete").is_some(), "{live:#}");
    assert_eq!(world.record(&first, "Job default/once").outcome, Outcome::Complete);
}

/// A finalizer keeps a Job that has failed and is deleted: its failure stays one, and it does not run again.
#[tokio::test(start_paused = true)]
async fn one_that_failed_and_is_being_deleted_stays_failed() {
    let mut world = World::embedded().await;
    let text = job("ill", "migrate:1", "exit-after=3s,code=7", "  backoffLimit: 0\n  ttlSecondsAfterFinished: 3600\n");
    let first = world.push("ill.yaml", &text, "A job that fails");
    world.start();
    world.through(&first).await;
    world.patch(&path("ill"), "kubectl", &json!({"metadata": {"finalizers": ["example.com/kept"]}})).await;
    world.delete(&path("ill")).await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert_eq!(world.status().state(), SourceState::Degraded, "{}", world.status().summary());
    world.patch(&path("ill"), "kubectl", &json!({"metadata": {"finalizers": null}})).await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert_eq!(world.status().state(), SourceState::Degraded, "{}", world.status().summary());
    assert_eq!(world.record(&first, "Job default/ill").outcome, Outcome::Failed, "{:#?}", world.records());
    assert!(world.get(&path("ill")).await.is_none(), "it is not made again");
}
