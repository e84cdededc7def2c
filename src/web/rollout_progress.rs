//! The progress of rollouts: how many pods were new, old and available when, since this daemon was started.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use tokio::sync::watch;

use crate::clock::Clock;
use crate::daemon::Status;
use belay_core::manifest::ObjectKey;
use belay_core::rollout::{CommitId, Counters};

/// The number of workloads whose newest rollout is kept. The one that moved least lately goes first.
const WORKLOADS: usize = 500;
/// The number of moments of one.
const MOMENTS: usize = 300;

/// The pods of a workload at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProgressMoment {
    pub at: Timestamp,
    pub counters: Counters,
}

/// One rollout.
#[derive(Clone, Debug)]
struct Rollout {
    commit: CommitId,
    open: bool,
    moments: Vec<ProgressMoment>,
}

/// The newest rollout of each workload. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct RolloutProgress {
    /// The time since which the daemon's reports are noted.
    since: Timestamp,
    known: Arc<Mutex<BTreeMap<(String, ObjectKey), Rollout>>>,
}

/// Returns how many new pods are available, at least: a workload counts its available pods whatever their revision, and
/// old ones most often are.
pub(super) fn new_and_available(counters: &Counters) -> i64 {
    let old = (counters.total - counters.updated).max(0);
    (counters.available - old).clamp(0, counters.updated.max(0))
}

impl RolloutProgress {
    /// Returns a progress without notes yet.
    pub(super) fn new(since: Timestamp) -> RolloutProgress {
        RolloutProgress { since, known: Arc::default() }
    }

    /// Returns since when the daemon's reports are noted, if a rollout that began at `began` is older: its beginning is
    /// not in its picture.
    pub(super) fn noted_since(&self, began: Timestamp) -> Option<Timestamp> {
        (began < self.since).then_some(self.since)
    }

    /// Goes on noting the daemon's status until it ends, or nobody listens any more.
    pub(super) async fn follow(self, mut status: watch::Receiver<Status>, clock: Clock) {
        loop {
            self.note(&status.borrow_and_update(), clock.now());
            if status.changed().await.is_err() {
                return;
            }
        }
    }

    /// Returns the commit of the newest rollout of a workload, and its moments.
    pub(super) fn of(&self, source: &str, key: &ObjectKey) -> Option<(CommitId, Vec<ProgressMoment>)> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&(source.to_owned(), key.clone())).map(|rollout| (rollout.commit.clone(), rollout.moments.clone()))
    }

    fn note(&self, status: &Status, at: Timestamp) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        for (source, of) in &status.sources {
            for (key, way) in &of.under_way {
                let Some(live) = of.workloads.get(key) else { continue };
                let rollout = known.entry((source.clone(), key.clone())).or_insert_with(|| Rollout {
                    commit: way.commit.clone(),
                    open: true,
                    moments: Vec::new(),
                });
                if rollout.commit != way.commit || !rollout.open {
                    *rollout = Rollout { commit: way.commit.clone(), open: true, moments: Vec::new() };
                }
                rollout.note(at, live.counters);
            }
        }
        for ((source, key), rollout) in known.iter_mut().filter(|(_, rollout)| rollout.open) {
            let of = status.sources.get(source);
            if of.is_none_or(|of| !of.under_way.contains_key(key)) {
                let last = of.and_then(|of| of.workloads.get(key));
                last.into_iter().for_each(|live| rollout.note(at, live.counters));
                rollout.open = false;
            }
        }
        while known.len() > WORKLOADS {
            let last = |rollout: &Rollout| rollout.moments.last().map(|moment| moment.at);
            let oldest = known.iter().min_by_key(|(_, rollout)| (rollout.open, last(rollout)));
            let Some(oldest) = oldest.map(|(key, _)| key.clone()) else { return };
            known.remove(&oldest);
        }
    }
}

impl Rollout {
    fn note(&mut self, at: Timestamp, counters: Counters) {
        if self.moments.last().is_some_and(|last| last.counters == counters) {
            return;
        }
        self.moments.push(ProgressMoment { at, counters });
        if self.moments.len() > MOMENTS {
            // Every second one of the older half: the beginning stays, and the end is kept in full.
            let half = MOMENTS / 2;
            let mut index = 0;
            self.moments.retain(|_| {
                index += 1;
                index > half || index % 2 == 1
            });
        }
    }
}

const WIDTH: i64 = 600;
const HEIGHT: i64 = 160;
/// The margins, for labels.
const LEFT: i64 = 30;
const BELOW: i64 = 20;

