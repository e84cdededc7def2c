//! The rules of a job about the ends of its pods: when it fails, and when it has succeeded early.

use serde_json::Value;

use super::super::value_ext::{ValueExt, repeated_values};
use super::super::words::quote;
use super::counts::not_negative;
use super::errors::{Errors, Path, Shown};
use super::names;

const ACTIONS: [&str; 4] = ["Count", "FailIndex", "FailJob", "Ignore"];
const OPERATORS: [&str; 2] = ["In", "NotIn"];
const STATES: [&str; 3] = ["False", "True", "Unknown"];
/// So many rules, codes and patterns there may be.
const MOST: (usize, usize, usize) = (20, 255, 20);

/// Checks the rules of a job spec about failures.
pub fn failure(spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    let rules = spec["podFailurePolicy"].list("rules");
    let list = at.field("rules");
    if rules.len() > MOST.0 {
        errors.too_many(&list, rules.len(), MOST.0);
    }
    let pod = &spec["template"]["spec"];
    let containers: Vec<&str> = ["containers", "initContainers"]
        .iter()
        .flat_map(|part| pod.list(part))
        .map(|container| container.text("name"))
        .collect();
    for (index, rule) in rules.iter().enumerate() {
        let at = list.index(index);
        action(rule, spec, &at.field("action"), errors);
        let (codes, conditions) = (rule.some("onExitCodes"), rule.list("onPodConditions"));
        if let Some(codes) = codes {
            exit_codes(codes, &containers, &at.field("onExitCodes"), errors);
        }
        let patterns = at.field("onPodConditions");
        if conditions.len() > MOST.2 {
            errors.too_many(&patterns, conditions.len(), MOST.2);
        }
        for (index, pattern) in conditions.iter().enumerate() {
            let at = patterns.index(index);
            let ty = pattern.text("type");
            errors.each_invalid(&at.field("type"), ty, &names::qualified_name(ty));
            known(pattern.text("status"), &STATES, &at.field("status"), errors);
        }
        match (codes.is_some(), conditions.is_empty()) {
            (true, false) => {
                errors.wrong(&at, "specifying both OnExitCodes and OnPodConditions is not supported");
            }
            (false, true) => errors.wrong(&at, "specifying one of OnExitCodes and OnPodConditions is required"),
            _ => {}
        }
    }
}

fn action(rule: &Value, spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    let action = rule.text("action");
    if action == "FailIndex" && !spec.has("backoffLimitPerIndex") {
        errors.invalid(at, action, "requires the backoffLimitPerIndex to be set");
    }
    known(action, &ACTIONS, at, errors);
}

/// Checks one of some values, which must be there.
fn known(value: &str, values: &[&str], at: &Path<'_>, errors: &mut Errors) {
    if value.is_empty() {
        let all: Vec<String> = values.iter().map(|value| quote(value)).collect();
        errors.required(at, &format!("valid values: [{}]", all.join(" ")));
    } else if !values.contains(&value) {
        errors.not_supported(at, value, values);
    }
}

fn exit_codes(codes: &Value, containers: &[&str], at: &Path<'_>, errors: &mut Errors) {
    let operator = codes.text("operator");
    known(operator, &OPERATORS, &at.field("operator"), errors);
    if let Some(name) = codes.some("containerName").and_then(Value::as_str)
        && !containers.contains(&name)
    {
        let detail = "must be one of the container or initContainer names in the pod template";
        errors.invalid(&at.field("containerName"), name, detail);
    }
    let (values, list) = (codes.list("values"), at.field("values"));
    let all = || Shown::Plain(Value::from(values).to_string());
    if values.is_empty() {
        errors.invalid(&list, all(), "at least one value is required");
    } else if values.len() > MOST.1 {
        errors.too_many(&list, values.len(), MOST.1);
    }
    let repeated = repeated_values(values);
    for (index, value) in values.iter().enumerate() {
        let number = value.as_i64().unwrap_or_default();
        if operator == "In" && number == 0 {
            errors.invalid(&list.index(index), number, "must not be 0 for the In operator");
        }
        if repeated[index] {
            errors.duplicate(&list.index(index), number);
        }
    }
    if values.windows(2).any(|pair| pair[0].as_i64() > pair[1].as_i64()) {
        errors.invalid(&list, all(), "must be ordered");
    }
}

/// Checks the rules of a job spec about early success.
pub fn success(spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    let rules = spec["successPolicy"].list("rules");
    let list = at.field("rules");
    if rules.is_empty() {
        errors.required(&list, "at least one rules must be specified when the successPolicy is specified");
    }
    if rules.len() > MOST.0 {
        errors.too_many(&list, rules.len(), MOST.0);
    }
    let completions = spec.int("completions").unwrap_or_default();
    for (index, rule) in rules.iter().enumerate() {
        let at = list.index(index);
        if !rule.has("succeededCount") && !rule.has("succeededIndexes") {
            errors.required(&at, "at least one of succeededCount or succeededIndexes must be specified");
        }
        let mut total = 0;
        if let Some(text) = rule.some("succeededIndexes").and_then(Value::as_str) {
            match indexes(text, completions) {
                Ok(count) => total = count,
                Err(why) => {
                    let at = at.field("succeededIndexes");
                    errors.invalid(&at, text, &format!("error parsing succeededIndexes: {why}"));
                }
            }
        }
        let Some(count) = rule.int("succeededCount") else { continue };
        not_negative(rule, "succeededCount", &at, errors);
        let at = at.field("succeededCount");
        if count > completions {
            let detail = format!("must be less than or equal to {completions} (the number of specified completions)");
            errors.invalid(&at, count, &detail);
        }
        if rule.has("succeededIndexes") && count > total {
            let detail = format!(
                "must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"
            );
            errors.invalid(&at, count, &detail);
        }
    }
}

/// Returns how many numbers a text like `1,3-5` names, all below a bound and each above the last.
///
/// # Errors
/// Fails with its fault.
pub fn indexes(text: &str, completions: i64) -> Result<i64, String> {
    let (mut last, mut total) = (None, 0);
    if text.is_empty() {
        return Ok(0);
    }
    let mut next = |text: &str| -> Result<i64, String> {
        let number: i64 =
            text.parse().map_err(|_| format!("cannot convert string to integer for index: {}", quote(text)))?;
        if number >= completions {
            return Err(format!("too large index: {}", quote(text)));
        }
        if let Some(last) = last.filter(|last| *last >= number) {
            return Err(format!("non-increasing order, previous: {last}, current: {number}"));
        }
        last = Some(number);
        Ok(number)
    };
    for interval in text.split(',') {
        let ends: Vec<&str> = interval.split('-').collect();
        if ends.len() > 2 {
            return Err(format!(
                "the fragment {} violates the requirement that an index interval can have at most two parts separated \
                 by '-'",
                quote(interval)
            ));
        }
        let first = next(ends[0])?;
        total += 1;
        if let Some(end) = ends.get(1) {
            total += next(end)? - first;
        }
    }
    Ok(total)
}
