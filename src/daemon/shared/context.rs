//! The context that every part of one source's daemon receives.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tracing::{debug, warn};

use super::autoscalers::Autoscalers;
use super::cleanup::Cleanup;
use super::dependent_locks::DependentLocks;
use super::finished_jobs::FinishedJobs;
use super::journal_queue::JournalQueue;
use super::kept_holds::KeptHolds;
use super::missing::MissingNews;
use super::requests::Requests;
use super::rollout_slots::RolloutSlots;
use super::source_dependency::SourceDependency;
use super::sync_now::SyncNow;
use super::windows::until_open;
use crate::clock::Clock;
use crate::cluster::{Cluster, ClusterError, Event, EventKind};
use crate::config::{SourceConfig, WindowConfig, WindowState};
use crate::daemon::publish::noted_disputes::NotedDisputes;
use crate::daemon::publish::obstacle::Obstacle;
use crate::daemon::publish::queued_events::about;
use crate::daemon::publish::status::Publisher;
use crate::daemon::repository::source_repository::Repository;
use crate::history::History;
use crate::prometheus::InstantQuery;
use belay_core::manifest::ObjectKey;

/// The number of Events that are sent at once.
const EVENTS_AT_ONCE: usize = 4;
/// The largest number of Events that wait to be sent.
const EVENTS_WAITING: usize = 10_000;

/// One source's surroundings.
pub struct Context {
    pub config: SourceConfig,
    pub cluster: Cluster,
    pub history: History,
    /// The holds as they were known last.
    pub holds: KeptHolds,
    /// The disagreements as they are noted.
    pub disputes: NotedDisputes,
    /// The entries that are written into it next.
    pub journal: JournalQueue,
    pub cleanup: Cleanup,
    pub repository: Repository,
    pub autoscalers: Autoscalers,
    pub clock: Clock,
    pub status: Publisher,
    pub requests: Requests,
    /// The one who asks Prometheus.
    pub prometheus: Arc<dyn InstantQuery>,
    pub rollout_slots: RolloutSlots,
    /// The source that this one comes after.
    pub before: Option<SourceDependency>,
    /// The request to let the head through that waits for a window.
    pub sync_now: Arc<SyncNow>,
    /// The Events that are being sent.
    pub events: Events,
    /// The Jobs that were complete.
    pub finished_jobs: FinishedJobs,
    /// The configuration that goes back with a workload.
    pub dependents: DependentLocks,
    /// The objects that wait for something which is not there.
    pub missing: MissingNews,
}

impl Context {
    /// Returns true when a new head waits, for another source or for a window.
    pub fn heads_wait(&self) -> bool {
        self.before.is_some() || !self.config.window.is_empty()
    }

    /// Waits until a head may be planned. One that was planned before waits for no window: its rollouts have begun.
    /// Returns who let it through outside of its windows, if somebody did.
    pub async fn until_turn(&self, was_planned: bool) -> Option<String> {
        let (name, windows): (_, &[WindowConfig]) =
            (&self.config.name, if was_planned { &[] } else { &self.config.window });
        loop {
            let let_through = until_open(name, windows, &self.clock, (&self.status, &self.sync_now)).await;
            let Some(before) = &self.before else { return let_through };
            before.until_complete(name, &self.clock, &self.status).await;
            // A window can have closed meanwhile.
            if let_through.is_some() || WindowState::of(windows, self.clock.now()) == WindowState::Open {
                return let_through;
            }
        }
    }

    /// Says of an object that the cluster is in its way.
    pub fn in_the_way(&self, key: &ObjectKey) -> impl Fn(&ClusterError) + use<'_> {
        let obstacle = Obstacle::Object(key.clone());
        move |error| self.status.trouble(&obstacle, Some(error.to_string()))
    }

    /// Sends an Event soon, as far as there is room for Events. No work waits for it. A failure to send it is logged
    /// and changes nothing.
    pub fn tell(&self, key: &ObjectKey, live: &Value, kind: EventKind, reason: &'static str, message: String) {
        let mut tasks = self.events.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        if tasks.len() >= EVENTS_WAITING {
            warn!(object = %key, message, limit = EVENTS_WAITING, "too many events wait to be told: left out");
            return;
        }
        let (cluster, key, live) = (self.cluster.clone(), key.clone(), about(live));
        let room = Arc::clone(&self.events.room);
        tasks.spawn(async move {
            let _room = room.acquire_owned().await;
            tell(&cluster, &key, &live, Event { kind, reason, message }).await;
        });
    }

    /// Sends an Event and waits until it is sent, or has failed.
    pub async fn tell_at_once(
        &self,
        key: &ObjectKey,
        live: &Value,
        kind: EventKind,
        reason: &'static str,
        message: String,
    ) {
        tell(&self.cluster, key, live, Event { kind, reason, message }).await;
    }
}

/// The Events that are being sent. A drop leaves out unsent ones.
pub struct Events {
    room: Arc<Semaphore>,
    tasks: Mutex<JoinSet<()>>,
}

impl Default for Events {
    fn default() -> Events {
        Events { room: Arc::new(Semaphore::new(EVENTS_AT_ONCE)), tasks: Mutex::default() }
    }
}

async fn tell(cluster: &Cluster, key: &ObjectKey, live: &Value, event: Event) {
    if let Err(error) = cluster.tell(key, live, &event).await {
        match error.is_silence() {
            true => debug!(object = %key, %error, "failed to tell an event"),
            false => warn!(object = %key, %error, "failed to tell an event"),
        }
    }
}
