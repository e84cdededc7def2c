//! Watches one workload until the judge has ruled.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tracing::{debug, info, warn};

use super::roll_out::Work;
use super::status::UnderWay;
use crate::cluster::{Backoff, EventKind, Scene};
use crate::rollout::{
    Counters, Judge, Outcome, Reason, Ruling, StepKind, Verdict, Waiting, WaitingOn, health, same_template, template,
};

/// How long the judge leaves a workload alone after it has ruled that the world is in the way.
const LOOK_AGAIN: Duration = Duration::from_secs(15);

/// A rollout was told to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cancelled;

/// How the watching ended.
#[derive(Clone, Debug)]
pub(super) enum Ruled {
    /// The workload is complete.
    Complete(Arc<Value>),
    /// It failed.
    Failed {
        /// Why.
        reason: Reason,
        /// What was to be seen.
        scene: Scene,
        /// The workload as it was.
        live: Arc<Value>,
    },
    /// Somebody else wrote another pod template.
    TakenOver(Arc<Value>),
    /// Somebody deleted it.
    Gone,
}

/// One workload being watched.
pub(super) struct Judging<'a> {
    pub work: &'a mut Work,
    pub judge: Judge,
    /// The template as the server answered it; a live one that differs is somebody else's.
    pub applied: Option<Value>,
    /// What is published of it meanwhile.
    pub outcome: Outcome,
}

impl Judging<'_> {
    /// Watches from `live` on, the object as the write left it.
    pub(super) async fn until_ruled(&mut self, live: Option<Arc<Value>>) -> Result<Ruled, Cancelled> {
        let Some(mut live) = live else { return Ok(Ruled::Gone) };
        let mut quiet_until = tokio::time::Instant::now();
        let mut told: Option<Counters> = None;
        loop {
            if self.is_taken_over(&live) {
                return Ok(Ruled::TakenOver(live));
            }
            let now = self.work.context.clock.now();
            let suspicion = match self.judge.observe(&live, now) {
                Verdict::Complete => return Ok(Ruled::Complete(live)),
                Verdict::Suspect(reason) => Some(reason),
                Verdict::Waiting(waiting) => {
                    self.publish(&waiting, &mut told).await?;
                    self.judge.overdue(now)
                }
            };
            if let Some(suspicion) = suspicion.filter(|_| tokio::time::Instant::now() >= quiet_until) {
                if let Some(ruled) = self.rule(suspicion, &live).await? {
                    return Ok(ruled);
                }
                quiet_until = tokio::time::Instant::now() + LOOK_AGAIN;
            }
            match self.next(quiet_until, &live).await? {
                Some(next) => live = next,
                None => return Ok(Ruled::Gone),
            }
        }
    }

    /// Looks at the pods and rules; `None` where the world is in the way.
    async fn rule(&mut self, suspicion: Reason, live: &Arc<Value>) -> Result<Option<Ruled>, Cancelled> {
        let context = Arc::clone(&self.work.context);
        let key = self.work.planned.wanted.key.clone();
        let look = Backoff::insist(context.in_the_way(&key), || context.cluster.scene(&key, live));
        // The kinds that a scene is read from are built in; a server that refuses to list pods is as good as one without.
        let scene = self.work.unless_cancelled(look).await?.unwrap_or_default();
        context.status.trouble(&key.to_string(), None);
        let now = context.clock.now();
        match self.judge.rule(suspicion, &scene.pods, scene.cannot_make_pods.as_deref(), now) {
            Ruling::Failed(reason) => {
                info!(object = %key, %reason, "failed");
                Ok(Some(Ruled::Failed { reason, scene, live: Arc::clone(live) }))
            }
            Ruling::World(reason) => {
                warn!(object = %key, %reason, "the world is in the way");
                self.work.step(StepKind::Waiting, &reason.message).await?;
                let message = format!("not rolled back, because the commit is not at fault: {reason}");
                context.tell(&key, live, EventKind::Warning, "RolloutWaiting", message).await;
                context.status.change(|source| {
                    if let Some(under_way) = source.under_way.get_mut(&key) {
                        under_way.in_the_way = Some(reason);
                    }
                });
                Ok(None)
            }
        }
    }

    /// The next state of the object, or the same one when it is time to look again; `None` when it is gone.
    async fn next(
        &mut self,
        quiet_until: tokio::time::Instant,
        live: &Arc<Value>,
    ) -> Result<Option<Arc<Value>>, Cancelled> {
        let now = self.work.context.clock.now();
        let due = self.judge.due().map(|due| {
            let left = Duration::try_from(due.duration_since(now)).unwrap_or_default();
            tokio::time::Instant::now() + left
        });
        let instant = tokio::time::Instant::now();
        let wake = [due, Some(quiet_until)]
            .into_iter()
            .flatten()
            .map(|wake| wake.max(quiet_until))
            .filter(|wake| *wake > instant)
            .min();
        let timer = async {
            match wake {
                Some(wake) => tokio::time::sleep_until(wake).await,
                None => std::future::pending().await,
            }
        };
        let Work { cancel, live: seen, .. } = &mut *self.work;
        tokio::select! {
            biased;
            () = cancel.cancelled() => Err(Cancelled),
            changed = seen.changed() => match changed {
                Ok(()) => Ok(seen.borrow_and_update().clone()),
                // The source is stopping.
                Err(_) => Err(Cancelled),
            },
            () = timer => Ok(Some(Arc::clone(live))),
        }
    }

    fn is_taken_over(&self, live: &Value) -> bool {
        match (&self.applied, template(live)) {
            (Some(applied), Some(live)) => !same_template(applied, live),
            _ => false,
        }
    }

    async fn publish(&self, waiting: &Waiting, told: &mut Option<Counters>) -> Result<(), Cancelled> {
        let wanted = &self.work.planned.wanted;
        let under_way = UnderWay {
            commit: wanted.commit.id.clone(),
            outcome: self.outcome,
            counters: waiting.counters.into(),
            message: waiting.message.clone(),
            until: waiting.until,
            in_the_way: None,
        };
        self.work.context.status.change(|source| {
            let before = source.under_way.get(&wanted.key).and_then(|before| before.in_the_way.clone());
            source.under_way.insert(wanted.key.clone(), UnderWay { in_the_way: before, ..under_way });
        });
        debug!(object = %wanted.key, message = waiting.message, "waiting");
        let moved = told.is_none_or(|told| waiting.counters.progressed_since(&told));
        if moved && waiting.on == WaitingOn::Pods {
            *told = Some(waiting.counters);
            self.work.step(StepKind::Progress, &waiting.message).await?;
        }
        Ok(())
    }
}

/// Whether a live workload says that it is complete, about its present generation.
pub(super) fn is_complete(key: &crate::manifest::ObjectKey, live: &Value) -> bool {
    health(key, live).is_none_or(|health| {
        health.observed_generation >= crate::rollout::marks::generation(live)
            && health.standing == crate::rollout::health::Standing::Complete
    })
}
