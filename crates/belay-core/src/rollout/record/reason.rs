//! The reason for an end.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::rollout::ReasonCode;

/// The reason for an end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Reason {
    /// One word that programs can rely on, `ProgressDeadlineExceeded`.
    pub code: ReasonCode,
    /// One sentence for people.
    pub message: String,
}

impl Reason {
    /// Returns a reason.
    #[must_use]
    pub fn new(code: ReasonCode, message: impl Into<String>) -> Reason {
        Reason { code, message: message.into() }
    }

    /// Returns the same, with something that came to it: `it exceeded its deadline; the way back failed too`.
    #[must_use]
    pub fn and(self, more: impl fmt::Display) -> Reason {
        Reason { message: format!("{}; {more}", self.message), ..self }
    }

    /// Returns true when both tell of the same trouble: a time, a number or an id in the words may be another each time.
    #[must_use]
    pub fn is_same_trouble(&self, other: &Reason) -> bool {
        self.code == other.code && lasting_words(&self.message) == lasting_words(&other.message)
    }
}

/// Returns a message with one sign in the place of each word that has a digit: times, numbers and ids change from try to try.
#[must_use]
pub fn lasting_words(message: &str) -> String {
    let ends_word = |c: char| c.is_whitespace() || "\"'`()[]{}<>,;=/".contains(c);
    let mut lasting = String::with_capacity(message.len());
    for piece in message.split_inclusive(ends_word) {
        let word = piece.trim_end_matches(ends_word);
        lasting.push_str(if word.contains(|c: char| c.is_ascii_digit()) { "#" } else { word });
        lasting.push_str(&piece[word.len()..]);
    }
    lasting
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_trouble_is_known_in_other_numbers() {
        let same = |one: &str, other: &str| {
            let reason = |message: &str| Reason::new(ReasonCode::InvalidManifest, message);
            reason(one).is_same_trouble(&reason(other))
        };
        for (one, other) in [
            ("denied at 2026-11-28T20:04:37Z", "denied at 2026-11-28T20:09:37.123Z"),
            (
                "denied (request 3f1c9e2a-0b7d-4c55-9d3e-2f7a6b1c0d9e)",
                "denied (request 0d9e2a3f-4c55-0b7d-2f7a-9d3e6b1c0d9e)",
            ),
            ("exceeded quota: used: pods=3, limited: pods=3", "exceeded quota: used: pods=12, limited: pods=12"),
            ("tried 1 time", "tried 2 time"),
            ("äöü 7", "äöü 8"),
            ("", ""),
        ] {
            assert!(same(one, other), "{one}: {other}");
        }
        for (one, other) in [
            ("no image", "no memory"),
            ("denied at 12:00", "denied"),
            ("spec.a: 1", "spec.b: 1"),
            ("by \"policy-a\"", "by \"policy-b\""),
        ] {
            assert!(!same(one, other), "{one}: {other}");
        }
        let other_code = Reason::new(ReasonCode::Missing, "denied");
        assert!(!Reason::new(ReasonCode::InvalidManifest, "denied").is_same_trouble(&other_code));
    }
}
