//! Takes the pods of a failed template of a ReplicationController back: the old controller grows again; it is the last good
//! revision.

use std::sync::Arc;

use serde_json::Value;
use tracing::warn;

use super::replication_controller::{
    Rolled, back_ask, back_at_once_ask, disturbed, is_ours, is_source_of, roll, until_seen,
};
use super::rolled_pods::{ask, begun};
use crate::cluster::Backoff;
use crate::daemon::rollout::rollback::failure::{DISTURBANCES, RollbackEnd, save_second_evidence};
use crate::daemon::rollout::rollback::target;
use crate::daemon::rollout::rollout_task::{Cancelled, RolloutTask};
use belay_core::rollout::rollback::{NoRollbackTarget, Rollback, RollbackTarget};
use belay_core::rollout::rolling_update::{Ask, Begun, TEMPLATE_LABEL};
use belay_core::rollout::{
    Hold, IgnoredFields, Outcome, TemplateMarks, held_body, marks, same_template, template, with_template,
};

/// The number of writes of the hold that are answered, and without it in the answer, before the pods go back without it: within
/// half a minute.
const HOLD_TRIES: usize = 6;

/// Finds the rollback target: the template of the old controller, else one that is known from elsewhere.
pub async fn find_target(
    work: &RolloutTask,
    live: &Value,
) -> Result<Result<RollbackTarget, NoRollbackTarget>, Cancelled> {
    let (mut so_far, mut old) = begun(work).await?;
    if so_far == Begun::Renaming {
        // An update that has begun under its name can only go on to its end.
        roll(work, ask(work), Outcome::RollingBack).await?;
        (so_far, old) = begun(work).await?;
    }
    if let Some(old) = old.as_ref().filter(|old| is_made_again(work, &so_far, old)) {
        return target_of_remade(work, old).await;
    }
    match (pods_to_come_back(work, so_far, old.as_ref()), old) {
        (_, None) => target::find_target(work, live).await,
        (PodsBack::All | PodsBack::OfOldController, Some(old)) => Ok(Ok(as_it_is(&old))),
        (PodsBack::OfTarget, Some(_)) => target::find_target(work, live).await,
    }
}

/// Returns true when others have made the old controller again while it was replaced: nothing is known of its template.
fn is_made_again(work: &RolloutTask, so_far: &Begun, old: &Value) -> bool {
    match so_far {
        Begun::Growing { next, .. } if !is_source_of(old, next) => true,
        Begun::Growing { .. } | Begun::Nothing => !is_ours(work, old) && !target::was_there_before(work, old),
        Begun::Renaming => false,
    }
}

/// Finds the rollback target where others have made the old controller again: the last good version, which may be its own.
async fn target_of_remade(
    work: &RolloutTask,
    old: &Value,
) -> Result<Result<RollbackTarget, NoRollbackTarget>, Cancelled> {
    let good =
        work.context.last_good_beside(&work.planned.wanted.key, std::slice::from_ref(&work.planned.wanted.commit.id));
    if let Some(good) = good.filter(|good| template(old).is_some_and(|present| is_same(present, &good.template))) {
        return Ok(Ok(RollbackTarget { commit: good.commit, marks: good.marks, ..as_it_is(old) }));
    }
    let failed = work.planned.wanted.manifest.value();
    let is_failed = template(old).zip(template(&failed)).is_some_and(|(present, failed)| is_same(present, failed));
    Ok(match target::find_target(work, old).await? {
        // With nothing known that was good, it is what there is, unless that is what failed.
        Err(_) if !is_failed => Ok(as_it_is(old)),
        found => found,
    })
}

/// The pods that are to come back.
enum PodsBack {
    /// None: all of them are there.
    All,
    /// Those of the controller that has not gone yet.
    OfOldController,
    /// Those of a template that is known from elsewhere.
    OfTarget,
}

fn pods_to_come_back(work: &RolloutTask, so_far: Begun, old: Option<&Value>) -> PodsBack {
    match (so_far, old) {
        (Begun::Growing { .. }, Some(_)) => PodsBack::OfOldController,
        (Begun::Nothing, Some(old)) if !is_ours(work, old) => PodsBack::All,
        _ => PodsBack::OfTarget,
    }
}

