//! An undo by hand is respected: the template is one of the workload's own earlier revisions, and somebody else wrote it.

use std::sync::Arc;

use serde_json::Value;

use super::judging::Cancelled;
use super::roll_out::Work;
use super::take_back::rollback_failed;
use crate::cluster::{Backoff, EventKind};
use crate::rollout::{Hold, Outcome, Reason, Revision, body, same_template, template, template_hash, with_template};

/// Respects an undo by hand. The manifest is held like a failed one. `None` where the template is no earlier one: that is
/// drift.
pub(super) async fn undone_by_hand(work: &mut Work, live: &Arc<Value>) -> Result<Option<Outcome>, Cancelled> {
    let wanted = work.planned.wanted.clone();
    let context = Arc::clone(&work.context);
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
    let Some(by) = super::live::newest_other_manager(live) else { return Ok(None) };
    let reason = Reason {
        code: "UndoneByHand".to_owned(),
        message: format!("taken back by hand ({by}) to revision {}", revision.number),
    };
    let hold = Hold {
        manifest: wanted.hash.clone(),
        config: wanted.config.clone(),
        template: template_hash(&revision.template),
        commit: wanted.commit.id.clone(),
        reason: reason.message.clone(),
        since: context.clock.now(),
        with: Vec::new(),
    };
    let replicas = wanted.replicas.on(live);
    let sent = body(wanted.manifest.value(), &context.config.name, &revision.marks, Some(&hold), replicas);
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
