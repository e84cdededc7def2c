//! Follows sources: joins git, render, manifest, rollout, cluster and history. The map of its files is in [the crate's page](crate).

mod leadership;
mod live;
mod planning;
mod publish;
mod records;
mod reload;
mod repository;
mod rollout;
mod shared;
mod source;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument as _, info_span};

use crate::clock::Clock;
use crate::cluster::Cluster;
use crate::config::SourceConfig;
use crate::git::{Follow, GitError, InvalidLocation, Mirror, Wake};
use crate::history::{Follower, History, Retention};
use crate::prometheus::{InstantQuery, PrometheusClient};
use crate::render::{SourcePaths, Tools};
use crate::telemetry::Metrics;

use leadership::leading::{Parts, ReadingParts};
use leadership::lease::Leader;
pub use leadership::lease::lease_name;
pub use planning::plan_once::{Leaving, LeavingPlan, leave_finished, plan_leaving, plan_once};
pub use publish::canary_plan::{CanaryPlan, CanaryPlanStep};
pub use publish::lasting_trouble::note_lasting_trouble;
pub use publish::obstacle::Obstacle;
pub use publish::related_object::RelatedObject;
use publish::status::Publisher;
pub use publish::status::{CountersStatus, LeaseStatus, Obstacles, SourceStatus, Status, UnderWay, WatchedUntil};
pub use publish::status_socket::{answer_commands, ask_daemon, ask_daemon_for_workloads};
use records::history_file::keep_history;
pub use records::rebuild::recollect;
use reload::FollowedSource;
pub use reload::Reload;
pub(crate) use repository::capabilities::capabilities;
use repository::open_mirror::MirrorPlace;
pub use repository::source_options::{credentials, render_options, what_to_follow};
use shared::blocking_pool::BlockingPool;
use shared::cleanup::Cleanup;
pub use shared::cleanup::Pruning;
pub use shared::commit_tree::CommitTree;
use shared::requests::Requests;
use shared::rollout_slots::RolloutSlots;
pub use shared::source_dependency::LookRequest;
use shared::source_dependency::{DependencyRequest, SourceDependency};
pub use shared::windows::is_window_wait;
pub use source::liveness::Liveness;

/// The reason for which a source can't be followed.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// The repository is not written as belay reads it.
    #[error("source {name:?}: {error}")]
    Location {
        /// The source.
        name: String,
        /// The error.
        error: InvalidLocation,
    },
    /// The mirror can't be used.
    #[error("source {name:?}: {error}")]
    Mirror {
        /// The source.
        name: String,
        /// The error.
        error: GitError,
    },
    /// The configured commit is none.
    #[error("source {name:?}: {message}")]
    Follow {
        /// The source.
        name: String,
        /// The error message.
        message: String,
    },
}

/// The daemon: sources, followed until it stops.
pub struct Daemon {
    history: History,
    clock: Clock,
    status: watch::Sender<Status>,
    stop: CancellationToken,
    options: DaemonOptions,
    /// The requests to a source by those who wait for it, by name.
    asked: BTreeMap<String, Arc<DependencyRequest>>,
    /// The room for requests that its sources share.
    requests: Arc<Semaphore>,
    metrics: Metrics,
    liveness: Liveness,
    sources: JoinSet<()>,
    /// The sources that are followed, or were, by name.
    followed: BTreeMap<String, FollowedSource>,
    /// The receiver of what was read of the configuration again.
    reloads: Option<mpsc::Receiver<Reload>>,
}

/// The options for the sources that are added from here on.
#[derive(Default)]
struct DaemonOptions {
    cleanup: Cleanup,
    /// This daemon's name among those that may follow the same sources.
    identity: Option<String>,
    /// The tools that render.
    tools: Tools,
    /// The longest wait of a head for its units, if that is not the default.
    patience: Option<Duration>,
    /// The place where blocking work runs.
    blocking_pool: BlockingPool,
    /// The slots of rollouts.
    rollout_slots: RolloutSlots,
    /// The one who asks Prometheus, if that is not belay's own client.
    prometheus: Option<Arc<dyn InstantQuery>>,
}

impl Daemon {
    /// Returns a daemon without sources yet. It stops when `stop` is cancelled.
    #[must_use]
    pub fn new(history: History, clock: Clock, stop: CancellationToken) -> Daemon {
        Daemon {
            history,
            clock,
            status: watch::Sender::new(Status::default()),
            stop,
            options: DaemonOptions::default(),
            asked: BTreeMap::new(),
            requests: Requests::of_daemon(),
            metrics: Metrics::default(),
            liveness: Liveness::default(),
            sources: JoinSet::new(),
            followed: BTreeMap::new(),
            reloads: None,
        }
    }

