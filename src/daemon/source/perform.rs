//! Performs the loop's effects: the state decides about an event, and its effects begin here.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::task::AbortHandle;
use tokio::time::Instant;
use tracing::{info, warn};

use super::state::{Effect, Event, NoPruning, Source, Start, on};
use super::task_result::{CheckResult, TaskResult};
use crate::daemon::live::recheck::Recheck;
use crate::daemon::live::reported::named;
use crate::daemon::planning::plan_parts::PATIENCE;
use crate::daemon::planning::prune_candidates::Candidates;
use crate::daemon::publish::dispute::Dispute;
use crate::daemon::publish::obstacle::Obstacle;
use crate::daemon::publish::status::set;
use crate::daemon::repository::head_change::HeadChange;
use crate::daemon::repository::look::RepositoryLook;
use crate::daemon::repository::prepared::Prepared;
use crate::daemon::rollout::apply_wave::Ranks;
use crate::daemon::rollout::prune::{self, PrunePlan};
use crate::daemon::shared::rollout_slots::RolloutSlot;
use crate::history::Trouble;
use belay_core::manifest::ObjectKey;
use belay_core::rollout::{CommitId, Note, Reason, Record, RecordId, Step, StepKind, Trigger};

impl Source {
    /// Lets the state decide about an event, and begins the effects.
    pub fn on(&mut self, event: Event) {
        for effect in on(&mut self.state, event, Instant::now()) {
            self.perform(effect);
        }
    }

