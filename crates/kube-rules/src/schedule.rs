//! When a CronJob is due: the five fields of cron, read as the reference reads them. Pure.

use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan as _};

/// A schedule that is due at no time within so many years is never due.
const YEARS: i16 = 5;
const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// A schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// At these minutes.
    Fields(Box<ScheduleFields>),
    /// Again and again after so long.
    Every(SignedDuration),
}

/// The values of each field, as bits, and whether the days are left open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleFields {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    any_day: bool,
    any_weekday: bool,
}

impl Schedule {
    /// Reads a schedule.
    ///
    /// # Errors
    /// Fails with the reason for which it is none.
    pub fn parse(text: &str) -> Result<Schedule, String> {
        let text = text.trim();
        if let Some(every) = text.strip_prefix("@every ") {
            let every: SignedDuration =
                every.trim().parse().map_err(|error| format!("failed to parse duration {text}: {error}"))?;
            // Whole seconds, and at least one.
            return Ok(Schedule::Every(SignedDuration::from_secs(every.as_secs().max(1))));
        }
        let text = match text {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            other if other.starts_with('@') => return Err(format!("unrecognized descriptor: {other}")),
            fields => fields,
        };
        let fields: Vec<&str> = text.split_whitespace().collect();
        let [minutes, hours, days, months, weekdays] = fields[..] else {
            return Err(format!("expected exactly 5 fields, found {}: [{}]", fields.len(), fields.join(" ")));
        };
        let is_any = |field: &str| field.split(',').any(|part| part.starts_with(['*', '?']) && !part.contains('/'));
        Ok(Schedule::Fields(Box::new(ScheduleFields {
            minutes: bits(minutes, 0, 59, &[])?,
            hours: bits(hours, 0, 23, &[])?,
            days: bits(days, 1, 31, &[])?,
            months: bits(months, 1, 12, &MONTHS)?,
            weekdays: bits(weekdays, 0, 6, &DAYS)?,
            any_day: is_any(days),
            any_weekday: is_any(weekdays),
        })))
    }

    /// Returns the first time after `after` at which it is due; `None` for never.
    pub fn next(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        match self {
            Schedule::Every(every) => {
                let whole = Timestamp::from_second(after.as_second()).ok()?;
                whole.checked_add(*every).ok()
            }
            Schedule::Fields(fields) => fields.next(after, zone),
        }
    }

    /// Returns about how many times it was due after `after` and not after `now`: as many as fit, if it goes on as it
    /// begins.
    pub fn missed(&self, after: Timestamp, now: Timestamp, zone: &TimeZone) -> i64 {
        let Some(first) = self.next(after, zone).filter(|first| *first <= now) else { return 0 };
        let Some(second) = self.next(first, zone) else { return 1 };
        let step = second.duration_since(first).as_secs().max(1);
        now.duration_since(first).as_secs() / step + 1
    }

    /// Returns the last time after `after`, and not after `now`, at which it was due.
    pub fn last(&self, after: Timestamp, now: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let first = self.next(after, zone).filter(|first| *first <= now)?;
        let second = self.next(first, zone)?;
        // With regular schedules, leap over the runs between.
        let step = second.duration_since(first).max(SignedDuration::from_secs(1));
        let leaps = (now.duration_since(first).as_secs() / step.as_secs() - 1).max(0);
        let leap = SignedDuration::from_secs(step.as_secs().saturating_mul(leaps) - 1);
        let mut last = first;
        if let Some(near) = first.checked_add(leap).ok().and_then(|near| self.next(near, zone))
            && near > first
            && near <= now
        {
            last = near;
        }
        // Irregular ones are walked through, but not for ever.
        for _ in 0..10_000 {
            match self.next(last, zone) {
                Some(next) if next <= now => last = next,
                _ => break,
            }
        }
        Some(last)
    }
}

impl ScheduleFields {
    fn next(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let start = zone.to_datetime(after);
        let mut date = start.date();
        let last = Date::new(start.year().checked_add(YEARS)?, 12, 31).ok()?;
        let mut from = start.with().second(0).subsec_nanosecond(0).build().ok()?.checked_add(1.minute()).ok()?;
        if from.date() != date {
            date = from.date();
        }
        while date <= last {
            let mut times = self.times(date, from).filter(|_| self.has_date(date));
            let found = times.find_map(|time| {
                let at = zone.to_ambiguous_timestamp(time).compatible().ok()?;
                (at > after).then_some(at)
            });
            if found.is_some() {
                return found;
            }
            date = date.checked_add(1.day()).ok()?;
            from = date.at(0, 0, 0, 0);
        }
        None
    }

    fn has_date(&self, date: Date) -> bool {
        let has = |bits: u64, value: i8| u32::try_from(value).is_ok_and(|value| bits >> value & 1 == 1);
        let day = has(self.days, date.day());
        let weekday = has(self.weekdays, date.weekday().to_sunday_zero_offset());
        // If both name days, either will do.
        let is_day = if self.any_day || self.any_weekday { day && weekday } else { day || weekday };
        has(self.months, date.month()) && is_day
    }

    fn times(&self, date: Date, from: DateTime) -> impl Iterator<Item = DateTime> + '_ {
        let (hours, minutes) = (self.hours, self.minutes);
        let hours = (0..24_i8).filter(move |hour| hours >> hour & 1 == 1);
        let all = hours.flat_map(move |hour| {
            (0..60_i8).filter(move |minute| minutes >> minute & 1 == 1).map(move |minute| date.at(hour, minute, 0, 0))
        });
        all.filter(move |time| *time >= from)
    }
}

