//! The holds of a source as they were known last, in the history and, for who decides by them, in memory. A hold lasts
//! even when the cluster has lost it, and after a restart.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use tracing::warn;

use crate::history::History;
use belay_core::manifest::ObjectKey;
use belay_core::rollout::rollback::KeptHold;
use belay_core::rollout::{Hold, template};

/// The holds of one source.
pub struct KeptHolds {
    history: History,
    source: String,
    /// The holds that somebody has taken off, until that is heard.
    released: Mutex<BTreeMap<ObjectKey, Hold>>,
    /// As many as there are held objects.
    by_object: Mutex<BTreeMap<ObjectKey, KeptHold>>,
    /// The objects whose hold, or the end of it, could not be written down yet.
    unwritten: Mutex<BTreeSet<ObjectKey>>,
}

impl KeptHolds {
    /// Loads the holds that the history knows.
    pub fn load(history: &History, source: &str) -> KeptHolds {
        let known = history.kept_holds(source).unwrap_or_else(|error| {
            warn!(source, %error, "failed to ask the history what is held");
            Vec::new()
        });
        let by_object = Mutex::new(known.into_iter().collect());
        KeptHolds {
            history: history.clone(),
            source: source.to_owned(),
            released: Mutex::default(),
            by_object,
            unwritten: Mutex::default(),
        }
    }

    /// Returns the hold on an object, as it was known last.
    pub fn of(&self, key: &ObjectKey) -> Option<KeptHold> {
        lock(&self.by_object).get(key).cloned()
    }

    /// Keeps a hold.
    pub fn keep(&self, key: &ObjectKey, kept: KeptHold) {
        lock(&self.released).remove(key);
        let kept = kept.after(self.of(key).as_ref());
        if self.of(key).as_ref() == Some(&kept) {
            return;
        }
        lock(&self.by_object).insert(key.clone(), kept);
        self.write(key);
    }

    /// Returns the hold that somebody has taken off a live object, whatever else was changed with it: its template is still
    /// the one that the hold was about.
    pub fn released_on(&self, key: &ObjectKey, live: &Value) -> Option<Hold> {
        self.saw(key, live);
        let released = lock(&self.released).get(key).cloned()?;
        let is_there = released.template.is_empty() || template(live).is_some_and(|present| released.is_about(present));
        is_there.then_some(released)
    }

    /// Returns true when somebody has taken the hold off an object. One that the cluster lost is written again.
    pub fn is_released(&self, key: &ObjectKey, live: &Value) -> bool {
        Hold::on(live).is_none() && !self.is_lost(key, live)
    }

    /// Returns true when the cluster has lost the hold on an object.
    pub fn is_lost(&self, key: &ObjectKey, live: &Value) -> bool {
        self.of(key).is_some_and(|kept| kept.is_lost_on(live))
    }

    /// Forgets a hold that was released.
    pub fn forget(&self, key: &ObjectKey) {
        lock(&self.released).remove(key);
        if lock(&self.by_object).remove(key).is_none() {
            return;
        }
        self.write(key);
    }

    /// Writes those that could not be written before.
    pub fn write_unwritten(&self) {
        let unwritten = std::mem::take(&mut *lock(&self.unwritten));
        unwritten.iter().for_each(|key| self.write(key));
    }

    /// Writes the hold on an object as it is known, or that there is none.
    fn write(&self, key: &ObjectKey) {
        let written = match self.of(key) {
            Some(kept) => self.history.keep_hold(&self.source, key, &kept),
            None => self.history.forget_hold(&self.source, key),
        };
        if let Err(error) = written {
            warn!(object = %key, %error, "failed to write down a hold, trying again");
            lock(&self.unwritten).insert(key.clone());
        }
    }

    /// Hears how a live object is.
    pub fn saw(&self, key: &ObjectKey, live: &Value) {
        match KeptHold::on(live) {
            // The store of the cluster was set back to an older hold.
            Some(_) if self.is_lost(key, live) => {}
            Some(kept) => self.keep(key, kept),
            None => {
                if let Some(kept) = self.of(key).filter(|kept| !kept.is_lost_on(live)) {
                    self.forget(key);
                    lock(&self.released).insert(key.clone(), kept.hold);
                }
            }
        }
    }

    /// Writes all of them into a history that was begun again.
    pub fn write_again(&self) {
        let all: Vec<ObjectKey> = lock(&self.by_object).keys().cloned().collect();
        all.iter().for_each(|key| self.write(key));
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
