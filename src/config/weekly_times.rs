//! Times that come again each week: `Mon-Fri 08:00-17:00`.

use std::str::FromStr;

use jiff::civil::{Date, Time, Weekday};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Times that come again each week, as `Mon-Fri 08:00-17:00`, `Sat,Sun` or `22:00-06:00`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct WeeklyTimes {
    text: String,
    /// The days on which it begins, from Monday.
    days: [bool; 7],
    begin: Time,
    /// The end; on the next day if it is not after the begin.
    end: Time,
}

/// A text that names no times of a week.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "{0:?} names no times of a week: write days, times from 00:00 to 24:00, or both, as \"Mon-Fri 08:00-17:00\", \"Sat,Sun\" or \"22:00-06:00\""
)]
pub struct InvalidWeeklyTimes(String);

impl WeeklyTimes {
    /// Returns the spans of these times in a time zone that have a part between two moments. A time that the clocks skip is an
    /// hour later, as it is after the change; of one that they show twice the first counts.
    pub(super) fn spans(&self, zone: &TimeZone, from: Timestamp, until: Timestamp) -> Vec<(Timestamp, Timestamp)> {
        // A span that goes on can have begun on the day before.
        let first = from.to_zoned(zone.clone()).date().saturating_sub(1.day());
        let dates = first.series(1.day()).filter(|date| self.days[day_of(date.weekday())]);
        let spans = dates.map_while(|date| self.span(zone, date)).take_while(|(begin, _)| *begin <= until);
        spans.filter(|(begin, end)| begin < end && *end > from).collect()
    }

    fn span(&self, zone: &TimeZone, date: Date) -> Option<(Timestamp, Timestamp)> {
        let last = if self.end <= self.begin { date.tomorrow().ok()? } else { date };
        let at = |date: Date, time: Time| Some(date.to_datetime(time).to_zoned(zone.clone()).ok()?.timestamp());
        Some((at(date, self.begin)?, at(last, self.end)?))
    }
}

impl FromStr for WeeklyTimes {
    type Err = InvalidWeeklyTimes;

    fn from_str(text: &str) -> Result<WeeklyTimes, InvalidWeeklyTimes> {
        let read = || {
            let mut parts = text.split_whitespace();
            let (first, second) = (parts.next()?, parts.next());
            let (days, times) = match second {
                Some(times) => (days(first)?, Some(times)),
                None if first.contains(':') => ([true; 7], Some(first)),
                None => (days(first)?, None),
            };
            let (begin, end) = begin_and_end(times.unwrap_or("00:00-24:00"))?;
            parts.next().is_none().then(|| WeeklyTimes { text: text.to_owned(), days, begin, end })
        };
        read().ok_or_else(|| InvalidWeeklyTimes(text.to_owned()))
    }
}

impl TryFrom<String> for WeeklyTimes {
    type Error = InvalidWeeklyTimes;

    fn try_from(text: String) -> Result<WeeklyTimes, InvalidWeeklyTimes> {
        text.parse()
    }
}

impl From<WeeklyTimes> for String {
    fn from(times: WeeklyTimes) -> String {
        times.text
    }
}

fn day_of(weekday: Weekday) -> usize {
    usize::from(weekday.to_monday_zero_offset().unsigned_abs())
}

/// Reads `Mon-Fri,Sun`.
fn days(text: &str) -> Option<[bool; 7]> {
    let mut days = [false; 7];
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (mut day, last) = (weekday(first)?, weekday(last)?);
        days[day] = true;
        while day != last {
            day = (day + 1) % days.len();
            days[day] = true;
        }
    }
    Some(days)
}

fn weekday(text: &str) -> Option<usize> {
    const NAMES: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
    NAMES.iter().position(|name| name.eq_ignore_ascii_case(text))
}

/// Reads `08:00-17:00`.
fn begin_and_end(text: &str) -> Option<(Time, Time)> {
    let (begin, end) = text.split_once('-')?;
    let begin = time(begin)?;
    match end {
        "24:00" => Some((begin, Time::midnight())),
        end => time(end).filter(|end| *end != begin).map(|end| (begin, end)),
    }
}

