//! A finished plan becomes records, and the records become rollouts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, warn};

use super::state::{RetryCause, Rollout, RolloutHandle, Source, search_on};
use super::task_result::{FinishedPlan, HeadPlan, PlanRecord, TaskResult};
use crate::daemon::planning::refused::is_tried_again;
use crate::daemon::publish::obstacle::Obstacle;
use crate::daemon::publish::status::set;
use crate::daemon::repository::head_change::HeadChange;
use crate::daemon::repository::prepared::Prepared;
use crate::daemon::rollout::apply_wave::{Place, Ranks};
use crate::daemon::rollout::dependency_gate::is_interrupted;
use crate::daemon::rollout::patience::Patience;
use crate::daemon::rollout::rollout_task::{Findings, Resume, RolloutStart, RolloutTask};
use crate::daemon::shared::live::LiveFacts;
use crate::daemon::shared::rollout_slots::RolloutSlot;
use crate::history::{HistoryEntry, HistoryError};
use belay_core::manifest::{Compact, Complaint, ObjectKey};
use belay_core::rollout::{
    Apply, Commit, CommitId, Gate, Outcome, PlanStep, Planned, Reason, ReasonCode, Record, RecordId, Wanted, Workload,
    held_reason,
};

/// A planned object, its record, and its facts from before a restart. Boxed: there are thousands at once, and each is given
/// back when its rollout has begun.
type Begun = (RecordId, Option<Box<Record>>, Box<Prepared>);

/// Returns the order in which rollouts of one rank get the slots of `max_rollouts`: those that have begun, those that take the
/// place of one that is not complete, all others.
fn slot_order(prepared: &Prepared) -> u8 {
    match prepared.planned.step {
        PlanStep::Resume(_) | PlanStep::RollBack { .. } => 0,
        _ if is_interrupted(prepared) => 1,
        _ => 2,
    }
}

impl Source {
    /// Writes a plan into the history, beside the loop. Nothing of it is begun before.
    pub fn record_plan(&mut self, finished: FinishedPlan) {
        let FinishedPlan { news, plan: HeadPlan { mut prepared, unread, .. } } = finished;
        for record in unread.iter().filter_map(|key| self.state.rollouts.resumed.remove(key)).collect::<Vec<_>>() {
            self.supersede(record.id, Some(&news.head.id));
        }
        let mut records = self.rejections(&news);
        let rejected = records.len();
        for prepared in &mut prepared {
            self.state.note_continued(prepared);
            prepared.resume(self.state.rollouts.resumed.get(&prepared.planned.wanted.key));
        }
        let resumed = &self.state.rollouts.resumed;
        let known: Vec<Prepared> =
            prepared.extract_if(.., |prepared| resumed.contains_key(&prepared.planned.wanted.key)).collect();
        let new = prepared;
        let planned: Vec<Record> =
            new.iter().map(|new| Record { rolls_out: new.rolls_out(), ..self.record(&new.planned) }).collect();
        let number = self.state.planning.plans;
        let (orphans, now) = (self.orphans_of(&news), self.context.clock.now());
        let context = Arc::clone(&self.context);
        self.tasks.spawn(async move {
            let writer = Arc::clone(&context);
            let write = move || {
                let orphaned = writer.orphaned(orphans);
                let count = orphaned.len();
                records.extend(orphaned.into_iter().chain(planned));
                let (history, source) = (&writer.history, &writer.config.name);
                let begun = history.begun();
                let written = history
                    .saw(source, &news.head.id, news.came(), now)
                    .and_then(|()| writer.begin_records(&news.head.id, &records, now));
                let (orphaned, history) = (count, begun);
                PlanRecord { number, news, records, rejected, orphaned, new, known, written, history }
            };
            TaskResult::PlanRecorded(Box::new(context.repository.blocking_pool.run(write).await))
        });
    }

    /// Forgets a plan that could not be written down: the repository is read again. The records of one that was written down
    /// and that nobody waits for any more end.
    pub fn drop_plan(&mut self, record: PlanRecord) {
        match record.written {
            Ok(ids) => {
                let reason = superseded_by(&record.news.head.id);
                let end = |id| RecordEnd { id, outcome: Outcome::Superseded, reason: Some(reason.clone()) };
                self.finish_all(ids.into_iter().map(end).collect());
            }
            Err(error) => {
                warn!(%error, "failed to write down the plan, trying again");
                self.context.status.trouble(&Obstacle::History, Some(error.to_string()));
                self.context.mend(&error);
            }
        }
        self.forget_head();
    }

