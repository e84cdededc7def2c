//! Label selectors: their validity, and their matches.

use serde_json::{Map, Value};

use super::super::value_ext::{ValueExt, entries_of};
use super::errors::{Errors, Path};
use super::{metadata, names};

/// Checks a selector with `matchLabels` and `matchExpressions`.
pub fn selector(selector: &Value, at: &Path<'_>, errors: &mut Errors) {
    if selector.is_null() {
        return;
    }
    metadata::labels(selector.entries("matchLabels"), &at.field("matchLabels"), errors);
    let list = at.field("matchExpressions");
    for (index, expression) in selector.list("matchExpressions").iter().enumerate() {
        requirement(expression, &list.index(index), errors);
    }
}

fn requirement(expression: &Value, at: &Path<'_>, errors: &mut Errors) {
    let given = expression.list("values");
    match expression.text("operator") {
        "In" | "NotIn" => {
            if given.is_empty() {
                errors.required(&at.field("values"), "must be specified when `operator` is 'In' or 'NotIn'");
            }
        }
        "Exists" | "DoesNotExist" => {
            if !given.is_empty() {
                errors.forbidden(
                    &at.field("values"),
                    "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
                );
            }
        }
        other => errors.invalid(&at.field("operator"), other, "not a valid selector operator"),
    }
    let key = expression.text("key");
    errors.each_invalid(&at.field("key"), key, &names::qualified_name(key));
    let list = at.field("values");
    for (index, value) in given.iter().enumerate() {
        let value = value.as_str().unwrap_or_default();
        errors.each_invalid(&list.index(index), value, &names::label_value(value));
    }
}

/// Returns true when a selector selects everything.
pub fn is_empty(selector: &Value) -> bool {
    selector.entries("matchLabels").is_empty() && selector.list("matchExpressions").is_empty()
}

/// Returns true when a selector matches labels; `None` if the selector makes no sense.
pub fn matches(selector: &Value, labels: Option<&Value>) -> Option<bool> {
    let labels = entries_of(labels);
    if selector.is_null() {
        return Some(false);
    }
    let mut matches = plain_matches(selector.entries("matchLabels"), labels);
    for (key, value) in selector.entries("matchLabels") {
        let sound =
            names::qualified_name(key).is_empty() && names::label_value(value.as_str().unwrap_or_default()).is_empty();
        if !sound {
            return None;
        }
    }
    for expression in selector.list("matchExpressions") {
        let values = expression.list("values");
        let value = labels.get(expression.text("key"));
        let has = |value: &Value| values.contains(value);
        let sound = names::qualified_name(expression.text("key")).is_empty()
            && values.iter().all(|value| names::label_value(value.as_str().unwrap_or_default()).is_empty());
        matches &= match expression.text("operator") {
            "In" if sound && !values.is_empty() => value.is_some_and(has),
            "NotIn" if sound && !values.is_empty() => !value.is_some_and(has),
            "Exists" if sound && values.is_empty() => value.is_some(),
            "DoesNotExist" if sound && values.is_empty() => value.is_none(),
            _ => return None,
        };
    }
    Some(matches)
}

/// Returns true when labels hold all of some others.
pub fn plain_matches(selector: &Map<String, Value>, labels: &Map<String, Value>) -> bool {
    selector.iter().all(|(key, value)| labels.get(key) == Some(value))
}

/// Returns a selector as errors show it, its fields in the order of its type.
pub fn shown(selector: &Value) -> String {
    let mut parts = Vec::new();
    if let Some(labels) = selector.some("matchLabels") {
        parts.push(format!("\"matchLabels\":{labels}"));
    }
    if let Some(Value::Array(expressions)) = selector.some("matchExpressions") {
        let expressions: Vec<String> = expressions.iter().map(shown_requirement).collect();
        parts.push(format!("\"matchExpressions\":[{}]", expressions.join(",")));
    }
    format!("{{{}}}", parts.join(","))
}

fn shown_requirement(expression: &Value) -> String {
    let mut parts = Vec::new();
    for name in ["key", "operator", "values"] {
        if let Some(value) = expression.get(name) {
            parts.push(format!("\"{name}\":{value}"));
        }
    }
    format!("{{{}}}", parts.join(","))
}
