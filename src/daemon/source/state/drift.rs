//! Live objects that may differ from the head: when each is checked, and the tries that were in vain.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

use super::disputes::Disputes;
use crate::backoff::Backoff;
use belay_core::manifest::ObjectKey;

/// The time for which changes of live objects gather before they are checked together.
pub const DEBOUNCE: Duration = Duration::from_millis(200);

/// The waits before something is tried again that was tried in vain.
const IN_VAIN: Backoff = Backoff::between(Duration::from_secs(5), Duration::from_mins(10));

/// Live objects that may not be as the head says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DriftState {
    /// Objects that may not be as they should be, and the times of their comparisons.
    pub recheck: BTreeMap<ObjectKey, Instant>,
    /// Objects that are compared again at these times, although nothing more can be done about them for now.
    pub later: BTreeMap<ObjectKey, Instant>,
    /// Live objects that are being compared with their manifests, as they were seen.
    pub comparing: BTreeMap<ObjectKey, u64>,
    /// The objects under check, with the digest seen before: `None` if it did not exist.
    pub under_check: BTreeMap<ObjectKey, Option<u64>>,
    /// Drift that is only reported, with the digest seen then: `None` if it did not exist.
    pub reported: BTreeMap<ObjectKey, Option<u64>>,
    /// The number of vain tries for an object since it was complete last.
    pub in_vain: BTreeMap<ObjectKey, u32>,
    /// The fields that somebody else keeps changing.
    pub disputes: Disputes,
    /// True while a check is under way.
    pub checking: bool,
    /// The objects of that check whose records have ended since: its results are of before.
    pub overtaken: BTreeSet<ObjectKey>,
}

impl DriftState {
    /// Puts an object on the list of those to be checked.
    pub fn recheck_after(&mut self, key: ObjectKey, after: Duration, now: Instant) {
        let at = now + after.max(DEBOUNCE);
        self.recheck.entry(key).and_modify(|known| *known = at.min(*known)).or_insert(at);
    }

    /// Notes that the record of an object has ended: the results of a check that is under way are of before.
    pub fn overtake(&mut self, key: &ObjectKey) {
        if self.checking && self.under_check.contains_key(key) {
            self.overtaken.insert(key.clone());
        }
    }

    /// Takes those off the list whose time has come.
    pub fn take_due(&mut self, now: Instant) -> Vec<ObjectKey> {
        let all = self.recheck.iter().chain(&self.later);
        let due: BTreeSet<ObjectKey> = all.filter(|(_, at)| **at <= now).map(|(key, _)| key.clone()).collect();
        self.recheck.retain(|_, at| *at > now);
        self.later.retain(|_, at| *at > now);
        due.into_iter().collect()
    }

    /// Returns the time of the next comparison.
    pub fn next_due(&self) -> Option<Instant> {
        self.recheck.values().chain(self.later.values()).min().copied()
    }

    /// Lists an object for a comparison after a failed attempt: the more attempts, the later.
    pub fn recheck_later(&mut self, key: &ObjectKey, now: Instant) {
        let again = self.again(key);
        self.recheck_after(key.clone(), again, now);
    }

    /// Counts that something was tried in vain of an object. Returns after how long it is tried again.
    pub fn again(&mut self, key: &ObjectKey) -> Duration {
        let times = self.in_vain.entry(key.clone()).or_default();
        *times = times.saturating_add(1);
        IN_VAIN.wait_number(*times - 1)
    }
}
