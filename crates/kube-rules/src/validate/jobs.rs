//! Jobs and CronJobs.

use jiff::tz::TimeZone;
use serde_json::{Value, json};

use super::super::value_ext::{ValueExt, remove, restore};
use super::counts::not_negative;
use super::errors::{Errors, Path, Shown, immutable};
use super::{failure_policy, names, pod, selector};
use crate::schedule::Schedule;

/// So long may the name of a CronJob be, for those of its jobs get a time.
const LONGEST_NAME: usize = 52;
/// So many indexes may a job count one by one.
const MOST_INDEXES: i64 = 100_000;
/// So many of more indexes than that may run, or fail.
const MOST_OF_MANY: i64 = 10_000;

/// Checks a Job, its metadata apart.
pub fn job(object: &Value, errors: &mut Errors) {
    let (spec, at) = (&object["spec"], Path::root("spec"));
    if spec.has("selector") && !spec.flag("manualSelector") {
        own_selector(object, &at, errors);
    }
    counts(spec, &at, errors);
    template(&spec["template"], &at.field("template"), errors);
    restarts(spec, &at, errors);
    host_names(object, errors);
    if !spec.has("selector") {
        errors.required(&at.field("selector"), "");
    }
    selector::selector(&spec["selector"], &at.field("selector"), errors);
    let labels = &spec["template"]["metadata"]["labels"];
    if selector::matches(&spec["selector"], Some(labels)) == Some(false) {
        let at = at.field("template.metadata.labels");
        errors.invalid(&at, labels, "`selector` does not match template `labels`");
    }
}

/// Checks the pods of a job whose pods have numbers are named after both.
fn host_names(object: &Value, errors: &mut Errors) {
    let (spec, name) = (&object["spec"], object["metadata"].text("name"));
    let Some(last) = spec.int("completions").filter(|count| *count > 0) else { return };
    let host = format!("{name}-{}", last - 1);
    if spec.text("completionMode") == "Indexed" && !names::dns_1123_label(&host).is_empty() {
        let detail = format!("will not able to create pod with invalid DNS label: {host}");
        errors.invalid(&Path::root("metadata.name"), name, &detail);
    }
}

/// Checks a job that does not choose its pods itself has the selector that it was given, and its pods have the labels.
fn own_selector(object: &Value, at: &Path<'_>, errors: &mut Errors) {
    let (name, uid) = (object["metadata"].text("name"), object["metadata"].text("uid"));
    let wanted = json!({
        "controller-uid": uid, "job-name": name,
        "batch.kubernetes.io/controller-uid": uid, "batch.kubernetes.io/job-name": name,
    });
    let labels = &object["spec"]["template"]["metadata"]["labels"];
    let labels_at = at.field("template.metadata.labels");
    for (key, value) in wanted.as_object().into_iter().flatten() {
        let detail = format!("must be '{}'", value.as_str().unwrap_or_default());
        match labels.some(key) {
            None => errors.required(&labels_at.key(key), &detail),
            Some(given) if given != value => errors.invalid(&labels_at.key(key), labels, &detail),
            Some(_) => {}
        }
    }
    let given = &object["spec"]["selector"];
    if selector::matches(given, Some(&wanted)) == Some(false) {
        let shown = Shown::Plain(selector::shown(given));
        errors.invalid(&at.field("selector"), shown, "`selector` not auto-generated");
    }
}

fn counts(spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    for name in ["parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished"] {
        not_negative(spec, name, at, errors);
    }
    not_negative(spec, "backoffLimitPerIndex", at, errors);
    not_negative(spec, "maxFailedIndexes", at, errors);
    if spec.has("maxFailedIndexes") && !spec.has("backoffLimitPerIndex") {
        errors.required(&at.field("backoffLimitPerIndex"), "when maxFailedIndexes is specified");
    }
    if let Some(manager) = spec.some("managedBy").and_then(Value::as_str) {
        let at = at.field("managedBy");
        names::domain_prefixed_path(manager, &at, errors);
        if manager.len() > 63 {
            errors.too_long(&at, 63);
        }
    }
    let mode = spec.text("completionMode");
    if spec.has("completionMode") && !["NonIndexed", "Indexed"].contains(&mode) {
        errors.not_supported(&at.field("completionMode"), mode, &["NonIndexed", "Indexed"]);
    }
    match spec.some("completionMode").and_then(Value::as_str) {
        Some("Indexed") => indexed(spec, at, errors),
        Some("NonIndexed") | None => {
            for name in ["backoffLimitPerIndex", "maxFailedIndexes"] {
                if let Some(limit) = spec.int(name) {
                    errors.invalid(&at.field(name), limit, "requires indexed completion mode");
                }
            }
        }
        _ => {}
    }
    if spec.has("podFailurePolicy") {
        failure_policy::failure(spec, &at.field("podFailurePolicy"), errors);
    }
    if spec.has("successPolicy") {
        let at = at.field("successPolicy");
        if mode == "Indexed" {
            failure_policy::success(spec, &at, errors);
        } else {
            let shown = Shown::Plain(spec["successPolicy"].to_string());
            errors.invalid(&at, shown, "requires indexed completion mode");
        }
    }
    replacement(spec, at, errors);
}

