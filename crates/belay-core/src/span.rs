//! Lengths of time as people write them.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use jiff::SignedDuration;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// A length of time, written `30s`, `5m`, `1h30m`, `500ms`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Span(pub Duration);

impl Span {
    /// Returns the same as a signed length; the longest one if it is beyond that.
    #[must_use]
    pub fn signed(self) -> SignedDuration {
        SignedDuration::try_from(self.0).unwrap_or(SignedDuration::MAX)
    }
}

/// A text that is not a length of time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a length of time: {0:?} (write 30s, 5m, 1h30m or 500ms)")]
pub struct InvalidSpan(String);

impl FromStr for Span {
    type Err = InvalidSpan;

    fn from_str(text: &str) -> Result<Span, InvalidSpan> {
        let wrong = || InvalidSpan(text.to_owned());
        let mut rest = text.trim();
        let mut total = Duration::ZERO;
        if rest.is_empty() {
            return Err(wrong());
        }
        while !rest.is_empty() {
            let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
            let number: u64 = rest[..digits].parse().map_err(|_| wrong())?;
            rest = &rest[digits..];
            let letters = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
            let milliseconds = match &rest[..letters] {
                "ms" => Some(number),
                "s" => number.checked_mul(1000),
                "m" => number.checked_mul(60 * 1000),
                "h" => number.checked_mul(60 * 60 * 1000),
                "d" => number.checked_mul(24 * 60 * 60 * 1000),
                _ => None,
            };
            let part = Duration::from_millis(milliseconds.ok_or_else(wrong)?);
            total = total.checked_add(part).ok_or_else(wrong)?;
            rest = &rest[letters..];
        }
        Ok(Span(total))
    }
}

impl TryFrom<String> for Span {
    type Error = InvalidSpan;

    fn try_from(text: String) -> Result<Span, InvalidSpan> {
        text.parse()
    }
}

impl From<Span> for String {
    fn from(span: Span) -> String {
        span.to_string()
    }
}

impl JsonSchema for Span {
    fn schema_name() -> Cow<'static, str> {
        "Span".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "pattern": "^([0-9]+(ms|s|m|h|d))+$",
            "description": "A length of time, written `30s`, `5m`, `1h30m`, `500ms`."})
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX);
        let units = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];
        if rest == 0 {
            return f.write_str("0s");
        }
        for (unit, size) in units {
            if rest >= size {
                write!(f, "{}{unit}", rest / size)?;
                rest %= size;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_back_as_written() {
        for text in ["30s", "5m", "1h30m", "500ms", "2d"] {
            assert_eq!(text.parse::<Span>().unwrap().to_string(), text);
        }
        for text in ["", "5", "m", "5 m", "-1s", "99999999999999999999s", "18446744073709551615d"] {
            assert!(text.parse::<Span>().is_err(), "{text}");
        }
    }
}
