//! The meaning of a scalar in kubectl's YAML library: YAML 1.1, in which `yes` is true and `0755` is 493.

use std::borrow::Cow;

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde_json::{Number, Value};

use super::{Style, Tag};

/// The value of a scalar.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Scalar<'t> {
    Null,
    Boolean(bool),
    Integer(i64),
    /// Beyond the range of 64 bits with a sign.
    Unsigned(u64),
    Float(f64),
    Text(Cow<'t, str>),
    /// `<<`, which as a key means: take the entries of these mappings.
    Merge,
}

/// The reason for which a scalar can't be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unreadable {
    /// Its tag asks for something else than it is.
    NotWhatItsTagSays,
    /// `!!binary`, but no base64.
    NotBase64,
}

/// Returns the meaning of the scalar.
pub(super) fn resolve<'t>(text: &Cow<'t, str>, style: Style, tag: Option<Tag>) -> Result<Scalar<'t>, Unreadable> {
    let text_itself = || Scalar::Text(text.clone());
    let Some(tag) = tag else {
        return Ok(if style == Style::Plain { plain(text) } else { text_itself() });
    };
    let meant = match tag {
        Tag::Text | Tag::Other | Tag::Merge | Tag::NonSpecific => return Ok(text_itself()),
        Tag::Binary => return binary(text).map(|text| Scalar::Text(Cow::Owned(text))),
        Tag::Timestamp => return if timestamp(text) { Ok(text_itself()) } else { Err(Unreadable::NotWhatItsTagSays) },
        Tag::Boolean | Tag::Integer | Tag::Float | Tag::Null => plain(text),
    };
    let fits = match (tag, &meant) {
        (Tag::Null, Scalar::Null)
        | (Tag::Boolean, Scalar::Boolean(_))
        | (Tag::Integer, Scalar::Integer(_) | Scalar::Unsigned(_))
        | (Tag::Float, Scalar::Float(_)) => return Ok(meant),
        (Tag::Float, Scalar::Integer(whole)) => Some(*whole as f64),
        (Tag::Float, Scalar::Unsigned(whole)) => Some(*whole as f64),
        _ => None,
    };
    fits.map(Scalar::Float).ok_or(Unreadable::NotWhatItsTagSays)
}

/// Returns true when a plain scalar stands for nothing.
pub(super) fn is_null(text: &str) -> bool {
    matches!(text, "" | "~" | "null" | "Null" | "NULL")
}

/// Returns true when a text without quotes is read as text.
pub(in crate::manifest) fn plain_is_text(text: &str) -> bool {
    matches!(plain(&Cow::Borrowed(text)), Scalar::Text(_))
}

fn plain<'t>(text: &Cow<'t, str>) -> Scalar<'t> {
    let Some(first) = text.bytes().next() else { return Scalar::Null };
    let word = match first {
        b'y' | b'Y' | b'n' | b'N' | b't' | b'T' | b'f' | b'F' | b'o' | b'O' | b'~' => named(text),
        b'.' => named_float(text).or_else(|| pointed(text)).map(Scalar::Float),
        b'+' | b'-' => named_float(text).map(Scalar::Float).or_else(|| number(text)),
        b'0'..=b'9' => number(text),
        b'<' if text == "<<" => Some(Scalar::Merge),
        _ => None,
    };
    word.unwrap_or_else(|| Scalar::Text(text.clone()))
}

fn named(text: &str) -> Option<Scalar<'static>> {
    match text {
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            Some(Scalar::Boolean(true))
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            Some(Scalar::Boolean(false))
        }
        text if is_null(text) => Some(Scalar::Null),
        _ => None,
    }
}

fn named_float(text: &str) -> Option<f64> {
    match text {
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => Some(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => Some(f64::NEG_INFINITY),
        ".nan" | ".NaN" | ".NAN" => Some(f64::NAN),
        _ => None,
    }
}

/// Returns a number that begins with a digit or a sign; underscores in it do not count.
fn number(text: &str) -> Option<Scalar<'static>> {
    let digits: Cow<'_, str> = if text.contains('_') { Cow::Owned(text.replace('_', "")) } else { Cow::Borrowed(text) };
    integer(&digits).or_else(|| decimal(&digits).map(Scalar::Float))
}

fn integer(text: &str) -> Option<Scalar<'static>> {
    let (negative, signed, unsigned) = match text.as_bytes().first()? {
        b'-' => (true, true, &text[1..]),
        b'+' => (false, true, &text[1..]),
        _ => (false, false, text),
    };
    let (digits, radix) = match unsigned.as_bytes() {
        [b'0', b'x' | b'X', ..] => (&unsigned[2..], 16),
        [b'0', b'o' | b'O', ..] => (&unsigned[2..], 8),
        [b'0', b'b' | b'B', ..] => (&unsigned[2..], 2),
        [b'0', _, ..] => (&unsigned[1..], 8),
        _ => (unsigned, 10),
    };
    // `from_str_radix` would take a second sign.
    if !digits.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return None;
    }
    let magnitude = u64::from_str_radix(digits, radix).ok()?;
    if negative {
        return 0i64.checked_sub_unsigned(magnitude).map(Scalar::Integer);
    }
    match i64::try_from(magnitude) {
        Ok(value) => Some(Scalar::Integer(value)),
        Err(_) if signed => None,
        Err(_) => Some(Scalar::Unsigned(magnitude)),
    }
}

/// Reads `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`, if it is finite.
fn decimal(text: &str) -> Option<f64> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) = match unsigned.find(['e', 'E']) {
        Some(at) => (&unsigned[..at], Some(&unsigned[at + 1..])),
        None => (unsigned, None),
    };
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let some = !whole.is_empty() || !fraction.is_empty();
    let fine = some
        && digits(whole)
        && digits(fraction)
        && exponent.is_none_or(|exponent| {
            let exponent = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
            !exponent.is_empty() && digits(exponent)
        });
    fine.then(|| text.parse().ok()).flatten().filter(|value: &f64| value.is_finite())
}

