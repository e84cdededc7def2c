//! The apply of one manifest: in its turn, again and again while the cluster is not able to, and until it is done or refused.

use serde_json::Value;
use tracing::{info, warn};

use super::patience::GaveUp;
use super::prune;
use super::rollout_task::{Cancelled, RolloutTask};
use super::until_served::NotServedSince;
use crate::cluster::{self, Backoff, ClusterError, Mode, Written};
use crate::daemon::planning::refused::complaints;
use crate::daemon::publish::status::{UnderWay, put_or_remove};
use crate::daemon::shared::missing::comes;
use crate::daemon::shared::requests::RequestPermit;
use belay_core::manifest::Compact;
use belay_core::rollout::canary::take_off_locks;
use belay_core::rollout::{Outcome, Reach, Reason, ReasonCode, StepKind, cluster_fields, is_job, is_pod};

/// Behaviour while an object can't be applied for now: reported as waiting, or not. One that goes back is on its way
/// back meanwhile.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Waits {
    Told,
    Untold,
}

/// The end of one try.
enum ApplyTry {
    Written(Written),
    /// Nothing was sent: somebody has taken the hold off that the body repeats.
    Released,
}

impl RolloutTask {
    /// Waits for the manifest's turn, and for room for its first request.
    pub async fn turn_and_room(&self) -> Result<RequestPermit, Cancelled> {
        self.unless_cancelled(async {
            self.turn.comes().await;
            self.context.requests.room_for(self.apply.body.text().len()).await
        })
        .await
    }

    /// Applies the manifest, and returns the object as it is then. `Err` with the outcome where the server refuses it.
    pub async fn apply_manifest(&mut self, room: RequestPermit) -> Result<Result<Compact, Outcome>, Cancelled> {
        self.step(StepKind::Applying, "").await?;
        let mut room = room;
        let may_have_run = is_job(&self.planned.wanted.key) || is_pod(&self.planned.wanted.key);
        if self.apply.creates && may_have_run {
            drop(room);
            if let Some(outcome) = Box::pin(prune::delete_last_run(self)).await? {
                self.turn.through();
                return Ok(Err(outcome));
            }
            room = self.unless_cancelled(self.context.requests.room_for(self.apply.body.text().len())).await?;
        }
        if self.apply.takes_over {
            // Taking over an object that somebody else changes may take long; others may use the request's room
            // meanwhile.
            drop(room);
            Box::pin(self.take_over(&self.apply.body.read(), Reach::Manifest)).await?;
            room = self.unless_cancelled(self.context.requests.room_for(self.apply.body.text().len())).await?;
        }
        let written = Box::pin(self.retry_with(room, (&self.apply.body).into(), Waits::Told)).await?;
        match written {
            Ok(written) => {
                // It has no room any more: its value is not kept while it waits for the history.
                let (baseline, text) = (self.baseline(&written), Compact::of(&written));
                drop(written);
                self.context.applied(self.record, self.apply.rolls_out, &baseline).await;
                info!(object = %self.planned.wanted.key, commit = self.planned.wanted.commit.id.short(), "applied");
                Ok(Ok(text))
            }
            Err(error) if error.is_waited_for_with_a_limit() => {
                let reason = self.not_served(&error);
                Ok(Err(self.end(Outcome::Failed, Some(reason)).await?))
            }
            Err(error) => {
                self.turn.through();
                let reason = error.to_reason();
                warn!(object = %self.planned.wanted.key, %reason, "rejected");
                self.context.complain(self.record, complaints(&self.planned.wanted, &error)).await;
                Ok(Err(self.end(Outcome::Rejected, Some(reason)).await?))
            }
        }
    }

    /// Sends an apply until it is done or refused. A request under way is never dropped: it might reach the server after
    /// the write of a newer commit.
    pub async fn retry_apply(&self, body: impl Into<Compact>) -> Result<Result<Value, ClusterError>, Cancelled> {
        let body = body.into();
        let room = self.unless_cancelled(self.context.requests.room_for(body.text().len())).await?;
        self.retry_with(room, body, Waits::Untold).await
    }

