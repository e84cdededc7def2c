//! The small things that pages are made of: states as word and shape, pods as a picture, times.

use std::fmt::{self, Display, Formatter};

use askama::filters::HtmlSafe;
use jiff::{SignedDuration, Timestamp};

use super::super::rollout_progress::new_and_available;
use crate::history::query::harm::Harm;
use belay_core::rollout::{CommitId, Counters, ObjectState, Outcome, SourceState};

/// A state: a word, and a shape for readers who see no colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub class: &'static str,
    pub shape: &'static str,
    pub word: &'static str,
}

impl Mark {
    pub(super) fn of(state: ObjectState) -> Mark {
        let (class, shape) = match state {
            ObjectState::Complete | ObjectState::Unchanged | ObjectState::Pruned => ("good", "✔"),
            ObjectState::Pending | ObjectState::Progressing | ObjectState::Baking => ("moves", "◐"),
            ObjectState::Waiting => ("waits", "…"),
            ObjectState::Suspended => ("waits", "‖"),
            ObjectState::Rejected | ObjectState::Failed | ObjectState::RollbackFailed => ("bad", "✖"),
            ObjectState::RollingBack | ObjectState::RolledBack => ("back", "↩"),
            ObjectState::Held => ("back", "■"),
            ObjectState::Superseded | ObjectState::Orphaned | ObjectState::Unknown => ("rest", "–"),
        };
        Mark { class, shape, word: state.word() }
    }

    pub(super) fn of_harm(harm: Harm) -> Mark {
        let (class, shape) = match harm {
            Harm::Unavailable | Harm::Failed | Harm::Rejected => ("bad", "✖"),
            Harm::Held => ("back", "■"),
            Harm::RollingOut => ("moves", "◐"),
            Harm::Waiting => ("waits", "…"),
            Harm::Suspended => ("waits", "‖"),
            Harm::Orphaned => ("rest", "–"),
            Harm::Ok => ("good", "✔"),
        };
        Mark { class, shape, word: harm.word() }
    }

    /// Returns the mark of a workload without an available pod: its state in the colour of an error.
    pub(super) fn unavailable(state: ObjectState) -> Mark {
        Mark { class: "bad", ..Mark::of(state) }
    }

    pub(super) fn of_outcome(outcome: Outcome) -> Mark {
        Mark::of(outcome.state())
    }

    pub(super) fn of_source(state: SourceState) -> Mark {
        let (class, shape) = match state {
            SourceState::Synced => ("good", "✔"),
            SourceState::Progressing => ("moves", "◐"),
            SourceState::Degraded => ("back", "▲"),
            SourceState::Waiting => ("waits", "◌"),
            SourceState::Blocked => ("bad", "✖"),
        };
        Mark { class, shape, word: state.word() }
    }
}

impl Display for Mark {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "<span class=\"s {}\"><i aria-hidden=\"true\">{}</i> {}</span>", self.class, self.shape, self.word)
    }
}

// Words of this program, and nothing else.
impl HtmlSafe for Mark {}

/// The pods of a workload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PodsPicture(pub Counters);

impl PodsPicture {
    /// Returns how many are new and available, new, old, and missing, scaled to the width.
    fn parts(&self) -> [i64; 4] {
        const ROOM: i64 = 12;
        let Counters { desired, total, updated, .. } = self.0;
        let done = new_and_available(&self.0);
        let parts = [done, updated - done, total - updated, desired - total].map(|part| part.max(0));
        let all: i64 = parts.iter().sum();
        // Every part that is not zero is visible.
        parts.map(|part| if all > ROOM { (part * ROOM + all - 1) / all } else { part })
    }
}

impl Display for PodsPicture {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Counters { total, updated, .. } = self.0;
        f.write_str("<span class=\"pods\" aria-hidden=\"true\">")?;
        for (shape, count) in ["●", "◐", "○", "·"].into_iter().zip(self.parts()) {
            (0..count).try_for_each(|_| f.write_str(shape))?;
        }
        write!(f, "</span> {}", self.numbers())?;
        match total - updated {
            old if old > 0 => write!(f, " <small>{updated} new, {old} old</small>"),
            _ => Ok(()),
        }
    }
}

// Numbers, and nothing else.
impl HtmlSafe for PodsPicture {}

impl PodsPicture {
    /// Returns the pods without the picture: `3/4`.
    pub(super) fn numbers(&self) -> String {
        format!("{}/{}", self.0.available, self.0.desired)
    }
}

/// The id of a commit, which leads to its page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Link(pub CommitId);

impl Display for Link {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "<a href=\"/commits/{}\"><code>{}</code></a>", self.0.as_str(), self.0.short())
    }
}

// Hexadecimal digits, and nothing else.
impl HtmlSafe for Link {}

/// The same in as few bytes as are clear.
pub(super) struct ShortLink<'a>(&'a CommitId);

/// The digits in the address of a short link: a commit of a repository of millions has them alone.
const DIGITS: usize = 12;

impl Link {
    pub(super) fn short(&self) -> ShortLink<'_> {
        ShortLink(&self.0)
    }
}

impl Display for ShortLink<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "<a href=\"/commits/{:.DIGITS$}\">{}</a>", self.0.as_str(), self.0.short())
    }
}

// Hexadecimal digits, and nothing else.
impl HtmlSafe for ShortLink<'_> {}

/// Returns an exact time, as `src/web/assets/script.js` knows it.
fn exact(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}

/// A time as people say it, with the exact one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct When {
    at: Timestamp,
    now: Timestamp,
    ahead: bool,
}

