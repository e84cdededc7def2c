//! J: CronJobs. Schedules of one day a year, and a last time long ago, make what is due independent of when this runs.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};

use super::super::observer::Seen;
use super::super::workloads::merge;
use super::super::world::{Cascade, World, condition};
use super::super::{Case, Fate, case};
use super::jobs::job;

const SCHEDULED: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";
/// The first and the second of January.
const FIRST: &str = "0 0 1 1 *";
const SECOND: &str = "0 0 2 1 *";

pub fn cases() -> Vec<Case> {
    [scheduled(), missed(), several()].concat()
}

fn scheduled() -> Vec<Case> {
    vec![
        case!("J40", "made every minute", |w| {
            w.fate("v1", Fate::Exits(0));
            w.create(cron_job("* * * * *", json!({}))).await?;
            let made = |seen: &Seen| {
                seen.all("Job").iter().any(|job| condition(job, "Complete").is_some())
                    && seen.get("CronJob", "work").is_some_and(|cron| cron["status"]["lastSuccessfulTime"].is_string())
            };
            w.until_within(Duration::from_secs(80), "a job that was made and ended", made).await?;
            w.merge("CronJob", "work", json!({ "spec": { "suspend": true } })).await?;
            w.settle().await?;
            let job = w.look(|seen| seen.all("Job")[0].clone());
            let at = job["metadata"]["annotations"][SCHEDULED].clone();
            let at: jiff::Timestamp = at.as_str().unwrap_or_default().parse()?;
            w.check(at.as_second() % 60 == 0, "for a whole minute")?;
            w.check(job["metadata"]["name"] == format!("work-{}", at.as_second() / 60), "named for it")?;
            w.delete("CronJob", "work", Cascade::Background).await?;
            w.until("nothing left", |seen| seen.all("Job").is_empty() && seen.all("Pod").is_empty()).await?;
        }),
        case!("J41", "not made while suspended", |w| {
            w.create(cron_job("* * * * *", json!({ "suspend": true }))).await?;
            w.settle().await?;
            w.check(w.look(|seen| seen.all("Job").is_empty()), "no job")?;
        }),
    ]
}

fn missed() -> Vec<Case> {
    vec![
        case!("J42", "of several times that were missed the last is made up for", |w| {
            due(&w, json!({})).await?;
            w.until("a job", |seen| seen.all("Job").len() == 1).await?;
            w.settle().await?;
            note_times(&w);
        }),
        case!("J43", "in a time zone", |w| {
            due(&w, json!({ "timeZone": "Asia/Tokyo" })).await?;
            w.until("a job", |seen| seen.all("Job").len() == 1).await?;
            w.settle().await?;
            note_times(&w);
        }),
        case!("J44", "too late to be made up for", |w| {
            due(&w, json!({ "startingDeadlineSeconds": 100 })).await?;
            w.settle().await?;
            w.check(w.look(|seen| seen.all("Job").is_empty()), "no job")?;
        }),
        case!("J49", "too many were missed, and it says so", |w| {
            due(&w, json!({ "schedule": "0 0 1 * *" })).await?;
            w.until("a job", |seen| seen.all("Job").len() == 1).await?;
            w.settle().await?;
        }),
    ]
}

fn several() -> Vec<Case> {
    vec![
        case!("J45", "one still runs: no other is made", |w| {
            two(&w, json!({ "concurrencyPolicy": "Forbid" })).await?;
            w.settle().await?;
            w.check(w.look(|seen| seen.names_ever("Job").len()) == 1, "one job")?;
        }),
        case!("J46", "one still runs: another takes its place", |w| {
            two(&w, json!({ "concurrencyPolicy": "Replace" })).await?;
            w.until("another in its place", |seen| seen.names_ever("Job").len() == 2 && seen.all("Job").len() == 1)
                .await?;
            w.settle().await?;
        }),
        case!("J47", "one still runs: another runs beside it", |w| {
            two(&w, json!({ "concurrencyPolicy": "Allow" })).await?;
            w.until("two jobs", |seen| seen.all("Job").len() == 2).await?;
            w.settle().await?;
        }),
        case!("J48", "old ones go, by how they ended", |w| {
            w.fate("v1", Fate::Exits(0));
            due(&w, json!({ "successfulJobsHistoryLimit": 1, "failedJobsHistoryLimit": 0 })).await?;
            w.until("one that is done", |seen| is_done(seen, 1)).await?;
            w.settle().await?;
            w.merge("CronJob", "work", json!({ "spec": { "schedule": SECOND } })).await?;
            w.until("only the second", |seen| is_done(seen, 2) && seen.all("Job").len() == 1).await?;
            w.fate("v1", Fate::Exits(1));
            let patch = json!({ "spec": {
                "schedule": "0 0 3 1 *", "jobTemplate": { "spec": { "backoffLimit": 0 } },
            } });
            w.merge("CronJob", "work", patch).await?;
            w.until("a third that failed and went", |seen| {
                seen.names_ever("Job").len() == 3 && seen.all("Job").len() == 1
            })
            .await?;
        }),
    ]
}

/// Whether so many Jobs came, and all that are there are complete.
fn is_done(seen: &Seen, ever: usize) -> bool {
    let jobs: Vec<Arc<Value>> = seen.all("Job");
    seen.names_ever("Job").len() == ever
        && !jobs.is_empty()
        && jobs.iter().all(|job| condition(job, "Complete").is_some_and(|(status, _)| status == "True"))
}

/// Makes a CronJob that was due last long ago.
async fn due(w: &World, more: Value) -> Result<()> {
    let mut suspended = json!({ "suspend": true });
    merge(&mut suspended, more);
    w.create(cron_job(FIRST, suspended)).await?;
    w.merge_status("CronJob", "work", json!({ "status": { "lastScheduleTime": "2001-02-03T04:05:06Z" } })).await?;
    w.merge("CronJob", "work", json!({ "spec": { "suspend": false } })).await?;
    Ok(())
}

/// Makes a CronJob whose first Job runs when the second is due.
async fn two(w: &World, more: Value) -> Result<()> {
    w.fate("v1", Fate::OnCommand);
    due(w, more).await?;
    w.until("a job that runs", |seen| {
        seen.all("Job").iter().any(|job| job["status"]["active"] == 1)
            && seen.get("CronJob", "work").is_some_and(|cron| cron["status"]["active"].is_array())
    })
    .await?;
    w.settle().await?;
    w.merge("CronJob", "work", json!({ "spec": { "schedule": SECOND } })).await.map(drop)
}

fn note_times(w: &World) {
    let job = w.look(|seen| seen.all("Job")[0].clone());
    let cron = w.look(|seen| seen.get("CronJob", "work")).unwrap_or_default();
    w.note(format!("for {}, last {}", job["metadata"]["annotations"][SCHEDULED], cron["status"]["lastScheduleTime"]));
}

fn cron_job(schedule: &str, more: Value) -> Value {
    let mut spec = json!({ "schedule": schedule, "jobTemplate": {
        "metadata": { "labels": { "of": "work" } }, "spec": job(json!({}))["spec"],
    } });
    merge(&mut spec, more);
    json!({ "apiVersion": "batch/v1", "kind": "CronJob", "metadata": { "name": "work" }, "spec": spec })
}
