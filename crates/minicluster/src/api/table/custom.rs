//! Tables of custom kinds: the columns that their definition names.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::duration::ago;
use super::json_path::{find, text};
use crate::api::resource::CustomFacts;

/// Name, then the columns of the definition, or the age where it names none.
pub(super) fn columns(facts: &CustomFacts) -> Value {
    let name = json!({ "name": "Name", "type": "string", "format": "name", "description": "", "priority": 0 });
    let own = facts.columns.iter().map(|column| {
        json!({
            "name": column["name"],
            "type": column["type"],
            "format": column["format"].as_str().unwrap_or_default(),
            "description": column["description"].as_str().unwrap_or_default(),
            "priority": column["priority"].as_i64().unwrap_or_default(),
        })
    });
    let mut columns: Vec<Value> = std::iter::once(name).chain(own).collect();
    if facts.columns.is_empty() {
        columns.push(json!({ "name": "Age", "type": "date", "format": "", "description": "", "priority": 0 }));
    }
    Value::Array(columns)
}

pub(super) fn cells(facts: &CustomFacts, object: &Value, now: Timestamp) -> Vec<Value> {
    let name = object["metadata"]["name"].clone();
    if facts.columns.is_empty() {
        return vec![name, json!(ago(object["metadata"]["creationTimestamp"].as_str(), now))];
    }
    let own = facts.columns.iter().map(|column| {
        let found = find(object, column["jsonPath"].as_str().unwrap_or_default());
        cell(column["type"].as_str().unwrap_or_default(), &found, now)
    });
    std::iter::once(name).chain(own).collect()
}

fn cell(ty: &str, found: &[&Value], now: Timestamp) -> Value {
    let Some(first) = found.first() else { return Value::Null };
    match ty {
        "string" => json!(found.iter().map(|value| text(value)).collect::<Vec<_>>().join(" ")),
        "integer" => {
            first.as_i64().or_else(|| first.as_f64().map(|number| number as i64)).map_or(Value::Null, Value::from)
        }
        "number" => first.as_f64().map_or(Value::Null, Value::from),
        "boolean" => first.as_bool().map_or(Value::Null, Value::from),
        "date" => match first.as_str() {
            Some(moment) if moment.parse::<Timestamp>().is_err() => json!("<invalid>"),
            moment => json!(ago(moment, now)),
        },
        _ => Value::Null,
    }
}
