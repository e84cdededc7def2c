//! A finished plan becomes records, and the records become rollouts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};

use super::apply_wave::{Place, Ranks};
use super::head_change::HeadChange;
use super::live::LiveFacts;
use super::planner::Prepared;
use super::resume_point::resumed_apply;
use super::rollout_task::{Findings, Resume, ResumePoint, RolloutTask};
use super::state::{Rollout, RolloutHandle, Source, search_on};
use super::status::set;
use super::task_result::{FinishedPlan, HeadPlan, PlanRecord, TaskResult};
use belay_core::manifest::{Compact, Complaint, ObjectKey};
use belay_core::rollout::{
    Action, Apply, Baseline, Commit, CommitId, Gate, Outcome, Planned, Reason, ReasonCode, Record, RecordId, Wanted,
    held_reason,
};

/// A planned object, its record, and what was known of it before a restart.
type Begun = (RecordId, Option<Box<Record>>, Prepared);

impl Source {
    /// Writes a plan into the history, beside the loop. Nothing of it is begun before.
    pub(super) fn record_plan(&mut self, finished: FinishedPlan) {
        let FinishedPlan { news, plan: HeadPlan { mut prepared, unread, .. } } = finished;
        for record in unread.iter().filter_map(|key| self.state.rollouts.resumed.remove(key)).collect::<Vec<_>>() {
            self.supersede(record.id, Some(&news.head));
        }
        let mut records = self.rejections(&news);
        let rejected = records.len();
        prepared.iter_mut().for_each(|prepared| self.state.say_what_goes_on(prepared));
        let (known, new): (Vec<Prepared>, Vec<Prepared>) = prepared
            .into_iter()
            .partition(|prepared| self.state.rollouts.resumed.contains_key(&prepared.planned.wanted.key));
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
                    .saw(source, &news.head, &news.commits, now)
                    .and_then(|()| history.begin(source, &news.head, &records, now));
                let (orphaned, history) = (count, begun);
                PlanRecord { number, news, records, rejected, orphaned, new, known, written, history }
            };
            TaskResult::PlanRecorded(Box::new(context.repository.beside.run(write).await))
        });
    }

    /// Forgets a plan that could not be written down: the repository is read again. The records of one that was written down
    /// and that nobody waits for any more end.
    pub(super) fn drop_plan(&mut self, record: PlanRecord) {
        match record.written {
            Ok(ids) => ids.into_iter().for_each(|id| self.supersede(id, Some(&record.news.head))),
            Err(error) => {
                warn!(%error, "failed to write down the plan, trying again");
                self.context.status.trouble("history", Some(error.to_string()));
                self.context.mend(&error);
            }
        }
        self.forget_head();
    }

    /// Begins what a plan says that is written down.
    pub(super) fn begin_plan(&mut self, record: PlanRecord) {
        let PlanRecord { news, records, rejected, orphaned, new, known, written, .. } = record;
        let (ids, ended) = (written.unwrap_or_default(), rejected + orphaned);
        let unnoticed = self.unnoticed(new.iter().chain(&known));
        self.context.status.trouble("history", None);
        self.pin(&records);
        self.context.status.change(|source| set(&mut source.planned, Some(news.head.clone())));
        self.context.status.trouble("belay", None);
        self.forget_what_left();
        for (index, (id, record)) in ids.iter().zip(&records).take(ended).enumerate() {
            let outcome = if index < rejected { Outcome::Rejected } else { Outcome::Orphaned };
            warn!(object = %record.object, reason = record.reason.as_ref().map(ToString::to_string), %outcome);
            self.finish(*id, outcome, record.reason.as_ref());
        }
        for (id, record) in ids.iter().zip(&records).skip(ended) {
            unnoticed.get(&record.object).into_iter().for_each(|readers| self.note_unnoticed(*id, readers));
        }
        // Thousands of them, written down by now.
        drop(records);
        let mut begun: Vec<Begun> =
            ids.into_iter().skip(ended).zip(new).map(|(id, prepared)| (id, None, prepared)).collect();
        for prepared in known {
            if let Some(record) = self.state.rollouts.resumed.remove(&prepared.planned.wanted.key) {
                begun.push((record.id, Some(Box::new(record)), prepared));
            }
        }
        self.begin(begun);
        self.watch_crowds_when_calm();
        search_on(&mut self.state, Instant::now());
        self.write_down_by_hand();
    }

    /// Begins what was planned, each under its record, in the order of ranks.
    pub(super) fn begin(&mut self, mut begun: Vec<Begun>) {
        begun.sort_by_key(|(_, _, prepared)| (prepared.planned.rank(), prepared.planned.wanted.key.clone()));
        let writes = |planned: &Planned| matches!(planned.action, Action::Apply(_) | Action::Prune);
        let written = begun.iter().filter(|(_, _, prepared)| writes(&prepared.planned));
        let ranks = Ranks::new(written.map(|(_, _, prepared)| Place::of(&prepared.planned)));
        let beginning: BTreeSet<ObjectKey> = begun
            .iter()
            .filter(|(_, earlier, prepared)| self.is_to_begin(earlier.as_deref(), prepared))
            .map(|(_, _, prepared)| prepared.planned.wanted.key.clone())
            .collect();
        // What ends at once is recorded before what depends on it asks.
        begun.sort_by_key(|(_, _, prepared)| beginning.contains(&prepared.planned.wanted.key));
        for (id, earlier, prepared) in begun {
            let key = prepared.planned.wanted.key.clone();
            if let Some(digest) = prepared.digest {
                self.state.live.entry(key.clone()).or_default().well = Some(digest);
            }
            let stage = self.stage(earlier.as_deref(), &prepared);
            if !matches!((&prepared.planned.action, &stage), (Action::Apply(_) | Action::Blocked(_), None)) {
                self.stop_waiting(&key);
            }
            match (&prepared.planned.action, stage) {
                (Action::Apply(_), None) => match self.gate(&key, &beginning) {
                    Gate::Open => {
                        self.stop_waiting(&key);
                        let stage = self.applies_as(earlier.as_deref(), &prepared);
                        self.roll_out(id, prepared, stage, &ranks);
                    }
                    // Whatever comes later in the order does not wait with it.
                    Gate::Shut(message) => {
                        ranks.pass(Place::of(&prepared.planned));
                        self.let_wait(id, &prepared.planned, message);
                    }
                    Gate::Skip(reason) => {
                        ranks.pass(Place::of(&prepared.planned));
                        self.skip(&key, id, &reason);
                    }
                },
                (_, Some(stage)) => self.roll_out(id, prepared, stage, &ranks),
                (Action::Unchanged, None) => self.finish(id, Outcome::Unchanged, None),
                (Action::Held(hold), None) if earlier.is_some() && hold.by.is_some() => {
                    let reason = Reason::new(ReasonCode::UndoneByHand, hold.reason.clone());
                    self.finish(id, Outcome::RolledBack, Some(&reason));
                }
                (Action::Held(hold), None) => {
                    let wanted = &prepared.planned.wanted;
                    let reason = held_reason(hold, &wanted.commit.id, &wanted.trigger);
                    self.finish(id, Outcome::Held, Some(&reason));
                    self.tell_hold(&key, hold, reason);
                }
                (Action::Suspended(why), None) => {
                    let reason = Reason::new(ReasonCode::Suspended, why.clone());
                    self.finish(id, Outcome::Suspended, Some(&reason));
                }
                (Action::Rejected(reason, _), None) if reason.code == ReasonCode::PruneRefused => {
                    self.finish(id, Outcome::Orphaned, Some(reason));
                }
                (Action::Rejected(reason, _), None) => {
                    warn!(object = %key, %reason, "rejected");
                    self.finish(id, Outcome::Rejected, Some(reason));
                    self.claim(&prepared, reason);
                }
                (Action::Blocked(reason), None) => {
                    // It is told as waiting, and waiting is no trouble.
                    self.context.status.trouble(&key.to_string(), None);
                    self.wait_for(id, &prepared.planned, reason);
                }
                (Action::Prune, None) if prepared.served.is_none() => self.finish(id, Outcome::Pruned, None),
                (Action::Prune, None) => self.roll_out(id, prepared, ResumePoint::Prune, &ranks),
            }
        }
    }

    /// Whether something is done about an object from here on.
    fn is_to_begin(&self, earlier: Option<&Record>, prepared: &Prepared) -> bool {
        matches!(prepared.planned.action, Action::Apply(_) | Action::Prune | Action::Blocked(_))
            || self.stage(earlier, prepared).is_some()
    }

    /// Where a rollout is taken up that is under way already; `None` where it is not.
    fn stage(&self, earlier: Option<&Record>, prepared: &Prepared) -> Option<ResumePoint> {
        let known = |baseline: &Option<Baseline>| earlier.and(baseline.clone());
        let going_back = earlier.filter(|record| record.outcome == Outcome::RollingBack);
        let standing = prepared.standing.as_ref();
        match &prepared.planned.action {
            // Somebody took it back while belay was not there: that is its end.
            Action::Held(hold) if hold.by.is_some() => None,
            Action::Held(hold) if going_back.is_some() || standing.is_some_and(|standing| !standing.complete) => {
                let reason = going_back.and_then(|record| record.reason.clone());
                let reason = reason.unwrap_or_else(|| Reason::new(ReasonCode::Failed, hold.reason.clone()));
                let went =
                    known(&prepared.recorded.went_back).or_else(|| standing.map(|standing| standing.baseline.clone()));
                Some(ResumePoint::GoingBack { reason, went })
            }
            Action::Unchanged | Action::Apply(_) if going_back.is_some() => {
                let reason = going_back.and_then(|record| record.reason.clone());
                let reason = reason.unwrap_or_else(|| {
                    Reason::new(ReasonCode::Failed, "it had failed before belay was restarted".to_owned())
                });
                Some(ResumePoint::GoingBack { reason, went: None })
            }
            Action::Unchanged => {
                let known = known(&prepared.recorded.applied);
                let only_size = known.as_ref().is_some_and(|known| known.only_size);
                let scales = only_size || prepared.scales_on && !prepared.carries_on;
                let standing = standing.filter(|standing| standing.ours || prepared.carries_on || scales)?;
                if earlier.is_none() && standing.complete && !prepared.carries_on {
                    return None;
                }
                let baseline = known.or_else(|| {
                    let baseline = Baseline { only_size: scales, ..standing.baseline.clone() };
                    scales.then_some(baseline)
                });
                Some(ResumePoint::UnderWay(baseline.unwrap_or_else(|| standing.baseline.clone())))
            }
            _ => None,
        }
    }

    /// How something is applied. What was applied before a restart and is not live any more may have been undone by hand
    /// meanwhile.
    fn applies_as(&self, earlier: Option<&Record>, prepared: &Prepared) -> ResumePoint {
        let undoable = matches!(&prepared.planned.action, Action::Apply(apply) if apply.replaces_template());
        if undoable && earlier.is_some() && prepared.recorded.applied.is_some() {
            ResumePoint::Drifted
        } else {
            ResumePoint::Fresh
        }
    }

    /// Begins one rollout.
    pub(super) fn roll_out(&mut self, record: RecordId, prepared: Prepared, stage: ResumePoint, ranks: &Ranks) {
        let only_size = matches!(&stage, ResumePoint::UnderWay(baseline) if baseline.only_size);
        let judged = prepared.rolls_out()
            || !only_size && matches!(stage, ResumePoint::UnderWay(_) | ResumePoint::GoingBack { .. });
        let Prepared { planned, served: Some(served), carries_on, standing, .. } = prepared else {
            error!("belay's own fault: a rollout of a kind that nothing serves");
            return;
        };
        let key = planned.wanted.key.clone();
        let was_complete = standing.is_none_or(|standing| standing.complete);
        let doubtful = self.state.live.get(&key).map_or(!was_complete, LiveFacts::is_doubtful);
        self.watch(&served);
        let apply = match &planned.action {
            Action::Apply(apply) => apply.clone(),
            // Taken up again: what would be sent if somebody else interferes.
            _ => {
                let apply = resumed_apply(&planned.wanted, &self.context.config.name);
                Apply { rolls_out: apply.rolls_out && !only_size, scales: only_size, ..apply }
            }
        };
        let scales = apply.scales;
        let trigger = planned.wanted.trigger.told(&planned.action);
        let (send, live) = watch::channel(None::<Compact>);
        let (give_up, given_up) = watch::channel(None::<Reason>);
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
            resume: Resume { stage, carries_on, doubtful },
            findings: Findings::default(),
        });
        let ended = CancellationToken::new();
        let rollout = Rollout { record, trigger, judged, scales, superseded_by: None };
        self.state.rollouts.under_way.insert(key.clone(), rollout);
        self.handles.insert(key.clone(), RolloutHandle { cancel, ended, live: send, give_up });
        let context = Arc::clone(&self.context);
        self.tasks.spawn(async move {
            let end = work.run().await;
            let recorded = context.ended_record(record, &end, judged).await;
            TaskResult::RolledOut(key, Box::new(end), recorded)
        });
    }

    /// The record of what is planned for a manifest.
    pub(super) fn record(&self, planned: &Planned) -> Record {
        let wanted = &planned.wanted;
        let (reason, complaints) = match &planned.action {
            Action::Rejected(reason, complaints) => (Some(reason.clone()), complaints.clone()),
            _ => (None, Vec::new()),
        };
        let Wanted { key, manifest, hash, commit, trigger, .. } = wanted;
        Record {
            trigger: trigger.told(&planned.action),
            reason,
            manifest_hash: Some(hash.clone()),
            rolls_out: matches!(&planned.action, Action::Apply(apply) if apply.rolls_out),
            complaints,
            ..Record::planned(&self.context.config.name, &commit.id, key.clone(), self.context.clock.now())
                .written_in(manifest.place.clone(), manifest.file())
        }
    }

    /// Records for what can't even be read: one for each object that is complained about, or for the file.
    fn rejections(&self, news: &HeadChange) -> Vec<Record> {
        let mut by_object: BTreeMap<ObjectKey, (Arc<Commit>, Vec<Complaint>)> = BTreeMap::new();
        let head = news.commits.first().map(|head| Arc::new(head.clone()));
        let new = |complaint: &Complaint| {
            let places = complaint.also.iter().map(|note| &note.place).chain([&complaint.place]);
            places.clone().any(|place| news.paths.contains(&*place.path))
        };
        let duplicates = self
            .desired()
            .contradictions()
            .into_iter()
            .filter(new)
            .filter_map(|complaint| Some((complaint, head.clone()?)));
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
    pub(super) fn finish(&self, id: RecordId, outcome: Outcome, reason: Option<&Reason>) {
        let at = self.context.clock.now();
        if let Err(error) = self.context.history.finish(id, outcome, reason, at) {
            error!(%error, "failed to end a record");
            return;
        }
        self.publish_end(id, outcome);
    }

    /// Ends the record of what a newer commit, or belay's own start, has taken the place of. At shutdown (`by` is `None`)
    /// it stays open, to be taken up.
    pub(super) fn supersede(&self, id: RecordId, by: Option<&CommitId>) {
        let Some(by) = by else { return };
        let reason = Reason::new(ReasonCode::Superseded, format!("commit {} took its place", by.short()));
        self.finish(id, Outcome::Superseded, Some(&reason));
    }
}

/// What a complaint about a file is filed under when no object could be read from it.
fn file_key(complaint: &Complaint) -> ObjectKey {
    ObjectKey { group: String::new(), kind: "File".to_owned(), namespace: None, name: complaint.place.path.to_string() }
}
