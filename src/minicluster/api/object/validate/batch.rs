//! Jobs and what makes them.

use serde_json::Value;

use super::super::look::Look;
use super::apps::not_negative;
use super::errors::{Errors, Path, Shown};
use super::{pod, selector};

/// So long may the name of a CronJob be, for those of its jobs get a time.
const LONGEST_NAME: usize = 52;

/// A Job, its metadata apart.
pub fn job(object: &Value, errors: &mut Errors) {
    let (spec, at) = (&object["spec"], Path::root("spec"));
    counts(spec, &at, errors);
    if spec.has("selector") {
        selector::selector(&spec["selector"], &at.field("selector"), errors);
        if !spec.flag("manualSelector") {
            own_selector(object, &at, errors);
        }
        let labels = &spec["template"]["metadata"]["labels"];
        if selector::matches(&spec["selector"], Some(labels)) == Some(false) {
            let at = at.field("template.metadata.labels");
            errors.invalid(&at, labels, "`selector` does not match template `labels`");
        }
    } else {
        errors.required(&at.field("selector"), "");
    }
    template(&spec["template"], &at.field("template"), errors);
}

/// A job that does not choose its pods itself has the selector that it was given.
fn own_selector(object: &Value, at: &Path<'_>, errors: &mut Errors) {
    let given = &object["spec"]["selector"];
    let uid = object["metadata"].text("uid");
    let labels = given.entries("matchLabels");
    let key = |name: &str| labels.get(name).and_then(Value::as_str) == Some(uid);
    let ours = key("batch.kubernetes.io/controller-uid") || key("controller-uid");
    if !ours || labels.len() != 1 || !given.list("matchExpressions").is_empty() {
        let shown = Shown::Plain(selector::shown(given));
        errors.invalid(&at.field("selector"), shown, "`selector` not auto-generated");
    }
}

fn counts(spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    for name in ["parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished"] {
        not_negative(spec, name, at, errors);
    }
    let mode = spec.text("completionMode");
    if spec.has("completionMode") && !["NonIndexed", "Indexed"].contains(&mode) {
        errors.not_supported(&at.field("completionMode"), mode, &["NonIndexed", "Indexed"]);
    }
    if mode != "Indexed"
        && let Some(limit) = spec.int("backoffLimitPerIndex")
    {
        errors.invalid(&at.field("backoffLimitPerIndex"), limit, "requires indexed completion mode");
    }
}

fn template(template: &Value, at: &Path<'_>, errors: &mut Errors) {
    pod::template(template, at, errors);
    let at = at.field("spec.restartPolicy");
    match template["spec"].text("restartPolicy") {
        "" | "Always" => errors.required(&at, "valid values: \"OnFailure\", \"Never\""),
        "OnFailure" | "Never" => {}
        other => errors.not_supported(&at, other, &["OnFailure", "Never"]),
    }
}

/// A CronJob, its metadata apart.
pub fn cron_job(object: &Value, errors: &mut Errors) {
    let (spec, at) = (&object["spec"], Path::root("spec"));
    let schedule = spec.text("schedule");
    let schedule_at = at.field("schedule");
    let fields: Vec<&str> = schedule.split_whitespace().collect();
    if schedule.is_empty() {
        errors.required(&schedule_at, "");
    } else if schedule.contains("TZ=") {
        errors.invalid(&schedule_at, schedule, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead");
    } else if !schedule.starts_with('@') && fields.len() != 5 {
        let detail = format!("expected exactly 5 fields, found {}: [{}]", fields.len(), fields.join(" "));
        errors.invalid(&schedule_at, schedule, &detail);
    }
    not_negative(spec, "startingDeadlineSeconds", &at, errors);
    const POLICIES: [&str; 3] = ["Allow", "Forbid", "Replace"];
    let policy = spec.text("concurrencyPolicy");
    if policy.is_empty() {
        errors.required(&at.field("concurrencyPolicy"), "");
    } else if !POLICIES.contains(&policy) {
        errors.not_supported(&at.field("concurrencyPolicy"), policy, &POLICIES);
    }
    let (job, job_at) = (&spec["jobTemplate"]["spec"], at.field("jobTemplate.spec"));
    counts(job, &job_at, errors);
    template(&job["template"], &job_at.field("template"), errors);
    if job.flag("manualSelector") {
        let at = job_at.field("manualSelector");
        errors.not_supported(&at, true, &["nil", "false"]);
    }
    not_negative(spec, "successfulJobsHistoryLimit", &at, errors);
    not_negative(spec, "failedJobsHistoryLimit", &at, errors);
    let name = object["metadata"].text("name");
    if name.len() > LONGEST_NAME {
        let detail = format!("must be no more than {LONGEST_NAME} characters");
        errors.invalid(&Path::root("metadata.name"), name, &detail);
    }
}
