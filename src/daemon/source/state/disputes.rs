//! Objects about which somebody else and belay disagree: how often each field was corrected lately, and when the next
//! correction is due. A correction that succeeds resets nothing: only time does.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use crate::daemon::publish::dispute::{AT_ONCE, Dispute, PastCorrections, WAITS};
use crate::history::NotedDispute;
use belay_core::manifest::ObjectKey;
use belay_core::rollout::ForeignField;

/// The time for which a correction counts.
const COUNTS_FOR: Duration = Duration::from_hours(1);
/// The least time that an object stays as in Git before the disagreement is over.
const QUIET: Duration = Duration::from_mins(1);
/// The most fields that are remembered of one object.
const FIELDS: usize = 50;

/// The fields of live objects that somebody else keeps changing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Disputes {
    objects: BTreeMap<ObjectKey, BTreeMap<ForeignField, Corrections>>,
}

/// The corrections of one field.
#[derive(Clone, Debug, PartialEq)]
struct Corrections {
    times: u32,
    first: Instant,
    last: Instant,
    /// The time between the last two.
    gap: Duration,
}

impl Corrections {
    fn wait(&self) -> Option<Duration> {
        (self.times >= AT_ONCE).then(|| WAITS.wait_number(self.times - AT_ONCE))
    }

    fn counts(&self, now: Instant) -> bool {
        now < self.last + COUNTS_FOR
    }

    /// Returns when the disagreement is over, unless there is another correction.
    fn quiet_at(&self) -> Option<Instant> {
        let wait = self.wait()?;
        Some(self.last + QUIET.max(2 * self.gap).max(2 * wait))
    }
}

impl Disputes {
    /// Returns when these fields of an object may be corrected; `None` if that is now.
    pub fn next(&self, key: &ObjectKey, fields: &[ForeignField], now: Instant) -> Option<Instant> {
        let known = self.objects.get(key)?;
        let next = |field: &ForeignField| {
            let corrections = known.get(field).filter(|corrections| corrections.counts(now))?;
            Some(corrections.last + corrections.wait()?)
        };
        // If one of them is new, all are corrected: an apply is about the whole object.
        let all: Option<Vec<Instant>> = fields.iter().map(next).collect();
        all?.into_iter().min().filter(|at| *at > now)
    }

    /// Counts that these fields of an object are corrected.
    pub fn count(&mut self, key: &ObjectKey, fields: &[ForeignField], now: Instant) {
        self.forget(now);
        let known = self.objects.entry(key.clone()).or_default();
        for field in fields {
            if let Some(corrections) = known.get_mut(field) {
                corrections.gap = now - corrections.last;
                corrections.last = now;
                corrections.times = corrections.times.saturating_add(1);
            } else if known.len() < FIELDS {
                let begun = Corrections { times: 1, first: now, last: now, gap: Duration::ZERO };
                known.insert(field.clone(), begun);
            }
        }
    }

    /// Counts the last correction of these fields no more: it was not made.
    pub fn take_back(&mut self, key: &ObjectKey, fields: &[ForeignField]) {
        let Some(known) = self.objects.get_mut(key) else { return };
        for field in fields {
            if let Some(corrections) = known.get_mut(field) {
                corrections.times = corrections.times.saturating_sub(1);
            }
        }
        known.retain(|_, corrections| corrections.times > 0);
        self.objects.retain(|_, fields| !fields.is_empty());
    }

    /// Counts so many corrections of a rollout, from a time on.
    pub fn count_many(&mut self, key: &ObjectKey, dispute: &Dispute, now: Instant) {
        self.count(key, &dispute.fields, now);
        let known = self.objects.entry(key.clone()).or_default();
        for field in &dispute.fields {
            if let Some(corrections) = known.get_mut(field) {
                corrections.times = corrections.times.saturating_add(dispute.times.saturating_sub(1));
                corrections.first = corrections.first.min(now.checked_sub(dispute.lasted).unwrap_or(now));
            }
        }
    }

    /// Takes up a disagreement from before the daemon stopped; `then` returns when something was.
    pub fn resume(&mut self, key: &ObjectKey, noted: &NotedDispute, then: impl Fn(Timestamp) -> Instant) {
        let NotedDispute { fields, times, first, last, gap } = noted;
        let corrections = Corrections { times: *times, first: then(*first), last: then(*last), gap: *gap };
        let fields = fields.iter().take(FIELDS).map(|field| (field.clone(), corrections.clone()));
        self.objects.insert(key.clone(), fields.collect());
    }

    /// Returns the corrections of an object until now: a rollout that others disturb goes on from them.
    pub fn past(&self, key: &ObjectKey, now: Instant) -> Option<PastCorrections> {
        let is_recent = |one: &&Corrections| now < one.quiet_at().unwrap_or(one.last + QUIET);
        let most = self.objects.get(key)?.values().filter(is_recent).max_by_key(|one| one.times)?;
        Some(PastCorrections { times: most.times, first: most.first })
    }

    /// Returns the disagreement about an object, if there is one.
    pub fn about(&self, key: &ObjectKey, now: Instant) -> Option<Dispute> {
        let known = self.objects.get(key)?;
        let lasts = |corrections: &Corrections| corrections.quiet_at().is_some_and(|at| now < at);
        let disputed: Vec<_> = known.iter().filter(|(_, corrections)| lasts(corrections)).collect();
        let first = disputed.iter().map(|(_, corrections)| corrections.first).min()?;
        Some(Dispute {
            fields: disputed.iter().map(|(field, _)| (*field).clone()).collect(),
            times: disputed.iter().map(|(_, corrections)| corrections.times).max().unwrap_or_default(),
            lasted: now - first,
            wait: disputed.iter().filter_map(|(_, corrections)| corrections.wait()).max().unwrap_or_default(),
        })
    }

    /// Returns when the disagreement about an object is over, if nobody changes it any more.
    pub fn quiet_at(&self, key: &ObjectKey) -> Option<Instant> {
        self.objects.get(key)?.values().filter_map(Corrections::quiet_at).max()
    }

    /// Forgets corrections that were long ago.
    fn forget(&mut self, now: Instant) {
        for fields in self.objects.values_mut() {
            fields.retain(|_, corrections| corrections.counts(now));
        }
        self.objects.retain(|_, fields| !fields.is_empty());
    }
}