    async fn retry_with(
        &self,
        room: RequestPermit,
        body: Compact,
        waits: Waits,
    ) -> Result<Result<Value, ClusterError>, Cancelled> {
        let key = &self.planned.wanted.key;
        let mut backoff = Backoff::default();
        let (mut told, mut logged, since) = (false, cluster::LoggedTrouble::default(), NotServedSince::default());
        let (mut room, mut missing) = (room, None);
        loop {
            if self.cancel.is_cancelled() {
                return Err(Cancelled);
            }
            let error = match Box::pin(self.context.requests.carry(room, self.send(&body))).await {
                Ok(ApplyTry::Released) => {
                    let reason = Reason::new(ReasonCode::Superseded, "somebody asked for another try meanwhile");
                    drop(self.patience.gave_up.set(GaveUp::Released(reason)));
                    return Err(Cancelled);
                }
                Ok(ApplyTry::Written(written)) => {
                    for warning in &written.warnings {
                        warn!(object = %key, warning, "the API server warns");
                    }
                    self.context.status.object_trouble(key, None);
                    if told && waits == Waits::Told {
                        self.context.status.change(|source| source.under_way.remove(key).is_some());
                    }
                    return Ok(Ok(written.object));
                }
                Err(error) => error,
            };
            if !error.is_the_worlds() || self.is_beyond(&since, &error) {
                return Ok(Err(error));
            }
            let first = !std::mem::replace(&mut told, true);
            let own = !matches!(error, ClusterError::Away { .. }) || error.is_own();
            if own {
                // Only this object is in trouble: later objects of the order go on.
                self.turn.through();
            }
            if own && waits == Waits::Told {
                self.tell_waiting(error.to_reason().message, first).await?;
            } else {
                self.context.in_the_way(key)(&error);
                if first {
                    self.step(StepKind::Waiting, &error.to_string()).await?;
                }
            }
            if matches!(error, ClusterError::Missing { .. }) {
                missing.get_or_insert_with(|| self.context.missing.tell(key));
            }
            let wait = backoff.after(&error);
            logged.tell(&error, wait);
            room = self
                .unless_cancelled(async {
                    drop(tokio::time::timeout(wait, comes(missing.as_mut())).await);
                    self.context.requests.room_for(body.text().len()).await
                })
                .await?;
        }
    }

    /// Sends an apply once. Ignored fields, and the hold, are read at the last moment: they may have changed since the
    /// plan.
    async fn send(&self, body: &Compact) -> Result<ApplyTry, ClusterError> {
        let (cluster, wanted) = (&self.context.cluster, &self.planned.wanted);
        let leaves_fields = !wanted.ignored_fields.is_empty() || !cluster_fields(&body.read()).is_empty();
        if !leaves_fields && !self.apply.keeps_hold && !self.may_be_locked() {
            return cluster.apply(&wanted.key, &self.served, body, Mode::Real).await.map(ApplyTry::Written);
        }
        let live = cluster.get(&wanted.key, &self.served).await?;
        let Some(sent) = self.sent_over(body, live, leaves_fields) else { return Ok(ApplyTry::Released) };
        cluster.apply(&wanted.key, &self.served, sent, Mode::Real).await.map(ApplyTry::Written)
    }

    /// Returns what is sent for an object that is so in the cluster, as a text: no value is in memory while the server is
    /// asked. `None` when its hold was taken off.
    fn sent_over(&self, body: &Compact, live: Option<Value>, leaves_fields: bool) -> Option<Compact> {
        let wanted = &self.planned.wanted;
        let mut sent =
            if leaves_fields { wanted.ignored_fields.leave(body.read(), live.as_ref()) } else { body.read() };
        if let Some(live) = live.as_ref().filter(|_| self.may_be_locked()) {
            sent = take_off_locks(sent, live);
        }
        if let Some(live) = live.filter(|_| self.apply.keeps_hold) {
            if self.context.holds.is_released(&wanted.key, &live) {
                return None;
            }
            // The server refuses it if somebody takes the hold off until then.
            sent["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"].clone();
        }
        Some(Compact::of(&sent))
    }

    /// Reports that the object waits, and its dependency: a namespace, a right, another object that a webhook wants.
    async fn tell_waiting(&self, message: String, first: bool) -> Result<(), Cancelled> {
        let wanted = &self.planned.wanted;
        if first {
            self.unless_cancelled(self.context.waits(self.record, &message)).await?;
        }
        let under_way = UnderWay {
            commit: wanted.commit.id.clone(),
            outcome: Outcome::Waiting,
            counters: Default::default(),
            message,
            until: None,
            watched: None,
            in_the_way: None,
            wrong: None,
        };
        self.context.status.change(|source| put_or_remove(&mut source.under_way, &wanted.key, Some(under_way)));
        Ok(())
    }
}
