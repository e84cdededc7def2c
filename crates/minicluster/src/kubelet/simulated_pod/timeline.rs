//! The times of a running container's events: from its fate, as its probes see it.

use std::time::Duration;

use jiff::Timestamp;

use super::environment::PodEnvironment;
use crate::kubelet::fate::{End, Fate, Readiness};
use crate::kubelet::pod::{ContainerSpec, ProbeSpec};

/// The timers of one run of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeline {
    /// It has started, for its startup probe.
    pub started: Option<Timestamp>,
    /// It is ready.
    pub ready: Option<Timestamp>,
    /// It is ready no longer.
    pub unready: Option<Timestamp>,
    /// A probe's failures make the kubelet kill it.
    pub killed: Option<(Timestamp, Probed)>,
    /// It ends by itself.
    pub end: Option<(Timestamp, End)>,
    /// Its readiness is probed for the first time, and how often then.
    pub probed: Option<(Timestamp, Duration)>,
}

/// The kinds of probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probed {
    /// The probe of its start.
    Startup,
    /// The probe of its life.
    Liveness,
    /// The probe of its readiness.
    Readiness,
}

impl Probed {
    /// As messages begin with it.
    pub fn as_str(self) -> &'static str {
        match self {
            Probed::Startup => "Startup",
            Probed::Liveness => "Liveness",
            Probed::Readiness => "Readiness",
        }
    }
}

impl Timeline {
    /// Returns the timers of a run that began at `since`.
    pub fn new(spec: &ContainerSpec, fate: &Fate, since: Timestamp, environment: &PodEnvironment<'_>) -> Timeline {
        let at = |wait: Duration| environment.after(since, wait);
        let healthy = match fate.ready {
            None => Some(Duration::ZERO),
            Some(Readiness::After(wait)) => Some(wait),
            Some(Readiness::Never) => None,
        };
        let startup = spec.startup_probe.as_deref();
        let gives_up = startup.map(|probe| delay(probe) + period(probe) * (failures(probe) - 1));
        let started = match (startup, healthy) {
            (None, _) => Some(Duration::ZERO),
            (Some(probe), Some(healthy)) => Some(healthy.max(delay(probe))),
            (Some(_), None) => None,
        };
        let started = started.filter(|started| gives_up.is_none_or(|gives_up| *started <= gives_up));
        let readiness = spec.readiness_probe.as_deref();
        let ready = started.zip(healthy).map(|(started, healthy)| {
            let probed =
                readiness.map_or(Duration::ZERO, |probe| delay(probe) + period(probe) * (successes(probe) - 1));
            started.max(healthy).max(probed)
        });
        let sickens = fate.unhealthy_after;
        let fails =
            |probe: Option<&ProbeSpec>| sickens.zip(probe).map(|(at, probe)| at + period(probe) * failures(probe));
        let unready = [fate.unready_after, fails(readiness)].into_iter().flatten().min();
        let killed = match (started, gives_up) {
            (None, Some(gives_up)) => Some((at(gives_up), Probed::Startup)),
            _ => fails(spec.liveness_probe.as_deref()).map(|wait| (at(wait), Probed::Liveness)),
        };
        Timeline {
            started: started.map(at),
            ready: ready.map(at),
            unready: unready.map(at),
            killed,
            end: fate.end.map(|end| (at(end.after), end)),
            probed: readiness.map(|probe| (at(delay(probe).max(Duration::from_millis(1))), period(probe))),
        }
    }

    /// Returns true when it is ready at `now`.
    pub fn is_ready(&self, now: Timestamp) -> bool {
        self.ready.is_some_and(|at| at <= now) && self.unready.is_none_or(|at| at > now)
    }

    /// Returns true when it has started by `now`.
    pub fn has_started(&self, now: Timestamp) -> bool {
        self.started.is_some_and(|at| at <= now)
    }

    /// Returns the time at which its readiness first fails its probe, if it does, and a count of zero reports.
    pub fn first_failure(&self) -> Option<(Timestamp, u32)> {
        let (first, _) = self.probed?;
        self.ready.is_none_or(|ready| ready > first).then_some((first, 0))
    }

    /// Returns the first of these timers after `now`.
    pub fn next(&self, now: Timestamp) -> Option<Timestamp> {
        let timers =
            [self.started, self.ready, self.unready, self.killed.map(|(at, _)| at), self.end.map(|(at, _)| at)];
        timers.into_iter().flatten().filter(|at| *at > now).min()
    }
}

fn delay(probe: &ProbeSpec) -> Duration {
    seconds(probe.initial_delay_seconds, 0)
}

fn period(probe: &ProbeSpec) -> Duration {
    seconds(probe.period_seconds, 10)
}

fn failures(probe: &ProbeSpec) -> u32 {
    count(probe.failure_threshold, 3)
}

fn successes(probe: &ProbeSpec) -> u32 {
    count(probe.success_threshold, 1)
}

fn seconds(value: Option<i32>, usual: u32) -> Duration {
    let value = value.filter(|value| *value > 0).and_then(|value| u32::try_from(value).ok());
    Duration::from_secs(value.unwrap_or(usual).into())
}

fn count(value: Option<i32>, usual: u32) -> u32 {
    value.and_then(|value| u32::try_from(value).ok()).unwrap_or(usual).max(1)
}
