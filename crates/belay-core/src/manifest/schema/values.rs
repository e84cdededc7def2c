//! Single values against their types.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use kube_facts::Scalar;

use super::{Rules, quantity};

/// The fault of a value.
pub(super) struct Wrong {
    /// The required form: `text`.
    pub(super) expected: &'static str,
    /// The form found: `a number`.
    pub(super) found: &'static str,
    /// The advice, with the value in it.
    pub(super) hint: Option<String>,
    /// The advice, without the value.
    pub(super) general_hint: Option<String>,
}

impl Wrong {
    pub(super) fn new(expected: &'static str, found: &Value) -> Wrong {
        Wrong { expected, found: describe(found), hint: None, general_hint: None }
    }

    /// Returns the fault of another value in the place of a list; a single text is often meant as its only item.
    pub(super) fn list(found: &Value, written: &str) -> Wrong {
        let single = matches!(found, Value::String(_)) && written.len() < 60 && !written.contains('\n');
        Wrong { hint: single.then(|| format!("write [{written}]")), ..Wrong::new("a list", found) }
    }
}

fn describe(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(number) if number.is_f64() => "a number with a fraction",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a mapping",
    }
}

/// Returns the fault of a value; `written` is the text of it in the file.
pub(super) fn wrong(value: &Value, scalar: Scalar, rules: Rules, written: &str) -> Option<Wrong> {
    match scalar {
        Scalar::String => text(value, written),
        Scalar::Bytes => bytes(value, written),
        Scalar::Int32 => whole(value, written, i64::from(i32::MIN)..=i64::from(i32::MAX)),
        Scalar::Int64 => whole(value, written, i64::MIN..=i64::MAX),
        Scalar::Number => {
            let unquoted = value.as_str().filter(|text| text.parse::<f64>().is_ok());
            (!value.is_number()).then(|| Wrong { hint: unquoted.map(unquote), ..Wrong::new("a number", value) })
        }
        Scalar::Boolean => boolean(value),
        Scalar::IntOrString if value.is_string() => None,
        Scalar::IntOrString => {
            let range = match rules {
                Rules::BuiltIn => i64::from(i32::MIN)..=i64::from(i32::MAX),
                Rules::Custom => i64::MIN..=i64::MAX,
            };
            let wrong = whole(value, written, range)?;
            Some(Wrong { expected: "a whole number or text", ..wrong })
        }
        Scalar::Quantity => amount(value),
        Scalar::Time | Scalar::MicroTime => time(value, written),
    }
}

fn text(value: &Value, written: &str) -> Option<Wrong> {
    if value.is_string() {
        return None;
    }
    let single = !matches!(value, Value::Array(_) | Value::Object(_)) && !written.is_empty() && written.len() < 100;
    Some(Wrong { hint: single.then(|| format!("write \"{written}\" in quotes")), ..Wrong::new("text", value) })
}

fn bytes(value: &Value, written: &str) -> Option<Wrong> {
    let Some(packed) = value.as_str() else {
        return text(value, written).map(|wrong| Wrong { expected: "text in base64", ..wrong });
    };
    let packed: String = packed.chars().filter(|c| !matches!(c, '\n' | '\r')).collect();
    // Go ignores the bits that the last character leaves over.
    let decoded = STANDARD.decode(&packed).map(drop);
    match decoded {
        Ok(()) | Err(base64::DecodeError::InvalidLastSymbol(..)) => None,
        Err(_) => Some(Wrong {
            expected: "base64",
            found: "other text",
            hint: None,
            general_hint: Some("plain text belongs under data in a ConfigMap, under stringData in a Secret".to_owned()),
        }),
    }
}

fn whole(value: &Value, written: &str, range: std::ops::RangeInclusive<i64>) -> Option<Wrong> {
    match value {
        Value::Number(number) => match number.as_i64() {
            Some(number) if range.contains(&number) => None,
            _ if number.is_f64() && written.contains('.') => Some(Wrong::new("a whole number", value)),
            _ => Some(Wrong { found: "a number that is too large", ..Wrong::new("a whole number", value) }),
        },
        Value::String(text) => {
            let unquoted = text.parse::<i64>().is_ok().then(|| unquote(text));
            Some(Wrong { hint: unquoted, ..Wrong::new("a whole number", value) })
        }
        other => Some(Wrong::new("a whole number", other)),
    }
}

fn boolean(value: &Value) -> Option<Wrong> {
    if value.is_boolean() {
        return None;
    }
    let unquoted = value.as_str().filter(|text| matches!(text.to_lowercase().as_str(), "true" | "false"));
    Some(Wrong { hint: unquoted.map(|text| unquote(&text.to_lowercase())), ..Wrong::new("true or false", value) })
}

fn amount(value: &Value) -> Option<Wrong> {
    match value {
        Value::Number(_) => None,
        Value::String(text) => quantity::wrong(text).map(|why| Wrong {
            hint: Some(format!("{text} {why}; write 500m, 2, 64Mi or 1G")),
            ..Wrong { found: "other text", ..Wrong::new("an amount", value) }
        }),
        other => Some(Wrong::new("an amount", other)),
    }
}

fn time(value: &Value, written: &str) -> Option<Wrong> {
    let Some(time) = value.as_str() else { return text(value, written) };
    let fine = time.parse::<jiff::Timestamp>().is_ok();
    (!fine).then(|| Wrong {
        expected: "a time",
        found: "other text",
        hint: None,
        general_hint: Some("write it like 2006-01-02T15:04:05Z".to_owned()),
    })
}

fn unquote(text: &str) -> String {
    format!("write {text} without quotes")
}
