//! Plays a scenario: the cluster, the repository, belay, and everything that happens, on one thread and on tokio's paused
//! clock.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use belay::clock::Clock;
use belay::cluster::Cluster;
use belay::config::{Drift, OnFailure, SourceConfig, Span, WindowConfig};
use belay::daemon::{Daemon, Status};
use belay::history::History;
use belay::render::Tools;
use jiff::tz::TimeZone;
use minicluster::{MiniCluster, Part, Random, Script};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::api_proxy::{ApiProxy, Process};
use super::bugs::Bug;
use super::cluster_faults::FaultyCluster;
use super::events::{Actor, Event, Hand, Kill};
use super::fault_rates::FaultRates;
use super::findings::{annotation, path_of};
use super::log::Log;
use super::manual_changes::Person;
use super::prometheus::{self, SimulatedPrometheus};
use super::repository::{Key, Shop};
use super::run::{ActorPeriod, Handled, Life};
use super::scenario::{App, Fate, Kind, Order, Scenario};
use super::second_source;
use crate::support::daemon::EPOCH;

mod faults;

/// The time that belay has before the first event.
pub const LEAD: Duration = Duration::from_secs(20);

/// Something that is due.
#[derive(Clone, Debug)]
enum Due {
    Happens(Event),
    /// belay starts, if it does not run.
    Start,
    /// The storm with this number is over.
    Calm(usize),
    LetGo(Key, Hand),
    TwinEnds,
    /// The controller with this number looks at its workload.
    Controls(usize),
    /// The webhook or the quota with this number refuses nothing any more.
    Answers(usize),
    GitIsBack,
    /// etcd is restored.
    IsRestored,
    PartIsBack(Part),
    /// There is room again on the disk that has the state of this number.
    HasRoom(usize),
}

/// A scenario under way.
pub struct Stage {
    pub scenario: Scenario,
    cluster: FaultyCluster,
    pub person: Person,
    prometheus: kube::Client,
    pub shop: Shop,
    pub line: ApiProxy,
    bug: Option<Bug>,
    pub log: Log,
    pub hands: Vec<Handled>,
    pub acting: Vec<ActorPeriod>,
    pub lives: Vec<Life>,
    pub storms: Vec<(u64, u64)>,
    pub jumps: Vec<(u64, i64)>,
    /// The times of etcd's restores.
    pub restores: Vec<u64>,
    /// The times when the disk of a state folder was full: from and to.
    pub full: Vec<(u64, u64)>,
    started: Instant,
    random: Random,
    /// The clock of belay's machine.
    clock: Clock,
    sprung: Arc<Notify>,
    states: usize,
    queue: BTreeMap<(Instant, usize), Due>,
    queued: usize,
    armed: Option<Kill>,
    /// The time after which belay starts again when the trap has sprung.
    away: Duration,
    moves: bool,
    belay: Option<Belay>,
    twin: Option<Belay>,
}

/// A belay that runs.
struct Belay {
    process: Process,
    task: JoinHandle<()>,
    status: watch::Receiver<Status>,
}

impl Stage {
    /// Returns the stage of a scenario, before anything has happened.
    pub async fn set(scenario: Scenario, bug: Option<Bug>, log: Log, sprung: Arc<Notify>) -> Stage {
        let random = Random::new(scenario.seed ^ 0x5eed);
        let epoch = EPOCH.parse().expect("a time");
        let script = Script::parse(&Fate::script()).expect("a script");
        // Two steps of a DaemonSet, and a node that keeps its old pod meanwhile.
        let has_steps = |app: &App| app.kind == Kind::DaemonSet && app.steps > 0;
        let nodes = if scenario.apps.iter().any(has_steps) { 3 } else { 2 };
        let builder = MiniCluster::builder()
            .seed(scenario.seed)
            .clock(Clock::tokio(epoch))
            .script(script)
            .nodes(nodes)
            .without(Part::Roles);
        let cluster = builder.start().await.expect("the embedded cluster");
        let line = ApiProxy::new(cluster.client_as("belay"), random.fork(), bug.clone(), Arc::clone(&sprung));
        let mut stage = Stage {
            person: Person(cluster.client_as("kubectl")),
            prometheus: cluster.client_as("prometheus"),
            shop: Shop::new(scenario.seed, &scenario.apps, &scenario.style, bug.clone()),
            line,
            bug,
            log,
            hands: Vec::new(),
            acting: Vec::new(),
            lives: Vec::new(),
            storms: Vec::new(),
            jumps: Vec::new(),
            restores: Vec::new(),
            full: Vec::new(),
            started: Instant::now(),
            random: random.fork(),
            clock: Clock::tokio(epoch),
            sprung,
            states: 1,
            queue: BTreeMap::new(),
            queued: 0,
            armed: None,
            away: Duration::ZERO,
            moves: false,
            belay: None,
            twin: None,
            cluster: FaultyCluster::new(cluster),
            scenario,
        };
        if let (Some(bug), Some((_, to))) = (&stage.bug, stage.scenario.style.closed) {
            bug.hears_of_window(stage.started + Duration::from_mins(to));
        }
        for timed in stage.scenario.events.clone() {
            stage.due(timed.at + LEAD, Due::Happens(timed.what));
        }
        stage
    }

