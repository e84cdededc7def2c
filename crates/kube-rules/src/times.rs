//! Times: read and refused as Go does, written as the real server does.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use super::words::quote;

/// The precision of a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// Whole seconds.
    Seconds,
    /// Six digits, always.
    Microseconds,
}

/// Returns a time as it is stored.
#[must_use]
pub fn write(time: Timestamp, precision: Precision) -> String {
    match precision {
        Precision::Seconds => format!("{time:.0}"),
        Precision::Microseconds => format!("{time:.6}"),
    }
}

/// Returns a stored time.
#[must_use]
pub fn read(text: &str) -> Option<Timestamp> {
    text.parse().ok()
}

/// Reads a time and writes it as it is stored; none for the zero time.
///
/// # Errors
/// Go's words for a text that is no time.
pub fn canonical(text: &str, precision: Precision) -> Result<Option<String>, String> {
    let layout = match precision {
        Precision::Seconds => "2006-01-02T15:04:05Z07:00",
        Precision::Microseconds => "2006-01-02T15:04:05.000000Z07:00",
    };
    let mut reader = TimeReader { rest: text };
    let (time, offset_s) = reader.read(precision).map_err(|problem| match problem {
        Problem::Element(rest, element) => {
            format!(
                "parsing time {} as {}: cannot parse {} as {}",
                quote(text),
                quote(layout),
                quote(rest),
                quote(element)
            )
        }
        Problem::Range(what) => format!("parsing time {}: {what} out of range", quote(text)),
        Problem::Extra(rest) => format!("parsing time {}: extra text: {}", quote(text), quote(rest)),
    })?;
    let time = time.checked_sub(SignedDuration::from_secs(offset_s)).unwrap_or(time);
    let zero = DateTime::constant(1, 1, 1, 0, 0, 0, 0);
    if time == zero {
        return Ok(None);
    }
    let stamp = TimeZone::UTC.to_timestamp(time);
    let stamp = stamp.map_err(|_| format!("parsing time {}: year out of range", quote(text)))?;
    Ok(Some(write(stamp, precision)))
}

enum Problem<'a> {
    /// The rest of the text, and the part of the layout that it does not match.
    Element(&'a str, &'static str),
    Range(&'static str),
    Extra(&'a str),
}

struct TimeReader<'a> {
    rest: &'a str,
}

