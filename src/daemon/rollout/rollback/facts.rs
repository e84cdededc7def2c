//! The facts of a rollback, and the plan that is made of them. Nothing is asked for that the plan does not need.

use std::sync::Arc;

use serde_json::Value;

use super::dependent_config;
use crate::cluster::Mode;
use crate::config::OnFailure;
use crate::daemon::rollout::kinds::driver::WorkloadDriver;
use crate::daemon::rollout::rollout_task::{Cancelled, RolloutTask};
use belay_core::rollout::rollback::{KeptHold, Planning, Question, RollbackFacts, RollbackPlan, plan};
use belay_core::rollout::{FailurePolicy, Hold, Reach, Reason, before_apply, template};

/// Plans the answer to a rollout that failed.
pub async fn plan_rollback(
    work: &RolloutTask,
    reason: Reason,
    live: Option<&Value>,
) -> Result<RollbackPlan, Cancelled> {
    let (context, driver) = (Arc::clone(&work.context), WorkloadDriver::of(work));
    let live = live.unwrap_or(&Value::Null);
    let mut facts = RollbackFacts {
        wanted: &work.planned.wanted,
        source: &context.config.name,
        reason,
        live,
        changes_template: work.is_of_template(),
        policy: match context.config.on_failure {
            OnFailure::Report => FailurePolicy::Report,
            OnFailure::RollBack | OnFailure::RollBackCommit => FailurePolicy::RollBack,
        },
        culprit: dependent_config::culprit(work),
        readers: dependent_config::readers(work),
        now: context.clock.now(),
        kept: decided(work),
        target: None,
        trial: None,
        configuration: None,
        former: None,
    };
    loop {
        match plan(&facts) {
            Planning::Made(plan) => return Ok(plan),
            Planning::Asks(Question::Target) => facts.target = Some(driver.find_target(work, live).await?),
            Planning::Asks(Question::Trial(sent)) => facts.trial = Some(try_out(work, live, sent).await?),
            Planning::Asks(Question::Configuration) => {
                facts.configuration = Some(dependent_config::changed(work).await?);
            }
            Planning::Asks(Question::Former) => facts.former = Some(context.good_former(&facts.wanted.key).await),
        }
    }
}

/// Returns the hold of a rollback of this manifest that was decided before, and that the cluster has lost.
fn decided(work: &RolloutTask) -> Option<KeptHold> {
    let wanted = &work.planned.wanted;
    let keeps = |hold: &Hold| hold.by.is_none() && hold.keeps(&wanted.hash, wanted.config.as_deref());
    work.context.holds.of(&wanted.key).filter(|kept| keeps(&kept.hold))
}

/// Returns the server's version of a template. `Err` with its words where it refuses it.
async fn try_out(work: &RolloutTask, live: &Value, sent: Value) -> Result<Result<Value, String>, Cancelled> {
    reclaim(work, live, &sent).await?;
    let (context, key) = (&work.context, &work.planned.wanted.key);
    let sent = work.planned.wanted.ignored_fields.leave(sent, Some(live));
    let ask = || context.cluster.apply(key, &work.served, &sent, Mode::DryRun);
    let tried = work.until_served(key, ask).await?;
    let made = tried.map(|would_be| template(&would_be.object).cloned().unwrap_or_default());
    Ok(made.map_err(|error| error.to_string()))
}

/// Makes the fields of others belay's own, on an object from before, so that nothing of it is mixed with the body that
/// is sent.
pub async fn reclaim(work: &RolloutTask, live: &Value, sent: &Value) -> Result<(), Cancelled> {
    let ignored = &work.planned.wanted.ignored_fields;
    match before_apply(live, sent, ignored, Reach::Revision) {
        Some(_) => work.take_over(sent, Reach::Revision).await,
        None => Ok(()),
    }
}