/// When pods are replaced.
fn replacement(spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    const POLICIES: [&str; 2] = ["Failed", "TerminatingOrFailed"];
    let Some(policy) = spec.some("podReplacementPolicy").and_then(Value::as_str) else { return };
    let at = at.field("podReplacementPolicy");
    if spec.has("podFailurePolicy") {
        if policy != "Failed" {
            errors.not_supported(&at, policy, &["Failed"]);
        }
    } else if !POLICIES.contains(&policy) {
        errors.not_supported(&at, policy, &POLICIES);
    }
}

/// Checks the bounds of jobs whose pods have numbers.
fn indexed(spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    let completions = spec.int("completions");
    if completions.is_none() {
        errors.required(&at.field("completions"), "when completion mode is Indexed");
    }
    if let Some(parallelism) = spec.int("parallelism").filter(|count| *count > MOST_INDEXES) {
        let detail = format!("must be less than or equal to {MOST_INDEXES} when completion mode is Indexed");
        errors.invalid(&at.field("parallelism"), parallelism, &detail);
    }
    let failed_at = at.field("maxFailedIndexes");
    if let (Some(failed), Some(completions)) = (spec.int("maxFailedIndexes"), completions)
        && failed > completions
    {
        errors.invalid(&failed_at, failed, "must be less than or equal to completions");
    }
    if let Some(failed) = spec.int("maxFailedIndexes").filter(|count| *count > MOST_INDEXES) {
        errors.invalid(&failed_at, failed, &format!("must be less than or equal to {MOST_INDEXES}"));
    }
    if completions.is_some_and(|count| count > MOST_INDEXES) && spec.has("backoffLimitPerIndex") {
        if !spec.has("maxFailedIndexes") {
            let detail = format!("must be specified when completions is above {MOST_INDEXES}");
            errors.required(&failed_at, &detail);
        }
        for name in ["parallelism", "maxFailedIndexes"] {
            let Some(count) = spec.int(name).filter(|count| *count > MOST_OF_MANY) else { continue };
            let detail = format!(
                "must be less than or equal to {MOST_OF_MANY} when completions are above {MOST_INDEXES} and used with \
                 backoff limit per index"
            );
            errors.invalid(&at.field(name), count, &detail);
        }
    }
}

/// Checks a changed Job: while it is suspended and has not begun, the placement of its pods may change.
pub fn job_update(old: &Value, new: &Value, errors: &mut Errors) {
    let (before, after, at) = (&old["spec"], &new["spec"], Path::root("spec"));
    let count = |spec: &Value, name: &str| spec.int(name);
    if count(before, "completions") != count(after, "completions") {
        let completions = Shown::Plain(after["completions"].to_string());
        if after.text("completionMode") != "Indexed" {
            errors.invalid(&at.field("completions"), completions, "field is immutable");
        } else if after.has("completions") && count(after, "completions") != count(after, "parallelism") {
            let detail = "can only be modified in tandem with spec.parallelism";
            errors.invalid(&at.field("completions"), completions, detail);
        }
    }
    immutable(before, after, "selector", &at, errors);
    if is_at_rest(old) {
        let same = with_free_fields(&before["template"]["spec"], &after["template"]["spec"]);
        if same != before["template"]["spec"] {
            let shown = Shown::Plain(after["template"]["spec"].to_string());
            errors.invalid(&at.field("template.spec"), shown, "field is immutable");
        }
    } else {
        immutable(before, after, "template", &at, errors);
    }
    for name in ["completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"] {
        immutable(before, after, name, &at, errors);
    }
}

