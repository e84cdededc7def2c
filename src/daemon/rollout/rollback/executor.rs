//! The executor of every rollback, for every origin: the judge, a whole commit, a workload that takes its configuration
//! along, or a person whose undo is respected. It carries out the plan that the core makes of the facts.

use std::sync::Arc;

use serde_json::Value;
use tracing::{info, warn};

use super::dependent_config;
use super::facts;
use super::facts::plan_rollback;
use super::failure::{FailedRollout, RollbackEnd};
use super::watch::{target, watch_back};
use crate::cluster::{ClusterError, EventKind};
use crate::daemon::rollout::kinds::driver::WorkloadDriver;
use crate::daemon::rollout::rollout_task::{Cancelled, RolloutTask};
use crate::daemon::shared::rollout_slots::RolloutSlot;
use belay_core::manifest::{Compact, Manifest, ObjectKey};
use belay_core::rollout::rollback::{Rollback, RollbackKind, RollbackPlan, also_goes_back};
use belay_core::rollout::{Baseline, Outcome, Reason, TemplateMarks};

impl RolloutTask {
    /// Takes a failed rollout back, as far as its source and its kind allow.
    pub async fn roll_back(&mut self, failed: FailedRollout, live: Option<Arc<Value>>) -> Result<Outcome, Cancelled> {
        let FailedRollout { reason, observed, written } = failed;
        self.patience.is_going_back = true;
        // Another may begin: what goes back does not count.
        self.slot = RolloutSlot::uncounted();
        self.take_present_configuration();
        if let (Some(observed), Some(_)) = (observed, &live) {
            self.context.save_evidence(self.record, &reason, &observed.evidence).await;
        }
        let plan = Box::pin(plan_rollback(self, reason, live.as_deref())).await?;
        self.roll_back_by(plan, live.unwrap_or_default(), written).await
    }

    /// Takes the configuration that the repository has by now: what changed before the verdict did not help, and lets the
    /// failed manifest in no second time.
    fn take_present_configuration(&mut self) {
        let (desired, wanted) = (self.context.repository.desired(), &mut self.planned.wanted);
        if desired.hash(&wanted.key).is_some_and(|hash| hash.to_string() == wanted.hash) {
            wanted.config = desired.configuration_of(&wanted.key);
        }
    }

    /// Carries out a plan about the object as it is; `written` is the baseline of the write that went back, if it was
    /// made before a restart.
    pub async fn roll_back_by(
        &mut self,
        plan: RollbackPlan,
        live: Arc<Value>,
        written: Option<Baseline>,
    ) -> Result<Outcome, Cancelled> {
        self.canary = None;
        let end = match plan {
            RollbackPlan::Stays(reason) => RollbackEnd::stays(self, reason, &live),
            RollbackPlan::Suspended(why) => RollbackEnd::suspended(why),
            RollbackPlan::IsBack(reason) => RollbackEnd::untold(Outcome::RolledBack, reason),
            RollbackPlan::WasUndone { reason, back_to, to } => {
                self.context.going_back(self.record, &reason, back_to.as_ref(), None, &to).await;
                RollbackEnd::undone(reason, &live)
            }
            RollbackPlan::Refused { reason, error } => RollbackEnd::refused(reason, &error, &live),
            RollbackPlan::Watched(reason) => {
                note_way_back(self, &reason, &live).await;
                let key = &self.planned.wanted.key;
                info!(object = %key, "going back, as before the restart");
                let baseline = written.unwrap_or_else(|| Baseline::of(key, &live));
                watch_back(self, reason, baseline, live).await?
            }
            RollbackPlan::GoesBack(rollback) => go_back(self, *rollback, live).await?,
        };
        if end.leaves_it() && self.may_have_canary() {
            self.unless_cancelled(Box::pin(self.mark_failed_step())).await?;
        }
        end.conclude(self).await
    }
}