    /// Plays everything, up to the moment when nothing disturbs any more.
    pub async fn play(&mut self) {
        self.start();
        while let Some((at, number)) = self.queue.keys().next().copied() {
            tokio::select! {
                biased;
                () = self.sprung.notified() => self.die().await,
                () = sleep_until(at) => {
                    let due = self.queue.remove(&(at, number)).expect("the first of the queue");
                    self.happen(due).await;
                }
            }
        }
        if self.armed.is_some() {
            self.away = Duration::ZERO;
            self.die().await;
        }
        self.line.trap(None);
        self.log.trap(None);
        self.start();
    }

    /// Waits until belay has settled on the head; whether it did within its time. The second source may wait for the first
    /// one for good.
    pub async fn settle(&mut self) -> bool {
        const LONGEST: Duration = Duration::from_mins(20);
        const SECOND: Duration = Duration::from_mins(10);
        /// The longest until a refused object is tried again.
        const REFUSED: Duration = Duration::from_secs(305);
        let refused = self.acting.iter().filter(|acting| matches!(acting.actor, Actor::Webhook | Actor::Quota));
        if let Some(last) = refused.map(|acting| Duration::from_millis(acting.to)).max() {
            let now = Duration::from_millis(self.line.now());
            tokio::time::sleep((last + REFUSED).saturating_sub(now)).await;
        }
        // It may not have heard of the last event yet.
        tokio::time::sleep(Duration::from_secs(5)).await;
        let settled = self.settles("shop", LONGEST).await;
        if self.scenario.style.second.is_some() {
            self.settles("side", SECOND).await;
        }
        settled
    }

    async fn settles(&mut self, source: &str, within: Duration) -> bool {
        let head = self.shop.pushed.last().expect("a first commit").commit.clone();
        let status = &mut self.belay.as_mut().expect("belay runs").status;
        let through = status.wait_for(|status| {
            status.sources.get(source).is_some_and(|source| {
                source.settled && source.planned.as_ref().is_some_and(|planned| planned.as_str() == head)
            })
        });
        matches!(tokio::time::timeout(within, through).await, Ok(Ok(_)))
    }

    /// Returns belay's status, and the state of the first source.
    pub fn status(&self) -> (serde_json::Value, String) {
        let status = self.belay.as_ref().expect("belay runs").status.borrow().clone();
        let state = status.sources.get("shop").map(|shop| shop.state().to_string()).unwrap_or_default();
        let state = self.bug.as_ref().map_or(state.clone(), |bug| bug.twist_state(state));
        (serde_json::to_value(status).expect("a status"), state)
    }

    /// Returns the folders in which belay kept its state, the first first.
    pub fn states(&self) -> Vec<PathBuf> {
        (0..self.states).map(|number| self.state(number)).collect()
    }

    /// Ends belay for good.
    pub async fn end(&mut self) {
        self.kill(true).await;
        self.kill(false).await;
    }

    fn state(&self, number: usize) -> PathBuf {
        self.shop.git.beside(&format!("state-{number}"))
    }

    fn due(&mut self, after: Duration, due: Due) {
        let at = self.started + after;
        self.queued += 1;
        self.queue.insert((at, self.queued), due);
    }

    fn due_in(&mut self, after: Duration, due: Due) {
        self.due(self.started.elapsed() + after, due);
    }

