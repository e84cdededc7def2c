//! The rollouts: under way, to be taken up, waiting, failed.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use tokio::time::Instant;

use crate::daemon::rollout::rollback::manual_rollback::ByHand;
use belay_core::manifest::ObjectKey;
use belay_core::rollout::{CommitId, Record, RecordId, Trigger};

/// The number of times that a rollout is continued after a panic, before it counts as failed.
const FAULTS: u32 = 3;

/// The rollouts.
#[derive(Default)]
pub struct Rollouts {
    under_way: BTreeMap<ObjectKey, Rollout>,
    /// The open records of rollouts that are to be taken up.
    resumed: BTreeMap<ObjectKey, Record>,
    /// Planned objects that wait for others, with the message about it. Their records are among `resumed`.
    waiting: BTreeMap<ObjectKey, String>,
    /// Those of them that wait for a slot of `max_rollouts`.
    without_slot: BTreeSet<ObjectKey>,
    /// The number of ended rollouts for which it is being read if others go back with them.
    ends_read: usize,
    /// The actions of commands that are not recorded yet.
    by_hand: BTreeMap<(ObjectKey, Timestamp), ByHand>,
    /// Controllers that somebody is just rolling: their last state, and since when.
    rolled_by_others: BTreeMap<ObjectKey, (u64, Instant)>,
    /// The number of panics of the rollouts under these records.
    panics: BTreeMap<RecordId, u32>,
}

/// A rollout under way.
#[derive(Clone, Debug, PartialEq)]
pub struct Rollout {
    pub record: RecordId,
    /// The trigger.
    pub trigger: Trigger,
    /// True when it is judged, so that its successor must be judged, too.
    pub judged: bool,
    /// The same of one that only changes the number of pods.
    pub scales: bool,
    /// True when it puts an object right whose manifest is held.
    pub keeps_hold: bool,
    /// The commit that takes its place.
    pub superseded_by: Option<CommitId>,
}

impl Rollouts {
    /// Begins a rollout.
    pub fn begin(&mut self, key: ObjectKey, rollout: Rollout) {
        self.under_way.insert(key, rollout);
    }

    /// Ends the rollout of an object.
    pub fn end(&mut self, key: &ObjectKey) -> Option<Rollout> {
        self.under_way.remove(key)
    }

    /// Notes that commits take the place of the rollouts under way for these objects. Returns those rollouts.
    pub fn supersede(&mut self, by: &BTreeMap<ObjectKey, CommitId>) -> Vec<(&ObjectKey, &Rollout)> {
        let mut superseded = Vec::new();
        for (key, rollout) in &mut self.under_way {
            let Some(by) = by.get(key) else { continue };
            rollout.superseded_by = Some(by.clone());
            superseded.push((key, &*rollout));
        }
        superseded
    }

    /// Returns the rollout of an object that is under way.
    pub fn under_way(&self, key: &ObjectKey) -> Option<&Rollout> {
        self.under_way.get(key)
    }

    /// Returns true when the rollout of an object is under way.
    pub fn is_under_way(&self, key: &ObjectKey) -> bool {
        self.under_way.contains_key(key)
    }

    /// Returns true when no rollout is under way.
    pub fn are_through(&self) -> bool {
        self.under_way.is_empty()
    }

    /// Takes up these rollouts from before belay stopped.
    pub fn resume_all(&mut self, records: BTreeMap<ObjectKey, Record>) {
        self.resumed = records;
    }

    /// Takes up a rollout under its record.
    pub fn resume(&mut self, record: Record) {
        self.resumed.insert(record.object.clone(), record);
    }

    /// Takes the record of a rollout that is taken up now, or never.
    pub fn take_resumed(&mut self, key: &ObjectKey) -> Option<Record> {
        self.resumed.remove(key)
    }

    /// Forgets the rollouts that are to be taken up: their records are lost.
    pub fn forget_resumed(&mut self) {
        self.resumed.clear();
    }

    /// Returns the record of a rollout that is to be taken up.
    pub fn resumed(&self, key: &ObjectKey) -> Option<&Record> {
        self.resumed.get(key)
    }

    /// Returns the records of all rollouts that are to be taken up.
    pub fn all_resumed(&self) -> &BTreeMap<ObjectKey, Record> {
        &self.resumed
    }

