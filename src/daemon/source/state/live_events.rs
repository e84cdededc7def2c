//! Live objects as the watches report them: the facts that stay, and their changes.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::drift::DEBOUNCE;
use super::drift_events::quiet;
use super::event::Effect;
use super::known::State;
use super::live_objects::LiveChange;
use belay_core::manifest::ObjectKey;
use belay_core::rollout::Hold;
use belay_core::rollout::health::Standing;

/// Takes the trouble that was found with the pods of workloads.
pub fn pods_inspected(state: &mut State, found: Vec<(ObjectKey, Option<String>)>) -> Vec<Effect> {
    found.into_iter().for_each(|(key, wrong)| state.unhealthy.found(&key, wrong));
    Vec::new()
}

/// Takes the news that an object is seen. If it is the first of a new object that the repository does not mention, it has
/// left the repository, or somebody marked it as if it had.
pub fn seen(state: &mut State, key: &ObjectKey, now: Instant) -> Vec<Effect> {
    if state.settings.prune && !state.live.has(key) && !state.desired.mentions(key) {
        state.prune_search.search_by(now + DEBOUNCE);
    }
    Vec::new()
}

/// Searches for objects that have left the repository: a replaced revision may be gone that named one.
pub fn changed(state: &mut State, key: &ObjectKey, change: LiveChange, now: Instant) -> Vec<Effect> {
    let is_resumed = change.is_resumed && !state.desired.mentions(key);
    if state.settings.prune && (change.is_completed || is_resumed) {
        state.prune_search.search_at(now + DEBOUNCE);
    }
    Vec::new()
}

/// Releases the objects that went back with an object whose hold somebody has removed by hand.
pub fn released(state: &mut State, key: &ObjectKey, now: Instant) -> Vec<Effect> {
    for other in state.live.release_companions(key) {
        state.drift.recheck_after(other, Duration::ZERO, now);
    }
    Vec::new()
}

/// Notes whether a live workload is complete, by its status.
pub fn standing_seen(state: &mut State, key: &ObjectKey, standing: Option<Standing>, now: Instant) -> Vec<Effect> {
    let is_complete = standing.is_none_or(|standing| standing == Standing::Complete);
    state.unhealthy.note(key, is_complete, now);
    Vec::new()
}

impl State {
    /// Returns true for an object that may be an orphan that somebody has deleted and made again as it was.
    pub fn may_be_orphan_again(&self, key: &ObjectKey) -> bool {
        let is_known = self.settings.prune || !self.knows_its_head() || self.live.has(key);
        !is_known && !self.desired.mentions(key)
    }

    /// Returns the hold that somebody has taken off an object, which has none now. A hold that a newer commit has released
    /// is gone with that commit's own write, however late the watch reports it; a rollback writes none without. A hold
    /// that is still kept was lost by the cluster. `goes_back` tells if the object is being rolled back, `is_lost` if its
    /// hold is still kept.
    pub fn released_hold(
        &self,
        key: &ObjectKey,
        goes_back: impl Fn() -> bool,
        is_lost: impl Fn() -> bool,
    ) -> Option<Hold> {
        let rollout = self.rollouts.under_way(key);
        let is_going_forth = rollout.is_some_and(|rollout| !rollout.keeps_hold) && !goes_back();
        let may_be = !is_going_forth && !is_lost();
        let before = self.live.hold(key).filter(|_| may_be)?;
        let manifest = self.desired.hash(key)?.to_string();
        before.keeps(&manifest, self.desired.configuration_of(key).as_deref()).then(|| before.clone())
    }

    /// Keeps the necessary facts about a live object. `released` is a hold that somebody has taken off it.
    pub fn note_live(
        &mut self,
        key: &ObjectKey,
        live: &Value,
        (hold, released): (Option<&Hold>, Option<Hold>),
        now: Instant,
    ) -> LiveChange {
        self.live.note(key, live, (hold, released), self.rollouts.is_under_way(key), now)
    }

    /// Takes a live object without a rollout, with its digest. Returns the effects, or `None` if it is not known whether the
    /// object still is as it should be: then it is compared with its manifest.
    pub fn seen_at_rest(&mut self, key: &ObjectKey, digest: u64, now: Instant) -> Option<Vec<Effect>> {
        let facts = self.live.see(key, digest);
        if facts.suspended || !self.desired.has(key) {
            return Some(Vec::new());
        }
        if facts.well == Some(digest) {
            // Put right again, it is as it was before: a disagreement about it ends all the same.
            return Some(quiet(self, key, now).into_iter().collect());
        }
        if self.drift.is_reported(key, Some(digest)) {
            // Nobody has changed anything since.
            return Some(Vec::new());
        }
        (!self.drift.begin_comparison(key, digest)).then(Vec::new)
    }

    /// Takes those out of what has left that the new head has under another name, and returns both names of each. `namespaced`
    /// returns the scope with which the cluster serves the kind of an object, if that is known.
    pub fn take_renamed<T>(
        &mut self,
        removed: &mut BTreeMap<ObjectKey, T>,
        namespaced: impl Fn(&ObjectKey) -> Option<bool>,
    ) -> Vec<(ObjectKey, ObjectKey)> {
        let mut renamed = Vec::new();
        for before in removed.keys() {
            let Some(namespaced) = namespaced(before) else { continue };
            let Some(now) = self.desired.written_as(before, namespaced) else { continue };
            renamed.push((before.clone(), now.clone()));
            if !namespaced {
                self.live.rename(before, now);
            }
        }
        renamed.iter().for_each(|(before, _)| drop(removed.remove(before)));
        renamed
    }

    /// Returns the workloads that are not complete, without a rollout, with the trouble with their pods.
    pub fn unhealthy_at_rest(&self) -> BTreeMap<ObjectKey, Option<String>> {
        self.unhealthy.with_trouble(|key| self.has_no_rollout(key))
    }

    /// Returns when pods of such workloads are inspected next.
    pub fn next_pod_look(&self) -> Option<Instant> {
        self.unhealthy.next_look(|key| self.has_no_rollout(key))
    }

    /// Returns such workloads whose pods are inspected now.
    pub fn take_due_pod_looks(&mut self, now: Instant) -> Vec<ObjectKey> {
        let mut unhealthy = std::mem::take(&mut self.unhealthy);
        let due = unhealthy.take_due(|key| self.has_no_rollout(key), now);
        self.unhealthy = unhealthy;
        due
    }
}
