//! Whether and how a failed rollout is taken back; the steps are in `rollback`.

use std::sync::Arc;

use serde_json::Value;
use tracing::info;

use super::failure::{TakeBack, fail};
use super::rollback::{
    announce, hold, may_go_back, reclaim, refused_on_the_way, sent_back, try_template, watch_back, write_back,
};
use super::rollback_target::find_way;
use super::rollout_task::{Cancelled, RolloutTask};
use super::{dependent_config, replication_controller};
use belay_core::rollout::{
    Baseline, Hold, NoRollbackTarget, Outcome, Reason, RollbackTarget, TemplateMarks, Workload, same_template, template,
};

/// Takes a failed rollout back, as far as its source and its kind allow.
pub(super) async fn take_back(
    work: &mut RolloutTask,
    back: TakeBack,
    live: Option<Arc<Value>>,
) -> Result<Outcome, Cancelled> {
    let key = work.planned.wanted.key.clone();
    let Some(live) = live else {
        let reason = back.reason.and("it was deleted meanwhile");
        return work.end(Outcome::Failed, Some(reason)).await;
    };
    if let Some(scene) = &back.scene {
        work.context.save_evidence(work.record, &back.reason, &scene.evidence).await;
    }
    if Workload::of(&key).is_none() {
        return dependent_config::take_back(work, back.reason, &live).await;
    }
    if let Some(hold) =
        Hold::on(&live).filter(|hold| hold.keeps(&work.planned.wanted.hash, work.planned.wanted.config.as_deref()))
    {
        // The write was made before a restart: only its end is missing.
        let baseline = back.went.unwrap_or_else(|| Baseline::of(&key, &live));
        let marks = TemplateMarks::on(&live);
        info!(object = %key, since = %hold.since, "going back, as before the restart");
        return watch_back(work, back.reason, baseline, &marks, live).await;
    }
    if let Err(why) = may_go_back(work, &live) {
        let reason = back.reason.and(why);
        return fail(work, &live, reason).await;
    }
    if Workload::of(&key) == Some(Workload::ReplicationController) {
        return Box::pin(replication_controller::go_back(work, back.reason, &live)).await;
    }
    let found = match find_way(work, &live).await? {
        Ok(found) => found,
        Err(none) => {
            let reason = back.reason.and(none);
            return fail(work, &live, reason).await;
        }
    };
    go_back(work, back.reason, found, &live).await
}

async fn go_back(
    work: &mut RolloutTask,
    reason: Reason,
    found: RollbackTarget,
    live: &Arc<Value>,
) -> Result<Outcome, Cancelled> {
    let mut hold = hold(work, &reason, &found);
    if found.revision.is_none() || work.planned.wanted.left_alone.is_in_template() {
        reclaim(work, live, &sent_back(work, &found, &hold)).await?;
        // Only the server knows what it makes of a template that it does not keep, and of one that is not sent as a whole.
        match try_template(work, &found, &hold, live).await? {
            Ok(would_be) if template(live).is_some_and(|failing| same_template(failing, &would_be)) => {
                let message = format!("{}; {}", reason.message, NoRollbackTarget::First);
                return fail(work, live, Reason { message, ..reason }).await;
            }
            Ok(would_be) => hold = hold.about(&would_be, &work.planned.wanted.left_alone),
            Err(refused) => return refused_on_the_way(work, live, reason, &refused).await,
        }
    }
    let announced = announce(work, &reason, &found, live).await?;
    write_back(work, reason, &found, &hold, live, announced).await
}
