//! Renders units.
#![allow(
    clippy::disallowed_methods,
    reason = "a child process and the files of this machine live in the machine's own time"
)]

use std::collections::BTreeSet;
use std::num::NonZero;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{fs, thread};

use tokio_util::sync::CancellationToken;

use super::arguments::arguments;
use super::cache::Cache;
use super::capabilities::{Capabilities, KnownCapabilities};
use super::child::{self, ChildFailure, ChildLimits, Run};
use super::export::{ExportError, export};
use super::find::find;
use super::lookup::Lookups;
use super::origins::ask_for_origins;
use super::outcomes::{FailedRender, HeldOutcomes, Outcome, Passes, failed, no_tool, read};
use super::said::{place_in, without_folder, without_values};
use super::slots::Asking;
use super::tools::{FoundTool, Tools};
use super::tree::{Node, Tree};
use super::turns::{HeadTurn, SlowUnits};
use super::unit::{Options, Plan, RenderId, Unit, UnitKind, UnitWarning};
use crate::state_folder::StateFolder;
use belay_core::manifest::{File, Place, Scopes};

/// Renders units, and keeps the renderings.
#[derive(Debug)]
pub struct Renderer {
    options: Options,
    tools: Tools,
    limits: ChildLimits,
    /// Where the private folders of the tools are made; the system's where there is none.
    work: Option<StateFolder>,
    cache: Option<Cache>,
    held: Mutex<HeldOutcomes>,
    /// The cluster's capabilities for charts.
    capabilities: Mutex<KnownCapabilities>,
    /// The places at which charts ask the cluster, by their inputs.
    lookups: Lookups,
    /// The number of runs of a tool.
    runs: AtomicU64,
    asking: Asking,
    turn: HeadTurn,
    slow: SlowUnits,
}

impl Renderer {
    /// Returns one that keeps its renderings in the given folder; without one in memory.
    #[must_use]
    pub fn new(options: Options, tools: Tools, folder: Option<StateFolder>) -> Renderer {
        let work = folder.as_ref().map(|folder| folder.below("rendering"));
        if let Some(work) = &work {
            // What a belay has left that was killed.
            let _ = fs::remove_dir_all(work.path());
        }
        Renderer {
            options,
            tools,
            limits: ChildLimits::default(),
            work,
            cache: folder.map(|folder| Cache::new(folder.below("rendered"))),
            held: Mutex::default(),
            capabilities: Mutex::default(),
            lookups: Lookups::default(),
            runs: AtomicU64::new(0),
            asking: Asking::new(),
            turn: HeadTurn::default(),
            slow: SlowUnits::default(),
        }
    }

    /// Returns the same until this is cancelled: then running tools end, and nothing more is rendered.
    #[must_use]
    pub fn until(self, stop: CancellationToken) -> Renderer {
        Renderer { turn: HeadTurn::until(stop), ..self }
    }

    /// Returns the same that reports which units have been rendering for long, whenever that changes.
    #[must_use]
    pub fn telling(self, tell: impl Fn(&BTreeSet<Arc<str>>) + Send + Sync + 'static) -> Renderer {
        Renderer { slow: SlowUnits::telling(tell), ..self }
    }

    /// Begins the turn of a head: gives up the renderings for another one. Returns the token that is cancelled when the
    /// next head takes its turn.
    pub fn begin(&self, head: &str) -> CancellationToken {
        self.turn.begin(head)
    }

    /// Returns true when it is the turn of a head, and it goes on.
    #[must_use]
    pub fn has_turn(&self, head: &str) -> bool {
        self.turn.is_of(head)
    }

    /// Returns true when a tool renders a unit for long.
    #[must_use]
    pub fn is_slow(&self) -> bool {
        self.slow.are_there()
    }

    /// Returns the same for a cluster whose capabilities are not known yet: charts wait for that.
    #[must_use]
    pub fn of_a_cluster(self) -> Renderer {
        Renderer { capabilities: Mutex::new(KnownCapabilities::Awaited), ..self }
    }

    /// Returns true when charts wait for the capabilities of their cluster.
    #[must_use]
    pub fn awaits_capabilities(&self) -> bool {
        self.capabilities().are_awaited()
    }

    /// Returns true when the cluster's last answer about its capabilities is old.
    #[must_use]
    pub fn are_capabilities_old(&self) -> bool {
        self.capabilities().are_old()
    }

    /// Sets the capabilities for charts from now on. Returns true when they have changed.
    pub fn set_capabilities(&self, capabilities: Capabilities) -> bool {
        let mut known = self.capabilities();
        let differs = known.known().is_none_or(|known| *known != capabilities);
        *known = KnownCapabilities::Known(Arc::new(capabilities), tokio::time::Instant::now());
        differs
    }

    fn capabilities(&self) -> MutexGuard<'_, KnownCapabilities> {
        self.capabilities.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the same with other limits.
    #[must_use]
    pub fn with_limits(self, limits: ChildLimits) -> Renderer {
        Renderer { limits, ..self }
    }

    /// Returns how often a tool was run.
    #[must_use]
    pub fn runs(&self) -> u64 {
        self.runs.load(Ordering::Relaxed)
    }

