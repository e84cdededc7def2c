//! Records long-lasting trouble in the history, for notices: a blocked source, and a held commit.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::sync::watch;
use tracing::warn;

use super::status::{SourceStatus, Status};
use crate::clock::Clock;
use crate::history::{History, HistoryError, Lasting, LastingKind, NotedLasting};
use belay_core::rollout::CommitId;

/// The period between two checks.
const LOOK: Duration = Duration::from_secs(10);
/// The time after which a blocked source is reported.
const BLOCKED: SignedDuration = SignedDuration::from_mins(5);
/// The least time after which it is reported together with a source that has been blocked for longer: the sources of
/// one outage are not blocked at the same moment.
const BLOCKED_TOGETHER: SignedDuration = SignedDuration::from_mins(2);
/// The time after which a source that is no longer blocked is reported.
const UNBLOCKED: SignedDuration = SignedDuration::from_mins(1);
/// The time after which a hold is reported.
const HELD: SignedDuration = SignedDuration::from_hours(1);
/// The time after which it is reported again.
const HELD_AGAIN: SignedDuration = SignedDuration::from_hours(24);
/// The time after which it is reported again together with others.
const HELD_TOGETHER: SignedDuration = SignedDuration::from_hours(12);
/// The time after which a disagreement is reported again.
const DISAGREE_AGAIN: SignedDuration = SignedDuration::from_hours(24);

