//! What the cluster tells: whether live objects still are what belay applied, and what is done where they are not.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;
use tracing::{info, warn};

use super::apply_wave::Ranks;
use super::driver::WorkloadDriver;
use super::health_monitor::is_complete;
use super::live::{LiveFacts, forget_reporters};
use super::planner::{self, Prepared};
use super::prune;
use super::recheck::{Dependencies, Recheck};
use super::rollout_task::ResumePoint;
use super::state::{GATHER, Source};
use super::status::{HeldStatus, put_or_remove};
use super::task_result::TaskResult;
use crate::backoff::Backoff;
use crate::cluster::Seen;
use crate::config::Drift;
use belay_core::manifest::{Compact, ObjectKey};
use belay_core::rollout::{
    Action, Commit, Hold, LiveWorkload, Note, Reason, Record, RecordId, Step, StepKind, Trigger, Workload, marks,
};

/// The waits before an object is put right again that was put right before.
const CORRECTED: Backoff = Backoff::between(Duration::from_secs(5), Duration::from_mins(10));

impl Source {
    /// Hears what the watches have seen.
    pub(super) fn saw(&mut self, seen: Seen) {
        match seen {
            Seen::Live(key, mut live) => {
                if self.context.config.prune && !self.watches.live.contains_key(&key) && !self.desired().mentions(&key)
                {
                    // What has left, or what somebody marked as if it had.
                    self.pruned.search_due.get_or_insert_with(|| Instant::now() + GATHER);
                }
                self.note(&key, &live);
                match self.rollouts.under_way.get(&key) {
                    Some(rollout) => {
                        forget_reporters(&mut live);
                        rollout.live.send_replace(Some(Compact::of(&live)));
                    }
                    None => {
                        let well = self.watches.deferred.told(&key);
                        self.look_after(&key, *live, well);
                    }
                }
            }
            Seen::Gone(key) => {
                self.watches.live.remove(&key);
                self.drift.comparing.remove(&key);
                self.orphan_is_gone(&key);
                self.context
                    .status
                    .change(|source| source.held.remove(&key).is_some() | source.workloads.remove(&key).is_some());
                match self.rollouts.under_way.get(&key) {
                    Some(rollout) => {
                        rollout.live.send_replace(None);
                    }
                    None if self.desired().has(&key) => self.drift.recheck_after(key, Duration::ZERO),
                    None => {}
                }
            }
            Seen::Synced(served) => {
                self.watches.deferred.told_all(&served);
                let missing: Vec<ObjectKey> = self
                    .desired()
                    .keys()
                    .filter(|key| key.kind == served.kind && key.group == served.group)
                    .filter(|key| !self.watches.live.contains_key(key) && !self.rollouts.under_way.contains_key(key))
                    .filter(|key| self.drift.reported.get(key) != Some(&None))
                    .cloned()
                    .collect();
                missing.into_iter().for_each(|key| self.drift.recheck_after(key, Duration::ZERO));
                if self.context.config.prune {
                    self.pruned.search_due = Some(Instant::now() + GATHER);
                }
            }
            Seen::Trouble(watch, message) => self.watch_in_trouble(watch, message),
            Seen::Denied(served, message) => self.saw_denied(&served, message),
        }
    }

    /// A watch is in trouble, or not any more: the cluster is in the way while any of them is.
    fn watch_in_trouble(&mut self, watch: String, message: Option<String>) {
        match message {
            Some(message) => drop(self.watches.faults.insert(watch, message)),
            None => drop(self.watches.faults.remove(&watch)),
        }
        self.context.status.trouble("cluster", self.watches.faults.values().next().cloned());
    }

    /// The hold that somebody has taken off an object, which has `now`. One that a newer commit has let go of is gone with
    /// that commit's own write, however late the watch tells of it.
    fn let_go(&self, key: &ObjectKey, now: Option<&Hold>) -> Option<Hold> {
        let before = self
            .watches
            .live
            .get(key)?
            .hold
            .as_ref()
            .filter(|_| now.is_none() && !self.rollouts.under_way.contains_key(key))?;
        let desired = self.desired();
        let manifest = desired.hash(key)?.to_string();
        before.keeps(&manifest, desired.configuration_of(key).as_deref()).then(|| before.clone())
    }

