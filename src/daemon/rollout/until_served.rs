//! Limits the wait of a rollout for one object that a ready API server can't serve, or that needs something which is
//! missing or is being deleted: it keeps no other object waiting meanwhile, and is given up after `outage_timeout`.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::patience::GaveUp;
use super::rollout_task::{Cancelled, RolloutTask};
use crate::cluster::{Backoff, ClusterError};
use belay_core::manifest::ObjectKey;
use belay_core::rollout::{Reason, ReasonCode};

/// The time since which an object is not served.
#[derive(Debug, Default)]
pub struct NotServedSince(Mutex<Option<Instant>>);

impl RolloutTask {
    /// Asks the cluster about an object until it answers. `Err` with [`Cancelled`] also if the object was not served for
    /// all of `outage_timeout`: then the rollout ends.
    pub async fn until_served<T, F>(
        &self,
        key: &ObjectKey,
        mut attempt: impl FnMut() -> F,
    ) -> Result<Result<T, ClusterError>, Cancelled>
    where
        F: Future<Output = Result<T, ClusterError>>,
    {
        let since = NotServedSince::default();
        let attempt = || {
            let answer = attempt();
            async {
                match answer.await {
                    Err(error) if self.is_beyond(&since, &error) => Ok(Err(error)),
                    answer => answer.map(Ok),
                }
            }
        };
        let answer = self.unless_cancelled(Backoff::retry(self.context.in_the_way(key), attempt)).await?;
        let answer = answer.and_then(|answer| answer);
        match &answer {
            Err(error) if error.is_own() => {
                self.give_up(error);
                Err(Cancelled)
            }
            _ => Ok(answer),
        }
    }

    /// Notes an error about an object; whether it is not waited for any longer.
    pub fn is_beyond(&self, since: &NotServedSince, error: &ClusterError) -> bool {
        let mut since = since.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !error.is_waited_for_with_a_limit() {
            *since = None;
            return false;
        }
        // Only this object is in trouble: later objects of the order go on.
        self.turn.through();
        since.get_or_insert_with(Instant::now).elapsed() >= self.context.config.outage_timeout.0
    }

    /// Returns the reason why it is given up that an object is not served, or that what it needs is missing or goes.
    pub fn not_served(&self, error: &ClusterError) -> Reason {
        let limit = self.context.config.outage_timeout.0;
        match error {
            ClusterError::InDeletion { .. } | ClusterError::Missing { .. } => beyond_limit(error.to_reason(), limit),
            error => beyond_limit(Reason::new(ReasonCode::NotServed, error.to_string()), limit),
        }
    }

    fn give_up(&self, error: &ClusterError) {
        // The first reason is the one that is reported.
        drop(self.patience.gave_up.set(GaveUp::NotServed(self.not_served(error))));
    }
}

/// Returns the reason of a wait that is given up after this time.
pub fn beyond_limit(reason: Reason, limit: Duration) -> Reason {
    let Reason { code, message } = reason;
    let what = if code == ReasonCode::NotServed { "not served for" } else { "waited for" };
    Reason { code, message: format!("{message}: {what} all of outage_timeout, {} s", limit.as_secs()) }
}
