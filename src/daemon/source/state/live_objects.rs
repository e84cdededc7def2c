//! The facts about each live object of the source.

use std::collections::BTreeMap;

use serde_json::Value;
use tokio::time::Instant;

use crate::daemon::shared::live::LiveFacts;
use belay_core::manifest::ObjectKey;
use belay_core::rollout::{Hold, Note, Workload, is_complete, is_pod, marks};

/// The live objects of the source.
#[derive(Debug, Default)]
pub struct LiveObjects(BTreeMap<ObjectKey, LiveFacts>);

/// The change of a live object since it was seen before.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LiveChange {
    /// True when somebody has taken its hold off.
    pub is_released: bool,
    /// True when somebody has asked to leave it alone, or to take it up again.
    pub is_suspension: bool,
    /// True when somebody has asked to take it up again.
    pub is_resumed: bool,
    /// True when it has become complete.
    pub is_completed: bool,
}

impl LiveObjects {
    /// Returns the facts about an object.
    pub fn get(&self, key: &ObjectKey) -> Option<&LiveFacts> {
        self.0.get(key)
    }

    /// Returns true for an object that is live.
    pub fn has(&self, key: &ObjectKey) -> bool {
        self.0.contains_key(key)
    }

    /// Returns all of them.
    pub fn iter(&self) -> impl Iterator<Item = (&ObjectKey, &LiveFacts)> {
        self.0.iter()
    }

    /// Returns the hold of an object.
    pub fn hold(&self, key: &ObjectKey) -> Option<&Hold> {
        self.0.get(key)?.hold.as_deref()
    }

    /// Keeps the necessary facts about an object. `released` is a hold that somebody has taken off it.
    pub fn note(
        &mut self,
        key: &ObjectKey,
        live: &Value,
        (hold, released): (Option<&Hold>, Option<Hold>),
        has_rollout: bool,
        now: Instant,
    ) -> LiveChange {
        // Nobody knows its health before the first observation.
        let faltered = (!has_rollout).then_some(now);
        let facts = self.0.entry(key.clone()).or_insert_with(|| LiveFacts { faltered, ..LiveFacts::default() });
        let suspended = marks::annotation(live, marks::SUSPEND).is_some();
        let was_suspended = std::mem::replace(&mut facts.suspended, suspended);
        let complete = (Workload::of(key).is_some() || is_pod(key)) && is_complete(key, live);
        let was_complete = std::mem::replace(&mut facts.complete, complete);
        if was_complete && !complete && !has_rollout {
            facts.faltered = Some(now);
        }
        if facts.suspended {
            // Its manifest may change meanwhile.
            facts.well = None;
        }
        let is_released = released.is_some();
        if is_released {
            facts.released = released.map(Box::new);
        }
        facts.hold = hold.cloned().map(Box::new);
        facts.note = Note::on(live).map(Box::new);
        LiveChange {
            is_released,
            is_suspension: was_suspended != suspended,
            is_resumed: was_suspended && !suspended,
            is_completed: complete && !was_complete,
        }
    }

    /// Notes the digest of an object, as it is seen. Returns the facts about it.
    pub fn see(&mut self, key: &ObjectKey, digest: u64) -> &LiveFacts {
        let facts = self.0.entry(key.clone()).or_default();
        facts.seen = Some(digest);
        facts
    }

    /// Notes that an object is as it should be, with this digest.
    pub fn note_in_sync(&mut self, key: &ObjectKey, digest: u64) {
        self.0.entry(key.clone()).or_default().well = Some(digest);
    }

    /// Forgets that an object is as it should be: its manifest has changed.
    pub fn forget_in_sync(&mut self, key: &ObjectKey) {
        if let Some(facts) = self.0.get_mut(key) {
            facts.well = None;
        }
    }

    /// Releases the objects that went back with an object whose hold somebody has removed by hand. Returns them.
    pub fn release_companions(&mut self, of: &ObjectKey) -> Vec<ObjectKey> {
        let went_with = |hold: &Hold| hold.with.iter().any(|companion| companion.object == *of);
        let mut released = Vec::new();
        for (key, facts) in &mut self.0 {
            if facts.hold.as_deref().is_some_and(went_with) {
                facts.released.clone_from(&facts.hold);
                released.push(key.clone());
            }
        }
        released
    }

    /// Forgets the hold that was taken off an object: its manifest is applied again.
    pub fn forget_released(&mut self, key: &ObjectKey) {
        if let Some(facts) = self.0.get_mut(key) {
            facts.released = None;
        }
    }

    /// Gives an object another name.
    pub fn rename(&mut self, before: &ObjectKey, now: &ObjectKey) {
        if let Some(facts) = self.0.remove(before) {
            self.0.insert(now.clone(), facts);
        }
    }

    /// Forgets an object that is gone.
    pub fn remove(&mut self, key: &ObjectKey) {
        self.0.remove(key);
    }

    /// Notes the time at which an object was restarted, as it says itself. Returns true if that is news.
    pub fn note_restart(&mut self, key: &ObjectKey, written: &str) -> bool {
        let known = &mut self.0.entry(key.clone()).or_default().restarted;
        let is_news = known.as_deref() != Some(written);
        if is_news {
            *known = Some(written.to_owned());
        }
        is_news
    }

    /// Notes the number of pods that an object asks for. Returns the number before, if it was another one.
    pub fn note_replicas(&mut self, key: &ObjectKey, replicas: i64) -> Option<i64> {
        let facts = self.0.entry(key.clone()).or_default();
        facts.replicas.replace(replicas).filter(|before| *before != replicas)
    }

    /// Notes that an autoscaler has changed the number of pods of a workload.
    pub fn note_scaled(&mut self, key: &ObjectKey, now: Instant) {
        self.0.entry(key.clone()).or_default().scaled = Some(now);
    }
}

#[cfg(test)]
impl FromIterator<(ObjectKey, LiveFacts)> for LiveObjects {
    fn from_iter<I: IntoIterator<Item = (ObjectKey, LiveFacts)>>(objects: I) -> LiveObjects {
        LiveObjects(objects.into_iter().collect())
    }
}
