//! Moments as objects carry them.

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// RFC 3339 in UTC, whole seconds: `2026-01-02T03:04:05Z`.
#[must_use]
pub fn rfc3339(moment: Timestamp) -> String {
    moment.to_zoned(TimeZone::UTC).strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Returns the moment that an object's text names.
#[must_use]
pub fn parse(text: &str) -> Option<Timestamp> {
    text.parse().ok()
}
