//! A source from its parts: made again each time that this daemon becomes the one that may follow it.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::lease::{Leader, lease_name};
use crate::clock::Clock;
use crate::cluster::Cluster;
use crate::config::SourceConfig;
use crate::daemon::publish::noted_disputes::NotedDisputes;
use crate::daemon::publish::status::Publisher;
use crate::daemon::repository::beyond_limits::HeadBeyondLimits;
use crate::daemon::repository::desired_state::DesiredState;
use crate::daemon::repository::source_repository::{Away, Repository};
use crate::daemon::repository::units::Units;
use crate::daemon::shared::autoscalers::Autoscalers;
use crate::daemon::shared::blocking_pool::BlockingPool;
use crate::daemon::shared::cleanup::Cleanup;
use crate::daemon::shared::context::{Context, Events};
use crate::daemon::shared::dependent_locks::DependentLocks;
use crate::daemon::shared::finished_jobs::FinishedJobs;
use crate::daemon::shared::journal_queue::JournalQueue;
use crate::daemon::shared::kept_holds::KeptHolds;
use crate::daemon::shared::missing::MissingNews;
use crate::daemon::shared::requests::Requests;
use crate::daemon::shared::rollout_slots::RolloutSlots;
use crate::daemon::shared::source_dependency::{DependencyRequest, LookRequest, SourceDependency};
use crate::daemon::source::liveness::Liveness;
use crate::daemon::source::source_parts::LoopParts;
use crate::git::{Follow, Mirror, Wake};
use crate::history::History;
use crate::prometheus::InstantQuery;
use crate::render::{Renderer, SourcePaths, Tools};

/// The parts of a source.
pub struct Parts {
    pub config: SourceConfig,
    pub cluster: Cluster,
    pub mirror: Arc<Mirror>,
    pub reading: ReadingParts,
    pub asked: Arc<DependencyRequest>,
    pub before: Option<SourceDependency>,
    pub history: History,
    pub clock: Clock,
    pub status: Publisher,
    pub cleanup: Cleanup,
    pub requests: Requests,
    pub rollout_slots: RolloutSlots,
    pub prometheus: Arc<dyn InstantQuery>,
    pub liveness: Liveness,
}

/// The parts that read its repository.
pub struct ReadingParts {
    pub paths: SourcePaths,
    pub blocking_pool: BlockingPool,
    /// The tools that render.
    pub tools: Tools,
    /// The longest wait of a head for its units.
    pub patience: Duration,
    pub follow: Follow,
    pub wake: Option<Arc<Wake>>,
}

impl Parts {
    /// Follows the source until belay is to stop; with a leader, only while that holds the Lease.
    pub async fn lead(self, leader: Option<Leader>, stop: CancellationToken) {
        let Some(leader) = leader else { return self.of_loop(stop).follow().await };
        while let Some(mut lease) = leader.acquire().await {
            let stop_following = stop.child_token();
            let mut following = pin!(self.of_loop(stop_following.clone()).follow());
            let taken = tokio::select! {
                biased;
                () = &mut following => None,
                by = leader.keep(&mut lease) => Some(by),
            };
            match taken {
                None => return leader.release(&lease).await,
                Some(by) => {
                    // Nothing is written from here on; rollouts under way stay open in the history, for the next time.
                    warn!(by, "another daemon follows this source now");
                    stop_following.cancel();
                    following.await;
                    self.status.forget();
                }
            }
        }
    }

    fn repository(&self, desired: watch::Receiver<Arc<DesiredState>>, stop: &CancellationToken) -> Repository {
        let (mirror, paths, blocking_pool) =
            (Arc::clone(&self.mirror), self.reading.paths.clone(), self.reading.blocking_pool.clone());
        let folder = paths.common();
        let kept = mirror.state_folder().clone();
        let renderer =
            Renderer::new(crate::daemon::render_options(&self.config), self.reading.tools.clone(), Some(kept));
        let status = self.status.clone();
        let renderer = renderer.until(stop.clone()).of_a_cluster().telling(move |units| status.rendering(units));
        let (away, units) =
            (Away::default(), Units::new(renderer, self.reading.patience, LookRequest::of(&self.asked)));
        let (beyond_limits, unmanaged, read_files) = (HeadBeyondLimits::default(), Arc::default(), Arc::default());
        Repository { mirror, paths, folder, desired, away, blocking_pool, units, beyond_limits, unmanaged, read_files }
    }

    fn of_loop(&self, stop: CancellationToken) -> LoopParts {
        let (cluster, name) = (&self.cluster, &self.config.name);
        let desired = watch::Sender::new(Arc::new(DesiredState::new(cluster.default_namespace())));
        let repository = self.repository(desired.subscribe(), &stop);
        let context = Arc::new(Context {
            cluster: cluster.clone(),
            cleanup: self.cleanup.clone(),
            repository: repository.clone(),
            autoscalers: Autoscalers::default(),
            history: self.history.clone(),
            holds: KeptHolds::load(&self.history, name),
            disputes: NotedDisputes::load(&self.history, name),
            journal: JournalQueue::default(),
            clock: self.clock.clone(),
            status: self.status.clone(),
            requests: self.requests.clone(),
            rollout_slots: self.rollout_slots.clone(),
            prometheus: Arc::clone(&self.prometheus),
            before: self.before.clone(),
            sync_now: Arc::clone(&self.asked.sync_now),
            events: Events::default(),
            finished_jobs: FinishedJobs::new(self.config.lease_namespace(), lease_name(name)),
            dependents: DependentLocks::default(),
            missing: MissingNews::default(),
            config: self.config.clone(),
        });
        LoopParts {
            context,
            repository,
            desired,
            follow: self.reading.follow.clone(),
            wake: self.reading.wake.clone(),
            asked: Arc::clone(&self.asked),
            liveness: self.liveness.of_loop(name),
            stop,
        }
    }
}