/// Takes the pods of the failed template away again. The server's version of the template counts from there on.
pub async fn take_pods_back(
    work: &mut RolloutTask,
    rollback: Rollback,
    live: Arc<Value>,
) -> Result<Result<(Rollback, Arc<Value>), RollbackEnd>, Cancelled> {
    let mut live = live;
    for _ in 0..DISTURBANCES {
        let (so_far, old) = begun(work).await?;
        // A deleted controller is created again with its held template, and so before the pods of the next controller
        // go.
        let Some(old) = &old else {
            match work.retry_apply(&rollback.sent(&work.context.config.name)).await? {
                Ok(_) => continue,
                Err(error) => return Ok(Err(RollbackEnd::refused(rollback.reason, &error.to_string(), &live))),
            }
        };
        let first_hold = hold_first(work, &rollback, old).await?;
        let (ask, is_last) = match next_update(work, &rollback, so_far, old) {
            RollbackUpdate::NotNeeded => (None, true),
            RollbackUpdate::Partial(ask) => (Some(ask), false),
            RollbackUpdate::Final(ask) => (Some(ask), true),
        };
        let rolled = match ask {
            Some(ask) => roll(work, ask, Outcome::RollingBack).await?,
            None => Rolled::Through,
        };
        let Some(now) = work.read().await? else { continue };
        live = now;
        if first_hold == FirstHold::Kept && marks::uid(&live) == marks::uid(old) && Hold::on(&live).is_none() {
            work.context.holds.forget(&work.planned.wanted.key);
            return Ok(Err(RollbackEnd::released(rollback.reason)));
        }
        match rolled {
            Rolled::Suspended(why) => return Ok(Err(RollbackEnd::suspended(why))),
            Rolled::Through if !is_last => continue,
            Rolled::Disturbed(..) if !is_back(work, rollback.template.as_ref()).await? => {
                disturbed(work).await?;
                continue;
            }
            Rolled::Failed(why, observed) if !is_back(work, rollback.template.as_ref()).await? => {
                save_second_evidence(work, &why, observed.evidence).await;
                let reason = rollback.reason.and(format!("the way back failed too: {why}"));
                return Ok(Err(RollbackEnd::failed_too(reason, &live)));
            }
            Rolled::Failed(..) | Rolled::Disturbed(..) | Rolled::Through => {}
        }
        if first_hold == FirstHold::NotKept {
            return Ok(Err(RollbackEnd::hold_not_kept(rollback.reason, &live)));
        }
        until_seen(work, &live).await?;
        let rollback = rollback.onto(template(&live).unwrap_or(&Value::Null), &IgnoredFields::default());
        let hold = Hold { since: work.context.clock.now(), ..rollback.hold };
        return Ok(Ok((Rollback { hold, ..rollback }, live)));
    }
    Ok(Err(RollbackEnd::failed_too(
        rollback.reason.and("others have deleted it on the way back, again and again"),
        &live,
    )))
}

/// The rolling update that comes next on the way back.
enum RollbackUpdate {
    /// No pod has to come or go.
    NotNeeded,
    /// Another update follows it.
    Partial(Ask),
    Final(Ask),
}

/// Returns the rolling update that comes next on the way back.
fn next_update(work: &RolloutTask, rollback: &Rollback, so_far: Begun, old: &Value) -> RollbackUpdate {
    let is_target = template(old).zip(rollback.template.as_ref()).is_some_and(|(one, other)| is_same(one, other));
    let is_another = is_made_again(work, &so_far, old) && !is_target;
    match pods_to_come_back(work, so_far, Some(old)) {
        // Its own pods are not to stay either, so nothing waits for them: the others go at once.
        PodsBack::OfOldController if is_another => RollbackUpdate::Partial(back_at_once_ask(work)),
        PodsBack::OfOldController => RollbackUpdate::Final(back_ask(work)),
        PodsBack::All if !is_another => RollbackUpdate::NotNeeded,
        PodsBack::All | PodsBack::OfTarget => {
            let template = rollback.template.clone().unwrap_or_default();
            let manifest = with_template(rollback.manifest.clone(), &template);
            RollbackUpdate::Final(Ask::template(manifest, rollback.marks.clone()))
        }
    }
}

/// The hold that is written before any pod goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FirstHold {
    Kept,
    Refused,
    /// Each write was answered, and no answer has the hold.
    NotKept,
}

/// Writes the hold before any pod goes, with the template and the number of pods as they are: while pods come and go,
/// and if the way back fails, everybody sees that the manifest is held. The pods go back also without it.
async fn hold_first(work: &RolloutTask, rollback: &Rollback, live: &Value) -> Result<FirstHold, Cancelled> {
    let source = &work.context.config.name;
    let mut body = held_body(&rollback.manifest, source, &TemplateMarks::on(live), &rollback.hold, template(live));
    body["spec"]["replicas"] = live["spec"]["replicas"].clone();
    let key = &work.planned.wanted.key;
    let is_kept = |written: &Value| Hold::on(written).is_some_and(|hold| hold.manifest == rollback.hold.manifest);
    for wait in Backoff::default().take(HOLD_TRIES) {
        match work.retry_apply(&body).await? {
            Ok(written) if is_kept(&written) => return Ok(FirstHold::Kept),
            Ok(_) => work.unless_cancelled(tokio::time::sleep(wait)).await?,
            Err(error) => {
                warn!(object = %key, %error, "failed to write the hold before the pods go back");
                return Ok(FirstHold::Refused);
            }
        }
    }
    warn!(object = %key, "the API server answers that the hold is written, and does not keep it");
    Ok(FirstHold::NotKept)
}

/// Returns true when somebody else has rolled it back meanwhile.
async fn is_back(work: &RolloutTask, wanted: Option<&Value>) -> Result<bool, Cancelled> {
    let (so_far, live) = begun(work).await?;
    let pair = live.as_ref().and_then(template).zip(wanted);
    Ok(so_far == Begun::Nothing && pair.is_some_and(|(present, wanted)| is_same(present, wanted)))
}

/// Returns true when two templates make the same pods, but for the label of a rolling update.
fn is_same(one: &Value, other: &Value) -> bool {
    same_template(&without_label(one), &without_label(other))
}

/// Returns a template without the label by which a rolling update tells its pods from others.
fn without_label(template: &Value) -> Value {
    let mut template = template.clone();
    if let Some(labels) = template.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
        labels.remove(TEMPLATE_LABEL);
    }
    template
}

/// Returns the controller as it is: the rollback target when the pods of the next one are gone.
fn as_it_is(live: &Value) -> RollbackTarget {
    let marks = TemplateMarks::on(live);
    RollbackTarget {
        template: template(live).cloned().unwrap_or_default(),
        commit: marks.commit(),
        marks,
        revision: None,
    }
}