fn time(text: &str) -> Option<Time> {
    let (hour, minute) = text.split_once(':')?;
    let two_digits = |text: &str| text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
    if !two_digits(hour) || !two_digits(minute) {
        return None;
    }
    Time::new(hour.parse().ok()?, minute.parse().ok()?, 0, 0).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::SignedDuration;

    /// The rules of the European Union, so that no database of time zones is needed.
    const BERLIN: &str = "CET-1CEST,M3.5.0,M10.5.0/3";

    fn spans(times: &str, zone: &str, from: &str) -> Vec<(String, String)> {
        let (times, zone) = (times.parse::<WeeklyTimes>().unwrap(), TimeZone::posix(zone).unwrap());
        let from: Timestamp = from.parse().unwrap();
        let spans = times.spans(&zone, from, from + SignedDuration::from_hours(15 * 24));
        let words = |at: Timestamp| at.strftime("%a %d %H:%M").to_string();
        spans.into_iter().map(|(begin, end)| (words(begin), words(end))).collect()
    }

    #[test]
    fn it_comes_each_week() {
        // 30 November 2026 is a Monday.
        for (times, first) in [
            ("Mon-Fri 08:00-17:00", ("Mon 30 08:00", "Mon 30 17:00")),
            ("mon,WED 08:00-17:00", ("Mon 30 08:00", "Mon 30 17:00")),
            ("08:00-11:59", ("Tue 01 08:00", "Tue 01 11:59")),
            ("Sat,Sun", ("Sat 05 00:00", "Sun 06 00:00")),
            ("Sat-Mon", ("Mon 30 00:00", "Tue 01 00:00")),
            ("Fri-Sat 22:00-24:00", ("Fri 04 22:00", "Sat 05 00:00")),
            ("Sun 22:00-13:00", ("Sun 29 22:00", "Mon 30 13:00")),
            ("Mon 22:00-00:00", ("Mon 30 22:00", "Tue 01 00:00")),
        ] {
            let all = spans(times, "UTC0", "2026-11-30T12:00:00Z");
            let (begin, end) = &all[0];
            assert_eq!((begin.as_str(), end.as_str()), first, "{times}");
        }
        assert_eq!(spans("Tue 10:00-11:00", "UTC0", "2026-11-30T12:00:00Z").len(), 3, "for two weeks");
    }

    #[test]
    fn the_clocks_are_changed() {
        for (times, zone, from, begin, end) in [
            // Berlin is at 3:00 after 2:00 on 29 March 2026, and shows 2:00 to 3:00 twice on 25 October.
            ("Sun 01:30-04:00", BERLIN, "2026-03-29T00:00:00Z", "Sun 29 00:30", "Sun 29 02:00"),
            ("Sun 02:30-04:00", BERLIN, "2026-03-29T00:00:00Z", "Sun 29 01:30", "Sun 29 02:00"),
            ("Sun 02:15-02:45", BERLIN, "2026-03-29T00:00:00Z", "Sun 29 01:15", "Sun 29 01:45"),
            ("Sat 22:00-06:00", BERLIN, "2026-03-29T00:00:00Z", "Sat 28 21:00", "Sun 29 04:00"),
            ("Sun 01:00-02:30", BERLIN, "2026-10-25T00:00:00Z", "Sat 24 23:00", "Sun 25 00:30"),
            ("Sun 02:30-04:00", BERLIN, "2026-10-25T00:00:00Z", "Sun 25 00:30", "Sun 25 03:00"),
            ("Sat 22:00-06:00", BERLIN, "2026-10-25T00:00:00Z", "Sat 24 20:00", "Sun 25 05:00"),
            ("Sun", BERLIN, "2026-10-25T00:00:00Z", "Sat 24 22:00", "Sun 25 23:00"),
        ] {
            let all = spans(times, zone, from);
            assert_eq!((all[0].0.as_str(), all[0].1.as_str()), (begin, end), "{times} from {from}");
        }
    }

    #[test]
    fn other_words_are_refused() {
        for wrong in [
            "",
            "Mon-",
            "Monday",
            "Mon - Fri",
            "Mon 8:00-17:00",
            "Mon 08:00",
            "Mon 08:00-08:00",
            "Mon 08:00-24:01",
            "Mon 24:00-08:00",
            "Mon 08:00-17:60",
            "Mon 08:00-17:00 UTC",
            "08:00-17:00 Mon",
            "Mon,,Tue",
            "Mon +8:00-17:00",
        ] {
            let error = wrong.parse::<WeeklyTimes>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("{wrong:?} names no times of a week")), "{error}");
        }
    }
}