/// A layer's class, and how high it is.
type Layer = (&'static str, fn(&Counters) -> i64);

/// Returns the progress as a picture: areas of new and available, new, and old pods above each other. Numbers and
/// nothing else.
pub(super) fn picture(moments: &[ProgressMoment], now: Option<Timestamp>, until: Option<Timestamp>) -> String {
    let (Some(first), Some(last)) = (moments.first(), moments.last()) else { return String::new() };
    // While it goes on, the last state still holds.
    let seen = now.map_or(last.at, |now| now.max(last.at));
    let end = until.map_or(seen, |until| until.max(seen)).as_second().max(first.at.as_second() + 1);
    let most = moments.iter().map(|moment| moment.counters.total.max(moment.counters.desired)).max();
    let most = most.unwrap_or_default().max(1);
    let x = |at: Timestamp| LEFT + (at.as_second() - first.at.as_second()) * WIDTH / (end - first.at.as_second());
    let y = |pods: i64| HEIGHT - pods.clamp(0, most) * (HEIGHT - 10) / most;
    let Counters { desired, total, updated, available, .. } = last.counters;
    let mut svg = format!(
        "<svg class=\"progress\" viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{updated} new and {} old pods of {desired}, \
         {available} available, after {} seconds\">",
        LEFT + WIDTH + 10,
        HEIGHT + BELOW,
        (total - updated).max(0),
        seen.as_second() - first.at.as_second(),
    );
    let layers: [Layer; 3] =
        [("old", |counters| counters.total), ("new", |counters| counters.updated), ("ready", new_and_available)];
    // Writing to a String can't fail.
    for (class, height) in layers {
        let _ = write!(svg, "<path class=\"{class}\" d=\"M{} {HEIGHT}", x(first.at));
        for (index, moment) in moments.iter().enumerate() {
            let next = moments.get(index + 1).map_or(seen, |next| next.at);
            let _ = write!(svg, "V{}H{}", y(height(&moment.counters)), x(next));
        }
        let _ = write!(svg, "V{HEIGHT}Z\"/>");
    }
    let _ = write!(svg, "<path class=\"axis\" d=\"M{LEFT} 5V{HEIGHT}H{}\"/>", LEFT + WIDTH);
    let _ = write!(svg, "<text x=\"{}\" y=\"15\" text-anchor=\"end\">{most}</text>", LEFT - 4);
    let _ = write!(svg, "<text x=\"{LEFT}\" y=\"{}\">0 s</text>", HEIGHT + 15);
    let seconds = end - first.at.as_second();
    let _ = write!(svg, "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{seconds} s</text>", LEFT + WIDTH, HEIGHT + 15);
    if let Some(until) = until {
        let _ = write!(svg, "<path class=\"deadline\" d=\"M{} 5V{HEIGHT}\"/>", x(until));
    }
    svg.push_str("</svg>");
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(second: i64, total: i64, updated: i64, available: i64) -> ProgressMoment {
        let counters = Counters { desired: 2, total, updated, available, ready: available };
        ProgressMoment { at: Timestamp::from_second(second).unwrap(), counters }
    }

    #[test]
    fn a_rollout_is_drawn_until_its_deadline() {
        let svg = picture(&[moment(0, 2, 0, 2), moment(50, 3, 1, 2), moment(100, 2, 2, 2)], None, None);
        assert!(svg.contains("2 new and 0 old pods of 2, 2 available, after 100 seconds"), "{svg}");
        assert!(svg.contains("class=\"ready\" d=\"M30 160V160H330V160H630V60H630V160Z\""), "{svg}");
        assert!(!svg.contains("deadline"));
        let at = |second| Some(Timestamp::from_second(second).unwrap());
        let until = picture(&[moment(0, 2, 0, 2), moment(50, 3, 1, 2)], at(75), at(100));
        assert!(until.contains("class=\"old\" d=\"M30 160V60H330V10H480V160Z\""), "{until}");
        assert!(until.contains("class=\"deadline\" d=\"M630 5V160\""), "{until}");
    }

    #[test]
    fn however_long_it_lasts_it_stays_small() {
        let mut rollout = Rollout {
            commit: "1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d".parse().unwrap(),
            open: true,
            moments: Vec::new(),
        };
        for second in 0..10_000 {
            rollout.note(Timestamp::from_second(second).unwrap(), moment(0, 5, second % 5, 1).counters);
        }
        assert!(rollout.moments.len() <= MOMENTS);
        assert_eq!(rollout.moments[0].at, Timestamp::UNIX_EPOCH);
        assert_eq!(rollout.moments.last().unwrap().at.as_second(), 9_999);
    }
}
