//! The conditions of a status, if a kind has them in the form that newer kinds share.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use super::super::value_ext::{ValueExt, repeated_texts};
use super::errors::{Errors, Path};
use super::names;

/// So many bytes may a reason have, and a message.
const LONGEST: (usize, usize) = (1_024, 32_768);
const REASON: &str = "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?";
const STATES: [&str; 3] = ["False", "True", "Unknown"];

/// Conditions, each type once.
pub fn conditions(conditions: &[Value], list: &Path<'_>, errors: &mut Errors) {
    let repeated = repeated_texts(conditions, "type");
    for (index, condition) in conditions.iter().enumerate() {
        let (at, ty) = (list.index(index), condition.text("type"));
        if repeated[index] {
            errors.duplicate(&at.field("type"), ty);
        }
        one(condition, &at, errors);
    }
}

fn one(condition: &Value, at: &Path<'_>, errors: &mut Errors) {
    let ty = condition.text("type");
    errors.each_invalid(&at.field("type"), ty, &names::qualified_name(ty));
    let status = condition.text("status");
    if !STATES.contains(&status) {
        errors.not_supported(&at.field("status"), status, &STATES);
    }
    if let Some(generation) = condition.int("observedGeneration").filter(|generation| *generation < 0) {
        errors.invalid(&at.field("observedGeneration"), generation, "must be greater than or equal to zero");
    }
    if !condition.has("lastTransitionTime") {
        errors.required(&at.field("lastTransitionTime"), "");
    }
    let (reason, reason_at) = (condition.text("reason"), at.field("reason"));
    if reason.is_empty() {
        errors.required(&reason_at, "");
    } else {
        reason_of(reason, &reason_at, errors);
    }
    if condition.text("message").len() > LONGEST.1 {
        errors.too_long(&at.field("message"), LONGEST.1);
    }
}

fn reason_of(reason: &str, at: &Path<'_>, errors: &mut Errors) {
    static FORM: LazyLock<Regex> = LazyLock::new(|| Regex::new(&format!("^(?:{REASON})$")).expect("a valid pattern"));
    if !FORM.is_match(reason) {
        let detail = format!(
            "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric \
             characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  \
             or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is '{REASON}')"
        );
        errors.invalid(at, reason, &detail);
    }
    if reason.len() > LONGEST.0 {
        errors.too_long(at, LONGEST.0);
    }
}
