//! An undo by hand is respected and written down: with `belay undo`, which leaves its hold, or with another tool, where
//! the template is one of the workload's own earlier revisions and somebody else wrote it.

use std::sync::Arc;

use serde_json::Value;
use tracing::{info, warn};

use super::judging::Cancelled;
use super::roll_out::Work;
use super::source::Source;
use super::take_back::rollback_failed;
use crate::cluster::{Backoff, EventKind};
use crate::manifest::ObjectKey;
use crate::rollout::{
    CommitId, Hold, Outcome, Reason, Record, Revision, Trigger, body, marks, same_template, template, template_hash,
    with_template,
};

/// The code of the reason.
const CODE: &str = "UndoneByHand";

/// What `belay undo` left on an object, to be written down.
#[derive(Clone, Debug)]
pub(super) struct Undo {
    hold: Hold,
    /// Whose template the object has now.
    back_to: Option<CommitId>,
}

impl Source {
    /// Notices a hold that `belay undo` left, and writes it down, once.
    pub(super) fn note_undo(&mut self, key: &ObjectKey, live: &Value, hold: &Hold) {
        let before = self.live.get(key).and_then(|facts| facts.hold.as_ref());
        if hold.by.is_none() || hold.manifest.is_empty() || before == Some(hold) {
            return;
        }
        let back_to = marks::annotation(live, marks::COMMIT).and_then(|commit| commit.parse().ok());
        self.undone.insert(key.clone(), Undo { hold: hold.clone(), back_to });
        self.write_down_undos();
    }

    /// Writes down what was undone by hand. Before the first plan there is nothing that it could be a part of.
    pub(super) fn write_down_undos(&mut self) {
        let Some(head) = self.planned.clone() else { return };
        for (key, undo) in std::mem::take(&mut self.undone) {
            if let Err(error) = self.write_down_undo(&head, &key, &undo) {
                warn!(object = %key, %error, "failed to write down an undo, trying again with the next plan");
                self.undone.insert(key, undo);
            }
        }
    }

    fn write_down_undo(
        &self,
        head: &CommitId,
        key: &ObjectKey,
        Undo { hold, back_to }: &Undo,
    ) -> Result<(), crate::history::HistoryError> {
        let (history, source) = (&self.context.history, &self.context.config.name);
        let Some(by) = &hold.by else { return Ok(()) };
        if history.knows_undo(source, key, hold.since)? {
            return Ok(());
        }
        info!(object = %key, by, commit = hold.commit.short(), "undone by hand");
        let record = Record {
            place: self.read_manifest(key).map(|manifest| manifest.place),
            trigger: Trigger::UndoByHand(by.clone()),
            outcome: Outcome::UnderWay,
            manifest_hash: Some(hold.manifest.clone()),
            rolls_out: true,
            back_to: back_to.clone(),
            ..Record::planned(source, &hold.commit, key.clone(), hold.since)
        };
        let now = self.context.clock.now();
        let ids = history.begin(source, head, &[record], now)?;
        let reason = Reason { code: CODE.to_owned(), message: hold.reason.clone() };
        // A moment that is before its beginning is another machine's clock.
        ids.into_iter().try_for_each(|id| history.finish(id, Outcome::RolledBack, Some(&reason), now.max(hold.since)))
    }
}

/// Whether a hold was left by `belay undo` on what this rollout brought, and the template is the one that it names.
pub(super) fn by_hand(work: &Work, live: &Value) -> Option<Hold> {
    let wanted = &work.planned.wanted;
    let hold = Hold::on(live).filter(|hold| hold.by.is_some())?;
    let there = template(live).is_some_and(|present| template_hash(present) == hold.template);
    (there && hold.keeps(&wanted.hash, wanted.config.as_deref())).then_some(hold)
}

