//! One container: its present state, and its next one.

use std::time::Duration;

use jiff::Timestamp;

use super::backoff::Backoff;
use super::environment::{PodEffect, PodEnvironment};
use super::timeline::Timeline;
use crate::kubelet::fate::CompactFate;
use crate::kubelet::image::Image;
use crate::kubelet::pod::{ContainerSpec, SeenPod};

/// The role of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It runs before the others and ends.
    Init,
    /// It starts before the others and runs beside them.
    Sidecar,
    /// A main container of the pod.
    App,
}

/// One container of a pod.
#[derive(Clone, Debug)]
pub struct Container {
    /// Its name.
    pub name: String,
    /// The role.
    pub role: Role,
    /// Its place among the init containers or the others.
    pub index: usize,
    /// Its image as the pod names it.
    pub image: String,
    /// Its image as the node knows it, once it was there.
    pub found: Option<Image>,
    /// The state.
    pub state: State,
    /// The end of the run before the present one.
    pub last: Option<Box<Exit>>,
    /// The number of restarts.
    pub restarts: i32,
    /// True when it is ready.
    pub ready: bool,
    /// True when it has started, for its startup probe.
    pub started: bool,
    /// The id of the present run, or the one that ended.
    pub id: Option<String>,
    /// Its fate in this run, or in the next.
    pub fate: CompactFate,
    /// The waits before it is started again.
    pub restarting: Backoff,
    /// The waits before its image is pulled again.
    pub pulling: Backoff,
    /// When its image was first asked for.
    pub asked: Option<Timestamp>,
}

/// The state of a container.
#[derive(Clone, Debug)]
pub enum State {
    /// It is not its turn.
    Idle,
    /// It is being created.
    Creating(Creation),
    /// Something keeps it from running.
    Held(Held),
    /// It runs.
    Running(ContainerRun),
    /// It has ended; the next state, if there is one.
    Ended(Exit, Option<(Timestamp, NextContainerState)>),
}

/// A container's creation.
#[derive(Clone, Debug)]
pub struct Creation {
    /// When it is done.
    pub due: Timestamp,
    /// The time of the pull of its image, if it is pulled.
    pub pull: Option<Duration>,
    /// The reason that kept it from running before, which shows until it runs.
    pub shown: Option<Held>,
}

/// The reason that keeps a container from running.
#[derive(Clone, Debug)]
pub struct Held {
    /// One word.
    pub reason: &'static str,
    /// A sentence.
    pub message: String,
    /// The next state, if there is one.
    pub next: Option<(Timestamp, NextContainerState)>,
}

/// The next state of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextContainerState {
    /// It is started, or started again.
    Attempt,
    /// Its image is not pulled again before this moment.
    PullBackoff(Timestamp),
    /// It is not started again before this moment.
    CrashLoop(Timestamp),
}

/// One run of a container.
#[derive(Clone, Debug)]
pub struct ContainerRun {
    /// When it began.
    pub since: Timestamp,
    /// The timeline of the run.
    pub timeline: Timeline,
    /// The end if it was asked to stop, and its exit code.
    pub stop: Option<(Timestamp, i32)>,
    /// When its readiness fails its probe next, and how often it did.
    pub failing: Option<(Timestamp, u32)>,
}

/// The end of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exit {
    /// The exit code.
    pub code: i32,
    /// One word.
    pub reason: &'static str,
    /// Its termination message.
    pub message: Option<String>,
    /// When it began.
    pub started: Option<Timestamp>,
    /// When it ended.
    pub finished: Option<Timestamp>,
    /// Its id.
    pub id: Option<String>,
}

impl Container {
    /// Returns a container whose turn has not come.
    pub fn new(spec: &ContainerSpec, role: Role, index: usize) -> Container {
        Container {
            name: spec.name.clone(),
            role,
            index,
            image: spec.image.clone().unwrap_or_default(),
            found: None,
            state: State::Idle,
            last: None,
            restarts: 0,
            ready: false,
            started: false,
            id: None,
            fate: CompactFate::default(),
            restarting: Backoff::default(),
            pulling: Backoff::default(),
            asked: None,
        }
    }

    /// Returns true when it runs.
    pub fn is_running(&self) -> bool {
        matches!(self.state, State::Running(_))
    }

    /// Returns true when it has ended and will not be started again.
    pub fn is_over(&self) -> bool {
        matches!(self.state, State::Ended(_, None))
    }

    /// Returns true when the containers after it may begin, if it is an init container or a sidecar.
    pub fn lets_others_begin(&self) -> bool {
        match (self.role, &self.state) {
            (Role::Init, State::Ended(exit, None)) => exit.code == 0,
            // Once started, a sidecar that crashes does not hold up the others any more.
            (Role::Sidecar, _) => self.started || self.restarts > 0 || self.last.is_some(),
            _ => false,
        }
    }

    /// Returns true when it ended badly for good.
    pub fn has_failed(&self) -> bool {
        matches!(&self.state, State::Ended(exit, None) if exit.code != 0)
    }

    /// Returns the next moment at which something is due by itself.
    pub fn wake(&self, now: Timestamp) -> Option<Timestamp> {
        match &self.state {
            State::Idle => None,
            State::Creating(creation) => Some(creation.due),
            State::Held(held) => held.next.map(|(due, _)| due),
            State::Ended(_, next) => next.map(|(due, _)| due),
            State::Running(run) => {
                let stop = run.stop.map(|(at, _)| at);
                let failing = run.failing.map(|(at, _)| at);
                [stop, failing, run.timeline.next(now)].into_iter().flatten().min()
            }
        }
    }

    /// Returns its part of the pod.
    pub fn spec<'a>(&self, pod: &'a SeenPod) -> Option<&'a ContainerSpec> {
        let spec = &pod.spec;
        match self.role {
            Role::App => spec.containers.get(self.index),
            Role::Init | Role::Sidecar => spec.init_containers.get(self.index),
        }
    }

    /// Returns the part of the pod that its events are about.
    pub fn field(&self) -> String {
        let list = if self.role == Role::App { "containers" } else { "initContainers" };
        format!("spec.{list}{{{}}}", self.name)
    }

    /// Starts over, as after a change of its image or fate.
    pub fn start_over(&mut self) {
        self.remember();
        self.state = State::Idle;
    }

    /// Keeps how it ended before that is overwritten.
    pub fn remember(&mut self) {
        if let State::Ended(exit, _) = &self.state {
            self.last = Some(Box::new(exit.clone()));
        }
    }

    pub(super) fn hold(
        &mut self,
        reason: &'static str,
        message: String,
        next: Option<(Timestamp, NextContainerState)>,
    ) {
        self.remember();
        self.state = State::Held(Held { reason, message, next });
    }

    pub(super) fn log(&self, environment: &mut PodEnvironment<'_>, text: impl Into<String>) {
        environment.effects.push(PodEffect::Log { container: self.name.clone(), text: text.into() });
    }
}
