//! Waits for the next state of a workload that is watched, or until it is time to look at it again.

use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::watch;

use super::analysis::Analyses;
use super::{HealthMonitor, UNHEARD};
use crate::daemon::rollout::rollout_task::{Cancelled, LiveObject, RolloutTask};
use belay_core::manifest::Compact;
use belay_core::rollout::Reason;

/// The delay before events that fell due meanwhile are handled.
const SOON: Duration = Duration::from_secs(1);

impl HealthMonitor<'_> {
    /// Returns the next state of the object, or the same one when it is time for an inspection; `None` when it is gone.
    pub(super) async fn next(&mut self, live: &Compact) -> Result<Option<Compact>, Cancelled> {
        let quiet_until = self.quiet_until;
        let now = self.work.context.clock.steady();
        let until = |due: Timestamp| {
            tokio::time::Instant::now() + Duration::try_from(due.duration_since(now)).unwrap_or_default()
        };
        // Within the bake time, pods that are missing are no fault of the commit.
        let due = self.judge.due().filter(|_| self.bake.running().is_none()).map(until);
        let instant = tokio::time::Instant::now();
        let baked = self.bake.ends().filter(|ends| *ends > now).map(until);
        let look_at = Some(self.look_at_pods.0);
        // Events that fell due during another request are still due. A time that has passed wakes nobody by itself.
        let due =
            [due.map(|due| due.max(quiet_until)), look_at, baked].map(|due| due.map(|due| due.max(instant + SOON)));
        let quiet = Some(quiet_until).filter(|until| *until > instant);
        let wake = due.into_iter().chain([quiet, self.unheard]).flatten().min();
        let timer = sleep_until(wake);
        let RolloutTask { cancel, live: seen, give_up, .. } = &mut *self.work;
        let analyses = self.analyses.as_mut();
        tokio::select! {
            biased;
            () = cancel.cancelled() => Err(Cancelled),
            other = another(seen, live) => other,
            () = told(give_up) => Ok(Some(live.clone())),
            () = Analyses::changed(analyses) => Ok(Some(live.clone())),
            () = timer => Box::pin(self.read_unheard_of(live)).await,
        }
    }

    /// Returns the object as it is, if the watch should have reported it by now and has not; otherwise as it was.
    async fn read_unheard_of(&mut self, live: &Compact) -> Result<Option<Compact>, Cancelled> {
        let over = self.unheard.take_if(|until| *until <= tokio::time::Instant::now()).is_some();
        let is_told = || self.work.live.borrow().as_ref().is_some_and(|told| !self.judge.is_from_before(&told.read()));
        if !over || is_told() {
            return Ok(Some(live.clone()));
        }
        // It may tell nothing for longer.
        self.unheard = Some(tokio::time::Instant::now() + UNHEARD);
        let read = self.work.read().await?;
        self.is_read = true;
        Ok(read.map(|read| Compact::of(&read)))
    }
}

/// Returns the next state of the object that is not as `known`: the watch reports belay's own write, too.
async fn another(seen: &mut LiveObject, known: &Compact) -> Result<Option<Compact>, Cancelled> {
    loop {
        // The source is stopping, if nobody is left to say so.
        seen.changed().await.map_err(|_| Cancelled)?;
        let live = seen.borrow_and_update().clone();
        if live.as_ref() != Some(known) {
            return Ok(live);
        }
    }
}

/// Waits until then; for ever without a time.
pub async fn sleep_until(at: Option<tokio::time::Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Waits until somebody says that the rollout is to be given up.
async fn told(give_up: &mut watch::Receiver<Option<Reason>>) {
    if give_up.changed().await.is_err() {
        // Nobody is left who could say so.
        std::future::pending().await
    }
}
