//! Takes the watches' events about live objects: which facts stay, and how the state changes.

use serde_json::Value;
use tokio::time::Instant;
use tracing::warn;

use crate::cluster::{ClusterError, Seen};
use crate::daemon::publish::obstacle::Obstacle;
use crate::daemon::publish::status::{SourceStatus, put_or_remove};
use crate::daemon::rollout::kinds::driver::WorkloadDriver;
use crate::daemon::rollout::kinds::job_runs::has_ended;
use crate::daemon::shared::live::{LiveFacts, forget_reporters};
use crate::daemon::source::state::{DEBOUNCE, Event, Source};
use crate::history::HeldStatus;
use belay_core::manifest::{Compact, ObjectKey};
use belay_core::rollout::{Hold, LiveWorkload, Note, Outcome, Reason, Workload, is_complete, is_pod, marks};

impl Source {
    /// Takes the observations of the watches.
    pub fn saw(&mut self, seen: Seen) {
        match self.under_its_name(seen) {
            Seen::Live(key, text) => {
                self.context.status.trouble(&Obstacle::Size(key.clone()), None);
                let mut live = text.read();
                if self.context.config.prune && !self.state.live.contains_key(&key) && !self.desired().mentions(&key) {
                    // An object has left the repository, or somebody marked it as if it had.
                    self.state.pruned.search_due.get_or_insert_with(|| Instant::now() + DEBOUNCE);
                }
                self.tell_orphan_again(&key);
                self.note(&key, &live);
                match self.handles.get(&key) {
                    Some(rollout) => {
                        forget_reporters(&mut live);
                        rollout.live.send_replace(Some(Compact::of(&live)));
                    }
                    None => {
                        let well = self.watches.deferred.told(&key);
                        self.compare_with_manifest(&key, (&live, text), well);
                    }
                }
            }
            Seen::TooLarge(key, error) => self.saw_too_large(&key, &error),
            Seen::Gone(key) => {
                self.context.status.trouble(&Obstacle::Size(key.clone()), None);
                self.orphan_is_gone(&key);
                self.context
                    .status
                    .change(|source| source.held.remove(&key).is_some() | source.workloads.remove(&key).is_some());
                if let Some(handle) = self.handles.get(&key) {
                    // A Job that has ended does not begin again by going: its end is still to be heard.
                    handle.live.send_if_modified(|live| {
                        let ended = live.as_ref().is_some_and(|live| has_ended(&key, &live.read()));
                        !ended && live.take().is_some()
                    });
                }
                self.on(Event::Gone(key));
            }
            Seen::Synced(served) => {
                self.watches.deferred.told_all(&served);
                self.watches.unlisted.remove(&served);
                self.on(Event::Listed { group: served.group, kind: served.kind });
            }
            Seen::Slow(list, message) => {
                let said = message.or_else(|| self.fault_of_list(&list));
                self.context.status.trouble(&Obstacle::listing(&list), said);
            }
            Seen::Trouble(watch, error) => self.watch_in_trouble(watch, error),
            Seen::Denied(served, message) => {
                if message.is_some() {
                    self.watches.unlisted.remove(&served);
                }
                self.saw_denied(&served, message);
            }
        }
    }

    /// An object is too large to be read. It is as it is: nothing of it is compared or put right.
    fn saw_too_large(&self, key: &ObjectKey, error: &ClusterError) {
        warn!(object = %key, %error, "not read");
        if self.desired().mentions(key) {
            self.context.status.trouble(&Obstacle::Size(key.clone()), Some(error.to_string()));
        }
    }

    /// A watch is in trouble, or not any more. The cluster is in the way while it does not answer any of them; a list that it
    /// can't serve is the trouble of that list.
    fn watch_in_trouble(&mut self, watch: String, error: Option<ClusterError>) {
        let obstacle = Obstacle::listing(&watch);
        if error.as_ref().is_some_and(is_of_one_kind) {
            // It can't be listed for now, for a reason of its own: nobody waits for it.
            self.watches.unlisted.retain(|served| !served.is_listed_at(&watch));
        }
        put_or_remove(&mut self.watches.faults, &watch, error);
        let outage = self.watches.faults.values().find(|error| !is_of_one_kind(error)).map(ClusterError::to_string);
        self.context.status.trouble(&obstacle, self.fault_of_list(&watch));
        self.context.status.trouble(&Obstacle::Cluster, outage);
    }

    /// Returns the reason for which the list at an address can't be had, while the cluster answers.
    pub fn fault_of_list(&self, address: &str) -> Option<String> {
        self.watches.faults.get(address).filter(|error| is_of_one_kind(error)).map(ClusterError::to_string)
    }

    /// Returns the hold that somebody has taken off an object, which has `now`. A hold that a newer commit has released
    /// is gone with that commit's own write, however late the watch reports it; a rollback writes none without. A hold
    /// that is still kept was lost by the cluster.
    fn released(&self, key: &ObjectKey, now: Option<&Hold>) -> Option<Hold> {
        let is_lost = || self.context.holds.of(key).is_some();
        let may_be = now.is_none() && !self.is_going_forth(key) && !is_lost();
        let before = self.state.live.get(key)?.hold.as_ref().filter(|_| may_be)?;
        let desired = self.desired();
        let manifest = desired.hash(key)?.to_string();
        before.keeps(&manifest, desired.configuration_of(key).as_deref()).then(|| (**before).clone())
    }

