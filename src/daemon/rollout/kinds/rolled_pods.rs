//! Observes the pods of a ReplicationController during a rolling update, and decides when to give up.

use jiff::Timestamp;
use serde_json::Value;

use crate::cluster::{Backoff, ObservedWorkload};
use crate::daemon::rollout::health_monitor::LOOK_AT_PODS;
use crate::daemon::rollout::rollout_task::{Cancelled, RolloutTask};
use belay_core::manifest::ObjectKey;
use belay_core::rollout::rolling_update::{Ask, Begun, Live, RollingUpdate, To};
use belay_core::rollout::{Counters, FailFast, Outcome, Reason, TemplateMarks, marks};

/// Returns the observation of the expected pods: those of the next controller, or, on the way back and if there is
/// none, those of the controller itself.
pub async fn observe(work: &RolloutTask, to: &To) -> Result<ObservedWorkload, Cancelled> {
    let (context, key) = (&work.context, &work.planned.wanted.key);
    let (key, live) = match begun(work).await? {
        (Begun::Growing { next, .. }, _) if !matches!(to, To::Back) => {
            let name = next["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            (ObjectKey { name, ..key.clone() }, *next)
        }
        (_, live) => (key.clone(), live.unwrap_or_default()),
    };
    let look = Backoff::retry(context.in_the_way(&key), || context.cluster.observe(&key, &live, None));
    Ok(work.unless_cancelled(look).await?.unwrap_or_default())
}

/// Waits until the source gives it up: another object of its commit has failed. A rollback that has begun goes on.
pub async fn asked_to_give_up(work: &RolloutTask, outcome: Outcome) -> Reason {
    let mut asked = work.give_up.clone();
    let asked = asked.wait_for(|reason| reason.is_some() && outcome != Outcome::RollingBack);
    match asked.await.ok().and_then(|reason| reason.clone()) {
        Some(reason) => reason,
        None => std::future::pending().await,
    }
}

/// Waits until the state of the pods is a reason to give up before the deadline.
pub async fn fails_fast(work: &RolloutTask, outcome: Outcome, to: &To) -> Reason {
    // Failures of another controller's pods, or of earlier ones, say nothing about this commit.
    if outcome == Outcome::RollingBack || !work.context.config.fail_fast || matches!(to, To::Back) {
        return std::future::pending().await;
    }
    let mut fail_fast = FailFast::default();
    loop {
        tokio::time::sleep(LOOK_AT_PODS).await;
        let Ok(observed) = observe(work, to).await else { continue };
        if let Some(reason) = fail_fast.look(&observed.observation.pods, work.context.clock.steady()) {
            return reason;
        }
    }
}

/// Waits until somebody asks to leave it alone, and why.
pub async fn suspended(work: &RolloutTask) -> String {
    let mut live = work.live.clone();
    loop {
        let seen = live.borrow_and_update().clone();
        if let Some(why) = seen.and_then(|seen| marks::suspension(&seen.read()).map(str::to_owned)) {
            return why;
        }
        if live.changed().await.is_err() {
            // Nobody is left who could ask.
            return std::future::pending().await;
        }
    }
}

/// Returns the live controller, and the progress of its update.
pub async fn begun(work: &RolloutTask) -> Result<(Begun, Option<Value>), Cancelled> {
    let key = &work.planned.wanted.key;
    let live = look(work).await?;
    let old = live.controllers.iter().find(|one| one["metadata"]["name"] == key.name.as_str()).cloned();
    Ok((Begun::of(&key.name, &live), old))
}

async fn look(work: &RolloutTask) -> Result<Live, Cancelled> {
    let (context, key) = (&work.context, &work.planned.wanted.key);
    let update = RollingUpdate::new(ask(work)).expect("it asks for a template, which can be meant");
    let look = || context.cluster.look_at_controllers(&update, key.namespace.as_deref().unwrap_or_default());
    let live = work.until_served(key, look).await?.unwrap_or_default();
    context.status.object_trouble(key, None);
    Ok(live)
}

pub fn ask(work: &RolloutTask) -> Ask {
    let wanted = &work.planned.wanted;
    // A held controller is rolled back to its held template.
    let held = work.apply.restores_held.then(|| work.apply.body.read());
    let marks = held.as_ref().map_or_else(|| TemplateMarks::of(&wanted.commit), TemplateMarks::on);
    let mut manifest = held.unwrap_or_else(|| wanted.value());
    if wanted.ignored_fields.leaves_replicas()
        && let Some(spec) = manifest.get_mut("spec").and_then(Value::as_object_mut)
    {
        spec.remove("replicas");
    }
    Ask::template(manifest, marks)
}

/// The furthest that a rolling update has come. A line by itself is no movement.
#[derive(Default)]
pub struct Furthest {
    best: Option<Counters>,
    /// When it came further last, since that was asked.
    pub moved: Option<Timestamp>,
}

impl Furthest {
    pub fn note(&mut self, counters: Counters, now: Timestamp) {
        if self.best.is_some_and(|best| counters.progressed_since(&best)) {
            self.moved = Some(now);
        }
        self.best = Some(self.best.map_or(counters, |best| counters.best_of(&best)));
    }
}
