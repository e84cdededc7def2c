//! The requests, the writes under way and the timers of every part of the kubelet.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::pod_name::Uid;
use super::requests::Requests;
use super::writes::Writes;
use crate::Clock;

/// An action that is due at a moment.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Moment {
    /// The nodes renew their leases.
    Heartbeat,
    /// Something happens to the pod with this uid, or a write of it is tried again.
    Pod(Uid),
    /// The pod with this uid is scheduled again.
    Binding(Uid),
}

/// Requests, writes under way, timers that are waited for.
pub struct Io {
    /// Makes requests.
    pub requests: Requests,
    /// Those under way.
    pub writes: Writes,
    /// The due actions, with their times.
    pub timers: TimerQueue,
    /// Tells the time.
    pub clock: Clock,
}

/// The due actions, in order; each is due at most once.
#[derive(Default)]
pub struct TimerQueue {
    order: BTreeSet<(Timestamp, Moment)>,
    of: BTreeMap<Moment, Timestamp>,
}

impl TimerQueue {
    /// Makes `what` due at `at`, and no longer at any other moment.
    pub fn set(&mut self, what: Moment, at: Timestamp) {
        if let Some(before) = self.of.insert(what.clone(), at) {
            self.order.remove(&(before, what.clone()));
        }
        self.order.insert((at, what));
    }

    /// Makes `what` not due at all.
    pub fn clear(&mut self, what: &Moment) {
        if let Some(before) = self.of.remove(what) {
            self.order.remove(&(before, what.clone()));
        }
    }

    /// Returns the next moment at which anything is due.
    pub fn next(&self) -> Option<Timestamp> {
        self.order.first().map(|(at, _)| *at)
    }

    /// Removes the earliest moment that is due by `now`, and returns it.
    pub fn pop(&mut self, now: Timestamp) -> Option<Moment> {
        if self.next()? > now {
            return None;
        }
        let (_, what) = self.order.pop_first()?;
        self.of.remove(&what);
        Some(what)
    }
}

/// Returns `by` after `at`; the end of time where that lies beyond it.
pub fn after(at: Timestamp, by: Duration) -> Timestamp {
    let by = SignedDuration::try_from(by).unwrap_or(SignedDuration::MAX);
    at.saturating_add(by).unwrap_or(Timestamp::MAX)
}

/// Returns a length of time as it passes where all goes `speed` times as fast.
pub fn scaled(length: Duration, speed: f64) -> Duration {
    // The usual speed needs no arithmetic, which would round.
    if (speed - 1.0).abs() < f64::EPSILON {
        return length;
    }
    Duration::try_from_secs_f64(length.as_secs_f64() / speed).unwrap_or(Duration::MAX)
}

/// Returns the pause after so many failures in a row: 200 ms, doubling to 10 s.
pub fn pause(failures: u32) -> Duration {
    Duration::from_millis(200 << failures.saturating_sub(1).min(6)).min(Duration::from_secs(10))
}