    /// Remembers only so much, for the sources that are followed from here on; everything otherwise.
    #[must_use]
    pub fn remembering(mut self, retention: Retention) -> Daemon {
        self.options.cleanup.retention = retention;
        self
    }

    /// Deletes so much at once, for the sources that are followed from here on.
    #[must_use]
    pub fn pruning(mut self, pruning: Pruning) -> Daemon {
        self.options.cleanup.pruning = pruning;
        self
    }

    /// Follows its sources, from here on, only while it holds the Lease of each: of several daemons of one source, one
    /// writes. `identity` is this daemon's name, which no other has, and which it has again after a restart.
    #[must_use]
    pub fn leading(mut self, identity: String) -> Daemon {
        self.options.identity = Some(identity);
        self
    }

    /// Renders with these tools, for the sources that are followed from here on; by default with those on the PATH.
    #[must_use]
    pub fn rendering_with(mut self, tools: Tools) -> Daemon {
        self.options.tools = tools;
        self
    }

    /// Rolls out so many workloads at a time, for the sources that are followed from here on; 0 is no limit.
    #[must_use]
    pub fn limited(mut self, max_rollouts: usize) -> Daemon {
        self.options.rollout_slots = RolloutSlots::of_daemon(max_rollouts);
        self
    }

    /// Asks Prometheus in this way, for the sources that are followed from here on.
    #[must_use]
    pub fn measuring(mut self, prometheus: Arc<dyn InstantQuery>) -> Daemon {
        self.options.prometheus = Some(prometheus);
        self
    }

    /// Rolls out the rest of a head when a unit takes longer to render than this, for the sources that are followed from here
    /// on; by default 2 seconds.
    #[must_use]
    pub fn waiting_for_units(mut self, patience: Duration) -> Daemon {
        self.options.patience = Some(patience);
        self
    }

    /// Uses no threads and no notices of the file system, for the sources that are followed from here on, so that on a
    /// current-thread runtime with tokio's clock paused the same world gives the same run: blocking work is done in its
    /// turn, for as long on that clock as `takes` says, and pushes are noticed by polling only.
    #[must_use]
    pub fn repeatable(mut self, takes: impl Fn() -> Duration + Send + Sync + 'static) -> Daemon {
        self.options.blocking_pool = BlockingPool::InTurn(Arc::new(takes));
        self
    }

    /// Returns the daemon's status.
    #[must_use]
    pub fn status(&self) -> watch::Receiver<Status> {
        self.status.subscribe()
    }

