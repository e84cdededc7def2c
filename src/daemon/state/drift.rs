//! Live objects that may not be as the head says: when each is looked into, and how often it was put right.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::backoff::Backoff;
use belay_core::manifest::ObjectKey;

/// How long changes of live objects gather before they are checked together.
pub const DEBOUNCE: Duration = Duration::from_millis(200);

/// The waits before an object is put right again that was put right before.
const CORRECTED: Backoff = Backoff::between(Duration::from_secs(5), Duration::from_mins(10));

/// Live objects that may not be as the head says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DriftState {
    /// Objects that may not be as they should be, and when that is looked into.
    pub recheck: BTreeMap<ObjectKey, Instant>,
    /// Live objects that are being compared with their manifests, as they were seen.
    pub comparing: BTreeMap<ObjectKey, u64>,
    /// What is being looked into, as it was seen before: `None` where it was not there.
    pub under_check: BTreeMap<ObjectKey, Option<u64>>,
    /// What has drifted and is only reported, as it was seen then: `None` where it was not there.
    pub reported: BTreeMap<ObjectKey, Option<u64>>,
    /// How often an object was put right lately, so that two who disagree do not fight at full speed.
    pub corrected: BTreeMap<ObjectKey, u32>,
    /// Whether a check is under way.
    pub checking: bool,
}

impl DriftState {
    /// Puts an object on the list of those to be checked.
    pub fn recheck_after(&mut self, key: ObjectKey, after: Duration, now: Instant) {
        let at = now + after.max(DEBOUNCE);
        self.recheck.entry(key).and_modify(|known| *known = at.min(*known)).or_insert(at);
    }

    /// Takes those off the list whose time has come.
    pub fn take_due(&mut self, now: Instant) -> Vec<ObjectKey> {
        let due: Vec<ObjectKey> =
            self.recheck.iter().filter(|(_, at)| **at <= now).map(|(key, _)| key.clone()).collect();
        self.recheck.retain(|_, at| *at > now);
        due
    }

    /// Puts an object on the list that was put right: it is looked into the later the more often it was.
    pub fn recheck_later(&mut self, key: &ObjectKey, now: Instant) {
        let again = self.again(key);
        self.recheck_after(key.clone(), again, now);
    }

    /// After how long an object is looked at again: the longer the more often it was.
    pub fn again(&mut self, key: &ObjectKey) -> Duration {
        CORRECTED.wait_number(self.count(key) - 1)
    }

    /// Counts that an object was put right; how often it was.
    pub fn count(&mut self, key: &ObjectKey) -> u32 {
        let times = self.corrected.entry(key.clone()).or_default();
        *times = times.saturating_add(1);
        *times
    }
}
