//! `[[source.window]]`: the times at which new commits are rolled out.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, Zoned};
use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use super::weekly_times::WeeklyTimes;

/// Times at which the new commits of a source are rolled out, or wait. With any `allow`, commits wait outside of all of them;
/// `deny` comes before `allow`. Rollouts that have begun may finish, and rollbacks do not wait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WindowConfig {
    /// Times at which commits are rolled out: days, times, or both, as `Mon-Fri 08:00-17:00`, `Sat,Sun` or `22:00-06:00`, which
    /// goes on into the next day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub allow: Option<WeeklyTimes>,
    /// Times at which commits wait. A window has either `allow` or `deny`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub deny: Option<WeeklyTimes>,
    /// The time zone of these times, `Europe/Berlin`.
    #[serde(
        default = "default_timezone",
        deserialize_with = "timezone",
        serialize_with = "jiff::fmt::serde::tz::required::serialize"
    )]
    #[schemars(with = "String")]
    pub timezone: TimeZone,
}

/// The longest time for which it is known beforehand when windows open.
const KNOWN_AHEAD: SignedDuration = SignedDuration::from_hours(14 * 24);

/// The times of a window that are not over, as far as they are known.
struct WindowSpans {
    allows: bool,
    zone: TimeZone,
    spans: Vec<(Timestamp, Timestamp)>,
}

impl WindowSpans {
    fn contain(&self, at: Timestamp) -> bool {
        self.spans.iter().any(|(begin, end)| *begin <= at && at < *end)
    }

    /// Returns the moments at which commits that waited may be let through.
    fn openings(&self) -> impl Iterator<Item = Zoned> {
        let openings = self.spans.iter().map(|(begin, end)| if self.allows { *begin } else { *end });
        openings.map(|at| at.to_zoned(self.zone.clone()))
    }
}

impl WindowConfig {
    fn spans(&self, from: Timestamp, until: Timestamp) -> Option<WindowSpans> {
        let (allows, times) = match (&self.allow, &self.deny) {
            (Some(allow), None) => (true, allow),
            (None, Some(deny)) => (false, deny),
            _ => return None,
        };
        Some(WindowSpans { allows, zone: self.timezone.clone(), spans: times.spans(&self.timezone, from, until) })
    }
}

/// The windows of a source at a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WindowState {
    /// A commit is rolled out.
    Open,
    /// A commit waits until this moment; `None` if that is more than two weeks ahead.
    Closed(Option<Zoned>),
}

impl WindowState {
    /// Returns the state of windows at a moment.
    #[must_use]
    pub fn of(windows: &[WindowConfig], at: Timestamp) -> WindowState {
        let last = at.saturating_add(KNOWN_AHEAD).unwrap_or(at);
        let windows: Vec<WindowSpans> = windows.iter().filter_map(|window| window.spans(at, last)).collect();
        let is_limited = windows.iter().any(|window| window.allows);
        let is_open = |at: Timestamp| {
            let mut covering = windows.iter().filter(|window| window.contain(at)).peekable();
            let is_allowed = !is_limited || covering.peek().is_some();
            is_allowed && covering.all(|window| window.allows)
        };
        if is_open(at) {
            return WindowState::Open;
        }
        let opens = |opening: &Zoned| {
            let opening = opening.timestamp();
            at < opening && opening <= last && is_open(opening)
        };
        WindowState::Closed(windows.iter().flat_map(WindowSpans::openings).filter(opens).min())
    }
}

/// Returns the fault of a source's windows, if there is any.
pub(super) fn check(windows: &[WindowConfig]) -> Result<(), String> {
    if windows.iter().any(|window| window.allow.is_some() == window.deny.is_some()) {
        return Err("window: a window has either allow or deny".to_owned());
    }
    match WindowState::of(windows, Timestamp::UNIX_EPOCH) {
        WindowState::Closed(None) => Err("window: these windows never let a commit through".to_owned()),
        _ => Ok(()),
    }
}

fn default_timezone() -> TimeZone {
    TimeZone::UTC
}

