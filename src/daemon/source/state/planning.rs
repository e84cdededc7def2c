//! The planning of heads: the planned commit, the plan that is being made, and the head that waits.

use std::collections::{BTreeMap, BTreeSet};

use crate::daemon::repository::head_change::HeadChange;
use belay_core::manifest::ObjectKey;
use belay_core::rollout::CommitId;

/// Planning a head.
#[derive(Default)]
pub struct Planning {
    /// The head whose plan was recorded last.
    planned: Option<CommitId>,
    /// The number of the plan that is being made.
    running: Option<u64>,
    /// True when it is made, and is being recorded.
    is_recording: bool,
    /// The newest head, while it waits for another source, and the number of that wait. Until then all goes on as the head
    /// before says.
    awaiting: Option<(u64, Box<HeadChange>)>,
    /// True when the newest head was read as a change from another commit than the one that is planned by now, and is to be
    /// read again.
    reads_again: bool,
    /// The number of times that a head began to wait for another source.
    waits: u64,
    /// The number of plans that were begun.
    plans: u64,
    /// Workloads whose rollouts were given up for the next plan.
    interrupted: BTreeSet<ObjectKey>,
    /// The same of those that only changed the number of pods.
    interrupted_scaling: BTreeSet<ObjectKey>,
    /// Objects of this source that belong to others, by owner.
    claimed: BTreeSet<(String, ObjectKey)>,
    /// Objects whose manifests the head contradicts elsewhere, and how.
    contradicted: BTreeMap<ObjectKey, String>,
}

impl Planning {
    /// Takes up the head that was planned before belay stopped.
    pub fn resume(&mut self, planned: Option<CommitId>) {
        self.planned = planned;
    }

    /// Returns the head whose plan was recorded last.
    pub fn planned(&self) -> Option<&CommitId> {
        self.planned.as_ref()
    }

    /// Begins a plan. Returns its number.
    pub fn begin(&mut self) -> u64 {
        self.plans += 1;
        self.running = Some(self.plans);
        self.plans
    }

    /// Returns the number of the plan that was begun last.
    pub fn newest(&self) -> u64 {
        self.plans
    }

    /// Returns true while a plan is made or recorded.
    pub fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Returns true when the plan of this number was not given up.
    pub fn makes(&self, number: u64) -> bool {
        self.running == Some(number)
    }

    /// Records the plan that is made.
    pub fn record(&mut self) {
        self.is_recording = true;
    }

    /// Returns true when a head can be planned now that was read as a change from the commit `since`.
    pub fn can_plan(&self, since: Option<&CommitId>) -> bool {
        !self.is_recording && since == self.planned.as_ref()
    }

    /// Ends the plan that is made or recorded.
    pub fn end(&mut self) {
        (self.running, self.is_recording) = (None, false);
    }

    /// Notes that the plan of a head is recorded, which takes up the rollouts that were given up for it.
    pub fn note_planned(&mut self, head: CommitId) {
        self.planned = Some(head);
        self.interrupted.clear();
        self.interrupted_scaling.clear();
    }

    /// Reads the newest head again.
    pub fn read_again(&mut self) {
        self.reads_again = true;
    }

    /// Notes that the repository was read.
    pub fn note_read(&mut self) {
        self.reads_again = false;
    }

    /// Returns true when the newest head is to be read again.
    pub fn reads_again(&self) -> bool {
        self.reads_again
    }

    /// Returns true while a plan is being recorded: a head that is to be read again waits for its end.
    pub fn is_recording(&self) -> bool {
        self.is_recording
    }

    /// Lets a head wait. Returns the number of its wait.
    pub fn wait(&mut self, news: Box<HeadChange>) -> u64 {
        self.waits += 1;
        self.awaiting = Some((self.waits, news));
        self.waits
    }

    /// Takes the head that waits under this number.
    pub fn take_awaiting(&mut self, number: u64) -> Option<Box<HeadChange>> {
        self.awaiting.take_if(|(waiting, _)| *waiting == number).map(|(_, news)| news)
    }

    /// Returns the head that waits.
    pub fn awaiting(&self) -> Option<&HeadChange> {
        self.awaiting.as_ref().map(|(_, news)| &**news)
    }

    /// Forgets the head that waits: it was read as a change from a state that is forgotten.
    pub fn forget_awaiting(&mut self) {
        self.awaiting = None;
    }

    /// Notes that the rollout of an object is given up for the next plan: one that is judged, or one that only changes the
    /// number of pods.
    pub fn interrupt(&mut self, key: &ObjectKey, is_judged: bool) {
        let interrupted = if is_judged { &mut self.interrupted } else { &mut self.interrupted_scaling };
        interrupted.insert(key.clone());
    }

    /// Returns true when the rollout of a workload was given up for the next plan.
    pub fn was_interrupted(&self, key: &ObjectKey) -> bool {
        self.interrupted.contains(key)
    }

    /// The same of one that only changed the number of pods.
    pub fn was_scaling_interrupted(&self, key: &ObjectKey) -> bool {
        self.interrupted_scaling.contains(key)
    }

    /// Notes that this source claims an object of another one.
    pub fn claim(&mut self, owner: String, key: ObjectKey) {
        self.claimed.insert((owner, key));
    }

    /// Gives up the claims to objects that the head does not mention any more. Returns them, each with the other source.
    pub fn give_claims_up(&mut self, mentions: impl Fn(&ObjectKey) -> bool) -> Vec<(String, ObjectKey)> {
        self.claimed.extract_if(.., |(_, key)| !mentions(key)).collect()
    }

    /// Notes the objects whose manifests the head contradicts elsewhere. Returns those that it contradicts no more.
    pub fn contradict(&mut self, contradicted: BTreeMap<ObjectKey, String>) -> Vec<ObjectKey> {
        let before = std::mem::replace(&mut self.contradicted, contradicted);
        before.into_keys().filter(|key| !self.contradicted.contains_key(key)).collect()
    }

    /// Returns the objects whose manifests the head contradicts elsewhere, and how.
    pub fn contradicted(&self) -> &BTreeMap<ObjectKey, String> {
        &self.contradicted
    }
}
