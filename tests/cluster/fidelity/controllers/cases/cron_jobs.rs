//! J: CronJobs. Schedules of one day a year, and a last time long ago, make what is due independent of when this runs.

use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};

use super::super::observer::Seen;
use super::super::workloads::merge;
use super::super::world::{Cascade, World, condition};
use super::super::{Case, Fate, case};
use super::jobs::job;

const SCHEDULED: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";
/// The first of January.
const FIRST: &str = "0 0 1 1 *";

pub fn cases() -> Vec<Case> {
    [scheduled(), missed()].concat()
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

/// Makes a CronJob that was due last long ago.
async fn due(w: &World, more: Value) -> Result<()> {
    let mut suspended = json!({ "suspend": true });
    merge(&mut suspended, more);
    w.create(cron_job(FIRST, suspended)).await?;
    w.merge_status("CronJob", "work", json!({ "status": { "lastScheduleTime": "2001-02-03T04:05:06Z" } })).await?;
    w.merge("CronJob", "work", json!({ "spec": { "suspend": false } })).await?;
    Ok(())
}

fn cron_job(schedule: &str, more: Value) -> Value {
    let mut spec = json!({ "schedule": schedule, "jobTemplate": {
        "metadata": { "labels": { "of": "work" } }, "spec": job(json!({}))["spec"],
    } });
    merge(&mut spec, more);
    json!({ "apiVersion": "batch/v1", "kind": "CronJob", "metadata": { "name": "work" }, "spec": spec })
}
