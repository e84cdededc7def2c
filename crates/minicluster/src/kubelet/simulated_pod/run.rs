//! The run and the end of a container: readiness, probes, crashes, requests to stop.

use std::time::Duration;

use jiff::Timestamp;

use super::about::About;
use super::container::{Container, ContainerRun, Exit, NextContainerState, Role, State};
use super::environment::{EventType, PodEffect, PodEnvironment, ReportedState};
use super::timeline::Probed;
use crate::kubelet::fate::{End, FateCause, FateStop};
use crate::kubelet::io::scaled;
use crate::kubelet::pod::{MessagePolicy, ProbeSpec};

/// The time for which an end is shown before the next state.
const SHOWN: Duration = Duration::from_secs(1);
/// The exit code of a container that was killed.
const KILLED: i32 = 137;
/// Failures of a probe are reported with ever longer pauses up to this one, since each costs a write.
const LONGEST_SILENCE: Duration = Duration::from_secs(300);
/// The time that a container has to stop when neither the pod nor the deletion says.
pub const USUAL_GRACE: Duration = Duration::from_secs(30);

impl Container {
    /// Advances the run.
    pub(super) fn run(&mut self, about: &About<'_>, environment: &mut PodEnvironment<'_>) -> bool {
        let State::Running(run) = &self.state else { return false };
        let (now, timeline) = (environment.now, &run.timeline);
        if let Some((_, code)) = run.stop.filter(|(at, _)| *at <= now) {
            self.end(code, None, about, environment);
            return true;
        }
        if let Some((_, end)) = timeline.end.filter(|(at, _)| *at <= now) {
            self.end(end.code.into(), Some(end), about, environment);
            return true;
        }
        let killed = timeline.killed.filter(|(at, _)| *at <= now && run.stop.is_none());
        let (ready, started) = (timeline.is_ready(now), timeline.has_started(now));
        let failing = run.failing.filter(|(at, _)| *at <= now);
        if let Some((_, probed)) = killed {
            self.kill(probed, about, environment);
            return true;
        }
        if let Some((_, count)) = failing {
            self.fail_probe(count, about, environment);
            return true;
        }
        if (ready, started) == (self.ready, self.started) {
            return false;
        }
        if ready && !self.ready && self.role != Role::Init {
            self.log(environment, "ready");
        }
        (self.ready, self.started) = (ready, started);
        true
    }

    /// Tells it to stop by `deadline`; it may take less. If it was asked before, only an earlier deadline counts.
    pub(super) fn stop(&mut self, deadline: Timestamp, about: &About<'_>, environment: &mut PodEnvironment<'_>) {
        let hook = self.spec(about.pod).and_then(|spec| spec.lifecycle.as_ref()?.pre_stop.as_ref()?.sleep.as_ref());
        let hook = hook.and_then(|sleep| u64::try_from(sleep.seconds).ok()).map_or(Duration::ZERO, Duration::from_secs);
        let wanted = match self.fate.stop {
            FateStop::After(wait) => Some(environment.later(hook.saturating_add(wait))),
            FateStop::Hang => None,
        };
        let State::Running(run) = &mut self.state else { return };
        let by_itself = wanted.filter(|at| *at <= deadline);
        match run.stop {
            Some((at, _)) if at <= deadline => {}
            Some(_) => run.stop = Some((deadline.max(environment.now), KILLED)),
            None => {
                run.stop = Some(by_itself.map_or((deadline.max(environment.now), KILLED), |at| (at, 0)));
                if deadline > environment.now {
                    self.log(environment, "received SIGTERM, shutting down");
                }
            }
        }
    }

    /// Ends it for good where nothing more can be found out about it.
    pub(super) fn give_up(&mut self) {
        match &mut self.state {
            State::Ended(_, next) => *next = None,
            State::Held(_) if self.last.is_some() => {
                if let Some(exit) = self.last.take() {
                    self.state = State::Ended(*exit, None);
                }
            }
            State::Running(_) => {}
            State::Idle | State::Creating(..) | State::Held(_) => {
                let message = "The container could not be located when the pod was terminated".to_owned();
                let exit = Exit {
                    code: KILLED,
                    reason: "ContainerStatusUnknown",
                    message: Some(message),
                    started: None,
                    finished: None,
                    id: None,
                };
                self.state = State::Ended(exit, None);
            }
        }
    }

