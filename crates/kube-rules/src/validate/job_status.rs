//! The status of a Job: its counters, its indexes, and its end.

use std::cmp::Ordering;

use serde_json::Value;

use super::super::value_ext::ValueExt;
use super::super::words::quote;
use super::counts::not_negative;
use super::errors::{Errors, Path, Shown};

/// A first and a last index.
type Interval = (i64, i64);

/// Checks the changed status of a Job.
pub fn status(old: &Value, new: &Value, errors: &mut Errors) {
    let (status, at) = (&new["status"], Path::root("status"));
    for name in ["active", "succeeded", "failed", "ready", "terminating"] {
        not_negative(status, name, &at, errors);
    }
    uncounted(&status["uncountedTerminatedPods"], &at.field("uncountedTerminatedPods"), errors);
    outcome(old, new, &at, errors);
    finished(old, new, &at, errors);
    indexes(old, new, &at, errors);
    pods(status, &at, errors);
    let met = is(status, "SuccessCriteriaMet");
    for other in ["Failed", "FailureTarget"] {
        never_both(status, met, "SuccessCriteriaMet", other, &at, errors);
    }
    change(old, new, &at, errors);
}

/// Returns true when a condition holds.
fn is(status: &Value, condition: &str) -> bool {
    let holds = |one: &Value| one.text("type") == condition && one.text("status") == "True";
    status.list("conditions").iter().any(holds)
}

fn is_finished(status: &Value) -> bool {
    is(status, "Complete") || is(status, "Failed")
}

/// Checks pods that are still to be counted: each once.
fn uncounted(pods: &Value, at: &Path<'_>, errors: &mut Errors) {
    let mut known: Vec<&str> = Vec::new();
    for part in ["succeeded", "failed"] {
        let list = at.field(part);
        for (index, uid) in pods.list(part).iter().enumerate() {
            let uid = uid.as_str().unwrap_or_default();
            if uid.is_empty() {
                errors.invalid(&list.index(index), uid, "must not be empty");
            } else if known.contains(&uid) {
                errors.duplicate(&list.index(index), uid);
            } else {
                known.push(uid);
            }
        }
    }
}

fn never_both(status: &Value, holds: bool, one: &str, other: &str, at: &Path<'_>, errors: &mut Errors) {
    if holds && is(status, other) {
        errors.wrong(&at.field("conditions"), &format!("cannot set {one}=True and {other}=true conditions"));
    }
}

/// Checks the end of a job, and its time, for contradictions.
fn outcome(old: &Value, new: &Value, at: &Path<'_>, errors: &mut Errors) {
    let status = &new["status"];
    let complete = is(status, "Complete");
    for other in ["Failed", "FailureTarget"] {
        never_both(status, complete, "Complete", other, at, errors);
    }
    let ended = status.some("completionTime").and_then(Value::as_str);
    let ended_at = at.field("completionTime");
    match ended {
        Some(time) if !complete => {
            let detail = "cannot set completionTime when there is no Complete=True condition";
            errors.invalid(&ended_at, time, detail);
        }
        None if complete => errors.required(&ended_at, "completionTime is required for Complete jobs"),
        _ => {}
    }
    let moment = |text: &str| text.parse::<jiff::Timestamp>().ok();
    if let (Some(ended), Some(began)) = (ended, status.some("startTime").and_then(Value::as_str))
        && moment(ended) < moment(began)
    {
        errors.invalid(&ended_at, ended, "must be equal to or after `startTime`");
    }
    for (end, reason) in [("Failed", "FailureTarget"), ("Complete", "SuccessCriteriaMet")] {
        // A Job that failed already only gets the error that its reason stays.
        let told = end == "Failed" && is(&old["status"], end);
        if is(status, end) && !is(status, reason) && !told {
            let detail = format!("cannot set {end}=True condition without the {reason}=true condition");
            errors.wrong(&at.field("conditions"), &detail);
        }
    }
}

/// Checks that no pod is left of a job that ended.
fn finished(old: &Value, new: &Value, at: &Path<'_>, errors: &mut Errors) {
    let (before, status) = (&old["status"], &new["status"]);
    if !is_finished(status) {
        return;
    }
    if let Some(active) = status.int("active").filter(|count| *count > 0) {
        errors.invalid(&at.field("active"), active, "active>0 is invalid for finished job");
    }
    let began = |status: &Value| status.some("startTime").cloned();
    if began(status).is_none() && (!is_finished(before) || began(before).is_some()) {
        errors.required(&at.field("startTime"), "startTime is required for finished job");
    }
    let pods = &status["uncountedTerminatedPods"];
    let named = |part: &str| if pods.list(part).is_empty() { Value::Null } else { pods[part].clone() };
    let (succeeded, failed) = (named("succeeded"), named("failed"));
    if !(succeeded.is_null() && failed.is_null()) {
        let shown = format!("{{\"Succeeded\":{succeeded},\"Failed\":{failed}}}");
        errors.invalid(&at.field("uncountedTerminatedPods"), Shown::Plain(shown), "must be empty for finished job");
    }
}

