//! One pod's life on its node, from binding to its end. Pure: a step takes the present moment and the environment, and
//! returns the effects; [`SimulatedPod::status`] is the pod's status after it.

mod about;
mod backoff;
mod change;
mod conditions;
mod container;
mod ending;
mod environment;
mod needs;
#[cfg(test)]
mod promises;
mod resume;
mod run;
mod start;
mod status;
#[cfg(test)]
mod status_promises;
mod step;
#[cfg(test)]
mod tests;
mod timeline;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::PodStatus;

use self::about::{About, check};
use self::conditions::Conditions;
use self::container::{Container, Held, Role, State};
use self::ending::Ending;
use super::fate::Fates;
use super::io::after;
use super::pod::{RestartPolicy, SeenPod};

pub use environment::{EventType, PodEffect, PodEnvironment, ReportedState};
pub use needs::{Found, Missing, Name, Needs};

/// A step that changes something more often than this is cut short; the next one goes on.
const CHANGES_AT_ONCE: usize = 1000;
/// The time for which the found configuration is believed.
const BELIEVED: Duration = Duration::from_secs(2);
/// The first pause before volumes that could not be set up are tried again, and the longest.
const MOUNT_PAUSES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(122));

/// The home of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Home {
    /// The node's address.
    pub node: IpAddr,
    /// The pod's.
    pub pod: IpAddr,
}

/// The reason for which a node does not take a pod that is bound to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// One word: `NodePorts`, `OutOfcpu`.
    pub reason: String,
    /// A sentence.
    pub message: String,
}

/// One pod's life.
#[derive(Debug)]
pub struct SimulatedPod {
    pod: Arc<SeenPod>,
    home: Home,
    /// The pod's own words about its containers' fates, if it has any.
    fates: Option<Box<Result<Fates, String>>>,
    containers: Vec<Container>,
    configuration: Configuration,
    /// When volumes are tried again that could not be set up, and how long was waited last.
    mount: Mount,
    came: Timestamp,
    sandbox: bool,
    ending: Option<Ending>,
    over: bool,
    /// The last step left something to do.
    cut_short: bool,
    /// The reason and message of a pod that was ended by its node.
    verdict: Option<Box<(String, String)>>,
    phase: Phase,
    conditions: Conditions,
}

/// The known facts about the configuration that a pod names.
#[derive(Debug)]
enum Configuration {
    Unknown,
    Asked,
    Known(Timestamp, Missing),
}

#[derive(Debug)]
enum Mount {
    /// Not checked yet.
    Unknown,
    /// Tried again then, after such a wait.
    Failed(Timestamp, Duration),
    Done,
}

/// The phases of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Pending,
    Running,
    Succeeded,
    Failed,
}

impl SimulatedPod {
    /// A pod came to its node for the first time. A node may refuse it.
    pub fn begin(
        pod: Arc<SeenPod>,
        status: &PodStatus,
        home: Home,
        refused: Option<Rejection>,
        environment: &mut PodEnvironment<'_>,
    ) -> SimulatedPod {
        let spec = &pod.spec;
        let init = spec.init_containers.iter().enumerate().map(|(index, spec)| {
            let sidecar = spec.restart_policy == Some(RestartPolicy::Always);
            Container::new(spec, if sidecar { Role::Sidecar } else { Role::Init }, index)
        });
        let apps = spec.containers.iter().enumerate().map(|(index, spec)| Container::new(spec, Role::App, index));
        // Most pods have one, and there are many pods.
        let mut containers: Vec<Container> = init.chain(apps).collect();
        containers.shrink_to_fit();
        let mut life = SimulatedPod {
            fates: read_fates(&pod, &containers),
            containers,
            home,
            configuration: Configuration::Unknown,
            mount: Mount::Unknown,
            came: environment.now,
            sandbox: false,
            ending: None,
            over: false,
            cut_short: false,
            verdict: None,
            phase: Phase::Pending,
            conditions: Conditions::new(status),
            pod,
        };
        if let Some(Rejection { reason, message }) = refused {
            environment.tell(EventType::Warning, reason.clone(), message.clone());
            life.verdict = Some(Box::new((reason, format!("Pod was rejected: {message}"))));
            life.over = true;
            life.containers.clear();
        }
        life
    }

    /// Returns the pod as last seen.
    pub fn pod(&self) -> &Arc<SeenPod> {
        &self.pod
    }

    /// Returns the needs without which it can't start.
    pub fn needs(&self) -> &Needs {
        &self.pod.needs
    }

    /// Notes that the pod changed.
    pub fn see(&mut self, pod: Arc<SeenPod>, environment: &mut PodEnvironment<'_>) {
        let fate_changed = self.pod.fate != pod.fate;
        let before = std::mem::replace(&mut self.pod, pod);
        if fate_changed {
            self.fates = read_fates(&self.pod, &self.containers);
            self.change_fates(environment);
        }
        if before.generation != self.pod.generation {
            self.change_images(environment);
        }
    }

    /// Takes the result of [`PodEffect::LookUp`].
    pub fn found(&mut self, found: &Found, now: Timestamp) {
        let missing = self.pod.needs.missing(found, &self.pod.namespace);
        self.configuration = Configuration::Known(now, missing);
    }

