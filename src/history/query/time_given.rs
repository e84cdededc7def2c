//! Times as people type them: a length of time before now (`2h`), a date (`2026-11-19`), or a date with a time of day.
//! The commands and the addresses under `/api/v1/` take the same.

use std::str::FromStr;

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

/// The reason for which a time, or a period, is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPeriod {
    /// No calendar has the time.
    #[error("{0}: the calendar ends before that time")]
    BeyondCalendar(&'static str),
    /// The period ends before it begins.
    #[error("{} {until:.0} is not after {} {since:.0}: no rollout can be between them", .names.1, .names.0)]
    Empty {
        /// The names of both.
        names: (&'static str, &'static str),
        /// The beginning.
        since: Timestamp,
        /// The end.
        until: Timestamp,
    },
}

/// Returns the moments at which a period begins and ends. `names` are the names of both for the one who typed them.
///
/// # Errors
///
/// When a time is in no calendar, or the period ends before it begins.
pub fn period(
    names: (&'static str, &'static str),
    (since, until): (Option<TimeGiven>, Option<TimeGiven>),
    now: Timestamp,
    zone: &TimeZone,
) -> Result<(Option<Timestamp>, Option<Timestamp>), InvalidPeriod> {
    let since = since.map(|since| since.begin(now, zone).ok_or(InvalidPeriod::BeyondCalendar(names.0)));
    let until = until.map(|until| until.end(now, zone).ok_or(InvalidPeriod::BeyondCalendar(names.1)));
    let (since, until) = (since.transpose()?, until.transpose()?);
    match (since, until) {
        (Some(since), Some(until)) if until <= since => Err(InvalidPeriod::Empty { names, since, until }),
        period => Ok(period),
    }
}

impl TimeGiven {
    /// Returns its first moment: a day begins at midnight. `None` if no calendar has it.
    fn begin(self, now: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let local = |time: DateTime| Some(time.to_zoned(zone.clone()).ok()?.timestamp());
        match self {
            TimeGiven::Ago(Span(span)) => now.checked_sub(span).ok(),
            TimeGiven::Day(day) => local(day.into()),
            TimeGiven::Local(time) => local(time),
            TimeGiven::At(at) => Some(at),
        }
    }

    /// Returns the moment after it: a day ends at the next midnight. `None` if no calendar has it.
    fn end(self, now: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        match self {
            TimeGiven::Day(day) => TimeGiven::Day(day.checked_add(1.day()).ok()?).begin(now, zone),
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
    fn a_period_ends_after_its_beginning() {
        let now = "2026-11-30T12:00:00Z".parse().unwrap();
        let between = |since: &str, until: &str| {
            let given = (since.parse().ok(), until.parse().ok());
            period(("since", "until"), given, now, &TimeZone::UTC).map_err(|error| error.to_string())
        };
        assert_eq!(between("", ""), Ok((None, None)));
        assert_eq!(between("2026-11-19", "2026-11-19").unwrap().1, "2026-11-20T00:00:00Z".parse().ok());
        let turned =
            "until 2026-11-30T10:00:00Z is not after since 2026-11-30T11:00:00Z: no rollout can be between them";
        assert_eq!(between("1h", "2h").unwrap_err(), turned);
        assert_eq!(between("", "9999-12-31").unwrap_err(), "until: the calendar ends before that time");
    }

    #[test]
    fn other_words_are_refused() {
        for text in ["", "yesterday", "2026-13-01", "2026-11", "19.11.2026", "2026-11-19T25:00", "2"] {
            assert!(text.parse::<TimeGiven>().is_err(), "{text}");
        }
    }
}