    /// Begins a recorded plan.
    pub fn begin_plan(&mut self, record: PlanRecord) {
        let PlanRecord { news, records, rejected, orphaned, new, known, written, .. } = record;
        let (ids, ended) = (written.unwrap_or_default(), rejected + orphaned);
        let unnoticed = self.unnoticed(new.iter().chain(&known));
        self.context.status.trouble(&Obstacle::History, None);
        self.pin(&records);
        self.context.status.change(|source| set(&mut source.planned, Some(news.head.id.clone())));
        self.context.status.trouble(&Obstacle::Belay, None);
        self.forget_what_left();
        self.follow_moved_manifests();
        let at_once = ids.iter().zip(&records).take(ended).enumerate().map(|(index, (id, record))| {
            let outcome = if index < rejected { Outcome::Rejected } else { Outcome::Orphaned };
            warn!(object = %record.object, reason = record.reason.as_ref().map(ToString::to_string), %outcome);
            RecordEnd { id: *id, outcome, reason: record.reason.clone() }
        });
        self.finish_all(at_once.collect());
        for (id, record) in ids.iter().zip(&records).skip(ended) {
            unnoticed.get(&record.object).into_iter().for_each(|readers| self.note_unnoticed(*id, readers));
        }
        // Thousands of them, written down by now.
        drop(records);
        let mut begun: Vec<Begun> =
            ids.into_iter().skip(ended).zip(new).map(|(id, prepared)| (id, None, Box::new(prepared))).collect();
        for prepared in known {
            if let Some(record) = self.state.rollouts.resumed.remove(&prepared.planned.wanted.key) {
                begun.push((record.id, Some(Box::new(record)), Box::new(prepared)));
            }
        }
        self.begin(begun);
        self.watch_deferred_when_idle();
        search_on(&mut self.state, Instant::now());
        self.write_down_by_hand();
        self.finish_commit_rollbacks();
    }

    /// Begins planned rollouts, each under its record, in the order of ranks.
    pub fn begin(&mut self, mut begun: Vec<Begun>) {
        begun.sort_by_key(|(_, _, prepared)| {
            (prepared.planned.rank(), slot_order(prepared), prepared.planned.wanted.key.clone())
        });
        let carried = begun.iter().filter(|(_, _, prepared)| prepared.planned.step.is_carried_through());
        let ranks = Ranks::new(carried.map(|(_, _, prepared)| Place::of(&prepared.planned)));
        let is_open = |step: &PlanStep| step.is_carried_through() || matches!(step, PlanStep::Wait(_));
        let mut beginning: BTreeSet<ObjectKey> = begun
            .iter()
            .filter(|(_, _, prepared)| is_open(&prepared.planned.step))
            .map(|(_, _, prepared)| prepared.planned.wanted.key.clone())
            .collect();
        for (_, _, prepared) in &begun {
            let key = &prepared.planned.wanted.key;
            self.state.rollouts.without_slot.remove(key);
            if let Some(digest) = prepared.digest {
                self.state.live.entry(key.clone()).or_default().well = Some(digest);
            }
            if !matches!(prepared.planned.step, PlanStep::Apply(_) | PlanStep::Wait(_)) {
                self.stop_waiting(key);
            }
        }
        let left: Vec<Begun> =
            begun.extract_if(.., |(_, _, prepared)| !beginning.contains(&prepared.planned.wanted.key)).collect();
        // Ends these records first: dependents check them.
        self.leave(left);
        for (id, earlier, prepared) in begun {
            match &prepared.planned.step {
                PlanStep::Apply(_) => self.apply_in_order((id, earlier), prepared, &mut beginning, &ranks),
                PlanStep::Prune if prepared.served.is_none() => {
                    ranks.pass(Place::of(&prepared.planned));
                    self.finish(id, Outcome::Pruned, None);
                }
                // It has begun already, and does not wait.
                PlanStep::Resume(_) => {
                    let counts = Workload::of(&prepared.planned.wanted.key).is_some_and(Workload::can_go_back);
                    let slot = self.context.rollout_slots.take().ok().filter(|_| counts);
                    self.roll_out(id, *prepared, slot.unwrap_or_else(RolloutSlot::uncounted), &ranks);
                }
                PlanStep::RollBack { .. } | PlanStep::Prune => {
                    self.roll_out(id, *prepared, RolloutSlot::uncounted(), &ranks);
                }
                PlanStep::Wait(reason) => {
                    // It is shown as waiting, and waiting is no trouble.
                    self.context.status.object_trouble(&prepared.planned.wanted.key, None);
                    self.wait_for(id, earlier.map(|record| *record), &prepared.planned, reason);
                }
                // It was left above.
                PlanStep::Unchanged | PlanStep::Held(_) | PlanStep::Suspended(_) | PlanStep::Rejected(..) => {}
            }
        }
        self.fill_slots();
    }

