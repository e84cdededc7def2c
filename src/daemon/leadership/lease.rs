//! One daemon a source: it follows its source only while it holds the Lease of it. A second one waits, and takes over when
//! the first is gone.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::clock::Clock;
use crate::cluster::{Backoff, Cluster, ClusterError, LoggedTrouble, Until};
use crate::daemon::publish::obstacle::Obstacle;
use crate::daemon::publish::status::{LeaseStatus, Publisher, SourceStatus};
use crate::daemon::shared::source_dependency::DependencyRequest;
use crate::history::History;
use belay_core::rollout::{Lease, holding, releasing};

/// The time for which a Lease is held since its last renewal: so soon another daemon takes over when this one crashes.
const LASTS: Duration = Duration::from_secs(21);
/// The period between two renewals. One renewal is one request, the whole cost of leading.
const PERIOD: Duration = Duration::from_secs(7);
/// The time before the end of the Lease at which a daemon that can't renew it stops writing: for requests that are on
/// their way to the API server then, and for clocks that run at different speeds.
const MARGIN: Duration = Duration::from_secs(6);
/// The limit of one request for the Lease, so that a renewal that gets no answer is tried again in time.
pub const REQUEST: Duration = Duration::from_secs(3);
/// The longest wait until a renewal that failed is tried again.
const RETRY: Duration = Duration::from_secs(2);
/// The longest time that releasing the Lease may take.
const LETTING_GO: Duration = Duration::from_secs(1);

/// The name of a source's Lease.
pub fn lease_name(source: &str) -> String {
    format!("belay-{source}")
}

/// The Lease of one source, for one daemon.
pub struct Leader {
    /// The cluster, without the restriction that comes from this Lease.
    pub cluster: Cluster,
    pub clock: Clock,
    pub status: Publisher,
    pub history: History,
    /// The source's name.
    pub source: String,
    pub namespace: String,
    /// The Lease's name.
    pub name: String,
    /// This daemon's name, which no other has.
    pub who: String,
    /// The time until which belay may write.
    pub entitled: watch::Sender<Option<Until>>,
    /// The requests of people to the source.
    pub asked: Arc<DependencyRequest>,
    pub stop: CancellationToken,
}

impl Leader {
    /// Waits until the Lease is this daemon's. `None` when belay is to stop.
    pub async fn acquire(&self) -> Option<Lease> {
        let stop = self.stop.clone();
        let held = tokio::select! {
            biased;
            () = stop.cancelled() => None,
            held = self.acquired() => Some(held),
        };
        self.status.waits_no_longer();
        held
    }

    async fn acquired(&self) -> Lease {
        loop {
            let seen = self.retry(|| self.cluster.lease(&self.namespace, &self.name)).await;
            let free = self.until_free(seen).await;
            if let Some(lease) = self.write(free.as_ref()).await {
                info!(lease = self.name, who = self.who, "leading");
                return lease;
            }
            // Somebody else was faster.
        }
    }

    /// Waits until nobody has the Lease; watches it only meanwhile.
    async fn until_free(&self, seen: Option<Lease>) -> Option<Lease> {
        let mut watching = pin!(self.cluster.watch_lease(&self.namespace, &self.name));
        let (mut seen, mut since) = (seen, Instant::now());
        loop {
            let Some(lease) = seen.as_ref().filter(|lease| !lease.is_free_for(&self.who, since.elapsed())) else {
                return seen;
            };
            self.tell_waiting(lease);
            let until = since + lease.lasts;
            tokio::select! {
                biased;
                Some(told) = watching.next() => match told {
                    Ok(now) if now != seen => (seen, since) = (now, Instant::now()),
                    Ok(_) => {}
                    Err(message) => warn!(lease = self.name, message, "watch in trouble"),
                },
                () = tokio::time::sleep_until(until) => {}
            }
        }
    }

    fn publish(&self, lease: &Lease) {
        self.status.leased(LeaseStatus {
            name: format!("{}/{}", self.namespace, self.name),
            holder: lease.holder.clone(),
            acquired: lease.acquired,
            renewed: lease.renewed,
        });
    }

    fn tell_waiting(&self, lease: &Lease) {
        self.publish(lease);
        let holder = lease.holder.as_deref().unwrap_or_default();
        let message = format!(
            "waits: the daemon {holder} follows this source already (Lease {}/{}); it writes nothing until that one is gone",
            self.namespace, self.name
        );
        if !self.status.says_standby(&message) {
            return;
        }
        warn!(message);
        // Notes from the time when this daemon led are not true any more.
        let noted =
            self.status.read(SourceStatus::standing).map(|standing| self.history.stands(&self.source, &standing));
        if let Some(Err(error)) = noted {
            self.status.trouble(&Obstacle::History, Some(error.to_string()));
            warn!(%error, "failed to note that another daemon follows the source");
        }
    }