    /// Ends the container now, as `end` says or because it was asked to stop.
    fn end(&mut self, code: i32, end: Option<End>, about: &About<'_>, environment: &mut PodEnvironment<'_>) {
        let State::Running(ContainerRun { since, .. }) = self.state else { return };
        let line = match end {
            Some(End { cause: FateCause::Crash, .. }) => {
                let said = self.fate.log.clone();
                Some(said.unwrap_or_else(|| format!("fatal: unexpected error, exiting with code {code}")))
            }
            Some(End { cause: FateCause::Exit, .. }) if code == 0 => Some("done".to_owned()),
            Some(End { cause: FateCause::Exit, .. }) => Some(format!("failed with exit code {code}")),
            _ => None,
        };
        if let Some(line) = &line {
            self.log(environment, line);
        }
        environment.effects.push(PodEffect::LogEnds { container: self.name.clone() });
        let falls_back = self.spec(about.pod).and_then(|spec| spec.termination_message_policy);
        let last_line = line.filter(|_| code != 0 && falls_back == Some(MessagePolicy::FallbackToLogsOnError));
        let exit = Exit {
            code,
            reason: match end {
                Some(End { cause: FateCause::OutOfMemory, .. }) => "OOMKilled",
                _ if code == 0 => "Completed",
                _ => "Error",
            },
            message: self.fate.message.clone().or(last_line),
            started: Some(since),
            finished: Some(environment.now),
            id: self.id.clone(),
        };
        (self.ready, self.started) = (false, false);
        let again = !about.ending && about.restart(self).after(code);
        let next = again.then(|| {
            let shown = environment.later(SHOWN);
            match self.restarting.wait(environment.now, environment) {
                None => (shown, NextContainerState::Attempt),
                Some(wait) => (shown, NextContainerState::CrashLoop(environment.later(wait))),
            }
        });
        self.state = State::Ended(exit, next);
    }

    /// Kills the container after a probe failed too often.
    fn kill(&mut self, probed: Probed, about: &About<'_>, environment: &mut PodEnvironment<'_>) {
        let Some(spec) = self.spec(about.pod) else { return };
        let probe = match probed {
            Probed::Startup => spec.startup_probe.as_deref(),
            Probed::Liveness => spec.liveness_probe.as_deref(),
            Probed::Readiness => spec.readiness_probe.as_deref(),
        };
        if let Some(probe) = probe {
            let count = probe.failure_threshold.and_then(|count| u32::try_from(count).ok()).unwrap_or(3).max(1);
            self.tell_unhealthy(probed, probe, count, environment);
        }
        let what = probed.as_str().to_lowercase();
        let message = format!("Container {} failed {what} probe, will be restarted", self.name);
        environment.tell_of(&self.field(), EventType::Normal, "Killing", message);
        let grace = about.pod.spec.termination_grace_period_seconds.and_then(|grace| u64::try_from(grace).ok());
        let deadline = environment.later(grace.map_or(USUAL_GRACE, Duration::from_secs));
        self.stop(deadline, about, environment);
        if let State::Running(ContainerRun { stop: Some((_, code)), .. }) = &mut self.state {
            *code = KILLED;
        }
    }

    fn fail_probe(&mut self, told: u32, about: &About<'_>, environment: &mut PodEnvironment<'_>) {
        let probe = self.spec(about.pod).and_then(|spec| spec.readiness_probe.as_deref());
        let State::Running(run) = &mut self.state else { return };
        let Some((probe, (first, period))) = probe.zip(run.timeline.probed) else {
            run.failing = None;
            return;
        };
        let over = run.timeline.ready.is_some_and(|ready| ready <= environment.now);
        let silence = (period * (1 << told.min(16))).min(LONGEST_SILENCE.max(period));
        run.failing = if over { None } else { Some((environment.later(silence), told + 1)) };
        if !over {
            let probed = scaled(environment.now.duration_since(first).unsigned_abs(), 1.0 / environment.speed);
            let count = probed.as_secs().checked_div(period.as_secs()).unwrap_or(0).saturating_add(1);
            let count = u32::try_from(count).unwrap_or(u32::MAX);
            self.tell_unhealthy(Probed::Readiness, probe, count, environment);
        }
    }

    fn tell_unhealthy(&self, probed: Probed, probe: &ProbeSpec, count: u32, environment: &mut PodEnvironment<'_>) {
        let detail = if probe.http_get.is_some() {
            "HTTP probe failed with statuscode: 503"
        } else if probe.tcp_socket.is_some() {
            "dial tcp: connect: connection refused"
        } else if probe.grpc.is_some() {
            "service unhealthy (responded with \"NOT_SERVING\")"
        } else {
            ""
        };
        let told = ReportedState {
            event_type: EventType::Warning,
            reason: "Unhealthy".into(),
            message: format!("{} probe failed: {detail}", probed.as_str()),
            field: Some(self.field()),
            count,
        };
        environment.effects.push(PodEffect::Event(told));
    }
}
