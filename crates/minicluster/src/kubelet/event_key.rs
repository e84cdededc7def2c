//! The keys by which equal events are known.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use super::simulated_pod::ReportedState;

/// The key of an event, equal for equal ones: a hash of its text, which is much longer and is not needed again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventKey(u64);

impl EventKey {
    /// Returns the key of an event.
    pub fn of(told: &ReportedState) -> EventKey {
        // Without random keys, so that the same run gives the same.
        let mut hasher = DefaultHasher::new();
        (&told.field, &told.reason, &told.message).hash(&mut hasher);
        EventKey(hasher.finish())
    }
}
