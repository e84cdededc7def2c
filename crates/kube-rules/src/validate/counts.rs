//! Counts, and percentages of them.

use serde_json::Value;

use super::super::value_ext::ValueExt;
use super::errors::{Errors, Path};
use super::names;

/// Checks a count that may not be negative, if it is there.
pub fn not_negative(of: &Value, name: &str, at: &Path<'_>, errors: &mut Errors) {
    let count = of.int(name).unwrap_or_default();
    if count < 0 {
        errors.invalid(&at.field(name), count, "must be greater than or equal to 0");
    }
}

/// Checks a count, or a percentage.
pub fn count_or_percent(value: &Value, at: &Path<'_>, errors: &mut Errors) {
    match value {
        Value::String(text) => errors.each_invalid(at, text.as_str(), &names::percent(text)),
        other => {
            let count = other.as_i64().unwrap_or_default();
            if count < 0 {
                errors.invalid(at, count, "must be greater than or equal to 0");
            }
        }
    }
}

/// Returns the number in a count or percentage.
pub fn amount(value: &Value) -> i64 {
    match value {
        Value::String(text) if names::percent(text).is_empty() => {
            text.trim_end_matches('%').parse().unwrap_or(i64::MAX)
        }
        Value::String(text) => text.parse().unwrap_or_default(),
        other => other.as_i64().unwrap_or_default(),
    }
}

/// Checks that a percentage may not be more than everything.
pub fn at_most_all(value: &Value, at: &Path<'_>, errors: &mut Errors) {
    if let Value::String(text) = value
        && names::percent(text).is_empty()
        && amount(value) > 100
    {
        errors.invalid(at, text.as_str(), "must not be greater than 100%");
    }
}