    pub fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Look { known } => self.look(known),
            Effect::Fetched(reached) => self.context.status.fetched(reached),
            Effect::LookedAt(at) => self.context.status.change(|source| set(&mut source.looked, Some(at))),
            Effect::Unreadable(why) => {
                self.context.status.change(|source| set(&mut source.obstacles.unreadable, why));
            }
            Effect::RepositoryTrouble { trouble, is_news } => {
                let (message, since) = trouble.clone().map(|Trouble { message, since }| (message, since)).unzip();
                self.context.status.trouble(&Obstacle::Repository, message);
                self.context.status.change(|source| set(&mut source.follower.trouble_since, since));
                if is_news {
                    self.note_what_is_followed(trouble);
                }
            }
            Effect::NoteFollowed(trouble) => self.note_what_is_followed(trouble),
            Effect::StopWaiting => drop(self.wait_task.take().inspect(AbortHandle::abort)),
            Effect::PublishDesired(desired) => drop(self.fetching.desired.send_replace(desired)),
            Effect::Away(is_away) => {
                if is_away {
                    info!("the repository does not answer: keeping up what was planned last");
                }
                self.fetching.repository.away.0.store(is_away, Ordering::Relaxed);
            }
            Effect::RefuseHead { head, message } => {
                warn!(message);
                self.context.status.change(|source| set(&mut source.head, Some(head)));
            }
            Effect::Await(number, head) => self.await_turn(number, head),
            Effect::PlanHead(news) => self.plan_new_head(*news),
            Effect::RecordPlan(plan) => self.record_plan(*plan),
            Effect::BeginPlan(record) => self.begin_plan(*record),
            Effect::DropPlan(record) => self.drop_plan(*record),
            Effect::Cancel(key) => self.handles.get(&key).into_iter().for_each(|handle| handle.cancel.cancel()),
            Effect::Check { plan, rechecks } => self.check(plan, rechecks),
            Effect::Search { plan } => self.search_for_what_left(plan),
            Effect::Retry(tries) => tries.into_iter().for_each(|(recheck, number)| self.retry(recheck, number)),
            Effect::InTheWay(key, message) => self.context.status.object_trouble(&key, Some(message)),
            Effect::Missing(key) => self.watch_for_missing([key].into()),
            Effect::StillRefused(key, reason) => self.still_refused(&key, &reason),
            Effect::NoDrift(key) => self.no_drift(&key),
            Effect::ReportDrift { key, served, by, fields } => self.report_drift(&key, served, by, &fields),
            Effect::Disagree { key, dispute } => self.disagree(&key, dispute.as_ref()),
            Effect::StillDisagree { key, dispute } => drop(self.context.disagree(&key, dispute.as_ref())),
            Effect::CantCorrect { key, fields, reason } => self.context.say_not_corrected(&key, &fields, &reason),
            Effect::Claim(prepared, reason) => self.claim(&prepared, &reason),
            Effect::Adopt { prepared, hold } => self.adopt_rolled(*prepared, hold),
            Effect::NoTrouble(key) => self.context.status.object_trouble(&key, None),
            Effect::Start(start) => self.start(start),
            Effect::Supersede(record, by) => self.supersede(record, Some(&by)),
            Effect::Count { trigger, outcome, took } => {
                self.context.status.rollout_ended(trigger.word(), outcome, took);
            }
            Effect::CountCorrection => self.context.status.drift_corrected(),
            Effect::Reopen { record } => self.reopen(record),
            Effect::Finish { key, record, outcome, reason } => {
                self.finish(record, outcome, Some(&reason));
                self.recheck_dependents(&key);
            }
        }
    }

    /// Tells the source that has an object that this one claims it too.
    pub fn claim(&mut self, prepared: &Prepared, reason: &Reason) {
        if let Some((owner, key)) = self.context.claim(prepared, reason) {
            self.on(Event::Claimed(owner, key));
        }
    }

    /// Publishes another reason of an object that is refused again. Other words each time are told ever later.
    fn still_refused(&mut self, key: &ObjectKey, reason: &Reason) {
        let Some(refused) = self.context.refused_otherwise(key, reason) else { return };
        if self.state.tells_other_words(key, Instant::now()) {
            info!(object = %key, %reason, "still refused");
            self.context.note_standing(key, Some(refused));
        }
    }

    /// Looks at the repository, beside the loop.
    fn look(&mut self, known: Option<CommitId>) {
        let now = self.context.clock.now();
        self.context.status.change(|source| set(&mut source.follower.looked, Some(now)));
        let look = RepositoryLook {
            repository: self.fetching.repository.clone(),
            follow: self.fetching.follow.clone(),
            stop: self.stop.clone(),
            wake: self.fetching.wake.clone(),
            planned: self.state.planning().planned().cloned(),
            pruning: self.context.cleanup.pruning,
            heads_wait: self.context.heads_wait(),
            desired: self.desired(),
            known,
            complained: self.context.complained_before(self.state.desired()),
        };
        let context = Arc::clone(&self.context);
        self.tasks.spawn(async move { TaskResult::Looked(Box::new(look.run(context).await)) });
    }

    /// Returns the objects that a new head has taken away, and those that are left from before. `None` if nothing is deleted for
    /// now, which is said.
    pub fn prune_candidates(&self, news: Option<&HeadChange>) -> Option<Candidates> {
        let watched = &self.watches.watched;
        let api_version =
            |key: &ObjectKey| watched.serving_group(&key.group, &key.kind).map(|served| served.api_version());
        match self.state.prune_candidates(news, api_version) {
            Ok(candidates) => return Some(candidates),
            Err(NoPruning::Off(0) | NoPruning::Unknown | NoPruning::Unreadable(None)) => {}
            Err(NoPruning::Off(objects)) => info!(objects, "left the repository and stay: prune is off"),
            Err(NoPruning::Unreadable(Some(message))) => {
                warn!(message, "refused to delete");
                self.context.status.trouble(&Obstacle::Prune, Some(message));
            }
        }
        None
    }

    /// Searches for objects that have left the repository. No commit, and no other object, waits for that.
    fn search_for_what_left(&mut self, plan: u64) {
        let Some(candidates) = self.prune_candidates(None) else {
            return self.on(Event::SearchPutOff);
        };
        let (context, open) = (Arc::clone(&self.context), self.state.rollouts().resumed_ids());
        self.tasks.spawn(async move {
            let PrunePlan { prepared, searched, suspended } = prune::plan(&context, Some(candidates)).await;
            let prepared = context.with_recorded_facts(prepared, open).await;
            TaskResult::Searched(CheckResult { plan, prepared, searched, suspended })
        });
    }

    /// Looks into these objects.
    fn check(&mut self, plan: u64, rechecks: Vec<Recheck>) {
        let context = Arc::clone(&self.context);
        let open = rechecks.iter().filter_map(Recheck::open_record).collect();
        let (desired, planned) = (self.desired(), self.state.planning().planned().cloned());
        self.tasks.spawn(async move {
            let prepared = context.check(desired, planned, rechecks, Some(PATIENCE)).await;
            TaskResult::Checked(plan, context.with_recorded_facts(prepared, open).await)
        });
    }

    /// Tries one object again, which keeps nothing else waiting, however long that takes.
    fn retry(&mut self, recheck: Recheck, number: u64) {
        let context = Arc::clone(&self.context);
        let open = recheck.open_record().into_iter().collect();
        let (desired, planned, key) = (self.desired(), self.state.planning().planned().cloned(), recheck.key.clone());
        self.tasks.spawn(async move {
            let prepared = context.check(desired, planned, vec![recheck], None).await;
            let prepared = context.with_recorded_facts(prepared, open).await;
            TaskResult::Retried(key, number, prepared.into_iter().next().map(Box::new))
        });
    }

    /// Reads the record of a rollout that belay itself has broken off, to be taken up again.
    fn reopen(&mut self, record: RecordId) {
        let context = Arc::clone(&self.context);
        self.tasks.spawn(async move {
            let reader = Arc::clone(&context);
            let record = context.repository.blocking_pool.run_for_object(move || reader.history.record(record)).await;
            match record {
                Ok(Some(record)) => TaskResult::Reopened(Box::new(record)),
                Ok(None) => TaskResult::Told,
                Err(error) => {
                    warn!(%error, "failed to read the record of what is taken up again");
                    TaskResult::Told
                }
            }
        });
    }

    /// Begins rollouts that need no new head: new ones under records that are written first.
    fn start(&mut self, start: Start) {
        let Start { resumed, new, corrections } = start;
        for prepared in &corrections {
            if let Trigger::Drift(by) = &prepared.planned.wanted.trigger {
                let fields = named(&prepared.foreign);
                warn!(object = %prepared.planned.wanted.key, by, fields, "drifted");
            }
        }
        let ranks = Ranks::new(corrections.iter().map(|prepared| prepared.planned.rank()));
        let (folded, corrections) = self.fold(corrections);
        for (id, prepared) in folded.into_iter().chain(self.write_down(corrections)) {
            let key = prepared.planned.wanted.key.clone();
            info!(object = %key, "putting it right");
            // A hold that somebody has taken off since the plan is still to be heard.
            if !prepared.keeps_hold() {
                self.on(Event::Begun { key });
            }
            self.roll_out(id, prepared, RolloutSlot::uncounted(), &ranks);
        }
        let mut begun: Vec<_> = resumed
            .into_iter()
            .map(|(record, prepared)| (record.id, Some(Box::new(record)), Box::new(prepared)))
            .collect();
        for (id, prepared) in self.write_down(new) {
            self.on(Event::Begun { key: prepared.planned.wanted.key.clone() });
            begun.push((id, None, Box::new(prepared)));
        }
        self.begin(begun);
    }

    /// Opens the records again under which a field that somebody keeps changing was corrected before. Returns the
    /// corrections that go on under one, and the rest.
    fn fold(&self, corrections: Vec<Prepared>) -> (Vec<(RecordId, Prepared)>, Vec<Prepared>) {
        let (mut folded, mut rest) = (Vec::new(), Vec::new());
        for prepared in corrections {
            let dispute = self.state.disputes().about(&prepared.planned.wanted.key, Instant::now());
            match dispute.and_then(|dispute| self.begin_again(&prepared, &dispute)) {
                Some(id) => folded.push((id, prepared)),
                None => rest.push(prepared),
            }
        }
        (folded, rest)
    }

    fn begin_again(&self, prepared: &Prepared, dispute: &Dispute) -> Option<RecordId> {
        let record = Record { rolls_out: prepared.rolls_out(), ..self.context.planned_record(&prepared.planned) };
        let detail = format!("once more, {} times by now: {}", dispute.times, named(&dispute.fields));
        let step = Step { at: self.context.clock.now(), kind: StepKind::Applying, detail };
        let begun = self.context.history.begin_again(&self.context.config.name, &record, &step);
        begun.unwrap_or_else(|error| {
            warn!(object = %record.object, %error, "failed to go on under the record of the last correction");
            None
        })
    }

    /// Records the rollouts that begin without a new head. Nothing is begun where that fails.
    fn write_down(&mut self, prepared: Vec<Prepared>) -> Vec<(RecordId, Prepared)> {
        let Some(head) = self.state.planning().planned().cloned().filter(|_| !prepared.is_empty()) else {
            return Vec::new();
        };
        let now = self.context.clock.now();
        let record =
            |one: &Prepared| Record { rolls_out: one.rolls_out(), ..self.context.planned_record(&one.planned) };
        let records: Vec<Record> = prepared.iter().map(record).collect();
        match self.context.begin_records(&head, &records, now) {
            Ok(ids) => {
                for (id, prepared) in ids.iter().zip(&prepared) {
                    self.note_on(prepared).iter().for_each(|note| self.write_down_note(*id, note));
                }
                ids.into_iter().zip(prepared).collect()
            }
            Err(error) => {
                warn!(objects = prepared.len(), %error, "failed to write down what is to be done, trying again");
                self.context.mend(&error);
                self.on(Event::NotWritten(prepared));
                Vec::new()
            }
        }
    }

    /// Returns the note of the person who asked for this retry. A note older than the newest record belongs to an
    /// earlier request.
    fn note_on(&self, prepared: &Prepared) -> Option<Note> {
        let wanted = &prepared.planned.wanted;
        let retry = wanted.trigger.told(&prepared.planned.step) == Trigger::Retry;
        let note = self.state.live().get(&wanted.key)?.note.as_deref().cloned().filter(|_| retry)?;
        prepared.recorded.newest.is_none_or(|(_, started)| started <= note.at).then_some(note)
    }

    fn write_down_note(&self, id: RecordId, note: &Note) {
        let step = Step { at: self.context.clock.now(), kind: StepKind::Note, detail: note.line() };
        if let Err(error) = self.context.history.step(id, &step) {
            warn!(%error, "failed to write down what somebody said");
        }
    }
}