    async fn happen(&mut self, due: Due) {
        match due {
            Due::Happens(event) => self.event(event).await,
            Due::Start => self.start(),
            Due::Calm(storm) => {
                let now = self.line.now();
                self.storms[storm].1 = now;
                if storm + 1 == self.storms.len() {
                    self.line.turn(FaultRates::fair());
                }
            }
            Due::LetGo(key, hand) => self.person.let_go(&key, hand).await,
            Due::TwinEnds => self.kill(true).await,
            Due::Controls(number) => self.control(number).await,
            Due::Answers(number) => self.line.refuse(&path_of(&self.acting[number].key), None),
            Due::GitIsBack => self.shop.come_back(self.line.now()),
            Due::IsRestored => self.restore().await,
            Due::PartIsBack(part) => self.cluster.start(part),
            Due::HasRoom(state) => self.make_room(state),
        }
    }

    async fn event(&mut self, event: Event) {
        let now = self.line.now();
        match event {
            Event::Push(edits) => {
                self.shop.edit(&edits);
                self.shop.push(now);
            }
            Event::PushTwo(one, other) => {
                self.shop.edit(&[one]);
                self.shop.edit(&[other]);
                self.shop.push(now);
            }
            Event::PushEmpty => {
                self.shop.commit("Nothing");
                self.shop.push(now);
            }
            Event::Revert(ago) => {
                self.shop.revert(ago);
                self.shop.push(now);
            }
            Event::Force(ago, edit) => self.shop.force(ago, edit, now),
            Event::Merge(ours, theirs) => {
                self.shop.merge(ours, theirs);
                self.shop.push(now);
            }
            Event::Outage(lasts) => {
                self.shop.go_away();
                self.due_in(lasts, Due::GitIsBack);
            }
            Event::Hand(app, hand) => self.hand(app, hand).await,
            Event::Storm(weather, lasts) => {
                self.storms.push((now, u64::MAX));
                self.line.turn(weather);
                self.due_in(lasts, Due::Calm(self.storms.len() - 1));
            }
            Event::Kill(kill, away) => self.arm(kill, away, false).await,
            Event::Move(kill) => self.arm(kill, Duration::from_secs(2), true).await,
            Event::Jump(seconds) => {
                self.jumps.push((now, seconds));
                self.clock.jump(seconds);
            }
            Event::Actor(app, actor, lasts) => self.act(app, actor, lasts),
            Event::Snapshot => self.cluster.take_snapshot(),
            Event::Restore(lasts) => {
                self.storms.push((now, u64::MAX));
                self.line.turn(FaultRates::away());
                self.due_in(lasts, Due::IsRestored);
                self.due_in(lasts, Due::Calm(self.storms.len() - 1));
            }
            Event::PartStops(part, lasts) => {
                self.cluster.stop(part).await;
                self.due_in(lasts, Due::PartIsBack(part));
            }
            Event::FullDisk(lasts) => self.fill_disk(lasts),
            Event::Twin(lasts) => {
                if self.twin.is_none() {
                    self.states += 1;
                    self.twin = self.launch(self.states - 1, true);
                    self.due_in(lasts, Due::TwinEnds);
                }
            }
        }
    }

    async fn hand(&mut self, app: usize, hand: Hand) {
        let app = self.shop.app(app);
        let key = (format!("{:?}", app.kind), app.name.clone());
        let Some(before) = self.person.get(&path_of(&key)).await else { return };
        self.person.act(&key, hand, &before, self.clock.now()).await;
        if let Hand::Pause(seconds) | Hand::Suspend(seconds) | Hand::Finalizer(seconds) = hand {
            self.due_in(Duration::from_secs(seconds), Due::LetGo(key.clone(), hand));
        }
        let held = annotation(&before, "belay.dev/hold").map(str::to_owned);
        self.hands.push(Handled { at: self.line.now(), key, hand, held });
    }

    async fn arm(&mut self, kill: Kill, away: Duration, moves: bool) {
        (self.away, self.moves) = (away, moves);
        self.armed = Some(kill);
        match kill {
            Kill::Now => self.die().await,
            Kill::ApiProxy(count) => self.log.trap(Some(count)),
            Kill::BeforeRequest(_) | Kill::AfterRequest(_) => self.line.trap(Some(kill)),
        }
    }

    /// belay dies at once, and is started again later.
    async fn die(&mut self) {
        self.line.trap(None);
        self.log.trap(None);
        if self.armed.take().is_none() {
            return;
        }
        self.kill(false).await;
        if std::mem::take(&mut self.moves) {
            self.states += 1;
        }
        self.due_in(self.away, Due::Start);
    }

    async fn kill(&mut self, twin: bool) {
        let belay = if twin { self.twin.take() } else { self.belay.take() };
        let Some(Belay { process, task, .. }) = belay else { return };
        process.dead.cancel();
        task.abort();
        drop(task.await);
        let now = self.line.now();
        self.lives[process.number].to = Some(now);
        if let Some(bug) = &self.bug {
            bug.spoil(&process.state);
        }
    }

