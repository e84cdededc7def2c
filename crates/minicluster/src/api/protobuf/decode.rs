//! Messages become JSON.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::fields::{Of, message};
use super::wire::{Raw, fields};
use super::{MICRO_TIME, TIME, envelope, is_enveloped, special};

/// So deep may messages be nested.
const DEEPEST: usize = 100;

/// Returns a message as JSON.
///
/// # Errors
/// The bytes are no message, or not this one.
pub fn decode(name: &str, bytes: &[u8]) -> Result<Value, String> {
    one(name, bytes, 0)
}

fn one(name: &str, bytes: &[u8], depth: usize) -> Result<Value, String> {
    if depth > DEEPEST {
        return Err("proto: messages are nested too deeply".to_owned());
    }
    match special(name) {
        "Quantity" => Ok(text_of(bytes)?.map_or(Value::Null, Value::String)),
        "IntOrString" => int_or_string(bytes),
        TIME | MICRO_TIME => time(special(name), bytes),
        "FieldsV1" | "JSON" | "RawExtension" => raw(bytes, depth),
        "JSONSchemaPropsOrArray" | "JSONSchemaPropsOrBool" | "JSONSchemaPropsOrStringArray" => {
            alternatives(name, bytes, depth)
        }
        _ => {
            let mut object = Map::new();
            lay(name, bytes, &mut object, depth)?;
            Ok(Value::Object(object))
        }
    }
}

/// Lays the fields of a message into an object.
fn lay(name: &str, bytes: &[u8], object: &mut Map<String, Value>, depth: usize) -> Result<(), String> {
    let known = message(name).ok_or_else(|| format!("unknown message {name}"))?;
    for (number, raw) in fields(bytes)? {
        let Some(field) = known.get(&number) else { continue };
        match (field.name, &field.of) {
            (None, Of::Message(inner)) => lay(inner, bytes_of(raw)?, object, depth + 1)?,
            (None, _) => {}
            (Some(name), Of::List(of)) => {
                let entry = object.entry(name).or_insert_with(|| json!([]));
                if let Value::Array(items) = entry {
                    several(of, raw, items, depth)?;
                }
            }
            (Some(name), Of::Map(of)) => {
                let entry = object.entry(name).or_insert_with(|| json!({}));
                if let Value::Object(entries) = entry {
                    let (key, value) = pair(of, bytes_of(raw)?, depth)?;
                    entries.insert(key, value);
                }
            }
            (Some(name), of) => {
                let value = single(of, raw, depth)?;
                if value.is_null() {
                    object.remove(name);
                } else {
                    object.insert(name.to_owned(), value);
                }
            }
        }
    }
    Ok(())
}

/// An item, or several numbers in one.
fn several(of: &Of, raw: Raw<'_>, items: &mut Vec<Value>, depth: usize) -> Result<(), String> {
    if let (Of::Int, Raw::Bytes(packed)) = (of, raw) {
        // Read as fields they would need numbers in front: each number is put behind one.
        let mut start = 0;
        for (index, byte) in packed.iter().enumerate() {
            if *byte < 0x80 {
                let mut field = vec![0x08];
                field.extend_from_slice(&packed[start..=index]);
                for (_, raw) in fields(&field)? {
                    items.push(single(of, raw, depth)?);
                }
                start = index + 1;
            }
        }
        return Ok(());
    }
    items.push(single(of, raw, depth)?);
    Ok(())
}

fn pair(of: &Of, bytes: &[u8], depth: usize) -> Result<(String, Value), String> {
    let (mut key, mut value) = (String::new(), None);
    for (number, raw) in fields(bytes)? {
        match number {
            1 => key = text(bytes_of(raw)?)?,
            2 => value = Some(single(of, raw, depth)?),
            _ => {}
        }
    }
    let nothing = || match of {
        Of::String | Of::Bytes => json!(""),
        Of::Int | Of::Double => json!(0),
        Of::Bool => json!(false),
        Of::List(_) | Of::Items(_) => json!([]),
        Of::Map(_) | Of::Message(_) => json!({}),
    };
    Ok((key, value.unwrap_or_else(nothing)))
}

