//! The Jobs that a CronJob has made. Pure.

use std::sync::Arc;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::controllers::job::finished;
use crate::controllers::key::name_of;
use crate::controllers::owner::controller_reference;

/// The annotation that says for which time a Job was made.
const SCHEDULED: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";

/// Returns the Job for a time.
pub fn draft(owner: &CronJob, at: Timestamp, zone: &TimeZone) -> Job {
    let template = owner.spec.job_template.clone();
    let metadata = template.metadata.unwrap_or_default();
    let mut annotations = metadata.annotations.unwrap_or_default();
    annotations.insert(SCHEDULED.to_owned(), written(at, zone));
    Job {
        metadata: ObjectMeta {
            name: Some(name_for(owner, at)),
            namespace: owner.metadata.namespace.clone(),
            labels: metadata.labels,
            annotations: Some(annotations),
            owner_references: Some(vec![controller_reference::<CronJob>(&owner.metadata)]),
            ..ObjectMeta::default()
        },
        spec: template.spec,
        status: None,
    }
}

/// Returns the name of the Job for a time: its minute.
pub fn name_for(owner: &CronJob, at: Timestamp) -> String {
    format!("{}-{}", name_of(&owner.metadata), at.as_second() / 60)
}

fn written(at: Timestamp, zone: &TimeZone) -> String {
    let zoned = at.to_zoned(zone.clone());
    let text = zoned.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string();
    text.strip_suffix("+00:00").map_or_else(|| text.clone(), |text| format!("{text}Z"))
}

/// Returns the Jobs that are too many of those that have ended: the oldest of those that succeeded and of those that
/// failed.
pub fn superfluous(owner: &CronJob, jobs: &[Arc<Job>]) -> Vec<Arc<Job>> {
    let spec = &owner.spec;
    let mut gone = Vec::new();
    for (kind, limit) in [("Complete", spec.successful_jobs_history_limit), ("Failed", spec.failed_jobs_history_limit)]
    {
        let Some(limit) = limit.and_then(|limit| usize::try_from(limit).ok()) else { continue };
        let is_of = |job: &&Arc<Job>| finished(job).is_some_and(|condition| condition.type_ == kind);
        let mut of_kind: Vec<Arc<Job>> = jobs.iter().filter(is_of).cloned().collect();
        of_kind.sort_by_key(|job| {
            let started = job.status.as_ref().and_then(|status| status.start_time.as_ref()).map(|time| time.0);
            // Those that have not started come last.
            (started.is_none(), started, job.metadata.name.clone())
        });
        gone.extend(of_kind.iter().take(of_kind.len().saturating_sub(limit)).cloned());
    }
    gone
}