    fn start(&mut self) {
        /// The time until a belay that could not open its history starts again, as systemd does it.
        const AGAIN: Duration = Duration::from_secs(5);
        if self.belay.is_none() {
            // A twin has a state of its own; whoever moved uses a new one.
            let twins: Vec<usize> = self.lives.iter().filter(|life| life.twin).map(|life| life.state).collect();
            let state = (0..self.states).rev().find(|state| !twins.contains(state)).unwrap_or(0);
            self.belay = self.launch(state, false);
            if self.belay.is_none() {
                self.due_in(AGAIN, Due::Start);
            }
        }
    }

    /// Starts a belay; `None` where its disk is so full that it can't open its history.
    fn launch(&mut self, state: usize, twin: bool) -> Option<Belay> {
        let folder = self.state(state);
        let history = match History::open(&folder, self.clock.now()) {
            Ok((history, _)) => history,
            Err(error) => {
                assert!(self.is_full(), "failed to open a history: {error}");
                return None;
            }
        };
        let life = Life { state, from: self.line.now(), to: None, twin };
        let process = Process { number: self.lives.len(), state: folder, dead: CancellationToken::new() };
        self.lives.push(life);
        let random = self.random.fork();
        let daemon = Daemon::new(history, self.clock.clone(), CancellationToken::new());
        let kustomize = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/system/simulation/kustomize");
        let daemon = daemon.rendering_with(Tools { kustomize: Some(kustomize.into()), helm: None });
        let mut daemon = daemon.repeatable(move || Duration::from_millis(random.below(40)));
        if self.scenario.style.analyses {
            let client = self.prometheus.clone();
            let hears_nothing = self.bug.as_ref().is_some_and(Bug::ignores_analyses);
            daemon =
                daemon.measuring(Arc::new(SimulatedPrometheus { client, clock: self.clock.clone(), hears_nothing }));
        }
        if self.scenario.style.leads {
            daemon = daemon.leading(if twin { "the-other" } else { "the-one" }.to_owned());
        }
        let cluster = Cluster::new(self.line.client(&process), self.clock.clone());
        daemon.follow(self.config(), &cluster).expect("the source can be followed");
        if let Some(order) = self.scenario.style.second {
            let after = (order == Order::After).then(|| "shop".to_owned());
            let (name, path) = (second_source::NAME.to_owned(), "side".to_owned());
            let side = SourceConfig {
                name,
                path: path.into(),
                after,
                on_failure: OnFailure::RollBack,
                window: Vec::new(),
                ..self.config()
            };
            daemon.follow(side, &cluster).expect("the second source can be followed");
        }
        let status = daemon.status();
        Some(Belay { process, status, task: tokio::spawn(daemon.run()) })
    }

    /// Returns the times at which commits of the first source wait.
    fn windows(&self) -> Vec<WindowConfig> {
        if self.bug.as_ref().is_some_and(Bug::ignores_windows) {
            return Vec::new();
        }
        let window = |(from, to): (u64, u64)| {
            let deny = format!("00:{from:02}-00:{to:02}").parse().expect("times");
            WindowConfig { allow: None, deny: Some(deny), timezone: TimeZone::UTC }
        };
        self.scenario.style.closed.map(window).into_iter().collect()
    }

    fn config(&self) -> SourceConfig {
        let style = &self.scenario.style;
        let mut config = SourceConfig::of(self.shop.git.path().display().to_string());
        config.name = "shop".to_owned();
        config.path = "apps".into();
        config.interval = Span(Duration::from_secs(3));
        (config.prune, config.fail_fast) = (style.prune, style.fail_fast);
        config.rollback_budget = Span(Duration::from_mins(1));
        config.prune_limit = "100%".to_owned();
        config.max_rollouts = style.max_rollouts;
        config.window = self.windows();
        if style.bakes {
            config.bake = Span(Duration::from_secs(40));
        }
        if style.analyses {
            config.known_analyses = prometheus::analyses(self.bug.as_ref().is_some_and(Bug::passes_without_data));
            config.analysis = config.known_analyses.iter().map(|analysis| analysis.name.clone()).collect();
        }
        if style.whole_commit {
            config.on_failure = OnFailure::RollBackCommit;
        }
        if style.reports_drift {
            config.drift = Drift::Report;
        }
        config
    }
}