    /// Returns true when a manifest is just being rolled out to an object, and not rolled back.
    fn is_going_forth(&self, key: &ObjectKey) -> bool {
        let goes_back =
            |source: &SourceStatus| source.under_way.get(key).is_some_and(|way| way.outcome == Outcome::RollingBack);
        let rollout = self.state.rollouts.under_way.get(key);
        rollout.is_some_and(|rollout| !rollout.keeps_hold) && !self.context.status.read(goes_back).unwrap_or_default()
    }

    /// Keeps the necessary facts about a live object, and publishes its hold.
    fn note(&mut self, key: &ObjectKey, live: &Value) {
        let hold = Hold::on(live);
        if let Some(hold) = &hold {
            self.note_undo(key, live, hold);
        }
        if WorkloadDriver::of_object(key).replaces_pods() {
            self.note_rolling_update(key, live);
        }
        self.context.holds.saw(key, live);
        let released = self.released(key, hold.as_ref());
        // Nobody knows its health before the first observation.
        let faltered = (!self.state.rollouts.under_way.contains_key(key)).then(Instant::now);
        let facts =
            self.state.live.entry(key.clone()).or_insert_with(|| LiveFacts { faltered, ..LiveFacts::default() });
        let suspended = marks::annotation(live, marks::SUSPEND).is_some();
        let was_suspended = std::mem::replace(&mut facts.suspended, suspended);
        let resumed = was_suspended && !suspended;
        let complete = (Workload::of(key).is_some() || is_pod(key)) && is_complete(key, live);
        let was_complete = std::mem::replace(&mut facts.complete, complete);
        let completed = complete && !was_complete;
        if was_complete && !complete && !self.state.rollouts.under_way.contains_key(key) {
            facts.faltered = Some(Instant::now());
        }
        if facts.suspended {
            // Its manifest may change meanwhile.
            facts.well = None;
        }
        let taken_off = released.is_some();
        if taken_off {
            facts.released = released.map(Box::new);
        }
        facts.hold = hold.clone().map(Box::new);
        facts.note = Note::on(live).map(Box::new);
        if taken_off {
            self.release_companions(key);
        }
        if was_suspended != suspended {
            self.note_suspension(key, live);
        }
        if resumed {
            // It was told before that it differs; from here on that is put right.
            self.state.drift.reported.remove(key);
            self.take_up_revisions(key, live);
            self.resumed(key);
        }
        if Workload::of(key).is_some() {
            let told = LiveWorkload::of(key, live);
            self.note_health(key, &told);
            self.context.status.change(|source| put_or_remove(&mut source.workloads, key, Some(told)));
            self.note_restart(key, live);
            self.note_scaling(key, live);
        }
        if completed {
            self.tell_recovered(key, live);
            self.recheck_dependents(key);
        }
        // A replaced revision may be gone that named an object which has left the repository.
        if self.context.config.prune && (completed || (resumed && !self.desired().mentions(key))) {
            self.state.pruned.search_due = Some(Instant::now() + DEBOUNCE);
        }
        let held = hold.filter(|hold| self.desired().hash(key).is_none_or(|hash| hash.to_string() == hold.manifest));
        self.context.status.change(|source| {
            // The published hold may say more.
            let told = |hold: &Hold| source.held.get(key).is_some_and(|told| told.since == hold.since);
            if held.as_ref().is_some_and(told) {
                return false;
            }
            if let Some(Hold { commit, reason, since, .. }) = &held {
                warn!(object = %key, commit = commit.short(), %since, reason, "Git and the cluster differ: it is held");
            }
            put_or_remove(&mut source.held, key, held.as_ref().map(HeldStatus::of))
        });
    }

    /// Publishes no longer the holds of manifests that the repository does not have any more.
    pub fn withdraw_old_holds(&self) {
        let desired = self.desired();
        let is_old = |key: &ObjectKey| {
            let hold = self.state.live.get(key).and_then(|facts| facts.hold.as_ref());
            hold.zip(desired.hash(key)).is_some_and(|(hold, hash)| hash.to_string() != hold.manifest)
        };
        self.context.status.change(|source| {
            let before = source.held.len();
            source.held.retain(|key, _| !is_old(key));
            source.held.len() < before
        });
    }

    /// Publishes a hold with the newer commit that has gone back to the held template.
    pub fn tell_hold(&self, key: &ObjectKey, hold: &Hold, reason: Reason) {
        let held = HeldStatus { reason: reason.message, ..HeldStatus::of(hold) };
        self.context.status.change(|source| put_or_remove(&mut source.held, key, Some(held)));
    }
}

/// Returns true for what is in the way of one kind alone: the cluster answers, and can't list it, or does not serve it any more.
fn is_of_one_kind(error: &ClusterError) -> bool {
    !matches!(error, ClusterError::Away { .. }) || error.is_own()
}
