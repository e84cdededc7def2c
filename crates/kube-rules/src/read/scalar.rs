//! The meaning of a plain word of YAML.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::super::words;
use super::node::Node;

const TRUE: [&str; 11] = ["y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"];
const FALSE: [&str; 11] = ["n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"];

/// Returns the value of a scalar. `tag` is the name of a tag of YAML's own, `int`.
///
/// # Errors
/// Fails for values that JSON cannot hold, and for broken base64.
pub fn resolve(text: &str, plain: bool, tag: Option<&str>) -> Result<Node, String> {
    match tag {
        Some("str") => Ok(Node::Text(text.to_owned())),
        Some("binary") => {
            let bytes = STANDARD.decode(text.replace(['\n', ' '], ""));
            let bytes = bytes.map_err(|_| "yaml: !!binary value contains invalid base64 data".to_owned())?;
            Ok(Node::Text(String::from_utf8_lossy(&bytes).into_owned()))
        }
        Some("int" | "float" | "bool" | "null") => word(text),
        _ if plain => word(text),
        _ => Ok(Node::Text(text.to_owned())),
    }
}

/// Returns a key as JSON writes it. `value` stands in the error.
///
/// # Errors
/// For keys that are lists, maps or null.
pub fn key(key: &Node, value: &Node) -> Result<String, String> {
    match key {
        Node::Text(text) => Ok(text.clone()),
        Node::Number(number) => Ok(number.clone()),
        Node::Bool(value) => Ok(value.to_string()),
        Node::Null => {
            let value = match value {
                Node::Text(text) => words::quote(text),
                other => other.to_value().to_string(),
            };
            Err(format!("unsupported map key of type: %!s(<nil>), key: <nil>, value: {value}"))
        }
        other => Err(format!("yaml: invalid map key: {}", go_syntax(other))),
    }
}

/// Returns a value as Go's `%#v` writes it.
fn go_syntax(node: &Node) -> String {
    match node {
        Node::Null => "interface {}(nil)".to_owned(),
        Node::Bool(value) => value.to_string(),
        Node::Number(number) => number.clone(),
        Node::Text(text) => words::quote(text),
        Node::List(items) => {
            let items: Vec<String> = items.iter().map(go_syntax).collect();
            format!("[]interface {{}}{{{}}}", items.join(", "))
        }
        Node::Map(entries) => {
            let entry = |(key, value): &(String, Node)| format!("{}:{}", words::quote(key), go_syntax(value));
            let entries: Vec<String> = entries.iter().map(entry).collect();
            format!("map[interface {{}}]interface {{}}{{{}}}", entries.join(", "))
        }
    }
}

fn word(text: &str) -> Result<Node, String> {
    if matches!(text, "" | "~" | "null" | "Null" | "NULL") {
        return Ok(Node::Null);
    }
    if TRUE.contains(&text) || FALSE.contains(&text) {
        return Ok(Node::Bool(TRUE.contains(&text)));
    }
    match text.strip_prefix(['+', '-']).unwrap_or(text) {
        ".inf" | ".Inf" | ".INF" => {
            let sign = if text.starts_with('-') { '-' } else { '+' };
            return Err(format!("json: unsupported value: {sign}Inf"));
        }
        ".nan" | ".NaN" | ".NAN" if text.starts_with('.') => return Err("json: unsupported value: NaN".to_owned()),
        _ => {}
    }
    if !text.starts_with(|first: char| first.is_ascii_digit() || "+-.".contains(first)) {
        return Ok(Node::Text(text.to_owned()));
    }
    let digits = text.replace('_', "");
    if let Some(whole) = whole(&digits) {
        return Ok(Node::Number(whole.to_string()));
    }
    if is_float(&digits) {
        let float: f64 = digits.parse().unwrap_or(f64::INFINITY);
        if float.is_finite() {
            return Ok(Node::Number(float_text(float)));
        }
    }
    Ok(Node::Text(text.to_owned()))
}

/// Returns a whole number in base 2, 8, 10 or 16, after its prefix.
fn whole(text: &str) -> Option<i128> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let lower = digits.to_ascii_lowercase();
    let (base, digits) = match lower.as_bytes() {
        [b'0', b'x', ..] => (16, &lower[2..]),
        [b'0', b'b', ..] => (2, &lower[2..]),
        [b'0', b'o', ..] => (8, &lower[2..]),
        [b'0', _, ..] => (8, &lower[1..]),
        _ => (10, lower.as_str()),
    };
    if !digits.starts_with(|first: char| first.is_ascii_hexdigit()) {
        return None;
    }
    let value = i128::from(u64::from_str_radix(digits, base).ok()?);
    let value = if negative { -value } else { value };
    (value >= i128::from(i64::MIN)).then_some(value)
}

fn is_float(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (number, exponent) = match unsigned.find(['e', 'E']) {
        Some(at) => (&unsigned[..at], Some(&unsigned[at + 1..])),
        None => (unsigned, None),
    };
    let all_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let number_fits = match number.split_once('.') {
        Some((whole, fraction)) => {
            all_digits(whole) && all_digits(fraction) && !(whole.is_empty() && fraction.is_empty())
        }
        None => !number.is_empty() && all_digits(number),
    };
    let exponent_fits = exponent.is_none_or(|exponent| {
        let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        !digits.is_empty() && all_digits(digits)
    });
    number_fits && exponent_fits
}

/// Returns a float as Go writes it into JSON.
pub fn float_text(float: f64) -> String {
    let magnitude = float.abs();
    if magnitude != 0.0 && !(1e-6..1e21).contains(&magnitude) {
        let text = format!("{float:e}");
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        return match exponent.strip_prefix('-') {
            Some(exponent) => format!("{mantissa}e-{exponent:0>2}"),
            None => format!("{mantissa}e+{exponent:0>2}"),
        };
    }
    float.to_string()
}
