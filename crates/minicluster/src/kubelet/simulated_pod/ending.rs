//! The end of a pod: by itself, because it is deleted, because its time is up, or because its node needs room.

use std::time::Duration;

use jiff::Timestamp;

use super::about::About;
use super::container::{Container, Role};
use super::environment::{EventType, PodEnvironment};
use super::run::USUAL_GRACE;
use super::{Phase, SimulatedPod};
use crate::kubelet::io::after;

/// A pod on its way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ending {
    /// When its containers are killed.
    deadline: Timestamp,
}

/// The reason for which a node ends a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doom {
    /// It ran for longer than it may.
    TimeIsUp,
    /// Its node runs out of memory.
    Evicted,
}

const EVICTED: &str = "The node was low on resource: memory. Threshold quantity: 100Mi, available: 99Mi. ";
const TIME_IS_UP: &str = "Pod was active on the node longer than the specified deadline";

impl SimulatedPod {
    /// Returns when its node will end it, and why.
    pub(super) fn doom(&self, environment: &PodEnvironment<'_>) -> Option<(Timestamp, Doom)> {
        let spec = &self.pod.spec;
        let limit = spec.active_deadline_seconds.and_then(|limit| u64::try_from(limit).ok());
        let time = limit.map(|limit| (environment.after(self.came, Duration::from_secs(limit)), Doom::TimeIsUp));
        let fates = self.containers.iter().filter_map(|container| container.fate.evict_after);
        let evicted = fates.min().map(|wait| (environment.after(self.came, wait), Doom::Evicted));
        [time, evicted].into_iter().flatten().min_by_key(|(at, _)| *at)
    }

    /// Returns true when it begins to end now.
    pub(super) fn begin_to_end(&mut self, environment: &mut PodEnvironment<'_>) -> bool {
        if let Some(deletion) = self.pod.deletion {
            let grace = Duration::from_secs(u64::try_from(deletion.grace).unwrap_or(0));
            self.end_by(environment.later(grace), environment);
            return true;
        }
        match self.doom(environment) {
            Some((at, doom)) if at <= environment.now => {
                self.meet(doom, environment);
                true
            }
            _ => false,
        }
    }

    /// Advances the end of the pod.
    pub(super) fn advance_ending(&mut self, environment: &mut PodEnvironment<'_>) -> bool {
        // A second deletion may leave it less time.
        if let (Some(deletion), Some(ending)) = (self.pod.deletion, &mut self.ending) {
            let grace = Duration::from_secs(u64::try_from(deletion.grace).unwrap_or(0));
            ending.deadline = ending.deadline.min(environment.later(grace));
        }
        let deadline = self.ending.map_or(environment.now, |ending| ending.deadline);
        let about = About::without_configuration(&self.pod, self.fates.as_deref(), true);
        let apps_run = self.containers.iter().any(|c| c.role != Role::Sidecar && c.is_running());
        let mut changed = false;
        for container in self.containers.iter_mut().filter(|container| container.is_running()) {
            // Sidecars stop after those that they serve.
            if container.role != Role::Sidecar || !apps_run {
                container.stop(deadline, &about, environment);
            }
            changed |= container.advance(&about, environment);
        }
        if self.containers.iter().any(Container::is_running) {
            return changed;
        }
        for container in &mut self.containers {
            container.give_up();
        }
        self.over = true;
        true
    }

    /// Ends it where its containers have all ended by themselves.
    pub(super) fn finish(&mut self, environment: &mut PodEnvironment<'_>) -> bool {
        let stuck = self.containers.iter().any(|container| container.role == Role::Init && container.has_failed());
        let done = self.containers.iter().filter(|container| container.role == Role::App).all(Container::is_over);
        if !stuck && !done {
            return false;
        }
        if self.containers.iter().any(Container::is_running) {
            let grace = self.grace();
            self.end_by(environment.later(grace), environment);
        } else {
            self.over = true;
        }
        true
    }

    /// Returns the phase that follows from the states of its containers.
    pub(super) fn phase_now(&self) -> Phase {
        if self.verdict.is_some() && self.over {
            return Phase::Failed;
        }
        let init_done = self.containers.iter().filter(|c| c.role != Role::App).all(Container::lets_others_begin);
        let apps = || self.containers.iter().filter(|container| container.role == Role::App);
        if self.over {
            let failed = self.containers.iter().any(|c| c.role != Role::Sidecar && c.has_failed());
            return if failed || !apps().all(Container::is_over) { Phase::Failed } else { Phase::Succeeded };
        }
        let waits = |container: &Container| !container.is_running() && !container.has_run();
        if !init_done || apps().any(waits) { Phase::Pending } else { Phase::Running }
    }

    fn end_by(&mut self, deadline: Timestamp, environment: &mut PodEnvironment<'_>) {
        self.ending = Some(Ending { deadline });
        for container in self.containers.iter().filter(|container| container.is_running()) {
            let message = format!("Stopping container {}", container.name);
            environment.tell_of(&container.field(), EventType::Normal, "Killing", message);
        }
    }

    fn meet(&mut self, doom: Doom, environment: &mut PodEnvironment<'_>) {
        match doom {
            Doom::TimeIsUp => {
                environment.tell(EventType::Normal, "DeadlineExceeded", TIME_IS_UP);
                self.verdict = Some(Box::new(("DeadlineExceeded".to_owned(), TIME_IS_UP.to_owned())));
                let grace = self.grace();
                self.end_by(environment.later(grace), environment);
            }
            Doom::Evicted => {
                environment.tell(EventType::Warning, "Evicted", EVICTED);
                self.verdict = Some(Box::new(("Evicted".to_owned(), EVICTED.to_owned())));
                self.conditions.disrupt(&self.pod, EVICTED, environment.now);
                // A node that runs out of memory does not wait.
                self.end_by(after(environment.now, Duration::ZERO), environment);
            }
        }
    }

    fn grace(&self) -> Duration {
        let grace = self.pod.spec.termination_grace_period_seconds;
        grace.and_then(|grace| u64::try_from(grace).ok()).map_or(USUAL_GRACE, Duration::from_secs)
    }
}