    /// Keeps what must be known of a live object, and publishes its hold.
    fn note(&mut self, key: &ObjectKey, live: &Value) {
        let hold = Hold::on(live);
        if let Some(hold) = &hold {
            self.note_undo(key, live, hold);
        }
        if WorkloadDriver::of_object(key).replaces_pods() {
            self.note_rolling_update(key, live);
        }
        let let_go = self.let_go(key, hold.as_ref());
        // How it was before it was seen first nobody knows.
        let faltered = (!self.rollouts.under_way.contains_key(key)).then(Instant::now);
        let facts =
            self.watches.live.entry(key.clone()).or_insert_with(|| LiveFacts { faltered, ..LiveFacts::default() });
        let suspended = marks::annotation(live, marks::SUSPEND).is_some();
        let was_suspended = std::mem::replace(&mut facts.suspended, suspended);
        let resumed = was_suspended && !suspended;
        let complete = Workload::of(key).is_some() && is_complete(key, live);
        let was_complete = std::mem::replace(&mut facts.complete, complete);
        let completed = complete && !was_complete;
        if was_complete && !complete && !self.rollouts.under_way.contains_key(key) {
            facts.faltered = Some(Instant::now());
        }
        if facts.suspended {
            // What it is to be may change meanwhile.
            facts.well = None;
        }
        let taken_off = let_go.is_some();
        if taken_off {
            facts.let_go = let_go;
        }
        facts.hold.clone_from(&hold);
        facts.note = Note::on(live);
        if taken_off {
            self.let_go_of_company(key);
        }
        if was_suspended != suspended {
            self.note_suspension(key, live);
        }
        if resumed {
            self.take_up_revisions(key, live);
        }
        if Workload::of(key).is_some() {
            let told = LiveWorkload::of(key, live);
            self.context.status.change(|source| put_or_remove(&mut source.workloads, key, Some(told)));
            self.note_restart(key, live);
            self.note_scaling(key, live);
        }
        if completed {
            self.tell_recovered(key, live);
            self.tell_those_behind(key);
        }
        // With what was replaced, a revision may be gone that named what has left.
        if self.context.config.prune && (completed || (resumed && !self.desired().mentions(key))) {
            self.pruned.search_due = Some(Instant::now() + GATHER);
        }
        let held = hold.filter(|hold| self.desired().hash(key).is_none_or(|hash| hash.to_string() == hold.manifest));
        self.context.status.change(|source| {
            // What is told of it already may say more.
            let told = |hold: &Hold| source.held.get(key).is_some_and(|told| told.since == hold.since);
            if held.as_ref().is_some_and(told) {
                return false;
            }
            if let Some(Hold { commit, reason, since, .. }) = &held {
                warn!(object = %key, commit = commit.short(), %since, reason, "Git and the cluster differ: it is held");
            }
            let held = held.map(|Hold { commit, reason, since, .. }| HeldStatus { commit, reason, since });
            put_or_remove(&mut source.held, key, held)
        });
    }

    /// Tells of a hold what a newer commit, which has gone back to what is held, has to do with it.
    pub(super) fn tell_hold(&self, key: &ObjectKey, hold: &Hold, reason: Reason) {
        let Hold { commit, since, .. } = hold.clone();
        let held = HeldStatus { commit, reason: reason.message, since };
        self.context.status.change(|source| put_or_remove(&mut source.held, key, Some(held)));
    }

    /// Looks into the objects whose time has come.
    pub(super) fn check(&mut self) {
        let now = Instant::now();
        let due: Vec<ObjectKey> =
            self.drift.recheck.iter().filter(|(_, at)| **at <= now).map(|(key, _)| key.clone()).collect();
        let mut rechecks: Vec<Recheck> = Vec::new();
        self.drift.under_check.clear();
        for key in due {
            self.drift.recheck.remove(&key);
            if self.rollouts.under_way.contains_key(&key) {
                continue;
            }
            if let Some(until) = self.is_being_rolled(&key) {
                self.drift.recheck.insert(key, until);
                continue;
            }
            self.drift.under_check.insert(key.clone(), self.watches.live.get(&key).and_then(|facts| facts.seen));
            rechecks.extend(self.recheck(&key));
        }
        let orphans = self.pruned.search_due.take_if(|due| *due <= now).and_then(|_| self.leavers(None));
        if rechecks.is_empty() && orphans.is_none() {
            return;
        }
        self.drift.checking = true;
        let (context, plan) = (Arc::clone(&self.context), self.planning.plans);
        let (desired, planned) = (self.desired(), self.planning.planned.clone());
        self.tasks.spawn(async move {
            let reader = Arc::clone(&context);
            let read = move || {
                let requests = rechecks.into_iter().filter_map(|one| reader.recheck(planned.as_ref(), one));
                reader.read_requests(&desired, requests.collect::<Vec<_>>()).0
            };
            let wanted = context.repository.beside.run(read).await;
            let mut prepared = planner::plan(&context, wanted).await;
            prepared.extend(prune::plan(&context, orphans).await);
            TaskResult::Checked(plan, prepared)
        });
    }