    /// Returns the units of a folder.
    ///
    /// # Errors
    ///
    /// When the tree can't be read.
    pub fn plan<T: Tree>(&self, tree: &T, folder: &str) -> Result<Plan, T::Error> {
        let known = self.capabilities().known();
        let capabilities = known.or_else(|| self.options.capabilities.clone());
        find(tree, folder, &Options { capabilities, ..self.options.clone() })
    }

    /// Returns the warnings about the units: those that are rolled out twice, and charts that ask the cluster.
    ///
    /// # Errors
    ///
    /// When the tree can't be read.
    pub fn warnings<T: Tree>(&self, tree: &T, plan: &Plan) -> Result<Vec<UnitWarning>, T::Error> {
        let twice = plan.rolled_out_twice().into_iter().map(|twice| UnitWarning {
            place: Place { path: Arc::clone(&twice.base.path), line: 1, column: 1 },
            message: twice.message,
            advice: twice.advice,
        });
        let mut warnings: Vec<UnitWarning> = twice.collect();
        let charts = plan.units.values().filter(|unit| matches!(unit.kind, UnitKind::Helm(_)));
        for chart in charts {
            warnings.extend(self.lookups.of(tree, chart)?.map(|place| UnitWarning {
                place,
                message: "lookup finds nothing: a chart is rendered without a cluster".to_owned(),
                advice: "let the chart take by a value what it looks for".to_owned(),
            }));
        }
        Ok(warnings)
    }

    /// Renders those of these units that were not rendered yet, several at once: as many as there are processors, over all
    /// sources.
    ///
    /// # Errors
    ///
    /// When the tree can't be read.
    pub fn prepare<T: Tree>(&self, tree: &T, units: &[&Unit]) -> Result<(), T::Error> {
        let missing: Vec<&Unit> = units.iter().copied().filter(|unit| self.known(unit).is_none()).collect();
        let (next, given_up) = (AtomicUsize::new(0), self.turn.now());
        let work = || -> Result<(), T::Error> {
            while let Some(unit) = missing.get(next.fetch_add(1, Ordering::Relaxed)) {
                // The outcome is kept.
                let _ = self.outcome(tree, unit, &self.limits, &given_up)?;
            }
            Ok(())
        };
        let threads = thread::available_parallelism().map_or(1, NonZero::get).min(missing.len());
        thread::scope(|scope| {
            let help = |_| thread::Builder::new().spawn_scoped(scope, work).ok();
            let helpers: Vec<_> = (1..threads).filter_map(help).collect();
            let mut done = work();
            for helper in helpers {
                let helped = helper.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                done = done.and(helped);
            }
            done
        })
    }

    /// Returns a unit's rendering, as one file. If it can't be rendered, the file has one complaint.
    ///
    /// # Errors
    ///
    /// When the tree can't be read.
    pub fn file<T: Tree>(&self, tree: &T, unit: &Unit, scopes: &Scopes) -> Result<File, T::Error> {
        let outcome = self.outcome(tree, unit, &self.limits, &self.turn.now())?;
        Ok(read(unit, outcome, scopes))
    }

    /// Renders a unit of an older commit, if its rendering is not known, within the remaining time, from which the time
    /// spent is taken. Returns `true` if its rendering is known.
    ///
    /// # Errors
    ///
    /// When the tree can't be read.
    pub fn renders_within<T: Tree>(&self, tree: &T, unit: &Unit, left: &mut Duration) -> Result<bool, T::Error> {
        if self.is_known(unit) {
            return Ok(true);
        }
        if left.is_zero() {
            return Ok(false);
        }
        let (began, limits) = (Instant::now(), ChildLimits { time: self.limits.time.min(*left), ..self.limits });
        let outcome = self.outcome(tree, unit, &limits, &self.turn.now())?;
        *left = left.saturating_sub(began.elapsed());
        Ok(!matches!(&outcome, Err(FailedRender { passes: Passes::AtOnce, .. })))
    }

    /// Forgets renderings that failed for a reason that may have passed: a tool that is there by now. Returns whether
    /// there was any such.
    pub fn forget_passing(&self) -> bool {
        let (kustomize, helm) = (self.tools.kustomize().is_some(), self.tools.helm().is_some());
        self.held().forget_passing(kustomize, helm)
    }

    /// Returns true when the outcome of a unit is known.
    #[must_use]
    pub fn is_known(&self, unit: &Unit) -> bool {
        self.known(unit).is_some()
    }

