//! A fate: what a container will do, as data.
//!
//! It is chosen by the annotation `kubelet.belay.dev/fate` on the pod; else by a script's rules about images; else by the
//! rules that come with the kubelet; else it is the ordinary one: a container that serves becomes ready and stays, one
//! whose pod is not to be restarted ends well after a second, and so does an init container.

mod parse;
mod rules;

use std::time::Duration;

pub use parse::Fates;
#[cfg(test)]
pub use parse::duration;
pub use rules::{Rules, Script, ScriptError};

/// How long a container takes to be created when nothing else is said, its image's pull included.
pub const CREATION: Duration = Duration::from_secs(1);
/// How long a container runs whose pod ends by itself when nothing else is said.
const RUN: Duration = Duration::from_secs(1);
/// How long a container takes to stop when it is told to and nothing else is said.
pub const STOP: Duration = Duration::from_secs(1);

/// What one container does. Times are counted from when it runs unless said otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fate {
    /// From when its creation begins until it runs, the first time.
    pub start_after: Duration,
    /// Whether its image can be pulled.
    pub pull: Pull,
    /// When it is ready, if that is said.
    pub ready: Option<Readiness>,
    /// When it is no longer ready.
    pub unready_after: Option<Duration>,
    /// When its liveness and readiness probes, where it has any, begin to fail.
    pub unhealthy_after: Option<Duration>,
    /// When and how it ends by itself.
    pub end: Option<End>,
    /// When its node evicts the pod, counted from when the pod came to the node.
    pub evict_after: Option<Duration>,
    /// How it stops when it is told to.
    pub stop: Stop,
    /// A line that it writes: when it crashes, if it does, else when it starts.
    pub log: Option<String>,
    /// What it writes into its termination message.
    pub message: Option<String>,
}

/// Whether an image can be pulled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pull {
    /// Yes.
    Succeeds,
    /// No, for ever or until so long after the first try.
    Fails(Option<Duration>),
}

/// When a container is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// So long after it runs, and as soon as its probes allow.
    After(Duration),
    /// Never.
    Never,
}

/// How a container ends by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// When.
    pub after: Duration,
    /// The exit code.
    pub code: u8,
    /// Why.
    pub cause: Cause,
}

/// Why a container ends by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// It is done, well or badly.
    Exit,
    /// It crashes.
    Crash,
    /// It used more memory than it may.
    OutOfMemory,
}

/// How a container stops when it is told to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// So long after.
    After(Duration),
    /// Only when it is killed.
    Hang,
}

impl Default for Fate {
    fn default() -> Fate {
        Fate {
            start_after: CREATION,
            pull: Pull::Succeeds,
            ready: None,
            unready_after: None,
            unhealthy_after: None,
            end: None,
            evict_after: None,
            stop: Stop::After(STOP),
            log: None,
            message: None,
        }
    }
}

impl Fate {
    /// Ends well by itself unless something else is said about how it goes.
    pub fn or_finite(mut self) -> Fate {
        if self.ready.is_none() {
            self.end.get_or_insert(End { after: RUN, code: 0, cause: Cause::Exit });
        }
        self
    }
}