    /// Applies a manifest, unless it waits for another object or is skipped because of one. Whatever comes later in the
    /// order does not wait with it.
    fn apply_in_order(
        &mut self,
        (id, earlier): (RecordId, Option<Box<Record>>),
        prepared: Box<Prepared>,
        beginning: &mut BTreeSet<ObjectKey>,
        ranks: &Ranks,
    ) {
        let key = &prepared.planned.wanted.key;
        match self.gate(key, beginning) {
            Gate::Open => match self.slot_for(&prepared) {
                Ok(slot) => {
                    self.stop_waiting(key);
                    self.roll_out(id, *prepared, slot, ranks);
                }
                Err(message) => {
                    ranks.pass(Place::of(&prepared.planned));
                    self.let_wait(id, earlier.map(|record| *record), &prepared.planned, message);
                }
            },
            Gate::Shut(message) => {
                ranks.pass(Place::of(&prepared.planned));
                self.let_wait(id, earlier.map(|record| *record), &prepared.planned, message);
            }
            Gate::Skip(reason) => {
                ranks.pass(Place::of(&prepared.planned));
                beginning.remove(key);
                self.skip(key, id, &reason);
            }
        }
    }

    /// Ends the records of objects that need no action.
    fn leave(&mut self, left: Vec<Begun>) {
        self.finish_all(left.iter().map(|(id, earlier, prepared)| end_of(*id, earlier.as_deref(), prepared)).collect());
        for (_, earlier, prepared) in &left {
            let wanted = &prepared.planned.wanted;
            match &prepared.planned.step {
                PlanStep::Held(hold) if earlier.is_none() || hold.by.is_none() => {
                    self.tell_hold(&wanted.key, hold, held_reason(hold, &wanted.commit.id, &wanted.trigger));
                }
                PlanStep::Rejected(reason, _) if reason.code != ReasonCode::PruneRefused => {
                    warn!(object = %wanted.key, %reason, "rejected");
                    self.claim(prepared, reason);
                    if is_tried_again(reason) {
                        self.state.retries.put_off(&wanted.key, RetryCause::Refused, Instant::now());
                    }
                }
                _ => {}
            }
        }
    }

