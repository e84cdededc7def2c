//! The context that controllers share, and the way in which they start.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::events::Recorder;
use super::informers::Informers;
use super::requests::Requests;
use crate::{Clock, Random};

/// Starts a controller's workers, once the informers have caught up.
pub type ControllerStart = Box<dyn FnOnce(&TaskTracker, &CancellationToken) + Send>;

/// The context of every controller.
#[derive(Clone)]
pub struct Context {
    /// Makes requests.
    pub requests: Requests,
    /// Tells the time.
    pub clock: Clock,
    /// Takes events.
    pub recorder: Recorder,
    /// The informers of all kinds.
    pub informers: Informers,
    /// Draws random numbers.
    pub random: Random,
}

impl Context {
    /// Returns the present moment as the API writes it: in whole seconds.
    pub fn now(&self) -> Time {
        Time(in_seconds(self.clock.now()))
    }
}

/// Returns a moment without its fraction of a second.
pub fn in_seconds(moment: Timestamp) -> Timestamp {
    Timestamp::from_second(moment.as_second()).unwrap_or(moment)
}
