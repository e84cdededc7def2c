//! Takes a life up at the pod's status, as after a restart of the kubelet.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ContainerState, ContainerStateTerminated, ContainerStatus, PodStatus};

use super::about::About;
use super::backoff::Backoff;
use super::container::{Container, ContainerRun, Exit, Held, NextContainerState, State};
use super::environment::PodEnvironment;
use super::timeline::Timeline;
use super::{Home, Mount, SimulatedPod};
use crate::kubelet::image::Image;
use crate::kubelet::pod::SeenPod;

impl SimulatedPod {
    /// Returns a pod that was on its node before.
    pub fn take_up(
        pod: Arc<SeenPod>,
        status: &PodStatus,
        home: Home,
        environment: &mut PodEnvironment<'_>,
    ) -> SimulatedPod {
        let mut life = SimulatedPod::begin(pod, status, home, None, environment);
        if let Some(started) = &status.start_time {
            life.came = started.0;
        }
        life.sandbox = status.pod_ip.is_some();
        life.over = matches!(status.phase.as_deref(), Some("Succeeded" | "Failed"));
        let verdict = |reason: &String| Box::new((reason.clone(), status.message.clone().unwrap_or_default()));
        life.verdict = status.reason.as_ref().map(verdict);
        let about = About::without_configuration(&life.pod, life.fates.as_deref(), life.over);
        let all = [&status.init_container_statuses, &status.container_statuses];
        let known: Vec<&ContainerStatus> = all.into_iter().flatten().flatten().collect();
        for container in &mut life.containers {
            if let Some(status) = known.iter().find(|status| status.name == container.name) {
                container.take_up(status, &about, environment);
            }
        }
        if life.containers.iter().any(|container| !matches!(container.state, State::Idle)) {
            life.mount = Mount::Done;
        }
        life
    }
}

impl Container {
    fn take_up(&mut self, status: &ContainerStatus, about: &About<'_>, environment: &mut PodEnvironment<'_>) {
        self.restarts = status.restart_count;
        self.id.clone_from(&status.container_id);
        self.found = Image::parse(&self.image).ok();
        self.last =
            status.last_state.as_ref().and_then(|state| state.terminated.as_ref()).map(|ended| Box::new(exit(ended)));
        // It goes on with the present fate of its pod.
        if let Ok(fate) = about.fate(self, environment) {
            self.fate = fate.into();
        }
        let last = self.last.as_ref().and_then(|exit| exit.finished);
        if let Some(last) = last {
            self.restarting = Backoff::after_tries(u32::try_from(self.restarts).unwrap_or(0), last);
        }
        match status.state.clone().unwrap_or_default() {
            ContainerState { running: Some(running), .. } => {
                let Some(spec) = self.spec(about.pod) else { return };
                let since = running.started_at.map_or(environment.now, |time| time.0);
                let timeline = Timeline::new(spec, &self.fate, since, environment);
                self.state = State::Running(ContainerRun { since, timeline, stop: None, failing: None });
                (self.ready, self.started) = (status.ready, status.started == Some(true));
            }
            ContainerState { terminated: Some(terminated), .. } => {
                let exit = exit(&terminated);
                let again = !about.ending && about.restart(self).after(exit.code);
                let finished = exit.finished.unwrap_or(environment.now);
                let next = again.then(|| match self.restarting.wait(finished, environment) {
                    None => (environment.now, NextContainerState::Attempt),
                    Some(wait) => (environment.now, NextContainerState::CrashLoop(environment.after(finished, wait))),
                });
                self.state = State::Ended(exit, next);
            }
            ContainerState { waiting: Some(waiting), .. } if waiting.reason.as_deref() == Some("CrashLoopBackOff") => {
                let finished = last.unwrap_or(environment.now);
                let wait = self.restarting.wait(finished, environment).unwrap_or_default();
                let next = Some((environment.after(finished, wait), NextContainerState::Attempt));
                let message = waiting.message.unwrap_or_default();
                self.state = State::Held(Held { reason: "CrashLoopBackOff", message, next });
            }
            ContainerState { .. } => {}
        }
    }
}

fn exit(terminated: &ContainerStateTerminated) -> Exit {
    let known = ["Completed", "OOMKilled", "ContainerStatusUnknown"];
    let reason = known.into_iter().find(|known| terminated.reason.as_deref() == Some(*known));
    Exit {
        code: terminated.exit_code,
        reason: reason.unwrap_or("Error"),
        message: terminated.message.clone(),
        started: terminated.started_at.as_ref().map(|time| time.0),
        finished: terminated.finished_at.as_ref().map(|time| time.0),
        id: terminated.container_id.clone(),
    }
}