async fn go_back(work: &mut RolloutTask, rollback: Rollback, live: Arc<Value>) -> Result<RollbackEnd, Cancelled> {
    announce(work, &rollback, &live).await;
    work.context.holds.keep(&work.planned.wanted.key, rollback.kept_hold());
    take_along(work, &rollback.with, &rollback.reason).await?;
    let (rollback, live) = match WorkloadDriver::of(work).take_pods_back(work, rollback, live).await? {
        Ok(ready) => ready,
        Err(end) => return Ok(end),
    };
    let written = match write(work, &rollback, &live).await? {
        Ok(written) => Arc::new(written),
        Err(error) => {
            work.context.holds.forget(&work.planned.wanted.key);
            return Ok(RollbackEnd::refused_write(rollback, &error, &live));
        }
    };
    drop(live);
    work.forget_request(&written).await;
    match rollback.kind {
        RollbackKind::ByHand => Ok(RollbackEnd::undone(rollback.reason, &written)),
        RollbackKind::Configuration => {
            info!(object = %work.planned.wanted.key, to = rollback.to, "went back with what failed");
            Ok(RollbackEnd::back(work, &rollback.to, rollback.reason, &written))
        }
        RollbackKind::Workload => {
            let baseline = Baseline::of(&work.planned.wanted.key, &written);
            work.context.went_back(work.record, &baseline).await;
            take_along_what_is_free_now(work, &rollback).await?;
            let reason = rollback.reason.clone();
            // Its templates are not kept while the way back is watched.
            drop(rollback);
            watch_back(work, reason, baseline, written).await
        }
    }
}

/// Records, before any write to the cluster, that it goes back, and sends an Event about a workload.
async fn announce(work: &RolloutTask, rollback: &Rollback, live: &Value) {
    let (context, key) = (&work.context, &work.planned.wanted.key);
    let Rollback { reason, commit, revision, stays, .. } = rollback;
    let to = [&rollback.to].into_iter().chain(stays).map(String::as_str).collect::<Vec<_>>().join("; ");
    context.going_back(work.record, reason, commit.as_ref(), *revision, &to).await;
    if rollback.kind == RollbackKind::Workload {
        info!(object = %key, commit = work.planned.wanted.commit.id.short(), to, "going back");
        let message = format!("{}: {reason}; going back to {to}", work.planned.wanted.commit.change_cause());
        context.tell(key, live, EventKind::Warning, "RollingBack", message);
        stays.iter().for_each(|stays| warn!(object = %key, stays, "does not go back with it"));
    }
}

/// Records the target of a way back that was begun before a restart, by the marks of its template, where the history has
/// lost that.
async fn note_way_back(work: &RolloutTask, reason: &Reason, live: &Value) {
    let record = work.context.history.record(work.record).ok().flatten();
    if record.is_some_and(|record| record.outcome != Outcome::RollingBack) {
        let marks = TemplateMarks::on(live);
        work.context.going_back(work.record, reason, marks.commit().as_ref(), None, target(&marks)).await;
    }
}

/// Takes the configuration back, each under a record of its own. If that fails, it is reported, and the workload goes
/// back without it.
async fn take_along(work: &RolloutTask, with: &[Manifest], reason: &Reason) -> Result<(), Cancelled> {
    for manifest in with {
        let _alone = work.unless_cancelled(work.context.dependents.lock(&manifest.key)).await?;
        if let Some((mut own, live)) = dependent_config::task(work, manifest, reason).await? {
            let failed = FailedRollout { reason: reason.clone(), observed: None, written: None };
            Box::pin(own.roll_back(failed, Some(live))).await?;
        }
    }
    Ok(())
}

/// Takes configuration along that is free now: another workload that needed it may have failed at the same moment. Each
/// checks again when its own hold is written, so that the last of them sees all.
async fn take_along_what_is_free_now(work: &RolloutTask, rollback: &Rollback) -> Result<(), Cancelled> {
    if rollback.stays.is_empty() {
        return Ok(());
    }
    let gone: Vec<&ObjectKey> = rollback.with.iter().map(|manifest| &manifest.key).collect();
    let (mut free, _) = also_goes_back(&dependent_config::changed(work).await?);
    free.retain(|manifest| !gone.contains(&&manifest.key));
    take_along(work, &free, &rollback.reason).await
}

/// Returns the one write that goes back: template, marks and hold.
async fn write(
    work: &RolloutTask,
    rollback: &Rollback,
    live: &Value,
) -> Result<Result<Value, ClusterError>, Cancelled> {
    let sent = rollback.sent(&work.context.config.name);
    if rollback.kind == RollbackKind::Workload {
        facts::reclaim(work, live, &sent).await?;
    }
    let body = Compact::of(&sent);
    drop(sent);
    work.retry_apply(body).await
}