    /// Returns the numbers of these records.
    pub fn resumed_ids(&self) -> BTreeMap<ObjectKey, RecordId> {
        self.resumed.iter().map(|(key, record)| (key.clone(), record.id)).collect()
    }

    /// Returns true for an object with a rollout, under way or to be taken up.
    pub fn has(&self, key: &ObjectKey) -> bool {
        self.under_way.contains_key(key) || self.resumed.contains_key(key)
    }

    /// Returns true when an object with a rollout is as `is_it` says.
    pub fn has_any(&self, is_it: impl Fn(&ObjectKey) -> bool) -> bool {
        self.under_way.keys().chain(self.resumed.keys()).any(is_it)
    }

    /// Notes that a planned object waits, with the message about it.
    pub fn wait(&mut self, key: ObjectKey, message: String) {
        self.waiting.insert(key, message);
    }

    /// Returns the message about a planned object that waits.
    pub fn waiting(&self, key: &ObjectKey) -> Option<&String> {
        self.waiting.get(key)
    }

    /// Forgets that an object waits. Returns true if it did.
    pub fn stop_waiting(&mut self, key: &ObjectKey) -> bool {
        self.without_slot.remove(key);
        self.waiting.remove(key).is_some()
    }

    /// Returns the objects that wait no longer because a newer commit has taken their place.
    pub fn superseded_waits(&self) -> Vec<ObjectKey> {
        self.waiting.keys().filter(|key| !self.resumed.contains_key(key)).cloned().collect()
    }

    /// Notes that an object waits for a slot of `max_rollouts`.
    pub fn wait_for_slot(&mut self, key: ObjectKey) {
        self.without_slot.insert(key);
    }

    /// Forgets that an object waits for a slot: it is begun anew.
    pub fn forget_slot(&mut self, key: &ObjectKey) {
        self.without_slot.remove(key);
    }

    /// Returns the workloads that get so many free slots.
    pub fn next_for_slots(&self, free: usize) -> Vec<ObjectKey> {
        self.without_slot.iter().take(free).cloned().collect()
    }

    /// Notes that it is read, after the end of a rollout, if others go back with it.
    pub fn read_end(&mut self) {
        self.ends_read += 1;
    }

    /// Notes that one of those was read.
    pub fn end_is_read(&mut self) {
        self.ends_read = self.ends_read.saturating_sub(1);
    }

    /// Takes no more results of those that are being read.
    pub fn forget_read_ends(&mut self) {
        self.ends_read = 0;
    }

    /// Returns true when no rollout is under way, and no end of one is still being read.
    pub fn are_idle(&self) -> bool {
        self.under_way.is_empty() && self.ends_read == 0
    }

    /// Returns the number of objects that are not through.
    pub fn open(&self) -> usize {
        self.under_way.len() + self.waiting.len() + self.ends_read
    }

    /// Keeps a change by hand until it is recorded.
    pub fn note_by_hand(&mut self, key: ObjectKey, change: ByHand) {
        self.by_hand.insert((key, change.since), change);
    }

    /// Takes the changes by hand that are not recorded yet.
    pub fn take_by_hand(&mut self) -> Vec<(ObjectKey, ByHand)> {
        std::mem::take(&mut self.by_hand).into_iter().map(|((key, _), change)| (key, change)).collect()
    }

    /// Notes the state of a controller that somebody is just rolling.
    pub fn note_rolled_by_others(&mut self, key: &ObjectKey, digest: u64, now: Instant) {
        let known = self.rolled_by_others.entry(key.clone()).or_insert((digest, now));
        if known.0 != digest {
            *known = (digest, now);
        }
    }

    /// Notes that nobody rolls a controller any more.
    pub fn not_rolled_by_others(&mut self, key: &ObjectKey) {
        self.rolled_by_others.remove(key);
    }

    /// Returns since when a controller that somebody is just rolling has not changed.
    pub fn rolled_by_others_since(&self, key: &ObjectKey) -> Option<Instant> {
        self.rolled_by_others.get(key).map(|(_, since)| *since)
    }

    /// Counts a panic of the rollout under a record. Returns true if it was one too many.
    pub fn panicked(&mut self, record: RecordId) -> bool {
        let faults = self.panics.entry(record).or_default();
        *faults = faults.saturating_add(1);
        let is_over = *faults >= FAULTS;
        if is_over {
            self.panics.remove(&record);
        }
        is_over
    }
}