    /// Begins one rollout.
    pub fn roll_out(&mut self, record: RecordId, prepared: Prepared, slot: RolloutSlot, ranks: &Ranks) {
        let judged = prepared.is_judged();
        let Prepared { planned, served: Some(served), continues_rollout, live: progress, recorded, .. } = prepared
        else {
            error!("belay's own fault: a rollout of a kind that nothing serves");
            return;
        };
        let key = planned.wanted.key.clone();
        let was_complete = progress.is_none_or(|progress| progress.complete);
        let corrected = self.state.drift.disputes.past(&key, Instant::now());
        let was_unverified = self.state.live.get(&key).map_or(!was_complete, LiveFacts::is_unverified);
        self.watch(&served);
        let (start, apply) = self.start_of(&planned);
        let (scales, keeps_hold) = (apply.scales, apply.keeps_hold);
        let trigger = planned.wanted.trigger.told(&planned.step);
        let (send, live) = watch::channel(None::<Compact>);
        let (give_up, given_up) = watch::channel(recorded.commit_failed);
        let cancel = CancellationToken::new();
        let work = Box::new(RolloutTask {
            context: Arc::clone(&self.context),
            turn: ranks.turn(Place::of(&planned)),
            planned,
            apply,
            served,
            record,
            cancel: cancel.clone(),
            live,
            give_up: given_up,
            resume: Resume { start, continues_rollout, was_unverified, corrected },
            findings: Findings::default(),
            patience: Patience::default(),
            slot,
        });
        let ended = CancellationToken::new();
        let rollout = Rollout { record, trigger, judged, scales, keeps_hold, superseded_by: None };
        self.state.rollouts.under_way.insert(key.clone(), rollout);
        self.handles.insert(key.clone(), RolloutHandle { cancel, ended, live: send, give_up });
        let context = Arc::clone(&self.context);
        self.tasks.spawn(async move {
            let end = work.run().await;
            let recorded = context.ended_record(record, &end, judged).await;
            TaskResult::RolledOut(key, Box::new(end), recorded)
        });
    }

    /// Returns the start of a rollout, and the apply that it sends, or would send if somebody else interfered.
    fn start_of(&self, planned: &Planned) -> (RolloutStart, Apply) {
        let whole = || Apply::of_manifest(&planned.wanted, &self.context.config.name);
        match &planned.step {
            PlanStep::Apply(apply) => (RolloutStart::Apply, apply.clone()),
            PlanStep::Resume(baseline) => {
                let (only_size, apply) = (baseline.only_size, whole());
                let apply = Apply { rolls_out: apply.rolls_out && !only_size, scales: only_size, ..apply };
                (RolloutStart::Resume(baseline.clone()), apply)
            }
            PlanStep::RollBack { reason, written } => {
                let (reason, written) = (reason.clone(), written.clone());
                (RolloutStart::RollBack { reason, written }, whole())
            }
            // Only deletions are left of the steps that a rollout performs.
            _ => (RolloutStart::Prune, whole()),
        }
    }

    /// Returns the record of a planned manifest.
    pub fn record(&self, planned: &Planned) -> Record {
        let wanted = &planned.wanted;
        let (reason, complaints) = match &planned.step {
            PlanStep::Rejected(reason, complaints) => (Some(reason.clone()), complaints.clone()),
            _ => (None, Vec::new()),
        };
        let Wanted { key, manifest, hash, commit, trigger, .. } = wanted;
        Record {
            trigger: trigger.told(&planned.step),
            reason,
            manifest_hash: Some(hash.clone()),
            rolls_out: matches!(&planned.step, PlanStep::Apply(apply) if apply.rolls_out),
            complaints,
            ..Record::planned(&self.context.config.name, &commit.id, key.clone(), self.context.clock.now())
                .written_in(manifest.place.clone(), manifest.file())
        }
    }

    /// Returns records for unreadable manifests: one for each object that is complained about, or for the file.
    fn rejections(&self, news: &HeadChange) -> Vec<Record> {
        let mut by_object: BTreeMap<ObjectKey, (Arc<Commit>, Vec<Complaint>)> = BTreeMap::new();
        let new = |complaint: &Complaint| {
            let places = complaint.also.iter().map(|note| &note.place).chain([&complaint.place]);
            places.clone().any(|place| news.paths.contains(&*place.path))
        };
        let duplicates = self
            .desired()
            .contradictions()
            .into_iter()
            .filter(new)
            .map(|complaint| (complaint, Arc::clone(&news.head)));
        for (complaint, commit) in news.complaints.iter().cloned().chain(duplicates) {
            let key = complaint.object.clone().unwrap_or_else(|| file_key(&complaint));
            by_object.entry(key).or_insert_with(|| (commit, Vec::new())).1.push(complaint);
        }
        let record = |(object, (commit, complaints)): (ObjectKey, (Arc<Commit>, Vec<Complaint>))| Record {
            place: complaints.first().map(|complaint| complaint.place.clone()),
            reason: complaints.first().map(|first| Reason::new(ReasonCode::InvalidManifest, first.to_string())),
            complaints,
            ..Record::planned(&self.context.config.name, &commit.id, object, self.context.clock.now())
        };
        by_object.into_iter().map(record).collect()
    }

