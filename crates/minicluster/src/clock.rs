//! The cluster's clock: whatever its user's clock says.

use std::fmt;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// Tells the time. Cheap to clone; everything that needs the time is given one.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl Clock {
    /// Returns a clock that asks the function each time.
    pub fn new(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Clock {
        Clock(Arc::new(now))
    }

    /// Returns the machine's own clock.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this is the clock")]
    pub fn system() -> Clock {
        Clock::new(Timestamp::now)
    }

    /// Returns a clock that shows `epoch` now and moves with tokio's clock: with `tokio::time::pause`, only as far as
    /// the test lets it. Needs a running tokio runtime.
    #[must_use]
    pub fn tokio(epoch: Timestamp) -> Clock {
        let started = Instant::now();
        Clock::new(move || {
            let elapsed = SignedDuration::try_from(started.elapsed()).unwrap_or(SignedDuration::MAX);
            epoch.saturating_add(elapsed).unwrap_or(epoch)
        })
    }

    /// Returns the present moment.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        (self.0)()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}