/// Checks the numbers of the pods that succeeded and failed.
fn indexes(old: &Value, new: &Value, at: &Path<'_>, errors: &mut Errors) {
    let (spec, before, status) = (&new["spec"], &old["status"], &new["status"]);
    let completions = spec.int("completions").unwrap_or(i64::from(i32::MAX));
    let changed = |name: &str| before.get(name) != status.get(name);
    let completed = status.text("completedIndexes");
    let failed = status.some("failedIndexes").and_then(Value::as_str);
    let limited = spec.has("backoffLimitPerIndex");
    let (completed_at, failed_at) = (at.field("completedIndexes"), at.field("failedIndexes"));
    let parse = |text: &str, at: &Path<'_>, name: &str, errors: &mut Errors| {
        if let Err(why) = ordered(text, completions) {
            errors.invalid(at, text, &format!("error parsing {name}: {why}"));
        }
    };
    let (new_completed, new_failed) = (changed("completedIndexes"), changed("failedIndexes"));
    if new_completed && !completed.is_empty() {
        parse(completed, &completed_at, "completedIndexes", errors);
    }
    if let Some(failed) = failed.filter(|text| new_failed && limited && !text.is_empty()) {
        parse(failed, &failed_at, "failedIndexes", errors);
    }
    if new_completed && !completed.is_empty() && spec.text("completionMode") != "Indexed" {
        let detail = "cannot set non-empty completedIndexes when non-indexed completion mode";
        errors.invalid(&completed_at, completed, detail);
    }
    let Some(failed) = failed else { return };
    if new_failed && !limited {
        errors.invalid(&failed_at, failed, "cannot set non-null failedIndexes when backoffLimitPerIndex is null");
    }
    if (new_failed || new_completed)
        && let Some(index) = shared(completed, failed, completions)
    {
        let detail = format!("failedIndexes and completedIndexes overlap at index: {index}");
        errors.invalid(&failed_at, failed, &detail);
    }
}

/// Indexes as text, `1,3-5`, each larger than the last one and smaller than how many there are.
fn ordered(text: &str, completions: i64) -> Result<(), String> {
    let mut last = None;
    for part in text.split(',') {
        let (first, end) = interval(part, completions)?;
        if let Some(last) = last.filter(|last| *last >= first) {
            return Err(format!("non-increasing order, previous: {last}, current: {first}"));
        }
        last = Some(end);
    }
    Ok(())
}

fn interval(text: &str, completions: i64) -> Result<Interval, String> {
    let index = |text: &str| -> Result<i64, String> {
        let number: i64 =
            text.parse().map_err(|_| format!("cannot convert string to integer for index: {}", quote(text)))?;
        if number >= completions { Err(format!("too large index: {}", quote(text))) } else { Ok(number) }
    };
    let parts: Vec<&str> = text.split('-').collect();
    match parts[..] {
        [one] => index(one).map(|one| (one, one)),
        [first, last] => {
            let (first, last) = (index(first)?, index(last)?);
            if first >= last {
                return Err(format!("non-increasing order, previous: {first}, current: {last}"));
            }
            Ok((first, last))
        }
        _ => Err(format!(
            "the fragment {} violates the requirement that an index interval can have at most two parts separated by '-'",
            quote(text)
        )),
    }
}

/// Returns the first index that is in both of two texts; invalid indexes are passed over.
fn shared(one: &str, other: &str, completions: i64) -> Option<i64> {
    let read =
        |text: &str| -> Vec<Interval> { text.split(',').filter_map(|part| interval(part, completions).ok()).collect() };
    let (one, other) = (read(one), read(other));
    let (mut left, mut right) = (one.iter().peekable(), other.iter().peekable());
    while let (Some(a), Some(b)) = (left.peek(), right.peek()) {
        if a.0 <= b.1 && b.0 <= a.1 {
            return Some(a.0.max(b.0));
        }
        match a.1.cmp(&b.0) {
            Ordering::Less => left.next(),
            _ => right.next(),
        };
    }
    None
}

fn pods(status: &Value, at: &Path<'_>, errors: &mut Errors) {
    let count = |name: &str| status.int(name).unwrap_or_default();
    if is_finished(status) && count("terminating") > 0 {
        errors.invalid(&at.field("terminating"), count("terminating"), "terminating>0 is invalid for finished job");
    }
    if status.has("ready") && count("ready") > count("active") {
        errors.invalid(&at.field("ready"), count("ready"), "cannot set more ready pods than active");
    }
}

/// Checks that counts do not decrease, and that the end of a job stays.
fn change(old: &Value, new: &Value, at: &Path<'_>, errors: &mut Errors) {
    let (before, after, spec) = (&old["status"], &new["status"], &new["spec"]);
    let count = |status: &Value, name: &str| status.int(name).unwrap_or_default();
    let kept = |condition: &str, terminal: &str, errors: &mut Errors| {
        if is(before, condition) && !is(after, condition) {
            let detail = format!("cannot disable the {terminal}{condition}=True condition");
            errors.wrong(&at.field("conditions"), &detail);
        }
    };
    for condition in ["Failed", "Complete", "FailureTarget"] {
        kept(condition, "terminal ", errors);
    }
    // A job whose pods have numbers can get smaller, and then counts less.
    let elastic = spec.text("completionMode") == "Indexed" && spec.int("completions") == spec.int("parallelism");
    for name in ["failed", "succeeded"] {
        if count(before, name) > count(after, name) && !(elastic && name == "succeeded") {
            let detail = format!("cannot decrease the {name} counter");
            errors.invalid(&at.field(name), count(after, name), &detail);
        }
    }
    let shown = |name: &str| after.some(name).cloned().unwrap_or_default();
    let fixed = |name: &str| before.has(name) && before.get(name) != after.get(name);
    if fixed("completionTime") && after.has("completionTime") && is(before, "Complete") {
        errors.invalid(&at.field("completionTime"), &shown("completionTime"), "field is immutable");
    }
    if fixed("startTime") && !spec.flag("suspend") {
        let detail = "field is immutable for unsuspended job once set";
        errors.invalid(&at.field("startTime"), &shown("startTime"), detail);
    }
    kept("SuccessCriteriaMet", "", errors);
}