    /// Ends a record that needs no rollout.
    pub fn finish(&mut self, id: RecordId, outcome: Outcome, reason: Option<&Reason>) {
        self.finish_all(vec![RecordEnd { id, outcome, reason: reason.cloned() }]);
    }

    /// Ends records that need no rollout, in one transaction.
    fn finish_all(&mut self, ends: Vec<RecordEnd>) {
        if ends.is_empty() {
            return;
        }
        let at = self.context.clock.now();
        let entry = |end: &RecordEnd| HistoryEntry::End(end.id, end.outcome, end.reason.clone(), at);
        let entries: Vec<HistoryEntry> = ends.iter().map(entry).collect();
        let Some(written) = self.context.enter_or_owe(entries) else {
            let context = Arc::clone(&self.context);
            self.tasks.spawn(async move {
                context.until_nothing_is_owed().await;
                TaskResult::EndsWritten(ends.iter().map(|end| (end.id, end.outcome)).collect())
            });
            return;
        };
        for (end, written) in ends.iter().zip(written) {
            match written {
                Ok(()) => self.publish_end(end.id, end.outcome),
                // A plan that is made once more, for a mirror that was lost, has the records that it had before.
                Err(HistoryError::Ended { outcome, .. })
                    if outcome == end.outcome || outcome.is_good() && end.outcome.is_good() =>
                {
                    debug!(record = end.id.0, %outcome, "had ended before");
                }
                Err(error) => error!(%error, "failed to end a record"),
            }
        }
    }

    /// Ends the record of a rollout that a newer commit, or belay's own start, has replaced. At shutdown (`by` is
    /// `None`) it stays open, to be taken up.
    pub fn supersede(&mut self, id: RecordId, by: Option<&CommitId>) {
        let Some(by) = by else { return };
        let record = self.context.history.record(id).unwrap_or_else(|error| {
            warn!(%error, "failed to read what a newer commit has taken the place of");
            None
        });
        let end = record.as_ref().map(|record| record.superseded(by));
        let (outcome, reason) = end.unwrap_or_else(|| (Outcome::Superseded, superseded_by(by)));
        self.finish(id, outcome, Some(&reason));
        if let Some(record) = record.filter(|_| outcome == Outcome::Failed) {
            self.context.status.rollout_ended(record.trigger.word(), outcome, None);
        }
    }
}

/// The end of a record that needs no rollout.
struct RecordEnd {
    id: RecordId,
    outcome: Outcome,
    reason: Option<Reason>,
}

/// Returns the end of a record for an object that needs no action.
fn end_of(id: RecordId, open: Option<&Record>, prepared: &Prepared) -> RecordEnd {
    let wanted = &prepared.planned.wanted;
    let (outcome, reason) = match &prepared.planned.step {
        PlanStep::Held(hold) if open.is_some() && hold.by.is_some() => {
            (Outcome::RolledBack, Some(Reason::new(ReasonCode::UndoneByHand, hold.reason.clone())))
        }
        PlanStep::Held(hold) => (Outcome::Held, Some(held_reason(hold, &wanted.commit.id, &wanted.trigger))),
        PlanStep::Suspended(why) => (Outcome::Suspended, Some(Reason::new(ReasonCode::Suspended, why.clone()))),
        PlanStep::Rejected(reason, _) if reason.code == ReasonCode::PruneRefused => {
            (Outcome::Orphaned, Some(reason.clone()))
        }
        PlanStep::Rejected(reason, _) => (Outcome::Rejected, Some(reason.clone())),
        _ if open.is_some_and(|record| record.was_applied(prepared.applied)) => (Outcome::Complete, None),
        _ => (Outcome::Unchanged, None),
    };
    RecordEnd { id, outcome, reason }
}

fn superseded_by(commit: &CommitId) -> Reason {
    Reason::new(ReasonCode::Superseded, format!("commit {} took its place", commit.short()))
}

/// Returns the key for complaints about a file from which no object could be read.
fn file_key(complaint: &Complaint) -> ObjectKey {
    ObjectKey { group: String::new(), kind: "File".to_owned(), namespace: None, name: complaint.place.path.to_string() }
}
