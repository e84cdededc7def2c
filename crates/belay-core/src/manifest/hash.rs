//! The content of a manifest as a hash of 32 bytes.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Number, Value};
use sha2::{Digest, Sha256};

/// The hash of a manifest's content, whatever its layout, comments, order of keys, and file.
///
/// SHA-256 over the object as JSON in one agreed form, which never changes, since holds on live objects carry it: no blanks;
/// the keys of each object in the order of their bytes; texts in double quotes, where only `"`, `\` and the characters below
/// U+0020 are escaped (`\b \t \n \f \r`, the others as `\u001f` with small letters); whole numbers of 64 bits in decimal; other
/// numbers with the fewest digits that tell them apart, as ECMAScript writes them (`1e+21`, `0.000001`, `1e-7`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ManifestHash([u8; 32]);

impl ManifestHash {
    /// Returns the hash of an object.
    #[must_use]
    pub fn of(value: &Value) -> ManifestHash {
        let mut hasher = Sha256::new();
        let mut text = String::with_capacity(4096);
        write(value, &mut text, &mut |part| {
            if part.len() >= 4000 {
                hasher.update(part.as_bytes());
                part.clear();
            }
        });
        hasher.update(text.as_bytes());
        ManifestHash(hasher.finalize().into())
    }

    /// Reads the output of [`Display`](fmt::Display): 64 hexadecimal digits.
    #[must_use]
    pub fn parse(text: &str) -> Option<ManifestHash> {
        parse_hex(text).map(ManifestHash)
    }
}

/// Returns bytes as small hexadecimal digits, two for each.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads 64 hexadecimal digits; `None` if it is anything else.
#[must_use]
pub fn parse_hex(text: &str) -> Option<[u8; 32]> {
    if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let mut bytes = [0; 32];
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(bytes)
}

impl fmt::Display for ManifestHash {
    /// Writes 64 small hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl fmt::Debug for ManifestHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ManifestHash({self})")
    }
}

impl Serialize for ManifestHash {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ManifestHash {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<ManifestHash, D::Error> {
        let text = String::deserialize(deserializer)?;
        ManifestHash::parse(&text).ok_or_else(|| serde::de::Error::custom("not the hash of a manifest"))
    }
}

/// Writes a value; `drain` is called now and then and may take the text away.
fn write(value: &Value, text: &mut String, drain: &mut impl FnMut(&mut String)) {
    match value {
        Value::Null => text.push_str("null"),
        Value::Bool(value) => text.push_str(if *value { "true" } else { "false" }),
        Value::Number(value) => number(value, text),
        Value::String(value) => string(value, text),
        Value::Array(items) => {
            text.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    text.push(',');
                }
                write(item, text, drain);
            }
            text.push(']');
        }
        Value::Object(members) => {
            text.push('{');
            // Sorted here, so that it does not matter how the map keeps them.
            let mut sorted: Vec<(&String, &Value)> = members.iter().collect();
            sorted.sort_unstable_by_key(|(name, _)| *name);
            for (at, (name, member)) in sorted.into_iter().enumerate() {
                if at > 0 {
                    text.push(',');
                }
                string(name, text);
                text.push(':');
                write(member, text, drain);
            }
            text.push('}');
        }
    }
    drain(text);
}

fn string(value: &str, text: &mut String) {
    text.push('"');
    let mut rest = value;
    while let Some(at) = rest.find(|c: char| matches!(c, '"' | '\\') || c < ' ') {
        text.push_str(&rest[..at]);
        match rest.as_bytes()[at] {
            b'"' => text.push_str("\\\""),
            b'\\' => text.push_str("\\\\"),
            8 => text.push_str("\\b"),
            b'\t' => text.push_str("\\t"),
            b'\n' => text.push_str("\\n"),
            12 => text.push_str("\\f"),
            b'\r' => text.push_str("\\r"),
            other => text.push_str(&format!("\\u{other:04x}")),
        }
        rest = &rest[at + 1..];
    }
    text.push_str(rest);
    text.push('"');
}

fn number(value: &Number, text: &mut String) {
    match value.as_f64() {
        Some(float) if value.is_f64() => ecmascript(float, text),
        _ => text.push_str(&value.to_string()),
    }
}

/// Writes a float as ECMAScript's `Number.prototype.toString` does.
fn ecmascript(value: f64, text: &mut String) {
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if value != 0.0 && !(-6..21).contains(&exponent) {
        let sign = if exponent < 0 { "-" } else { "+" };
        text.push_str(&format!("{digits}e{sign}{}", exponent.abs()));
    } else if value == 0.0 {
        text.push('0');
    } else {
        text.push_str(&value.to_string());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn canonical(value: &Value) -> String {
        let mut text = String::new();
        write(value, &mut text, &mut |_| ());
        text
    }

    #[test]
    fn the_form_is_agreed() {
        let value = json!({"b": [1, -2, 1.5, 1e21, 1e-7, 0.000_001, true, null], "a": "ä\"\\\n\u{1}\u{7f}", "": {}});
        let expected = "{\"\":{},\"a\":\"ä\\\"\\\\\\n\\u0001\u{7f}\",\"b\":[1,-2,1.5,1e+21,1e-7,0.000001,true,null]}";
        assert_eq!(canonical(&value), expected);
    }

    /// If this fails, every hold that was ever written is lost.
    #[test]
    fn the_hash_never_changes() {
        let value = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}});
        let hash = ManifestHash::of(&value);
        let text =
            "{\"apiVersion\":\"v1\",\"data\":{\"k\":\"v\"},\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"a\"}}";
        assert_eq!(canonical(&value), text);
        assert_eq!(hash.to_string(), "aae63a7522bc839f98cf9483cc04545219005f9630c34a551c8626d003a15496");
        assert_eq!(ManifestHash::parse(&hash.to_string()), Some(hash));
        assert_eq!(ManifestHash::parse("zz"), None);
    }

    #[test]
    fn long_objects_are_hashed_whole() {
        let long: Vec<String> = (0..2000).map(|n| format!("item {n}")).collect();
        let other: Vec<String> = (0..2000).map(|n| format!("item {}", if n == 1 { 0 } else { n })).collect();
        assert_ne!(ManifestHash::of(&json!(long)), ManifestHash::of(&json!(other)));
        let whole = Sha256::digest(canonical(&json!(long)).as_bytes());
        assert_eq!(ManifestHash::of(&json!(long)).0, <[u8; 32]>::from(whole));
    }
}
