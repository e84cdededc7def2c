//! Checks that a value is of the type in its schema. If a format is given, too, the real server checks that first.

use serde_json::Value;

use super::schema::{Kind, Schema};

/// Returns the type of a value and the wanted one, if they differ: `("float64", "int32")`.
pub(super) fn misfit(value: &Value, schema: &Schema) -> Option<(&'static str, String)> {
    let wanted = wanted(schema);
    let format = schema.limits.format.as_deref().unwrap_or_default();
    if wanted.is_empty() && format.is_empty() {
        return None;
    }
    let (ty, own_format) = of(value);
    let fits = wanted.contains(&ty) || (ty == "integer" && wanted.contains(&"number"));
    let wrong_type = || Some((ty, wanted.join(",")));
    match value {
        Value::Null => return if wanted.is_empty() { None } else { wrong_type() },
        // Texts and lists are held against the format instead, later.
        Value::String(_) | Value::Array(_) if !format.is_empty() => {
            let of_numbers = ["integer", "number"].iter().any(|number| wanted.contains(number));
            return if of_numbers && !fits { wrong_type() } else { None };
        }
        _ if !format.is_empty() && !fits && own_format != format => return Some((own_format, format.to_owned())),
        _ => {}
    }
    if fits { None } else { wrong_type() }
}

/// Returns the type of a value, and the format of that.
fn of(value: &Value) -> (&'static str, &'static str) {
    match value {
        Value::Null => ("null", ""),
        Value::Bool(_) => ("boolean", ""),
        Value::Number(number) if number.is_f64() => ("number", "float64"),
        Value::Number(_) => ("integer", "int64"),
        Value::String(_) => ("string", ""),
        Value::Array(_) => ("array", ""),
        Value::Object(_) => ("object", ""),
    }
}

fn wanted(schema: &Schema) -> Vec<&str> {
    match (schema.ty, &schema.no_type) {
        (Some(Kind::Object), _) => vec!["object"],
        (Some(Kind::Array), _) => vec!["array"],
        (Some(Kind::String), _) => vec!["string"],
        (Some(Kind::Integer), _) => vec!["integer"],
        (Some(Kind::Number), _) => vec!["number"],
        (Some(Kind::Boolean), _) => vec!["boolean"],
        (Some(Kind::IntOrString), _) => vec!["integer", "string"],
        (None, Some(other)) => vec![other],
        (None, None) => Vec::new(),
    }
}