/// Returns true when a job is suspended and has no pods, so that much of its template may still change.
fn is_at_rest(job: &Value) -> bool {
    let status = &job["status"];
    let said = |condition: &Value| condition.text("type") == "Suspended" && condition.text("status") == "True";
    job["spec"].flag("suspend")
        && status.int("active").unwrap_or_default() == 0
        && (!status.has("startTime") || status.list("conditions").iter().any(said))
}

/// Returns a template's spec with the mutable fields of the old one: its node selection and its resources.
fn with_free_fields(before: &Value, after: &Value) -> Value {
    let mut spec = after.clone();
    for name in ["nodeSelector", "tolerations", "schedulingGates"] {
        restore(&mut spec, before, name);
    }
    for list in ["containers", "initContainers"] {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
        for (container, was) in containers.zip(before.list(list)) {
            restore(container, was, "resources");
        }
    }
    let affinity = |spec: &Value| spec["affinity"].some("nodeAffinity").cloned();
    if affinity(&spec) != affinity(before) {
        match affinity(before) {
            Some(kept) => spec["affinity"]["nodeAffinity"] = kept,
            None => remove(&mut spec["affinity"], "nodeAffinity"),
        }
        if spec["affinity"].as_object().is_some_and(serde_json::Map::is_empty) && !before.has("affinity") {
            remove(&mut spec, "affinity");
        }
    }
    spec
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

/// With rules about failures, a container is not started again by itself.
fn restarts(spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    let policy = spec["template"]["spec"].text("restartPolicy");
    if spec.has("podFailurePolicy") && policy == "OnFailure" {
        let detail = "only \"Never\" is supported when podFailurePolicy is specified";
        errors.invalid(&at.field("template.spec.restartPolicy"), policy, detail);
    }
}

fn time_zone(spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    let Some(zone) = spec.some("timeZone").and_then(Value::as_str) else { return };
    if zone.is_empty() {
        errors.invalid(at, zone, "timeZone must be nil or non-empty string");
        return;
    }
    if zone.eq_ignore_ascii_case("local") {
        let detail = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        errors.invalid(at, zone, detail);
    }
    if let Some(why) = zone_problem(zone).filter(|_| zone != "Local") {
        errors.invalid(at, zone, &why);
    }
}

/// Returns why a name is none of a zone of time, if it is none.
fn zone_problem(zone: &str) -> Option<String> {
    let is_path = zone.split('/').all(|part| !matches!(part, "" | "." | ".."));
    if is_path && zone.contains("..") {
        return Some("time: invalid location name".to_owned());
    }
    if TimeZone::get(zone).is_ok_and(|known| known.iana_name() == Some(zone)) {
        return None;
    }
    // Some names are those of folders, which hold zones.
    let is_folder = is_path && jiff::tz::db().available().any(|known| known.as_str().starts_with(&format!("{zone}/")));
    Some(if is_folder { "is a directory".to_owned() } else { format!("unknown time zone {zone}") })
}

/// Returns a schedule without the zone that older ones name in front.
fn fields_of(schedule: &str) -> Result<&str, String> {
    let Some(rest) = schedule.strip_prefix("CRON_TZ=").or_else(|| schedule.strip_prefix("TZ=")) else {
        return Ok(schedule);
    };
    let Some((zone, fields)) = rest.split_once(' ') else {
        return Err("invalid schedule format: runtime error: slice bounds out of range [:-1]".to_owned());
    };
    match zone_problem(zone).filter(|_| !matches!(zone, "" | "Local")) {
        Some(why) => Err(format!("provided bad location {zone}: {why}")),
        None => Ok(fields),
    }
}

/// Checks a CronJob, its metadata apart.
pub fn cron_job(object: &Value, errors: &mut Errors) {
    let (spec, at) = (&object["spec"], Path::root("spec"));
    let schedule = spec.text("schedule");
    let schedule_at = at.field("schedule");
    if schedule.is_empty() {
        errors.required(&schedule_at, "");
    } else {
        if let Err(why) = fields_of(schedule).and_then(Schedule::parse) {
            errors.invalid(&schedule_at, schedule, &why);
        }
        if schedule.contains("TZ") {
            errors.invalid(&schedule_at, schedule, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead");
        }
    }
    time_zone(spec, &at.field("timeZone"), errors);
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
    restarts(job, &job_at, errors);
    if job.has("selector") {
        let shown = Shown::Plain(selector::shown(&job["selector"]));
        errors.invalid(&job_at.field("selector"), shown, "`selector` will be auto-generated");
    }
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