    /// Notes that [`PodEffect::LookUp`] failed; it will be asked for again.
    pub fn not_found_out(&mut self) {
        if matches!(self.configuration, Configuration::Asked) {
            self.configuration = Configuration::Unknown;
        }
    }

    /// Does all that is due by now.
    pub fn step(&mut self, environment: &mut PodEnvironment<'_>) {
        if let Configuration::Known(at, _) = self.configuration
            && environment.now > after(at, BELIEVED)
        {
            self.configuration = Configuration::Unknown;
        }
        if self.pod.needs.is_empty() {
            self.configuration = Configuration::Known(environment.now, Missing::default());
        }
        let mut changes = 0;
        while !self.over && changes < CHANGES_AT_ONCE && self.advance(environment) {
            changes += 1;
        }
        self.cut_short = changes == CHANGES_AT_ONCE;
        self.conclude(environment.now);
    }

    /// Returns the next moment at which something is due, as of `now`.
    pub fn wake(&self, environment: &PodEnvironment<'_>) -> Option<Timestamp> {
        if self.over {
            return None;
        }
        let mount = match self.mount {
            Mount::Failed(at, _) => Some(at),
            Mount::Unknown | Mount::Done => None,
        };
        let doom = if self.ending.is_none() { self.doom(environment).map(|(at, _)| at) } else { None };
        let containers = self.containers.iter().filter_map(|container| container.wake(environment.now));
        // An action that was due before and still is waits for something else than time.
        let next = containers.chain(mount).chain(doom).filter(|at| *at > environment.now).min();
        if self.cut_short { Some(after(environment.now, Duration::from_millis(1))) } else { next }
    }

    /// Returns true when the pod has ended and was to be deleted, so that nothing keeps it any more.
    pub fn may_be_deleted(&self) -> bool {
        self.over && self.pod.deletion.is_some_and(|deletion| deletion.grace > 0)
    }

    /// Returns true when it has ended for good.
    pub fn is_over(&self) -> bool {
        self.over
    }

    fn advance(&mut self, environment: &mut PodEnvironment<'_>) -> bool {
        if self.ending.is_none() && self.begin_to_end(environment) {
            return true;
        }
        if self.ending.is_some() {
            return self.advance_ending(environment);
        }
        if !self.set_up_volumes(environment) {
            return false;
        }
        let (missing, asked) = match &self.configuration {
            Configuration::Known(_, missing) => (Some(missing), false),
            Configuration::Asked => (None, true),
            Configuration::Unknown => (None, false),
        };
        let about = About { pod: &self.pod, fates: self.fates.as_deref(), missing, asked, ending: false };
        let effects = environment.effects.len();
        let mut changed = false;
        let mut turn = true;
        for container in &mut self.containers {
            if container.role == Role::App {
                changed |= turn && container.advance(&about, environment);
            } else if turn {
                changed |= container.advance(&about, environment);
                turn = container.lets_others_begin();
            }
        }
        self.sandbox |= self.containers.iter().any(|c| !matches!(c.state, State::Idle | State::Creating(..)));
        if environment.effects[effects..].contains(&PodEffect::LookUp) {
            self.configuration = Configuration::Asked;
        }
        changed || self.finish(environment)
    }

    /// Returns true when the pod's volumes are there, so that containers can start.
    fn set_up_volumes(&mut self, environment: &mut PodEnvironment<'_>) -> bool {
        let wait = match self.mount {
            Mount::Done => return true,
            Mount::Failed(at, _) if at > environment.now => return false,
            Mount::Failed(_, wait) => Some(wait),
            Mount::Unknown => None,
        };
        match &self.configuration {
            Configuration::Asked => false,
            Configuration::Unknown => {
                environment.effects.push(PodEffect::LookUp);
                self.configuration = Configuration::Asked;
                false
            }
            Configuration::Known(_, Missing { of_volumes: None, .. }) => {
                self.mount = Mount::Done;
                true
            }
            Configuration::Known(_, Missing { of_volumes: Some(problem), .. }) => {
                environment.tell(EventType::Warning, "FailedMount", problem.clone());
                let wait = wait.map_or(MOUNT_PAUSES.0, |wait| (wait * 2).min(MOUNT_PAUSES.1));
                self.mount = Mount::Failed(environment.later(wait), wait);
                self.configuration = Configuration::Unknown;
                false
            }
        }
    }

    fn change_fates(&mut self, environment: &mut PodEnvironment<'_>) {
        let about = About::without_configuration(&self.pod, self.fates.as_deref(), self.ending.is_some());
        for container in &mut self.containers {
            if let State::Held(Held { reason: "InvalidFate" | "ErrImageNeverPull", .. }) = container.state {
                container.start_over();
            } else {
                container.change_fate(&about, environment);
            }
        }
    }

    fn change_images(&mut self, environment: &mut PodEnvironment<'_>) {
        let about = About::without_configuration(&self.pod, self.fates.as_deref(), self.ending.is_some());
        for container in &mut self.containers {
            container.change_image(&about, environment);
        }
    }
}

fn read_fates(pod: &SeenPod, containers: &[Container]) -> Option<Box<Result<Fates, String>>> {
    let told = pod.fate.as_ref()?;
    Some(Box::new(Fates::parse(&told.text).and_then(|fates| check(fates, containers))))
}