    fn held(&self) -> MutexGuard<'_, HeldOutcomes> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tool(&self, unit: &Unit) -> Option<FoundTool> {
        match unit.kind {
            UnitKind::Kustomize { .. } => self.tools.kustomize(),
            UnitKind::Helm(_) => self.tools.helm(),
        }
    }

    fn known(&self, unit: &Unit) -> Option<Outcome> {
        if let Some(refusal) = &unit.refusal {
            let super::Refusal { place, message, hint } = refusal.clone();
            return Some(Err(FailedRender { place, message, hint: Some(hint), passes: Passes::Never }));
        }
        if let Some(outcome) = self.held().get(unit.id) {
            return Some(outcome.clone());
        }
        let identity = self.tool(unit).map(|found| found.identity());
        self.cache.as_ref()?.get(unit.id, identity.as_deref()).map(|bytes| Ok(bytes.into()))
    }

    fn outcome<T: Tree>(
        &self,
        tree: &T,
        unit: &Unit,
        limits: &ChildLimits,
        given_up: &CancellationToken,
    ) -> Result<Outcome, T::Error> {
        if let Some(known) = self.known(unit) {
            return Ok(known);
        }
        let beginning = Place { path: Arc::clone(&unit.path), line: 1, column: 1 };
        let Some(found) = self.tool(unit) else {
            return Ok(self.hold(unit.id, Err(no_tool(&unit.kind, beginning))));
        };
        let outcome = match self.run(tree, unit, &found, limits, given_up) {
            Ok(bytes) => {
                if let Some(cache) = &self.cache {
                    cache.put(unit.id, &found.identity(), &bytes);
                    return Ok(Ok(bytes.into()));
                }
                Ok(bytes.into())
            }
            Err(RunError::Tree(error)) => return Err(error),
            Err(RunError::TooMuch(what)) => {
                Err(failed(beginning, format!("the unit is made from {what}"), Passes::Never))
            }
            Err(RunError::Machine(message)) => Err(failed(beginning, message, Passes::later(true))),
            Err(RunError::GivenUp) => {
                Err(failed(beginning, "the unit was given up before it was rendered".to_owned(), Passes::AtOnce))
            }
            Err(RunError::Tool(failure)) => {
                let passes = match &failure {
                    // It had less time than it may take.
                    ChildFailure::Bounds(_) if limits.time < self.limits.time => Passes::AtOnce,
                    failure => Passes::later(failure.may_pass()),
                };
                let message = failure.message();
                let place = place_in(message, &unit.folder).filter(|place| is_file(tree, &place.path));
                let message = without_values(tree, unit, message)?;
                let message = format!("{} in {}: {message}", found.tool, unit.shown());
                Err(failed(place.unwrap_or(beginning), message, passes))
            }
        };
        Ok(self.hold(unit.id, outcome))
    }

    fn hold(&self, id: RenderId, outcome: Outcome) -> Outcome {
        self.held().hold(id, &outcome);
        outcome
    }

    fn run<T: Tree>(
        &self,
        tree: &T,
        unit: &Unit,
        found: &FoundTool,
        limits: &ChildLimits,
        given_up: &CancellationToken,
    ) -> Result<Vec<u8>, RunError<T::Error>> {
        let patience = if limits.time < self.limits.time { limits.time } else { Duration::MAX };
        let _slot = self.asking.wait(given_up, patience).ok_or(RunError::GivenUp)?;
        let private =
            self.private_folder().map_err(|error| RunError::Machine(format!("failed to make a folder: {error}")))?;
        let exported = private.path().join("tree");
        let machine = |error: std::io::Error| RunError::Machine(format!("failed to write what is rendered: {error}"));
        fs::create_dir(&exported).map_err(machine)?;
        fs::create_dir(private.path().join("home")).map_err(machine)?;
        export(tree, &unit.inputs, &exported).map_err(|error| match error {
            ExportError::Tree(error) => RunError::Tree(error),
            ExportError::Machine(error) => machine(error),
            ExportError::TooMuch(what) => RunError::TooMuch(what),
        })?;
        if matches!(unit.kind, UnitKind::Kustomize { asks_origin: false, .. }) {
            ask_for_origins(&exported.join(&*unit.path)).map_err(machine)?;
        }
        let started = Instant::now();
        let asked = Run {
            program: &found.program,
            arguments: arguments(unit, found.tool),
            folder: exported.clone(),
            private: private.path(),
        };
        self.runs.fetch_add(1, Ordering::Relaxed);
        let slow = || self.slow.begins(&unit.path);
        let rendered = child::run(&asked, limits, given_up, &slow);
        self.slow.ends(&unit.path);
        tracing::debug!(unit = &*unit.path, tool = %found.tool, took = ?started.elapsed(), "rendered");
        rendered.map_err(|failure| match failure {
            ChildFailure::GivenUp => RunError::GivenUp,
            failure => RunError::Tool(without_folder(failure, &exported)),
        })
    }

    fn private_folder(&self) -> std::io::Result<tempfile::TempDir> {
        use std::os::unix::fs::PermissionsExt;
        let mut builder = tempfile::Builder::new();
        builder.prefix("belay-render-").permissions(fs::Permissions::from_mode(0o700));
        match &self.work {
            None => builder.tempdir(),
            Some(work) => {
                work.make()?;
                builder.tempdir_in(work.path())
            }
        }
    }
}

enum RunError<E> {
    Tree(E),
    TooMuch(String),
    Machine(String),
    Tool(ChildFailure),
    GivenUp,
}

/// Returns true when a path is a file of a tree. One that can't be read is none.
fn is_file<T: Tree>(tree: &T, path: &str) -> bool {
    matches!(tree.node(path), Ok(Some(Node::File(_))))
}