/// Returns a number that begins with a point: here an underscore counts, and must stand between digits.
fn pointed(text: &str) -> Option<f64> {
    let bytes = text.as_bytes();
    let digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let between = |(at, byte): (usize, &u8)| *byte != b'_' || (at > 0 && digit(at - 1) && digit(at + 1));
    if bytes.iter().enumerate().all(between) { decimal(&text.replace('_', "")) } else { None }
}

/// Returns true when `!!timestamp` accepts a text: a day; a day, a time and a zone; or a day and a time after a blank.
pub(super) fn timestamp(text: &str) -> bool {
    let Some((day, rest)) = text.split_at_checked(text.find(['T', 't', ' ']).unwrap_or(text.len())) else {
        return false;
    };
    if !day_exists(day) {
        return false;
    }
    let Some(time) = rest.get(1..) else { return true };
    if rest.starts_with(' ') {
        return clock(time.trim_start());
    }
    let Some(zone) = time.find(['Z', '+', '-']) else { return false };
    let (time, zone) = time.split_at(zone);
    clock(time)
        && (zone == "Z" || zone[1..].split_once(':').is_some_and(|(h, m)| below(h, 2..=2, 25) && below(m, 2..=2, 60)))
}

fn day_exists(day: &str) -> bool {
    let parts: Vec<&str> = day.split('-').collect();
    let [year, month, day] = parts[..] else { return false };
    if !(below(year, 4..=4, 10_000) && below(month, 1..=2, 13) && below(day, 1..=2, 32)) {
        return false;
    }
    let number = |part: &str| part.parse::<i16>().unwrap_or_default();
    let (Ok(month), Ok(day)) = (i8::try_from(number(month)), i8::try_from(number(day))) else { return false };
    jiff::civil::Date::new(number(year), month, day).is_ok()
}

fn clock(time: &str) -> bool {
    let time = match time.split_once('.') {
        Some((time, fraction)) if below(fraction, 1..=9, u32::MAX) => time,
        Some(_) => return false,
        None => time,
    };
    let parts: Vec<&str> = time.split(':').collect();
    matches!(parts[..], [h, m, s] if below(h, 1..=2, 24) && below(m, 1..=2, 60) && below(s, 1..=2, 60))
}

fn below(digits: &str, lengths: std::ops::RangeInclusive<usize>, limit: u32) -> bool {
    let written = lengths.contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    written && digits.parse::<u32>().is_ok_and(|value| value < limit)
}

/// Decodes base64 with line breaks in it; bytes that are not UTF-8 become U+FFFD, as they do in JSON.
fn binary(text: &str) -> Result<String, Unreadable> {
    // Go's decoder ignores the bits that the last character leaves over.
    const GO: GeneralPurpose = GeneralPurpose::new(
        &STANDARD,
        GeneralPurposeConfig::new()
            .with_decode_allow_trailing_bits(true)
            .with_decode_padding_mode(DecodePaddingMode::RequireCanonical),
    );
    let packed: String = text.chars().filter(|c| !matches!(c, '\n' | '\r')).collect();
    let bytes = GO.decode(packed).map_err(|_| Unreadable::NotBase64)?;
    // One U+FFFD for each byte, where `from_utf8_lossy` would join some.
    let mut decoded = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        decoded.push_str(chunk.valid());
        decoded.extend(chunk.invalid().iter().map(|_| '\u{FFFD}'));
    }
    Ok(decoded)
}

impl Scalar<'_> {
    /// Returns the value in JSON; `None` for infinities and values that are no numbers, which JSON does not have.
    pub(super) fn value(self) -> Option<Value> {
        Some(match self {
            Scalar::Null => Value::Null,
            Scalar::Boolean(value) => Value::Bool(value),
            Scalar::Integer(value) => Value::Number(value.into()),
            Scalar::Unsigned(value) => Value::Number(Number::from_f64(value as f64)?),
            Scalar::Float(value) => Value::Number(float(value)?),
            Scalar::Text(text) => Value::String(text.into_owned()),
            Scalar::Merge => Value::String("<<".to_owned()),
        })
    }

    /// Returns the key in JSON; `None` for a value that kubectl takes for no key.
    pub(super) fn key(self) -> Option<String> {
        Some(match self {
            Scalar::Boolean(value) => value.to_string(),
            Scalar::Integer(value) => value.to_string(),
            Scalar::Float(value) => float_key(value),
            Scalar::Text(text) => text.into_owned(),
            Scalar::Merge => "<<".to_owned(),
            Scalar::Null | Scalar::Unsigned(_) => return None,
        })
    }
}

/// kubectl writes a float as JSON, with as few digits as identify it, and reads that again: a value that is whole in
/// that form is whole, even if the written one is not quite.
pub(super) fn float(value: f64) -> Option<Number> {
    if value.fract() == 0.0
        && value.abs() < 1e21
        && let Ok(whole) = value.to_string().parse::<i64>()
    {
        return Some(Number::from(whole));
    }
    Number::from_f64(value)
}

/// Returns a float as a key: the digits that tell it apart in 32 bits, with an exponent below -4 and from 6.
fn float_key(value: f64) -> String {
    let narrow = value as f32;
    if narrow.is_nan() {
        return ".nan".to_owned();
    }
    if narrow.is_infinite() {
        return if narrow > 0.0 { ".inf" } else { "-.inf" }.to_owned();
    }
    let scientific = format!("{narrow:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..6).contains(&exponent) {
        return narrow.to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}
