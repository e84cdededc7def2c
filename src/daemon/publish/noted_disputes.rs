//! The disagreements of a source, noted in the history: their beginning, count and back-off outlive a restart.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tracing::warn;

use super::dispute::Dispute;
use crate::history::{History, NotedDispute};
use belay_core::manifest::ObjectKey;

/// The disagreements of one source, as they are noted.
pub struct NotedDisputes {
    history: History,
    source: String,
    noted: Mutex<BTreeMap<ObjectKey, NotedDispute>>,
}

impl NotedDisputes {
    /// Loads the disagreements that the history knows.
    pub fn load(history: &History, source: &str) -> NotedDisputes {
        let known = history.noted_disputes(source).unwrap_or_else(|error| {
            warn!(source, %error, "failed to ask the history what is disputed");
            Vec::new()
        });
        let noted = Mutex::new(known.into_iter().collect());
        NotedDisputes { history: history.clone(), source: source.to_owned(), noted }
    }

    /// Notes the disagreement about an object if it was corrected since the last note, or that there is none any more.
    pub fn note(&self, key: &ObjectKey, dispute: Option<&Dispute>, now: Timestamp) {
        let before = self.lock().get(key).cloned();
        let written = match (dispute, before) {
            (Some(dispute), Some(before)) if dispute.times == before.times => return,
            (Some(dispute), before) => {
                let gap = before.map(|before| time_between(before.last, now)).unwrap_or_default();
                let lasted = SignedDuration::try_from(dispute.lasted).unwrap_or_default();
                let first = now.checked_sub(lasted).unwrap_or(now);
                let noted =
                    NotedDispute { fields: dispute.fields.clone(), times: dispute.times, first, last: now, gap };
                let written = self.history.note_dispute(&self.source, key, &noted);
                // If that fails, the next correction is noted.
                if written.is_ok() {
                    self.lock().insert(key.clone(), noted);
                }
                written
            }
            (None, Some(_)) => {
                let written = self.history.forget_dispute(&self.source, key);
                if written.is_ok() {
                    self.lock().remove(key);
                }
                written
            }
            (None, None) => return,
        };
        if let Err(error) = written {
            warn!(object = %key, %error, "failed to note a disagreement");
        }
    }

    /// Returns all of them.
    pub fn all(&self) -> BTreeMap<ObjectKey, NotedDispute> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, NotedDispute>> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the time from one moment to a later one; nothing where the clock was set back in between.
pub fn time_between(earlier: Timestamp, later: Timestamp) -> Duration {
    Duration::try_from(later.duration_since(earlier)).unwrap_or_default()
}