    /// Returns the daemon's counters.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        self.metrics.clone()
    }

    /// Returns a check that the loops of its sources turn.
    #[must_use]
    pub fn liveness(&self) -> Liveness {
        self.liveness.clone()
    }

    /// Returns the sender of sources that are read again while the daemon runs.
    #[must_use]
    pub fn reloads(&mut self) -> mpsc::Sender<Reload> {
        let (sender, reloads) = mpsc::channel(1);
        self.reloads = Some(reloads);
        sender
    }

    /// Returns the fetch requests of each source that is followed so far, by name.
    #[must_use]
    pub fn look_requests(&self) -> BTreeMap<String, LookRequest> {
        self.asked.iter().map(|(name, asked)| (name.clone(), LookRequest::of(asked))).collect()
    }

    /// Follows one more source, with its mirror in the state folder, beside the history.
    ///
    /// # Errors
    /// Fails when its configuration can't be used. A fault of the infrastructure (a repository that is away, a cluster that does not
    /// answer, a folder that can't be used) is no error: it is waited out, and told in the status.
    pub fn follow(&mut self, config: SourceConfig, cluster: &Cluster) -> Result<(), DaemonError> {
        let (place, follow) = self.checked(&config)?;
        let opened = match place.open() {
            // The configuration is wrong.
            Err(error @ GitError::Refused { .. }) => return Err(DaemonError::Mirror { name: config.name, error }),
            opened => opened,
        };
        self.begin(config, cluster, (place, follow), Some(opened));
        Ok(())
    }

    /// Returns the place of a source's mirror and its subject, if its configuration can be used.
    fn checked(&self, config: &SourceConfig) -> Result<(MirrorPlace, Follow), DaemonError> {
        let name = || config.name.clone();
        let location = config.repository.parse().map_err(|error| DaemonError::Location { name: name(), error })?;
        let follow = what_to_follow(config).map_err(|message| DaemonError::Follow { name: name(), message })?;
        let folder = self.history.folder().below("sources").below(&config.name);
        let credentials = credentials(config, &location);
        Ok((MirrorPlace { folder, location, credentials }, follow))
    }

    /// Begins the loop of a source, when the one that it has already has ended. Its mirror is opened there, unless it is open.
    fn begin(
        &mut self,
        config: SourceConfig,
        cluster: &Cluster,
        (place, follow): (MirrorPlace, Follow),
        opened: Option<Result<Mirror, GitError>>,
    ) {
        let name = config.name.clone();
        let previous = self.followed.get(&name).map(FollowedSource::stopped);
        let followed = FollowedSource::new(config.clone(), &self.stop);
        let (stop, ended) = (followed.stop.clone(), followed.ended.clone());
        self.followed.insert(name.clone(), followed);
        let asked = self.asked_of(&name);
        let before = config.after.clone().map(|before| self.dependency_on(before));
        let follower = Follower {
            interval: config.interval.0.as_secs(),
            cluster: cluster.server().map(str::to_owned),
            ..Follower::default()
        };
        let status = Publisher::new(&name, follower, self.status.clone(), self.metrics.clone());
        status.planned_before(self.history.heads(&name).map(|heads| heads.recorded).unwrap_or_default());
        let cluster = cluster.clone().counted_in(self.metrics.clone());
        let (leader, cluster) = self.leader(&config, &asked, &status, cluster, &stop);
        let reading = ReadingParts {
            tools: self.options.tools.clone(),
            patience: self.options.patience.unwrap_or(repository::units::PATIENCE),
            paths: SourcePaths::of(config.path.iter()),
            follow,
            wake: match self.options.blocking_pool {
                BlockingPool::Threads(_) => Wake::new(&place.location).map(Arc::new),
                BlockingPool::InTurn(_) => None,
            },
            blocking_pool: self.options.blocking_pool.clone(),
        };
        let (pool, publisher) = (self.options.blocking_pool.clone(), status.clone());
        let (history, clock, cleanup) = (self.history.clone(), self.clock.clone(), self.options.cleanup.clone());
        let (liveness, requests) = (self.liveness.clone(), Requests::share(&self.requests));
        let rollout_slots = self.options.rollout_slots.of_source(config.max_rollouts);
        let prometheus = self.options.prometheus.clone().unwrap_or_else(|| Arc::new(PrometheusClient::default()));
        let parts = move |mirror: Mirror| Parts {
            cluster,
            mirror: Arc::new(mirror),
            reading,
            asked,
            before,
            history,
            clock,
            status,
            cleanup,
            liveness,
            requests,
            rollout_slots,
            prometheus,
            config,
        };
        let span = info_span!("source", name);
        let following = async move {
            let _ended = ended.drop_guard();
            if let Some(previous) = previous {
                previous.cancelled().await;
                publisher.forget();
            }
            let mirror = stop.run_until_cancelled(place.opened(opened, &publisher, &pool)).await;
            if let Some(mirror) = mirror {
                Box::pin(parts(mirror).lead(leader, stop)).await;
            }
        };
        self.sources.spawn(following.instrument(span));
    }

    /// Returns the holder of a source's Lease, and the cluster for what may be written only meanwhile. Without an
    /// identity there is no Lease.
    fn leader(
        &self,
        config: &SourceConfig,
        asked: &Arc<DependencyRequest>,
        status: &Publisher,
        cluster: Cluster,
        stop: &CancellationToken,
    ) -> (Option<Leader>, Cluster) {
        let Some(who) = self.options.identity.clone() else { return (None, cluster) };
        let (entitled, may_write) = watch::channel(None);
        let leader = Leader {
            cluster: cluster.clone().with_request_timeout(leadership::lease::REQUEST),
            clock: self.clock.clone(),
            status: status.clone(),
            history: self.history.clone(),
            source: config.name.clone(),
            namespace: config.lease_namespace().to_owned(),
            name: lease_name(&config.name),
            who,
            entitled,
            asked: Arc::clone(asked),
            stop: stop.clone(),
        };
        (Some(leader), cluster.writing_while(may_write))
    }

    fn dependency_on(&mut self, name: String) -> SourceDependency {
        let asked = self.asked_of(&name);
        asked.await_it();
        SourceDependency { asked, status: self.status.subscribe(), name }
    }

    fn asked_of(&mut self, source: &str) -> Arc<DependencyRequest> {
        Arc::clone(self.asked.entry(source.to_owned()).or_default())
    }

    /// Runs until it is cancelled.
    pub async fn run(mut self) {
        let keeping = keep_history(self.history.clone(), self.status.clone());
        tokio::select! {
            () = self.follow_sources() => {}
            () = keeping => {}
        }
    }
}