impl<'a> TimeReader<'a> {
    fn read(&mut self, precision: Precision) -> Result<(DateTime, i64), Problem<'a>> {
        let year = self.year()?;
        self.skip("-")?;
        let month = self.number("01", 2)?;
        if !(1..=12).contains(&month) {
            return Err(Problem::Range("month"));
        }
        self.skip("-")?;
        let day = self.number("02", 2)?;
        self.skip("T")?;
        let hour = self.below("15", 1, 24, "hour")?;
        self.skip(":")?;
        let minute = self.below("04", 2, 60, "minute")?;
        self.skip(":")?;
        let second = self.below("05", 2, 60, "second")?;
        let nanosecond = match precision {
            Precision::Seconds => self.fraction(),
            Precision::Microseconds => self.six_digits()?,
        };
        let offset_s = self.zone()?;
        if !self.rest.is_empty() {
            return Err(Problem::Extra(self.rest));
        }
        let time = DateTime::new(year, month, day, hour, minute, second, nanosecond);
        time.map(|time| (time, offset_s)).map_err(|_| Problem::Range("day"))
    }

    fn year(&mut self) -> Result<i16, Problem<'a>> {
        let problem = Problem::Element(self.rest, "2006");
        let Some(digits) = self.rest.get(..4).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit())) else {
            return Err(problem);
        };
        self.rest = &self.rest[4..];
        digits.parse().map_err(|_| problem)
    }

    fn skip(&mut self, prefix: &'static str) -> Result<(), Problem<'a>> {
        self.rest = self.rest.strip_prefix(prefix).ok_or(Problem::Element(self.rest, prefix))?;
        Ok(())
    }

    /// Returns two digits, or as few as `least`.
    fn number(&mut self, element: &'static str, least: usize) -> Result<i8, Problem<'a>> {
        let count = self.rest.bytes().take(2).take_while(u8::is_ascii_digit).count();
        if count < least {
            return Err(Problem::Element(self.rest, element));
        }
        let (digits, rest) = self.rest.split_at(count);
        self.rest = rest;
        digits.parse().map_err(|_| Problem::Element(digits, element))
    }

    fn below(&mut self, element: &'static str, least: usize, end: i8, what: &'static str) -> Result<i8, Problem<'a>> {
        let number = self.number(element, least)?;
        if number < end { Ok(number) } else { Err(Problem::Range(what)) }
    }

    fn fraction(&mut self) -> i32 {
        let Some(digits) = self.rest.strip_prefix(['.', ',']) else { return 0 };
        let count = digits.bytes().take_while(u8::is_ascii_digit).count();
        if count == 0 {
            return 0;
        }
        let nine: String = digits[..count].chars().chain("000000000".chars()).take(9).collect();
        self.rest = &digits[count..];
        nine.parse().unwrap_or_default()
    }

    fn six_digits(&mut self) -> Result<i32, Problem<'a>> {
        let digits = self.rest.strip_prefix(['.', ',']).and_then(|rest| rest.get(..6));
        match digits.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit())) {
            Some(digits) => {
                self.rest = &self.rest[7..];
                Ok(digits.parse::<i32>().unwrap_or_default() * 1000)
            }
            None => Err(Problem::Element(self.rest, ".000000")),
        }
    }

    /// Seconds east of Greenwich.
    fn zone(&mut self) -> Result<i64, Problem<'a>> {
        if let Some(rest) = self.rest.strip_prefix('Z') {
            self.rest = rest;
            return Ok(0);
        }
        let problem = || Problem::Element(self.rest, "Z07:00");
        let zone = self.rest.get(..6).ok_or_else(problem)?;
        let sign = match zone.as_bytes()[0] {
            b'+' => 1,
            b'-' => -1,
            _ => return Err(problem()),
        };
        let digits = |range: std::ops::Range<usize>| {
            let text = zone.get(range).filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
            text.and_then(|text| text.parse::<i64>().ok())
        };
        let (Some(hours), Some(minutes), true) = (digits(1..3), digits(4..6), zone.as_bytes()[3] == b':') else {
            return Err(problem());
        };
        if hours > 24 {
            return Err(Problem::Range("time zone offset hour"));
        }
        if minutes > 60 {
            return Err(Problem::Range("time zone offset minute"));
        }
        self.rest = &self.rest[6..];
        Ok(sign * (hours * 3600 + minutes * 60))
    }
}

#[cfg(test)]
mod tests {
    use super::{Precision, canonical};

    #[test]
    fn times_are_stored_in_utc() {
        let seconds = |text| canonical(text, Precision::Seconds).unwrap();
        assert_eq!(seconds("2026-01-02T03:04:05+01:30").as_deref(), Some("2026-01-02T01:34:05Z"));
        assert_eq!(seconds("2026-01-02T03:04:05.999Z").as_deref(), Some("2026-01-02T03:04:05Z"));
        assert_eq!(seconds("0001-01-01T00:00:00Z"), None);
        let micro = canonical("2026-01-02T03:04:05.123456Z", Precision::Microseconds).unwrap();
        assert_eq!(micro.as_deref(), Some("2026-01-02T03:04:05.123456Z"));
    }

    #[test]
    fn what_is_no_time_is_refused_in_gos_words() {
        let cases = [
            ("yesterday", "cannot parse \"yesterday\" as \"2006\""),
            ("2026-1-1", "cannot parse \"1-1\" as \"01\""),
            ("2026-13-01T00:00:00Z", "month out of range"),
            ("2026-02-30T00:00:00Z", "day out of range"),
            ("2026-02-03", "cannot parse \"\" as \"T\""),
            ("2026-02-03T00:00:00", "cannot parse \"\" as \"Z07:00\""),
            ("2026-02-03T00:00:00Zz", "extra text: \"z\""),
            ("é026-02-03", "cannot parse"),
        ];
        for (text, end) in cases {
            let error = canonical(text, Precision::Seconds).unwrap_err();
            assert!(error.contains(end), "{error}");
        }
    }
}