/// Ends a rollout that somebody took back with `belay undo`: the hold is there already.
pub(super) async fn taken_back(work: &mut Work, live: &Value, hold: &Hold) -> Result<Outcome, Cancelled> {
    let (context, key) = (Arc::clone(&work.context), work.planned.wanted.key.clone());
    let by = hold.by.as_deref().unwrap_or("somebody");
    let reason = Reason { code: CODE.to_owned(), message: format!("{} by {by}", hold.reason) };
    let back_to = marks::annotation(live, marks::COMMIT).and_then(|commit| commit.parse().ok());
    context.going_back(work.record, &reason, back_to.as_ref(), None, &format!("as {by} did by hand")).await;
    context.tell(&key, live, EventKind::Warning, "UndoneByHand", reason.message.clone()).await;
    work.end(Outcome::RolledBack, Some(reason)).await
}

/// Respects an undo by hand. The manifest is held like a failed one. `None` where the template is no earlier one: that is
/// drift.
pub(super) async fn undone_by_hand(work: &mut Work, live: &Arc<Value>) -> Result<Option<Outcome>, Cancelled> {
    let wanted = work.planned.wanted.clone();
    let context = Arc::clone(&work.context);
    if let Some(hold) = by_hand(work, live) {
        return taken_back(work, live, &hold).await.map(Some);
    }
    let Some(present) = template(live) else { return Ok(None) };
    let read = Backoff::insist(context.in_the_way(&wanted.key), || context.cluster.revisions(&wanted.key, live));
    let revisions = work.unless_cancelled(read).await?.unwrap_or_default();
    let ours = revisions.iter().find(|revision| revision.marks.commit.as_deref() == Some(wanted.commit.id.as_str()));
    // What never was rolled out can't be undone.
    let Some(ours) = ours else { return Ok(None) };
    let earlier = |revision: &&Revision| revision.is_earlier_than(ours);
    let Some(revision) = revisions.iter().find(|one| same_template(&one.template, present)).filter(earlier) else {
        return Ok(None);
    };
    // What belay alone has written was nobody's hand: another belay follows the same source.
    let Some(by) = who(work, live) else { return Ok(None) };
    if matches!(wanted.trigger, Trigger::Drift(_)) {
        context.was_undone(work.record, &by).await;
    }
    let reason =
        Reason { code: CODE.to_owned(), message: format!("taken back by hand ({by}) to revision {}", revision.number) };
    let hold = Hold {
        manifest: wanted.hash.clone(),
        config: wanted.config.clone(),
        template: template_hash(&revision.template),
        commit: wanted.commit.id.clone(),
        reason: reason.message.clone(),
        since: context.clock.now(),
        with: Vec::new(),
        by: None,
    };
    let replicas = wanted.replicas.on(live);
    let sent = body(&wanted.manifest.value(), &context.config.name, &revision.marks, Some(&hold), replicas);
    let sent = with_template(sent, &revision.template);
    context.going_back(work.record, &reason, None, Some(revision.number), "as somebody did by hand").await;
    match work.insist_on_apply(&sent).await? {
        Ok(written) => {
            context.tell(&wanted.key, &written, EventKind::Warning, "UndoneByHand", reason.message.clone()).await;
            work.end(Outcome::RolledBack, Some(reason)).await.map(Some)
        }
        Err(error) => {
            let message = format!("{}; the hold was refused: {error}", reason.message);
            rollback_failed(work, live, Reason { code: reason.code, message }).await.map(Some)
        }
    }
}

/// Who took it back: the one that `belay undo` names, where it could not say what to hold; else the manager that wrote it.
fn who(work: &Work, live: &Value) -> Option<String> {
    let (context, key) = (&work.context, &work.planned.wanted.key);
    let is_new = |hold: &Hold| {
        // One that an undo with another tool brought back with the annotations of its revision is an old one.
        let known = context.history.knows_undo(&context.config.name, key, hold.since);
        hold.manifest.is_empty() && known.is_ok_and(|known| !known)
    };
    let named = Hold::on(live).filter(is_new).and_then(|hold| hold.by);
    named.or_else(|| super::live::newest_other_manager(live))
}