    /// What is known of an object that may have to be applied again.
    fn recheck(&self, key: &ObjectKey) -> Option<Recheck> {
        let desired = self.desired();
        if self.planning.contradicted.contains_key(key) || !desired.has(key) {
            return None;
        }
        let dependencies = desired.after_of(key).map(|after| {
            let standings = after.names.iter().map(|name| (name.clone(), self.dependency(name))).collect();
            Dependencies { after, standings }
        });
        let let_go = self.watches.live.get(key).and_then(|facts| facts.let_go.clone());
        Some(Recheck { key: key.clone(), resumed: self.rollouts.resumed.get(key).cloned(), let_go, dependencies })
    }

    /// The commit that was charged with an object last, as far as the history knows; else the head.
    pub(super) fn last_charged(&self, key: &ObjectKey) -> Option<Arc<Commit>> {
        let newest = self.context.newest_record(key);
        newest.and_then(|record| self.commit(&record.commit)).or_else(|| self.commit(self.planning.planned.as_ref()?))
    }

    /// What the check of doubtful objects brought.
    pub(super) fn checked(&mut self, plan: u64, prepared: Vec<Prepared>) {
        if plan != self.planning.plans {
            // A newer head has come meanwhile, and its plan says otherwise, or will: looked into again after it.
            for prepared in prepared {
                match &prepared.planned.action {
                    Action::Prune => {
                        self.search_again();
                        self.pruned.search_due = Some(Instant::now() + GATHER);
                    }
                    _ => self.drift.recheck_after(prepared.planned.wanted.key, Duration::ZERO),
                }
            }
            return;
        }
        let mut begun = Vec::new();
        let mut corrections = Vec::new();
        for mut prepared in prepared {
            let key = prepared.planned.wanted.key.clone();
            if self.rollouts.under_way.contains_key(&key) {
                continue;
            }
            if self.rollouts.resumed.contains_key(&key) {
                // What was applied before it waited is judged on.
                self.say_what_goes_on(&mut prepared);
            }
            if let Some(record) = self.rollouts.resumed.remove(&key) {
                self.context.status.trouble(&key.to_string(), None);
                begun.push((record.id, Some(Box::new(record)), prepared));
                continue;
            }
            if let Some(digest) = prepared.digest {
                self.watches.live.entry(key.clone()).or_default().well = Some(digest);
                self.no_drift(&key);
            }
            prepared.carries_on = self.is_to_be_judged(&prepared);
            match &prepared.planned.action {
                Action::Apply(_) => corrections.push(prepared),
                Action::Unchanged if prepared.carries_on => {
                    self.watches.live.entry(key).or_default().let_go = None;
                    begun.extend(self.write_down(prepared).map(|(id, prepared)| (id, None, prepared)));
                }
                Action::Rejected(reason, _) => {
                    let reason = reason.clone();
                    self.claim(&prepared, &reason);
                }
                Action::Prune => begun.extend(self.write_down(prepared).map(|(id, prepared)| (id, None, prepared))),
                _ => {}
            }
        }
        let ranks = Ranks::new(corrections.iter().map(|prepared| prepared.planned.rank()));
        corrections.into_iter().for_each(|prepared| self.correct(prepared, &ranks));
        self.begin(begun);
        self.search_on();
    }

    /// Writes down what is begun without a new head. `None` where that fails; then it is not begun.
    fn write_down(&mut self, prepared: Prepared) -> Option<(RecordId, Prepared)> {
        let record = Record { rolls_out: prepared.rolls_out(), ..self.record(&prepared.planned) };
        let (head, now) = (self.planning.planned.clone()?, self.context.clock.now());
        let note = self.note_on(&record);
        match self.context.history.begin(&self.context.config.name, &head, &[record], now) {
            Ok(ids) => {
                let id = ids.into_iter().next()?;
                note.iter().for_each(|note| self.write_down_note(id, note));
                Some((id, prepared))
            }
            Err(error) => {
                let key = &prepared.planned.wanted.key;
                warn!(object = %key, %error, "failed to write down what is to be done, trying again");
                self.context.mend(&error);
                let again = self.again(key);
                self.drift.recheck_after(key.clone(), again);
                None
            }
        }
    }