fn single(of: &Of, raw: Raw<'_>, depth: usize) -> Result<Value, String> {
    Ok(match (of, raw) {
        (Of::Bool, Raw::Number(number)) => json!(number != 0),
        (Of::Int, Raw::Number(number)) => json!(number as i64),
        (Of::Double, Raw::Eight(bytes)) => json!(f64::from_le_bytes(bytes)),
        (Of::String, Raw::Bytes(bytes)) => json!(text(bytes)?),
        (Of::Bytes, Raw::Bytes(bytes)) => json!(STANDARD.encode(bytes)),
        (Of::Message(name), Raw::Bytes(bytes)) => one(name, bytes, depth + 1)?,
        (Of::Items(of), Raw::Bytes(bytes)) => {
            let items: Result<Vec<Value>, String> =
                fields(bytes)?.into_iter().map(|(_, raw)| single(of, raw, depth + 1)).collect();
            Value::Array(items?)
        }
        _ => return Err("proto: wrong wireType".to_owned()),
    })
}

fn bytes_of(raw: Raw<'_>) -> Result<&[u8], String> {
    match raw {
        Raw::Bytes(bytes) => Ok(bytes),
        _ => Err("proto: wrong wireType".to_owned()),
    }
}

fn text(bytes: &[u8]) -> Result<String, String> {
    String::from_utf8(bytes.to_vec()).map_err(|_| "proto: string field contains invalid UTF-8".to_owned())
}

/// Returns the text in a message of one text.
fn text_of(bytes: &[u8]) -> Result<Option<String>, String> {
    let mut found = None;
    for (number, raw) in fields(bytes)? {
        if number == 1 {
            found = Some(text(bytes_of(raw)?)?);
        }
    }
    Ok(found)
}

fn int_or_string(bytes: &[u8]) -> Result<Value, String> {
    let (mut is_text, mut number, mut said) = (false, 0, String::new());
    for field in fields(bytes)? {
        match field {
            (1, Raw::Number(kind)) => is_text = kind == 1,
            (2, Raw::Number(value)) => number = value as i64,
            (3, Raw::Bytes(bytes)) => said = text(bytes)?,
            _ => {}
        }
    }
    Ok(if is_text { json!(said) } else { json!(number) })
}

/// Seconds since 1970, and the nanoseconds. Nothing is no time at all.
fn time(kind: &str, bytes: &[u8]) -> Result<Value, String> {
    let (mut seconds, mut nanoseconds, mut some) = (0, 0, false);
    for field in fields(bytes)? {
        match field {
            (1, Raw::Number(value)) => (seconds, some) = (value as i64, true),
            (2, Raw::Number(value)) => (nanoseconds, some) = (value as i32, true),
            _ => {}
        }
    }
    if !some {
        return Ok(Value::Null);
    }
    let moment = Timestamp::new(seconds, nanoseconds).map_err(|_| "a time is out of range".to_owned())?;
    let format = if kind == MICRO_TIME { "%Y-%m-%dT%H:%M:%S.%6fZ" } else { "%Y-%m-%dT%H:%M:%SZ" };
    Ok(json!(moment.strftime(format).to_string()))
}

/// Bytes that are JSON, or an object of their own.
fn raw(bytes: &[u8], depth: usize) -> Result<Value, String> {
    for field in fields(bytes)? {
        if let (1, Raw::Bytes(inner)) = field {
            if is_enveloped(inner) {
                return if depth > DEEPEST { Ok(Value::Null) } else { envelope(inner) };
            }
            if !inner.is_empty() {
                return serde_json::from_slice(inner).map_err(|error| error.to_string());
            }
        }
    }
    Ok(Value::Null)
}

/// Returns a schema where something else may stand, too.
fn alternatives(name: &str, bytes: &[u8], depth: usize) -> Result<Value, String> {
    let mut object = Map::new();
    lay(name, bytes, &mut object, depth)?;
    let mut take = |name: &str| object.remove(name);
    let schema = take("schema");
    let lists = [take("jSONSchemas"), take("property")];
    let allows = take("allows");
    Ok(schema.or_else(|| lists.into_iter().flatten().next()).or(allows).unwrap_or(Value::Null))
}
