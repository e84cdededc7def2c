//! A fate: the behaviour of a container, as data.
//!
//! It is chosen by an annotation `kubelet.<domain>/fate` on the pod, of any domain; else by a script's rules about images; else by the
//! rules that come with the kubelet; else it is the ordinary one: a container that serves becomes ready and stays, one
//! whose pod is not to be restarted ends well after a second, and so does an init container.
//!
//! A fate is written as words with commas between them, `ready-after=2s,crash-after=10s,log="no database"`; in the
//! annotation also container by container, with semicolons, `app:crash-after=3s;proxy:ready`. A fate without a name is
//! for all containers that are not named and are not init containers.
//!
//! | word | behaviour of the container |
//! |---|---|
//! | `ready` | is created in a second and is ready at once |
//! | `ready-after=5s` | is ready five seconds after its creation began |
//! | `never-ready` | runs and is never ready |
//! | `start-after=5s` | takes five seconds to be created |
//! | `unready-after=5s` | is no longer ready after running for so long |
//! | `unhealthy-after=5s` | fails its liveness and readiness probes, where it has any, from then on |
//! | `crash-after=3s`, `exit-after=3s`, `oom-after=3s` | ends after running for so long: with code 1, 0 or 137 |
//! | `code=2` | ends with this code instead |
//! | `image-pull-error`, `for=20s` | its image can't be pulled; for so long, then it can |
//! | `evict-after=10s` | its pod is evicted so long after it came to its node |
//! | `stop-after=5s`, `hang` | takes so long to stop when told to; only stops when it is killed |
//! | `log=text` | writes this line when it starts, or when it crashes if it does; in quotes where it has commas |
//! | `message=text` | leaves this termination message |
//!
//! A container without a readiness probe is ready while it runs, as on a real node: a `crash-after=3s` without
//! `never-ready` beside it is available for three seconds.

mod compact;
mod parse;
mod rules;

use std::time::Duration;

pub use compact::CompactFate;

pub use parse::Fates;
#[cfg(test)]
pub use parse::duration;
pub use rules::{FateRules, Script, ScriptError};

/// The default time until a container is created, its image's pull included.
pub const CREATION: Duration = Duration::from_secs(1);
/// The default time for which a container runs whose pod ends by itself.
const RUN: Duration = Duration::from_secs(1);
/// The default time that a container takes to stop when it is asked to.
pub const STOP: Duration = Duration::from_secs(1);

/// The behaviour of one container. Times are counted from when it runs unless said otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fate {
    /// The time from the beginning of its creation until it runs, the first time.
    pub start_after: Duration,
    /// The result of pulling its image.
    pub pull: Pull,
    /// When it is ready, if that is said.
    pub ready: Option<Readiness>,
    /// When it is no longer ready.
    pub unready_after: Option<Duration>,
    /// When its liveness and readiness probes, if it has any, begin to fail.
    pub unhealthy_after: Option<Duration>,
    /// When and how it ends by itself.
    pub end: Option<End>,
    /// When its node evicts the pod, counted from when the pod came to the node.
    pub evict_after: Option<Duration>,
    /// The way in which it stops when it is asked to.
    pub stop: FateStop,
    /// A line that it writes: when it crashes, if it does, else when it starts.
    pub log: Option<String>,
    /// The text in its termination message.
    pub message: Option<String>,
}

/// The result of pulling an image.
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

/// The end of a container by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// When.
    pub after: Duration,
    /// The exit code.
    pub code: u8,
    /// The cause.
    pub cause: FateCause,
}

/// The cause for which a container ends by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FateCause {
    /// It is done, well or badly.
    Exit,
    /// It crashes.
    Crash,
    /// It used more memory than it may.
    OutOfMemory,
}

/// The way in which a container stops when it is asked to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FateStop {
    /// So long after.
    After(Duration),
    /// Only when it is killed.
    Hang,
}

/// The behaviour of a container without a fate.
static ORDINARY: Fate = Fate {
    start_after: CREATION,
    pull: Pull::Succeeds,
    ready: None,
    unready_after: None,
    unhealthy_after: None,
    end: None,
    evict_after: None,
    stop: FateStop::After(STOP),
    log: None,
    message: None,
};

impl Default for Fate {
    fn default() -> Fate {
        ORDINARY.clone()
    }
}

impl Fate {
    /// Ends well by itself unless something else is said about how it goes.
    pub fn or_finite(mut self) -> Fate {
        if self.ready.is_none() {
            self.end.get_or_insert(End { after: RUN, code: 0, cause: FateCause::Exit });
        }
        self
    }
}