    /// What the person said who asked for this; of an older request it would be older than what came of that.
    fn note_on(&self, record: &Record) -> Option<Note> {
        let note = self.watches.live.get(&record.object)?.note.clone().filter(|_| record.trigger == Trigger::Retry)?;
        let newest = self.context.newest_record(&record.object);
        newest.is_none_or(|newest| newest.started <= note.at).then_some(note)
    }

    fn write_down_note(&self, id: RecordId, note: &Note) {
        let step = Step { at: self.context.clock.now(), kind: StepKind::Note, detail: note.line() };
        if let Err(error) = self.context.history.step(id, &step) {
            warn!(%error, "failed to write down what somebody said");
        }
    }

    /// Puts an object right that somebody else has changed, or reports it.
    fn correct(&mut self, mut prepared: Prepared, ranks: &Ranks) {
        let key = prepared.planned.wanted.key.clone();
        if self.adopts_rolled(&prepared) {
            return;
        }
        let retry = !matches!(prepared.planned.wanted.trigger, Trigger::Drift(_));
        if !retry && self.context.config.drift == Drift::Report {
            let by = prepared.last_writer.unwrap_or_else(|| "somebody".to_owned());
            self.report_drift(&key, prepared.served, by);
            return;
        }
        if let Trigger::Drift(by) = &mut prepared.planned.wanted.trigger {
            *by = prepared.last_writer.clone().unwrap_or_else(|| "somebody".to_owned());
            warn!(object = %key, by, "drifted");
        }
        let undoable = matches!(&prepared.planned.action, Action::Apply(apply) if apply.corrects_template());
        let undoable = undoable && (!retry || self.lost_its_hold_with_its_template(&prepared));
        let stage = if undoable { ResumePoint::Drifted } else { ResumePoint::Fresh };
        let Some((id, prepared)) = self.write_down(prepared) else { return };
        if let Some(facts) = self.watches.live.get_mut(&key) {
            facts.let_go = None;
        }
        let corrected = self.drift.corrected.entry(key.clone()).or_default();
        *corrected = corrected.saturating_add(1);
        info!(object = %key, "putting it right");
        self.roll_out(id, prepared, stage, ranks);
    }

    /// After how long an object is looked at again: the longer the more often it was.
    pub(super) fn again(&mut self, key: &ObjectKey) -> Duration {
        let times = self.drift.corrected.entry(key.clone()).or_default();
        *times = times.saturating_add(1);
        CORRECTED.wait_number(*times - 1)
    }

    /// At the start: what was planned, and what was under way.
    pub(super) fn take_up(&mut self) {
        self.note_what_is_followed();
        let source = &self.context.config.name;
        match self.context.history.heads(source) {
            Ok(heads) => {
                self.planning.planned =
                    heads.recorded.filter(|head| self.fetching.repository.mirror.commit(head).is_ok())
            }
            Err(error) => warn!(%error, "failed to ask the history where it was"),
        }
        if self.context.config.drift != Drift::Report {
            let drifts = self.context.history.drifts(source).unwrap_or_default();
            let forgotten = drifts.iter().try_for_each(|one| self.context.history.put_right(source, &one.object));
            if let Err(error) = forgotten {
                warn!(%error, "failed to forget what had drifted while that was only reported");
            }
        }
        let open = self.context.history.open_records(source).unwrap_or_else(|error| {
            warn!(%error, "failed to ask the history what was under way");
            Vec::new()
        });
        let mut newest: BTreeMap<ObjectKey, Record> = BTreeMap::new();
        let planned = self.planning.planned.clone();
        for record in open {
            if let Some(older) = newest.insert(record.object.clone(), record) {
                self.supersede(older.id, planned.as_ref());
            }
        }
        self.rollouts.resumed = newest;
        self.take_up_standings();
    }

    /// Takes up a rollout again that belay itself has broken off.
    pub(super) fn take_up_again(&mut self, key: &ObjectKey, record: RecordId) {
        if let Ok(Some(record)) = self.context.history.record(record) {
            self.rollouts.resumed.insert(key.clone(), record);
        }
        let again = self.again(key);
        if !self.desired().mentions(key) {
            self.search_again();
            self.pruned.search_due = Some(Instant::now() + again);
            return;
        }
        self.drift.recheck_after(key.clone(), again);
    }
}