    /// Keeps the Lease, for as long as nobody else has it; then says who. Writing ends by itself when it can't be renewed.
    pub async fn keep(&self, lease: &mut Lease) -> String {
        let mut backoff = Backoff::default();
        let mut wait = PERIOD;
        let (mut retry, mut sync) = (lease.retry.clone(), lease.sync.clone());
        loop {
            if lease.retry != retry {
                retry.clone_from(&lease.retry);
                retry.iter().for_each(|request| self.asked.try_again(request.objects.clone()));
            }
            if lease.sync != sync {
                sync.clone_from(&lease.sync);
                sync.iter().filter(|request| !self.asked.sync_now.ask(&request.by)).for_each(|request| {
                    warn!(
                        source = self.source,
                        by = request.by,
                        "no head waits for a window: there is nothing to let through"
                    );
                });
            }
            tokio::time::sleep(wait).await;
            match self.try_to_write(Some(lease)).await {
                Ok(Some(renewed)) => {
                    *lease = renewed;
                    backoff.reset();
                    wait = PERIOD;
                    self.status.trouble(&Obstacle::Lease, None);
                }
                Ok(None) => {
                    let now = self.retry(|| self.cluster.lease(&self.namespace, &self.name)).await;
                    match now {
                        Some(now) if now.holder.as_ref().is_some_and(|holder| *holder != self.who) => {
                            self.entitled.send_replace(None);
                            return now.holder.unwrap_or_default();
                        }
                        // Written by this daemon, or released, or deleted by hand.
                        Some(now) => *lease = now,
                        None => {
                            if let Some(made) = self.write(None).await {
                                *lease = made;
                            }
                        }
                    }
                    wait = Duration::ZERO;
                }
                Err(error) => {
                    self.status.trouble(&Obstacle::Lease, Some(error.to_string()));
                    warn!(lease = self.name, %error, "failed to renew the Lease, trying again");
                    wait = backoff.after(&error).min(RETRY);
                }
            }
        }
    }

    /// Lets go, so that the next one need not wait.
    pub async fn release(&self, lease: &Lease) {
        self.entitled.send_replace(None);
        match tokio::time::timeout(LETTING_GO, self.released(lease)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => warn!(lease = self.name, %error, "failed to let go of the Lease: it ends by itself"),
            Err(_) => warn!(lease = self.name, "no time to let go of the Lease: it ends by itself"),
        }
    }

    async fn released(&self, lease: &Lease) -> Result<(), ClusterError> {
        let spec = releasing(self.clock.now());
        if self.cluster.write_lease(&self.namespace, &self.name, Some(lease), &spec).await?.is_some() {
            return Ok(());
        }
        // It was renewed while the answer to that was on its way.
        let now = self.cluster.lease(&self.namespace, &self.name).await?;
        if let Some(now) = now.filter(|now| now.holder.as_ref() == Some(&self.who)) {
            self.cluster.write_lease(&self.namespace, &self.name, Some(&now), &spec).await?;
        }
        Ok(())
    }

    async fn write(&self, seen: Option<&Lease>) -> Option<Lease> {
        self.retry(|| self.try_to_write(seen)).await
    }

    async fn try_to_write(&self, seen: Option<&Lease>) -> Result<Option<Lease>, ClusterError> {
        // Others count from when they see it, which is not before it was sent.
        let until = Until::after(LASTS.saturating_sub(MARGIN), &self.clock);
        let spec = holding(&self.who, LASTS, seen, self.clock.now());
        let written = self.cluster.write_lease(&self.namespace, &self.name, seen, &spec).await?;
        if let Some(lease) = &written {
            self.entitled.send_replace(Some(until));
            self.publish(lease);
        }
        Ok(written)
    }

    /// Asks until there is an answer: without one, this daemon does not know whether it may write, and so it does not.
    async fn retry<T, F>(&self, mut attempt: impl FnMut() -> F) -> T
    where
        F: Future<Output = Result<T, ClusterError>>,
    {
        let (mut backoff, mut told) = (Backoff::default(), LoggedTrouble::default());
        loop {
            match attempt().await {
                Ok(answer) => {
                    self.status.trouble(&Obstacle::Lease, None);
                    return answer;
                }
                Err(error) => {
                    self.status.trouble(&Obstacle::Lease, Some(error.to_string()));
                    let wait = backoff.after(&error);
                    told.tell(&error, wait);
                    tokio::time::sleep(wait).await;
                }
            }
        }
    }
}
