//! An undo by hand is respected and written down: with `belay undo`, which leaves its hold, or with another tool, if
//! the template is one of the workload's own earlier revisions and somebody else wrote it. Updates by
//! `belay rolling-update` are recorded here, too.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;
use tracing::{info, warn};

use crate::cluster::{ClusterError, Mode, Served};
use crate::daemon::repository::desired_state::DesiredState;
use crate::daemon::rollout::rollout_task::{Cancelled, RolloutTask};
use crate::daemon::shared::context::Context;
use crate::daemon::shared::live::{newest_other_manager, was_belays_last};
use crate::history::HistoryError;
use belay_core::manifest::ObjectKey;
use belay_core::rollout::rollback::{held_by_undo, restored_by_hand};
use belay_core::rollout::{
    Apply, CommitId, Hold, IgnoredFields, Outcome, Reach, Reason, ReasonCode, Record, RolledOut, Trigger, before_apply,
    manual_rollback, marks, rolling_update, template,
};

/// A change by hand, or by an autoscaler, as it was found on an object, to be recorded.
#[derive(Clone, Debug)]
pub struct ByHand {
    pub trigger: Trigger,
    pub outcome: Outcome,
    pub since: Timestamp,
    /// The commit of the manifest that it is about; if nobody named one, the commit that was charged with the object
    /// last.
    pub commit: Option<CommitId>,
    pub manifest: Option<String>,
    pub reason: Option<Reason>,
    /// The commit of the object's present template, if that is an earlier one.
    pub back_to: Option<CommitId>,
}

impl ByHand {
    /// Returns the record of a finished change in which belay had no part.
    pub fn complete(trigger: Trigger, since: Timestamp) -> ByHand {
        ByHand { trigger, outcome: Outcome::Complete, since, commit: None, manifest: None, reason: None, back_to: None }
    }

    /// Returns the record of an undo that has left this hold on an object.
    pub fn undone(live: &Value, hold: &Hold, by: String, since: Timestamp, message: String) -> ByHand {
        ByHand {
            trigger: Trigger::UndoByHand(by),
            outcome: Outcome::RolledBack,
            since,
            commit: Some(hold.commit.clone()),
            manifest: Some(hold.manifest.clone()),
            reason: Some(Reason::new(ReasonCode::UndoneByHand, message)),
            back_to: marks::annotation(live, marks::COMMIT).and_then(|commit| commit.parse().ok()),
        }
    }

    /// Returns the record of an update by `belay rolling-update`.
    pub fn rolled(live: &Value, hand: rolling_update::ByHand) -> ByHand {
        let commit = marks::annotation(live, marks::COMMIT).and_then(|commit| commit.parse().ok());
        ByHand { commit, ..ByHand::complete(Trigger::RollingUpdate(hand.by), hand.since) }
    }
}

impl Context {
    /// Takes over the fields of a held controller that somebody has rolled with the command.
    pub async fn adopt_rolled(&self, key: &ObjectKey, served: &Served, body: Value, hold: &Hold) {
        if let Err(error) = adopt(self, key, served, body, hold).await {
            warn!(object = %key, %error, "failed to take over what was rolled by hand, trying again");
        }
    }

    /// Records a change that was made by hand, once.
    pub fn write_down_by_hand(
        &self,
        desired: &DesiredState,
        head: &CommitId,
        key: &ObjectKey,
        done: &ByHand,
    ) -> Result<(), HistoryError> {
        let (history, source) = (&self.history, &self.config.name);
        if history.knows(source, key, done.since, &done.trigger)? {
            return Ok(());
        }
        let said = done.commit.as_ref().filter(|commit| self.commit(commit).is_some());
        let charged = || self.last_charged(Some(head), key).map(|commit| commit.id.clone());
        let Some(commit) = said.cloned().or_else(charged).or_else(|| done.commit.clone()) else { return Ok(()) };
        info!(object = %key, by = done.trigger.who().as_deref(), what = done.trigger.word(), commit = commit.short(), "done by hand");
        let planned = Record::planned(source, &commit, key.clone(), done.since);
        let planned = match desired.locate(key) {
            Some(located) => planned.written_in(located.place, &located.file),
            None => planned,
        };
        let record = Record {
            trigger: done.trigger.clone(),
            outcome: Outcome::UnderWay,
            manifest_hash: done.manifest.clone(),
            // A template without a commit was nobody's good revision, however healthy it is.
            rolls_out: done.commit.is_some(),
            back_to: done.back_to.clone(),
            ..planned
        };
        let now = self.clock.now();
        let ids = self.begin_records(head, &[record], now)?;
        // A moment that is before its beginning is another machine's clock.
        ids.into_iter()
            .try_for_each(|id| history.finish(id, done.outcome, done.reason.as_ref(), now.max(done.since)))?;
        self.status.rollout_ended(done.trigger.word(), done.outcome, None);
        Ok(())
    }
}

