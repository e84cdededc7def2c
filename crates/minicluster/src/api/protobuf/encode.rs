//! JSON becomes messages.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::Value;

use super::fields::{Message, Of, message};
use super::wire::{put_bytes, put_eight, put_number};
use super::{MICRO_TIME, TIME, special};

/// Returns a value as the message of that name. Fields that the message does not have are left out.
pub fn encode(name: &str, value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    match special(name) {
        "Quantity" => put_bytes(&mut out, 1, written(value).as_bytes()),
        "IntOrString" => match value.as_str() {
            Some(text) => {
                put_number(&mut out, 1, 1);
                put_bytes(&mut out, 3, text.as_bytes());
            }
            None => {
                put_number(&mut out, 1, 0);
                put_number(&mut out, 2, value.as_i64().unwrap_or_default() as u64);
            }
        },
        TIME | MICRO_TIME => {
            if let Some(moment) = value.as_str().and_then(|text| text.parse::<Timestamp>().ok()) {
                put_number(&mut out, 1, moment.as_second() as u64);
                put_number(&mut out, 2, i64::from(moment.subsec_nanosecond()) as u64);
            }
        }
        "FieldsV1" | "JSON" | "RawExtension" => put_bytes(&mut out, 1, value.to_string().as_bytes()),
        "JSONSchemaPropsOrArray" | "JSONSchemaPropsOrBool" | "JSONSchemaPropsOrStringArray" => {
            alternatives(name, value, &mut out);
        }
        _ => {
            if let Some(known) = message(name) {
                put_message(known, value, &mut out);
            }
        }
    }
    out
}

fn put_message(known: &'static Message, value: &Value, out: &mut Vec<u8>) {
    for (number, field) in known {
        let Some(name) = field.name else {
            if let Of::Message(inner) = &field.of {
                put_bytes(out, *number, &encode(inner, value));
            }
            continue;
        };
        match value.get(name) {
            None | Some(Value::Null) => {}
            Some(value) => put(&field.of, *number, value, out),
        }
    }
}

fn put(of: &Of, number: u32, value: &Value, out: &mut Vec<u8>) {
    match (of, value) {
        (Of::List(of), Value::Array(items)) => items.iter().for_each(|item| put(of, number, item, out)),
        (Of::Map(of), Value::Object(entries)) => {
            for (key, value) in entries {
                let mut pair = Vec::new();
                put_bytes(&mut pair, 1, key.as_bytes());
                put(of, 2, value, &mut pair);
                put_bytes(out, number, &pair);
            }
        }
        (Of::Items(of), Value::Array(items)) => {
            let mut inner = Vec::new();
            items.iter().for_each(|item| put(of, 1, item, &mut inner));
            put_bytes(out, number, &inner);
        }
        (Of::Bool, Value::Bool(value)) => put_number(out, number, u64::from(*value)),
        (Of::Int, Value::Number(value)) => put_number(out, number, value.as_i64().unwrap_or_default() as u64),
        (Of::Double, Value::Number(value)) => {
            put_eight(out, number, value.as_f64().unwrap_or_default().to_le_bytes());
        }
        (Of::String, Value::String(text)) => put_bytes(out, number, text.as_bytes()),
        (Of::Bytes, Value::String(text)) => {
            put_bytes(out, number, &STANDARD.decode(text).unwrap_or_default());
        }
        (Of::Message(name), value) => put_bytes(out, number, &encode(name, value)),
        _ => {}
    }
}

fn written(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// A schema where something else may stand, too.
fn alternatives(name: &str, value: &Value, out: &mut Vec<u8>) {
    let Some(known) = message(name) else { return };
    let wanted = match value {
        Value::Object(_) => "schema",
        Value::Bool(_) => "allows",
        _ if special(name) == "JSONSchemaPropsOrArray" => "jSONSchemas",
        _ => "property",
    };
    for (number, field) in known.iter().filter(|(_, field)| field.name == Some(wanted)) {
        put(&field.of, *number, value, out);
    }
    // A schema in that place is allowed, too.
    if value.is_object() {
        for (number, _) in known.iter().filter(|(_, field)| field.name == Some("allows")) {
            put_number(out, *number, 1);
        }
    }
}
