//! The input of a step of a simulated pod, and its effects besides changing the pod's status.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;

use crate::Random;
pub use crate::event_type::EventType;
use crate::kubelet::fate::FateRules;
use crate::kubelet::io::{after, scaled};

/// The input of a step of a life.
pub struct PodEnvironment<'a> {
    /// The present moment.
    pub now: Timestamp,
    /// The factor by which all of this goes faster than written.
    pub speed: f64,
    /// The rules about images.
    pub rules: &'a mut FateRules,
    /// Draws container ids.
    pub random: &'a Random,
    /// The full names of the images on the node.
    pub images: &'a mut BTreeSet<String>,
    /// The effects of the step, in order.
    pub effects: Vec<PodEffect>,
}

/// An effect of a step of a life besides changing the pod's status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodEffect {
    /// An event about the pod.
    Event(ReportedState),
    /// A container starts again, and its log with it.
    LogBegins { container: String },
    /// A container ends, and its log with it.
    LogEnds { container: String },
    /// A container writes a line.
    Log { container: String, text: String },
    /// The ConfigMaps and Secrets that the pod names are wanted.
    LookUp,
}

/// An event.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReportedState {
    /// The type: as intended, or a warning.
    pub event_type: EventType,
    /// One word.
    pub reason: Cow<'static, str>,
    /// A sentence.
    pub message: String,
    /// The part of the pod that it is about: `spec.containers{app}`.
    pub field: Option<String>,
    /// The number of times that it happened.
    pub count: u32,
}

impl PodEnvironment<'_> {
    /// Returns the moment `wait` from now.
    pub fn later(&self, wait: Duration) -> Timestamp {
        self.after(self.now, wait)
    }

    /// Returns the moment `wait` after `at`.
    pub fn after(&self, at: Timestamp, wait: Duration) -> Timestamp {
        after(at, scaled(wait, self.speed))
    }

    /// Tells something about the pod as a whole.
    pub fn tell(&mut self, event_type: EventType, reason: impl Into<Cow<'static, str>>, message: impl Into<String>) {
        let told = ReportedState { event_type, reason: reason.into(), message: message.into(), field: None, count: 1 };
        self.effects.push(PodEffect::Event(told));
    }

    /// Tells something about a container.
    pub fn tell_of(&mut self, field: &str, event_type: EventType, reason: &'static str, message: impl Into<String>) {
        let told = ReportedState {
            event_type,
            reason: reason.into(),
            message: message.into(),
            field: Some(field.to_owned()),
            count: 1,
        };
        self.effects.push(PodEffect::Event(told));
    }
}