/// Notes lasting trouble, as long as the daemon publishes its status.
pub async fn note_lasting_trouble(status: watch::Receiver<Status>, history: History, clock: Clock) {
    let mut seen = BlockedSince::default();
    while status.has_changed().is_ok() {
        let now = clock.now();
        let holds = {
            let status = status.borrow();
            seen.look(&status, now);
            holds_of(&status)
        };
        if let Err(error) = seen.note(&holds, &history, now) {
            warn!(%error, "failed to note what lasts, trying again");
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// The times since which commits are held, by source and commit.
type Holds = BTreeMap<(String, CommitId), Timestamp>;

/// The times since which sources are blocked, or are known not to be.
#[derive(Debug, Default)]
struct BlockedSince {
    blocked: BTreeMap<String, (Timestamp, String)>,
    free: BTreeMap<String, Timestamp>,
    /// The times since which somebody else and belay disagree, by source and object, with the description.
    disputed: BTreeMap<(String, String), (Timestamp, String)>,
    /// True when no source was reported as blocked at the last lookup.
    nothing_told: bool,
}

impl BlockedSince {
    fn look(&mut self, status: &Status, now: Timestamp) {
        self.blocked.retain(|source, _| status.sources.contains_key(source));
        let said = |(source, of): (&String, &SourceStatus)| {
            let each = of.disagreements().map(|(object, message)| {
                let place = (source.clone(), object.to_string());
                // One that was there before a restart has been reported.
                let known = self.disputed.get(&place).map(|(since, _)| *since);
                let since = of.obstacles.disputed_since.get(object).copied().or(known).unwrap_or(now);
                (place, (since, message.to_owned()))
            });
            each.collect::<Vec<_>>()
        };
        let disputed = status.sources.iter().flat_map(said).collect();
        self.disputed = disputed;
        for (source, of) in &status.sources {
            match reason_of(of) {
                Some(reason) => {
                    self.free.remove(source);
                    let known = self.blocked.entry(source.clone()).or_insert_with(|| (now, String::new()));
                    reason.clone_into(&mut known.1);
                }
                None => {
                    self.blocked.remove(source);
                    // A source that has not been reached since the daemon began may still be blocked.
                    if of.looked.is_some() && of.planned.is_some() {
                        self.free.entry(source.clone()).or_insert(now);
                    }
                }
            }
        }
    }

    /// Notes the trouble that is to be reported now.
    fn note(&mut self, holds: &Holds, history: &History, now: Timestamp) -> Result<(), HistoryError> {
        if self.nothing_told && self.blocked.is_empty() && self.disputed.is_empty() && holds.is_empty() {
            return Ok(());
        }
        let noted = history.noted_lasting()?;
        self.nothing_told = noted.blocked.is_empty();
        let mut lasting = self.newly_blocked(&noted, now);
        lasting.extend(self.newly_free(&noted, now));
        lasting.extend(self.disagreements(&noted, now));
        lasting.extend(long_held(holds, &noted, now));
        if lasting.is_empty() { Ok(()) } else { history.note_lasting(&lasting, now) }
    }

    fn newly_blocked(&self, noted: &NotedLasting, now: Timestamp) -> Vec<Lasting> {
        let untold = || self.blocked.iter().filter(|(source, _)| !noted.blocked.contains_key(*source));
        let lasts = |since: Timestamp, time: SignedDuration| now.duration_since(since) >= time;
        if !untold().any(|(_, (since, _))| lasts(*since, BLOCKED)) {
            return Vec::new();
        }
        let together = untold().filter(|(_, (since, _))| lasts(*since, BLOCKED_TOGETHER));
        together
            .map(|(source, (since, reason))| Lasting {
                source: source.clone(),
                since: *since,
                what: LastingKind::Blocked(reason.clone()),
            })
            .collect()
    }

    /// Returns those that were not reported since they began, or not for a day.
    fn disagreements(&self, noted: &NotedLasting, now: Timestamp) -> Vec<Lasting> {
        let is_due = |place: &(String, String), since: Timestamp| {
            let told = noted.disagreements.get(place).filter(|told| **told >= since);
            told.is_none_or(|told| now.duration_since(*told) >= DISAGREE_AGAIN)
        };
        let due = self.disputed.iter().filter(|(place, (since, _))| is_due(place, *since));
        due.map(|((source, object), (since, message))| Lasting {
            source: source.clone(),
            since: *since,
            what: LastingKind::Disagreement(object.clone(), format!("{object}: {message}")),
        })
        .collect()
    }

    fn newly_free(&self, noted: &NotedLasting, now: Timestamp) -> Vec<Lasting> {
        let told = || self.free.iter().filter(|(source, _)| noted.blocked.contains_key(*source));
        if !told().any(|(_, since)| now.duration_since(*since) >= UNBLOCKED) {
            return Vec::new();
        }
        let free = |(source, since): (&String, &Timestamp)| Lasting {
            source: source.clone(),
            since: *since,
            what: LastingKind::Unblocked,
        };
        told().map(free).collect()
    }
}

/// Returns why a source is not followed. A source that another daemon follows, or that waits for another source, is not
/// blocked.
fn reason_of(source: &SourceStatus) -> Option<&str> {
    source.blocked_by().filter(|_| source.obstacles.waits.is_none())
}

fn holds_of(status: &Status) -> Holds {
    let mut holds = Holds::new();
    for (source, of) in &status.sources {
        for held in of.held.values() {
            let since = holds.entry((source.clone(), held.commit.clone())).or_insert(held.since);
            *since = held.since.min(*since);
        }
    }
    holds
}

fn long_held(holds: &Holds, noted: &NotedLasting, now: Timestamp) -> Vec<Lasting> {
    let due = |after: SignedDuration| {
        let untold = move |(hold, since): (&(String, CommitId), &Timestamp)| {
            // One that began after its last notice is another hold of the same commit.
            let told = noted.held.get(hold).filter(|told| **told >= *since);
            let (begin, time) = told.map_or((*since, HELD), |told| (*told, after));
            (now.duration_since(begin) >= time).then(|| Lasting {
                source: hold.0.clone(),
                since: *since,
                what: LastingKind::Held(hold.1.clone()),
            })
        };
        holds.iter().filter_map(untold).collect::<Vec<_>>()
    };
    if due(HELD_AGAIN).is_empty() { Vec::new() } else { due(HELD_TOGETHER) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::Obstacle;
    use belay_core::manifest::ObjectKey;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn commit(number: u64) -> CommitId {
        format!("{number:040x}").parse().unwrap()
    }

    /// Returns a source that is blocked, or followed.
    fn source(blocked: bool) -> SourceStatus {
        let mut source = SourceStatus { looked: Some(at(0)), planned: Some(commit(1)), ..SourceStatus::default() };
        if blocked {
            source.obstacles.trouble.insert(Obstacle::Repository, "no route to host".to_owned());
        }
        source
    }

    fn status(sources: &[(&str, SourceStatus)]) -> Status {
        Status { sources: sources.iter().map(|(name, of)| ((*name).to_owned(), of.clone())).collect() }
    }

    fn names(lasting: &[Lasting]) -> Vec<&str> {
        lasting.iter().map(|one| one.source.as_str()).collect()
    }

    #[test]
    fn what_one_outage_blocks_is_told_together() {
        let mut seen = BlockedSince::default();
        let nothing = NotedLasting::default();
        seen.look(&status(&[("a", source(true)), ("b", source(false)), ("c", source(false))]), at(0));
        seen.look(&status(&[("a", source(true)), ("b", source(true)), ("c", source(false))]), at(100));
        seen.look(&status(&[("a", source(true)), ("b", source(true)), ("c", source(true))]), at(290));
        assert_eq!(names(&seen.newly_blocked(&nothing, at(299))), Vec::<&str>::new());
        let told = seen.newly_blocked(&nothing, at(300));
        assert_eq!(names(&told), ["a", "b"], "c may be back in a moment");
        assert_eq!(told[0].what, LastingKind::Blocked("no route to host".to_owned()));
        let noted = NotedLasting { blocked: [("a".to_owned(), at(0)), ("b".to_owned(), at(100))].into(), ..nothing };
        assert_eq!(names(&seen.newly_blocked(&noted, at(500))), Vec::<&str>::new());
        assert_eq!(names(&seen.newly_blocked(&noted, at(590))), ["c"]);
        // One after the other is back: that is reported together, too, after a minute.
        seen.look(&status(&[("a", source(false)), ("b", source(true)), ("c", source(true))]), at(600));
        seen.look(&status(&[("a", source(false)), ("b", source(false)), ("c", source(true))]), at(630));
        assert_eq!(names(&seen.newly_free(&noted, at(659))), Vec::<&str>::new());
        assert_eq!(names(&seen.newly_free(&noted, at(660))), ["a", "b"]);
    }

    #[test]
    fn what_is_meant_or_not_known_yet_is_not_told() {
        let mut seen = BlockedSince::default();
        let mut waiting = source(true);
        waiting.obstacles.waits = Some("another daemon follows it".to_owned());
        waiting.obstacles.standby = true;
        seen.look(&status(&[("a", waiting), ("b", SourceStatus::default())]), at(0));
        let noted = NotedLasting { blocked: [("b".to_owned(), at(0))].into(), ..NotedLasting::default() };
        assert_eq!(names(&seen.newly_blocked(&NotedLasting::default(), at(9_000))), Vec::<&str>::new());
        assert_eq!(
            names(&seen.newly_free(&noted, at(9_000))),
            Vec::<&str>::new(),
            "it was not reached since the start"
        );
    }

    #[test]
    fn a_disagreement_is_told_when_it_begins_and_each_day() {
        let mut seen = BlockedSince::default();
        let [group, kind, namespace, name] = ["apps", "Deployment", "shop", "web"].map(str::to_owned);
        let web = ObjectKey { group, kind, namespace: Some(namespace), name };
        let look = |seen: &mut BlockedSince, message: Option<&str>, second: i64| {
            let mut of = SourceStatus::default();
            let told = message.map(|message| (Obstacle::Disagreement(web.clone()), message.to_owned()));
            of.obstacles.trouble.extend(told);
            seen.look(&status(&[("a", of)]), at(second));
        };
        let told = |seen: &BlockedSince, noted: Option<i64>, now: i64| {
            let place = ("a".to_owned(), "Deployment shop/web".to_owned());
            let disagreements = noted.map(|second| (place, at(second))).into_iter().collect();
            seen.disagreements(&NotedLasting { disagreements, ..NotedLasting::default() }, at(now)).len()
        };
        look(&mut seen, Some("x and belay disagree"), 10);
        look(&mut seen, Some("x and belay still disagree"), 20);
        assert_eq!([told(&seen, None, 20), told(&seen, Some(10), 20), told(&seen, Some(9), 20)], [1, 0, 1]);
        assert_eq!([told(&seen, Some(10), 86_409), told(&seen, Some(10), 86_410)], [0, 1]);
        look(&mut seen, None, 30);
        assert_eq!(told(&seen, None, 30), 0);
    }

    #[test]
    fn a_hold_is_told_after_an_hour_and_each_day() {
        let hold = |number: u64| ("shop".to_owned(), commit(number));
        let told = |noted: &[(u64, i64)], now: i64| -> usize {
            let holds = Holds::from([(hold(1), at(0)), (hold(2), at(50_000))]);
            let held = noted.iter().map(|(number, second)| (hold(*number), at(*second))).collect();
            long_held(&holds, &NotedLasting { held, ..NotedLasting::default() }, at(now)).len()
        };
        assert_eq!([told(&[], 3_599), told(&[], 3_600)], [0, 1]);
        assert_eq!(
            [told(&[(1, 3_600)], 53_599), told(&[(1, 3_600)], 53_600)],
            [0, 2],
            "with what was told half a day ago"
        );
        let both = [(1, 53_600), (2, 53_600)];
        assert_eq!([told(&both, 53_600 + 86_399), told(&both, 53_600 + 86_400)], [0, 2]);
        // The hold was released, and set again by the same commit since the notice.
        assert_eq!(told(&[(1, 53_600), (2, 40_000)], 53_600), 1);
    }
}
