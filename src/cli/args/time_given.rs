//! Times as people type them: a length of time before now (`2h`), a date (`2026-11-19`), or a date with a time of day.

use std::str::FromStr;

use anyhow::Context as _;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _};

use belay_core::span::Span;

/// A time that was typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeGiven {
    /// So long before now: `2h`, `7d`.
    Ago(Span),
    /// A day: `2026-11-19`.
    Day(Date),
    /// A time of a day, on the clock of this machine: `2026-11-19T08:00`.
    Local(DateTime),
    /// A time everywhere, as RFC 3339 writes it: `2026-11-19T08:00:00Z`.
    At(Timestamp),
}

impl FromStr for TimeGiven {
    type Err = String;

    fn from_str(text: &str) -> Result<TimeGiven, String> {
        let text = text.trim();
        if let Ok(span) = text.parse() {
            return Ok(TimeGiven::Ago(span));
        }
        if let Ok(at) = text.parse() {
            return Ok(TimeGiven::At(at));
        }
        let has_time = text.contains(['T', 't', ' ']);
        let read = match has_time {
            true => text.parse().ok().map(TimeGiven::Local),
            false => text.parse().ok().map(TimeGiven::Day),
        };
        read.ok_or_else(|| {
            "not a time: write a date (2026-11-19), a time (2026-11-19T08:00:00Z), or a length of time before now (2h, 7d)"
                .to_owned()
        })
    }
}

impl TimeGiven {
    /// Returns its first moment: a day begins at midnight.
    pub(in crate::cli) fn begin(self, now: Timestamp, zone: &TimeZone) -> anyhow::Result<Timestamp> {
        let local = |time: DateTime| Ok(time.to_zoned(zone.clone())?.timestamp());
        let begin: Result<Timestamp, jiff::Error> = match self {
            TimeGiven::Ago(Span(span)) => now.checked_sub(span),
            TimeGiven::Day(day) => local(day.into()),
            TimeGiven::Local(time) => local(time),
            TimeGiven::At(at) => Ok(at),
        };
        begin.context("the calendar ends before that time")
    }

    /// Returns the moment after it: a day ends at the next midnight.
    pub(in crate::cli) fn end(self, now: Timestamp, zone: &TimeZone) -> anyhow::Result<Timestamp> {
        match self {
            TimeGiven::Day(day) => {
                let next = day.checked_add(1.day()).context("the calendar ends with that day")?;
                TimeGiven::Day(next).begin(now, zone)
            }
            other => other.begin(now, zone),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds(text: &str) -> (String, String) {
        let given: TimeGiven = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
        let zone = TimeZone::get("Europe/Berlin").unwrap();
        let now = "2026-11-30T12:00:00Z".parse().unwrap();
        (given.begin(now, &zone).unwrap().to_string(), given.end(now, &zone).unwrap().to_string())
    }

    #[test]
    fn a_day_has_a_beginning_and_an_end() {
        let both = |time: &str| (time.to_owned(), time.to_owned());
        assert_eq!(bounds("2026-11-19"), ("2026-11-18T23:00:00Z".to_owned(), "2026-11-19T23:00:00Z".to_owned()));
        // The clocks are set forward on this day: it has 23 hours.
        assert_eq!(bounds("2026-03-29"), ("2026-03-28T23:00:00Z".to_owned(), "2026-03-29T22:00:00Z".to_owned()));
        assert_eq!(bounds("2026-11-19T08:00"), both("2026-11-19T07:00:00Z"));
        assert_eq!(bounds("2026-11-19 08:00:30"), both("2026-11-19T07:00:30Z"));
        assert_eq!(bounds("2026-11-19T08:00:00Z"), both("2026-11-19T08:00:00Z"));
        assert_eq!(bounds("2026-11-19T08:00:00+05:30"), both("2026-11-19T02:30:00Z"));
        assert_eq!(bounds("2h"), both("2026-11-30T10:00:00Z"));
        assert_eq!(bounds("7d"), both("2026-11-23T12:00:00Z"));
    }

    #[test]
    fn other_words_are_refused() {
        for text in ["", "yesterday", "2026-13-01", "2026-11", "19.11.2026", "2026-11-19T25:00", "2"] {
            assert!(text.parse::<TimeGiven>().is_err(), "{text}");
        }
    }
}
