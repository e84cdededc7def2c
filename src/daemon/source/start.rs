//! A finished plan becomes records, and the records become rollouts.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};

use super::record_ends::{RecordEnd, end_of, superseded_by};
use super::state::{Event, Rollout, RolloutHandle, Source};
use super::task_result::{FinishedPlan, HeadPlan, PlanRecord, TaskResult};
use crate::daemon::planning::refused::is_tried_again;
use crate::daemon::publish::obstacle::Obstacle;
use crate::daemon::publish::status::set;
use crate::daemon::repository::prepared::Prepared;
use crate::daemon::rollout::apply_wave::{Place, Ranks};
use crate::daemon::rollout::deferred_kinds::until_applied;
use crate::daemon::rollout::patience::Patience;
use crate::daemon::rollout::rollout_task::{Findings, Resume, RolloutStart, RolloutTask};
use crate::daemon::shared::live::LiveFacts;
use crate::daemon::shared::rollout_slots::RolloutSlot;
use belay_core::manifest::{Compact, ObjectKey};
use belay_core::rollout::{
    Apply, Gate, Outcome, PlanStep, Planned, ReasonCode, Record, RecordId, Workload, held_reason,
};

/// A planned object, its record, and its facts from before a restart. Boxed: there are thousands at once, and each is given
/// back when its rollout has begun.
type Begun = (RecordId, Option<Box<Record>>, Box<Prepared>);

/// Returns the order in which rollouts of one rank get the slots of `max_rollouts`: those that have begun, those that take the
/// place of one that is not complete, all others.
fn slot_order(prepared: &Prepared) -> u8 {
    match prepared.planned.step {
        PlanStep::Resume(_) | PlanStep::RollBack { .. } => 0,
        _ if prepared.is_interrupted() => 1,
        _ => 2,
    }
}

impl Source {
    /// Writes a plan into the history, beside the loop. Nothing of it is begun before.
    pub fn record_plan(&mut self, finished: FinishedPlan) {
        let FinishedPlan { news, plan: HeadPlan { mut prepared, unread, .. } } = finished;
        for record in unread.iter().filter_map(|key| self.state.take_resumed(key)).collect::<Vec<_>>() {
            self.supersede(record.id, Some(&news.head.id));
        }
        let mut records = self.context.rejections(self.state.desired(), &news);
        let rejected = records.len();
        for prepared in &mut prepared {
            self.state.note_continued(prepared);
            prepared.resume(self.state.rollouts().resumed(&prepared.planned.wanted.key));
        }
        let resumed = self.state.rollouts().all_resumed();
        let known: Vec<Prepared> =
            prepared.extract_if(.., |prepared| resumed.contains_key(&prepared.planned.wanted.key)).collect();
        let new = prepared;
        let planned: Vec<Record> = new
            .iter()
            .map(|new| Record { rolls_out: new.rolls_out(), ..self.context.planned_record(&new.planned) })
            .collect();
        let number = self.state.planning().newest();
        let (orphans, now) = (
            self.context.orphans_of(self.state.desired(), &news, |key| self.state.live().has(key)),
            self.context.clock.now(),
        );
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
                    .saw_fetched(source, &news.head.id, news.came(), news.fetch, now)
                    .and_then(|()| writer.begin_records(&news.head.id, &records, now))
                    .and_then(|ids| writer.note_let_through(&news, &ids, now).map(|()| ids));
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
        self.on(Event::PlanDropped);
    }

    /// Begins a recorded plan.
    pub fn begin_plan(&mut self, record: PlanRecord) {
        let PlanRecord { news, records, rejected, orphaned, new, known, written, .. } = record;
        let (ids, ended) = (written.unwrap_or_default(), rejected + orphaned);
        let unnoticed = self.context.unnoticed(self.state.desired(), new.iter().chain(&known));
        self.context.status.trouble(&Obstacle::History, None);
        self.pin(&records);
        self.context.status.change(|source| set(&mut source.planned, Some(news.head.id.clone())));
        self.context.status.trouble(&Obstacle::Belay, None);
        let is_open = |key: &ObjectKey| self.state.rollouts().has(key);
        self.context.forget_what_left(self.state.desired(), is_open);
        self.context.follow_moved_manifests(self.state.desired());
        let at_once = ids.iter().zip(&records).take(ended).enumerate().map(|(index, (id, record))| {
            let outcome = if index < rejected { Outcome::Rejected } else { Outcome::Orphaned };
            warn!(object = %record.object, reason = record.reason.as_ref().map(ToString::to_string), %outcome);
            RecordEnd { id: *id, outcome, reason: record.reason.clone() }
        });
        self.finish_all(at_once.collect());
        for (id, record) in ids.iter().zip(&records).skip(ended) {
            unnoticed.get(&record.object).into_iter().for_each(|readers| self.context.note_unnoticed(*id, readers));
        }
        // Thousands of them, written down by now.
        drop(records);
        let mut begun: Vec<Begun> =
            ids.into_iter().skip(ended).zip(new).map(|(id, prepared)| (id, None, Box::new(prepared))).collect();
        for prepared in known {
            if let Some(record) = self.state.take_resumed(&prepared.planned.wanted.key) {
                begun.push((record.id, Some(Box::new(record)), Box::new(prepared)));
            }
        }
        self.begin(begun);
        self.watch_deferred_when_applied();
        self.on(Event::SearchLeft);
        self.write_down_by_hand();
        self.finish_commit_rollbacks();
    }

    /// Watches the deferred kinds when their planned objects are applied.
    fn watch_deferred_when_applied(&mut self) {
        if self.watches.deferred.kinds.is_empty() {
            return;
        }
        let context = Arc::clone(&self.context);
        self.tasks.spawn(async move {
            until_applied(&context.requests).await;
            TaskResult::Idle
        });
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
            self.on(Event::Scheduled { key: key.clone(), digest: prepared.digest });
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
                    self.context.tell_hold(&wanted.key, hold, held_reason(hold, &wanted.commit.id, &wanted.trigger));
                }
                PlanStep::Rejected(reason, _) if reason.code != ReasonCode::PruneRefused => {
                    warn!(object = %wanted.key, %reason, "rejected");
                    self.claim(prepared, reason);
                    if is_tried_again(reason) {
                        self.on(Event::Refused(wanted.key.clone()));
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
        let corrected = self.state.disputes().past(&key, Instant::now());
        let was_unverified = self.state.live().get(&key).map_or(!was_complete, LiveFacts::is_unverified);
        self.watches.also_if_calm(&served);
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
            canary: None,
            findings: Findings::default(),
            patience: Patience::default(),
            slot,
        });
        let ended = CancellationToken::new();
        let rollout = Rollout { record, trigger, judged, scales, keeps_hold, superseded_by: None };
        self.on(Event::UnderWay { key: key.clone(), rollout: Box::new(rollout) });
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
}