/// Reads the name of a time zone, a distance from UTC (`+02:00`), or the rules of one as POSIX has them.
fn timezone<'de, D: Deserializer<'de>>(deserializer: D) -> Result<TimeZone, D::Error> {
    let name = String::deserialize(deserializer)?;
    jiff::fmt::temporal::DateTimeParser::new().parse_time_zone(&name).map_err(|_| {
        let hint = "write a name of its database (/usr/share/zoneinfo), as \"Europe/Berlin\"";
        D::Error::custom(format!("this machine knows no time zone {name:?}: {hint}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn windows(text: &str) -> Result<Vec<WindowConfig>, String> {
        let windows = text.split('|').map(|window| format!("[[source.window]]\n{}\n", window.replace(", ", "\n")));
        let text = format!("[[source]]\nrepository = \"/srv\"\n{}", windows.collect::<String>());
        let config = Config::parse(&text, "belay.toml").map_err(|error| error.to_string())?;
        Ok(config.source[0].window.clone())
    }

    #[test]
    fn a_commit_waits_until_its_windows_are_open() {
        // 30 November 2026 is a Monday.
        for (text, at, opens) in [
            ("allow = 'Mon-Fri 08:00-17:00'", "2026-11-30T08:00:00Z", None),
            ("allow = 'Mon-Fri 08:00-17:00'", "2026-11-30T17:00:00Z", Some("Tue 2026-12-01 08:00 UTC")),
            ("allow = 'Mon-Fri 08:00-17:00'", "2026-12-04T18:00:00Z", Some("Mon 2026-12-07 08:00 UTC")),
            ("deny = 'Mon-Fri 08:00-17:00'", "2026-11-30T07:59:00Z", None),
            ("deny = 'Mon-Fri 08:00-17:00'", "2026-11-30T08:00:00Z", Some("Mon 2026-11-30 17:00 UTC")),
            ("allow = 'Mon 08:00-17:00'|allow = 'Mon 16:00-20:00'", "2026-11-30T18:00:00Z", None),
            (
                "allow = 'Mon-Fri 08:00-17:00'|deny = 'Mon-Fri 07:00-09:30'",
                "2026-11-30T08:00:00Z",
                Some("Mon 2026-11-30 09:30 UTC"),
            ),
            // One window is in another time zone.
            (
                "allow = 'Mon-Fri 08:00-17:00', timezone = 'EST5EDT,M3.2.0,M11.1.0'|deny = 'Mon 13:00-14:00'",
                "2026-11-30T12:00:00Z",
                Some("Mon 2026-11-30 14:00 UTC"),
            ),
            (
                "allow = 'Mon-Fri 08:00-17:00', timezone = 'EST5EDT,M3.2.0,M11.1.0'",
                "2026-11-30T12:00:00Z",
                Some("Mon 2026-11-30 08:00 EST"),
            ),
            // Friday's night goes on into Saturday; the clocks go back on 25 October.
            ("allow = 'Fri 22:00-06:00'", "2026-12-05T05:59:59Z", None),
            (
                "deny = 'Sat 22:00-06:00', timezone = 'CET-1CEST,M3.5.0,M10.5.0/3'",
                "2026-10-25T04:30:00Z",
                Some("Sun 2026-10-25 06:00 CET"),
            ),
        ] {
            let state = WindowState::of(&windows(text).unwrap(), at.parse().unwrap());
            let expected = match (&state, opens) {
                (WindowState::Open, None) => continue,
                (WindowState::Closed(Some(until)), Some(opens)) => {
                    (until.strftime("%a %Y-%m-%d %H:%M %Z").to_string(), opens)
                }
                _ => panic!("{text} at {at}: {state:?}"),
            };
            assert_eq!(expected.0, expected.1, "{text} at {at}");
        }
        assert_eq!(WindowState::of(&[], Timestamp::UNIX_EPOCH), WindowState::Open, "without windows");
    }

    #[test]
    fn a_window_that_says_nothing_is_refused() {
        for (text, message) in [
            ("timezone = 'UTC'", "either allow or deny"),
            ("allow = 'Mon', deny = 'Tue'", "either allow or deny"),
            ("allow = 'Mon'|deny = 'Mon'", "never let a commit through"),
            ("deny = 'Mon-Sun'", "never let a commit through"),
            ("allow = 'Mo'", "names no times of a week"),
            (
                "allow = 'Mon', timezone = 'Europe/Berlni'",
                "belay.toml:5:12: this machine knows no time zone \"Europe/Berlni\"",
            ),
            ("allow = 'Mon', zone = 'UTC'", "zone"),
        ] {
            let error = windows(text).unwrap_err();
            assert!(error.contains(message), "{error}");
        }
    }

    #[test]
    fn it_is_written_as_it_was_read() {
        let read = windows("allow = 'Mon-Fri 08:00-17:00', timezone = '+02:00'").unwrap();
        let written = toml::to_string(&read[0]).unwrap();
        assert_eq!(written, "allow = \"Mon-Fri 08:00-17:00\"\ntimezone = \"+02:00\"\n");
    }
}