/// Applies `body` to an object that still is held as it was, and that nobody changes meanwhile.
async fn adopt(
    context: &Context,
    key: &ObjectKey,
    served: &Served,
    mut body: Value,
    hold: &Hold,
) -> Result<(), ClusterError> {
    let _room = context.requests.room().await;
    let Some(mut live) = context.cluster.get(key, served).await? else { return Ok(()) };
    let as_held = template(&live).is_some_and(|present| hold.is_about(present));
    if !as_held || Hold::on(&live).as_ref() != Some(hold) {
        return Ok(());
    }
    if let Some(over) = before_apply(&live, &body, &IgnoredFields::default(), Reach::Manifest) {
        live = context.cluster.json_patch(key, served, &over, Mode::Real).await?;
    }
    for field in ["uid", "resourceVersion"] {
        body["metadata"][field] = live["metadata"][field].clone();
    }
    context.cluster.apply(key, served, &body, Mode::Real).await.map(drop)
}

/// Returns the end of a rollout that another belay has rolled back: its hold is there already. Two of them never fight.
pub async fn held_by_another(work: &RolloutTask, live: &Value) -> Result<Option<Outcome>, Cancelled> {
    let wanted = &work.planned.wanted;
    let keeps = |hold: &Hold| hold.by.is_none() && hold.keeps(&wanted.hash, wanted.config.as_deref());
    let Some(hold) = Hold::on(live).filter(keeps) else { return Ok(None) };
    if template(live).is_none_or(|present| !hold.is_about(present)) {
        return Ok(None);
    }
    let reason = Reason::new(ReasonCode::HeldMeanwhile, hold.reason);
    work.end(Outcome::Held, Some(reason)).await.map(Some)
}

/// Respects an undo by hand of a rollout: of this commit's template, or, if an older one had made it, of the one with
/// the hash `judged`. The manifest is held like a failed one. `None` if the live template is no earlier one: that is
/// drift.
pub async fn undone_by_hand(
    work: &mut RolloutTask,
    live: &Arc<Value>,
    judged: Option<&str>,
) -> Result<Option<Outcome>, Cancelled> {
    let wanted = work.planned.wanted.clone();
    let context = Arc::clone(&work.context);
    if let Some(plan) = held_by_undo(&wanted, live) {
        return work.roll_back_by(plan, Arc::clone(live), None).await.map(Some);
    }
    if work.apply.keeps_hold && context.holds.is_lost(&wanted.key, live) {
        // The cluster was set back, or the object was made anew: nobody has undone anything.
        return Ok(None);
    }
    let Some(present) = template(live) else { return Ok(None) };
    let read = work.until_served(&wanted.key, || context.cluster.revisions(&wanted.key, live));
    let revisions = read.await?.unwrap_or_default();
    let recorded = |commit: &str| context.recorded(&wanted.key, commit);
    let Some(revision) = manual_rollback(present, &rolled_out(work, judged), &revisions, recorded) else {
        return Ok(None);
    };
    if work.apply.restores_held && revision.marks.commit.as_deref() == Some(wanted.commit.id.as_str()) {
        // On to the very template that is held: somebody wants it tried again.
        work.apply = Apply::of_manifest(&wanted, &context.config.name);
        return Ok(None);
    }
    // A template that only belay has written is no undo by hand: another belay follows the same source.
    let Some(by) = who(work, live) else { return Ok(None) };
    if matches!(wanted.trigger, Trigger::Drift(_) | Trigger::Retry) {
        context.was_undone(work.record, &by).await;
    }
    let plan = restored_by_hand(&wanted, revision, &by, context.clock.now());
    work.roll_back_by(plan, Arc::clone(live), None).await.map(Some)
}

/// Returns the template that was rolled out before somebody else wrote it, as the rollout and the history know it. The
/// newest commit may have left the template alone; one that failed before it has left its rollback target.
fn rolled_out(work: &RolloutTask, judged: Option<&str>) -> RolledOut {
    let (context, wanted) = (&work.context, &work.planned.wanted);
    let newest = context.newest_rollout(&wanted.key).map(|record| match record.back_to {
        Some(back_to) if record.outcome == Outcome::RolledBack && record.commit != wanted.commit.id => back_to,
        _ => record.commit,
    });
    let newest = newest.map(|commit| commit.to_string());
    let commits: Vec<String> = [wanted.commit.id.to_string()].into_iter().chain(newest).collect();
    let kept = commits.iter().filter_map(|commit| context.kept_template(&wanted.key, commit));
    RolledOut { templates: judged.map(str::to_owned).into_iter().chain(kept).collect(), commits }
}

/// Returns who undid it: the person that `belay undo` names, if it could not name the manifest to hold; else the
/// manager that wrote it.
fn who(work: &RolloutTask, live: &Value) -> Option<String> {
    let (context, key) = (&work.context, &work.planned.wanted.key);
    let is_new = |hold: &Hold| {
        // One that an undo with another tool brought back with the annotations of its revision is an old one.
        let undo = Trigger::UndoByHand(String::new());
        let known = context.history.knows(&context.config.name, key, hold.since, &undo);
        hold.manifest.is_empty() && known.is_ok_and(|known| !known)
    };
    let named = Hold::on(live).filter(is_new).and_then(|hold| hold.by);
    named.or_else(|| newest_other_manager(live).filter(|_| !was_belays_last(live)))
}
