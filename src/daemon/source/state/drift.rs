//! Live objects that may differ from the head: when each is checked, and the tries that were in vain.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

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
    recheck: BTreeMap<ObjectKey, Instant>,
    /// Objects that are compared again at these times, although nothing more can be done about them for now.
    later: BTreeMap<ObjectKey, Instant>,
    /// Live objects that are being compared with their manifests, as they were seen.
    comparing: BTreeMap<ObjectKey, u64>,
    /// The objects under check, with the digest seen before: `None` if it did not exist.
    under_check: BTreeMap<ObjectKey, Option<u64>>,
    /// Drift that is only reported, with the digest seen then: `None` if it did not exist.
    reported: BTreeMap<ObjectKey, Option<u64>>,
    /// The number of vain tries for an object since it was complete last.
    in_vain: BTreeMap<ObjectKey, u32>,
    /// True while a check is under way.
    checking: bool,
    /// The objects of that check whose records have ended since: its results are of before.
    overtaken: BTreeSet<ObjectKey>,
}

impl DriftState {
    /// Puts an object on the list of those to be checked.
    pub fn recheck_after(&mut self, key: ObjectKey, after: Duration, now: Instant) {
        let at = now + after.max(DEBOUNCE);
        self.recheck.entry(key).and_modify(|known| *known = at.min(*known)).or_insert(at);
    }

    /// Checks an object then, and not before.
    pub fn recheck_at(&mut self, key: ObjectKey, at: Instant) {
        self.recheck.insert(key, at);
    }

    /// Checks an object then once more, although nothing more can be done about it for now.
    pub fn check_once_more(&mut self, key: ObjectKey, at: Instant) {
        self.later.insert(key, at);
    }

    /// Checks an object no more that was to be checked once more.
    pub fn forget_check(&mut self, key: &ObjectKey) {
        self.later.remove(key);
    }

    /// Begins a check of objects, each with the digest that was seen last; `is_asked` is false when no question about them is
    /// left.
    pub fn begin_check(&mut self, objects: BTreeMap<ObjectKey, Option<u64>>, is_asked: bool) {
        self.under_check = objects;
        self.overtaken.clear();
        self.checking = is_asked;
    }

    /// Ends the check. Returns the objects whose records have ended meanwhile.
    pub fn end_check(&mut self) -> BTreeSet<ObjectKey> {
        self.checking = false;
        std::mem::take(&mut self.overtaken)
    }

    /// Returns true while a check is under way.
    pub fn is_checking(&self) -> bool {
        self.checking
    }

    /// Notes that the record of an object has ended: the results of a check that is under way are of before.
    pub fn overtake(&mut self, key: &ObjectKey) {
        if self.checking && self.under_check.contains_key(key) {
            self.overtaken.insert(key.clone());
        }
    }

    /// Begins to compare a live object with its manifest. Returns false if just this is compared already.
    pub fn begin_comparison(&mut self, key: &ObjectKey, digest: u64) -> bool {
        self.comparing.insert(key.clone(), digest) != Some(digest)
    }

    /// Ends a comparison. Returns false if its result is discarded: the object was seen otherwise since.
    pub fn end_comparison(&mut self, key: &ObjectKey, digest: u64) -> bool {
        let counts = self.comparing.get(key) == Some(&digest);
        if counts {
            self.comparing.remove(key);
        }
        counts
    }

    /// Takes no result of the comparison of an object.
    pub fn forget_comparison(&mut self, key: &ObjectKey) {
        self.comparing.remove(key);
    }

    /// Returns the number of comparisons under way.
    pub fn comparisons(&self) -> usize {
        self.comparing.len()
    }

    /// Returns true when nothing is checked or compared.
    pub fn is_idle(&self) -> bool {
        !self.checking && self.comparing.is_empty()
    }

    /// Takes no result of the check and the comparisons that are under way.
    pub fn break_off(&mut self) {
        self.checking = false;
        self.comparing.clear();
    }

    /// Takes those off the list whose time has come.
    pub fn take_due(&mut self, now: Instant) -> Vec<ObjectKey> {
        let all = self.recheck.iter().chain(&self.later);
        let due: BTreeSet<ObjectKey> = all.filter(|(_, at)| **at <= now).map(|(key, _)| key.clone()).collect();
        self.recheck.retain(|_, at| *at > now);
        self.later.retain(|_, at| *at > now);
        due.into_iter().collect()
    }

    /// Returns true when an object may not be as it should be, and is to be checked.
    pub fn has_rechecks(&self) -> bool {
        !self.recheck.is_empty()
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

    /// Forgets what was tried in vain of an object, which is complete.
    pub fn succeeded(&mut self, key: &ObjectKey) {
        self.in_vain.remove(key);
    }

    /// Notes that the drift of an object under check is only reported.
    pub fn report(&mut self, key: &ObjectKey) {
        let seen = self.under_check.remove(key).flatten();
        self.reported.insert(key.clone(), seen);
    }

    /// Returns true for drift that was reported and is as it was then; `seen` is `None` for an object that does not exist.
    pub fn is_reported(&self, key: &ObjectKey, seen: Option<u64>) -> bool {
        self.reported.get(key) == Some(&seen)
    }

    /// Forgets that the drift of an object was reported.
    pub fn forget_report(&mut self, key: &ObjectKey) {
        self.reported.remove(key);
    }

    /// Notes that an object is as it should be.
    pub fn in_sync(&mut self, key: &ObjectKey) {
        self.recheck.remove(key);
        self.reported.remove(key);
    }

    /// Returns the drift that was reported, with the digest seen then.
    #[cfg(test)]
    pub fn all_reported(&self) -> &BTreeMap<ObjectKey, Option<u64>> {
        &self.reported
    }

    /// Returns true when something was tried in vain of an object since it was complete last.
    #[cfg(test)]
    pub fn has_tried_in_vain(&self) -> bool {
        !self.in_vain.is_empty()
    }

    /// Returns the times of the comparisons that are to come.
    #[cfg(test)]
    pub fn to_come(&self) -> impl Iterator<Item = (&ObjectKey, &Instant)> {
        self.recheck.iter().chain(&self.later)
    }
}