/// Returns the values of one field.
fn bits(field: &str, least: u32, most: u32, names: &[&str]) -> Result<u64, String> {
    let mut bits = 0;
    for part in field.split(',') {
        bits |= range(part, least, most, names)?;
    }
    Ok(bits)
}

fn range(part: &str, least: u32, most: u32, names: &[&str]) -> Result<u64, String> {
    let (range, step) = match part.split_once('/') {
        Some((range, step)) => {
            (range, Some(step.parse::<u32>().map_err(|_| format!("failed to parse int from {step}"))?))
        }
        None => (part, None),
    };
    let value = |text: &str| -> Result<u32, String> {
        let named = names.iter().position(|name| name.eq_ignore_ascii_case(text)).and_then(|at| u32::try_from(at).ok());
        match named {
            Some(at) => Ok(at + least),
            None => text.parse::<u32>().map_err(|_| format!("failed to parse int from {text}")),
        }
    };
    let (first, last) = match range.split_once('-') {
        _ if range == "*" || range == "?" => (least, most),
        Some((first, last)) => (value(first)?, value(last)?),
        // With a step, a single value is where it begins.
        None => (value(range)?, if step.is_some() { most } else { value(range)? }),
    };
    if first < least {
        return Err(format!("beginning of range ({first}) below minimum ({least}): {part}"));
    }
    if last > most {
        return Err(format!("end of range ({last}) above maximum ({most}): {part}"));
    }
    if first > last {
        return Err(format!("beginning of range ({first}) beyond end of range ({last}): {part}"));
    }
    let step = step.unwrap_or(1);
    if step == 0 {
        return Err(format!("step of range should be a positive number: {part}"));
    }
    Ok((first..=last).step_by(usize::try_from(step).unwrap_or(1)).fold(0, |bits, value| bits | 1 << value))
}

#[cfg(test)]
mod tests {
    use super::Schedule;
    use jiff::Timestamp;
    use jiff::tz::TimeZone;

    fn next(schedule: &str, after: &str, zone: &str) -> String {
        let zone = TimeZone::get(zone).unwrap();
        Schedule::parse(schedule)
            .unwrap()
            .next(after.parse().unwrap(), &zone)
            .map_or("never".to_owned(), |at| at.to_string())
    }

    #[test]
    fn the_next_time_follows_the_fields() {
        for (schedule, after, wanted) in [
            ("* * * * *", "2026-01-01T10:00:30Z", "2026-01-01T10:01:00Z"),
            ("*/15 * * * *", "2026-01-01T10:45:00Z", "2026-01-01T11:00:00Z"),
            ("0 3 * * mon-fri", "2026-01-02T04:00:00Z", "2026-01-05T03:00:00Z"),
            ("0 0 29 2 *", "2026-01-01T00:00:00Z", "2028-02-29T00:00:00Z"),
            ("0 0 13 * fri", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"),
            ("59 23 31 12 *", "2026-12-31T23:59:00Z", "2027-12-31T23:59:00Z"),
            ("0 0 31 2 *", "2026-01-01T00:00:00Z", "never"),
            ("@hourly", "2026-01-01T10:00:00Z", "2026-01-01T11:00:00Z"),
            ("@every 90s", "2026-01-01T10:00:00Z", "2026-01-01T10:01:30Z"),
        ] {
            assert_eq!(next(schedule, after, "UTC"), wanted, "{schedule}");
        }
        assert_eq!(next("0 2 * * *", "2026-07-01T00:00:00Z", "Europe/Berlin"), "2026-07-02T00:00:00Z");
    }

    #[test]
    fn nonsense_is_refused() {
        for wrong in ["", "* * * *", "60 * * * *", "* 5-2 * * *", "*/0 * * * *", "x * * * *", "@never"] {
            assert!(Schedule::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn of_many_missed_times_the_last_counts() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let last = |schedule: &str, after: &str, now: &str| {
            Schedule::parse(schedule).unwrap().last(at(after), at(now), &TimeZone::UTC).map(|at| at.to_string())
        };
        let long = last("* * * * *", "2020-01-01T00:00:00Z", "2026-01-01T10:00:30Z");
        assert_eq!(long.as_deref(), Some("2026-01-01T10:00:00Z"));
        assert_eq!(last("0 3 * * *", "2026-01-01T04:00:00Z", "2026-01-02T02:00:00Z"), None);
        let odd = last("0 3,4 * * mon", "2026-01-01T04:00:00Z", "2026-01-14T02:00:00Z");
        assert_eq!(odd.as_deref(), Some("2026-01-12T04:00:00Z"));
        let missed =
            |after: &str, now: &str| Schedule::parse("* * * * *").unwrap().missed(at(after), at(now), &TimeZone::UTC);
        assert_eq!(missed("2026-01-01T10:00:00Z", "2026-01-01T10:00:59Z"), 0);
        assert_eq!(missed("2026-01-01T10:00:00Z", "2026-01-01T10:01:00Z"), 1);
        assert_eq!(missed("2026-01-01T10:00:00Z", "2026-01-01T12:00:30Z"), 120);
    }
}