impl When {
    pub(super) fn ago(at: Timestamp, now: Timestamp) -> When {
        When { at, now, ahead: false }
    }

    pub(super) fn until(at: Timestamp, now: Timestamp) -> When {
        When { at, now, ahead: true }
    }
}

impl When {
    /// Returns the same without the exact time for readers.
    pub(super) fn short(&self) -> ShortWhen {
        ShortWhen(*self)
    }

    fn said(&self) -> String {
        match self.now.duration_since(self.at) {
            past if past.is_negative() && self.ahead => format!("in {}", Lasted(-past)),
            past if self.ahead || past.as_secs() < 1 => "now".to_owned(),
            past => format!("{} ago", Lasted(past)),
        }
    }
}

impl Display for When {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "<time datetime=\"{:.0}\" title=\"{}\">{}</time>", self.at, exact(self.at), self.said())
    }
}

// A time, and nothing else.
impl HtmlSafe for When {}

/// A time as people say it.
pub(super) struct ShortWhen(When);

impl Display for ShortWhen {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "<time datetime=\"{:.0}\">{}</time>", self.0.at, self.0.said())
    }
}

// A time, and nothing else.
impl HtmlSafe for ShortWhen {}

/// The sentence that Git and the cluster differ by a rollback since a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DiffersSince(pub Timestamp);

impl Display for DiffersSince {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let since = exact(self.0);
        write!(f, "<time datetime=\"{:.0}\">Git and the cluster differ, by rollback, since {since}</time>", self.0)
    }
}

// A time, and nothing else.
impl HtmlSafe for DiffersSince {}

/// A time of day as people write it, with the day where that is another: `18:51`, `Mon 24 Nov 18:51`; with the exact one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TimeOfDay {
    pub at: Timestamp,
    pub now: Timestamp,
}

impl Display for TimeOfDay {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let is_alike = |form: &str| self.at.strftime(form).to_string() == self.now.strftime(form).to_string();
        let form = match (is_alike("%Y-%m-%d"), is_alike("%Y")) {
            (true, _) => "%H:%M",
            (_, true) => "%a %-d %b %H:%M",
            _ => "%-d %b %Y %H:%M",
        };
        let (exact, said) = (exact(self.at), self.at.strftime(form));
        write!(f, "<time datetime=\"{:.0}\" title=\"{exact}\">{said}</time>", self.at)
    }
}

// A time, and nothing else.
impl HtmlSafe for TimeOfDay {}

/// A duration in units that fit: `45 s`, `12 min`, `3 h 5 min`, `2 days`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lasted(pub SignedDuration);

impl Display for Lasted {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs().max(0);
        match seconds {
            0..120 => write!(f, "{seconds} s"),
            120..600 if seconds % 60 != 0 => write!(f, "{} min {} s", seconds / 60, seconds % 60),
            120..10_800 => write!(f, "{} min", seconds / 60),
            10_800..172_800 if seconds / 60 % 60 != 0 => write!(f, "{} h {} min", seconds / 3600, seconds / 60 % 60),
            10_800..172_800 => write!(f, "{} h", seconds / 3600),
            _ => write!(f, "{} days", seconds / 86_400),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_are_drawn_as_they_are() {
        let pods = |desired, total, updated, available| {
            PodsPicture(Counters { desired, total, updated, available, ready: available }).to_string()
        };
        assert!(pods(4, 4, 4, 4).contains(">●●●●</span> 4/4"));
        assert!(pods(4, 5, 2, 4).contains(">●◐○○○</span> 4/4 <small>2 new, 3 old</small>"));
        assert!(pods(3, 3, 3, 1).contains(">●◐◐</span> 1/3"));
        assert!(pods(3, 1, 1, 1).contains(">●··</span> 1/3"));
        // The one that fails is seen among hundreds.
        assert!(pods(300, 301, 1, 300).contains(">◐○○○"), "{}", pods(300, 301, 1, 300));
        assert!(pods(0, 0, 0, 0).contains("></span> 0/0"));
    }

    #[test]
    fn times_are_told_with_the_exact_one() {
        let now: Timestamp = "2026-01-01T00:10:00Z".parse().unwrap();
        let at: Timestamp = "2026-01-01T00:07:00Z".parse().unwrap();
        let exact = "<time datetime=\"2026-01-01T00:07:00Z\" title=\"2026-01-01 00:07:00 UTC\">";
        assert_eq!(When::ago(at, now).to_string(), format!("{exact}3 min ago</time>"));
        assert_eq!(When::until(now, at).to_string().split('>').nth(1), Some("in 3 min</time"));
        assert!(When::until(at, now).to_string().contains(">now<"));
        for (now, said) in [
            ("2026-01-01T23:00:00Z", "00:07"),
            ("2026-03-01T00:00:00Z", "Thu 1 Jan 00:07"),
            ("2027-01-01T00:00:00Z", "1 Jan 2026 00:07"),
        ] {
            let clock = TimeOfDay { at, now: now.parse().unwrap() };
            assert_eq!(clock.to_string(), format!("{exact}{said}</time>"));
        }
    }

    #[test]
    fn durations_have_units_that_fit() {
        for (seconds, said) in [
            (-1, "0 s"),
            (8, "8 s"),
            (150, "2 min 30 s"),
            (900, "15 min"),
            (11_100, "3 h 5 min"),
            (14_400, "4 h"),
            (180_000, "2 days"),
        ] {
            assert_eq!(Lasted(SignedDuration::from_secs(seconds)).to_string(), said);
        }
    }
}
