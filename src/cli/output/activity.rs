//! A line on a terminal about work that takes longer than a second: it is drawn over itself, and goes away with the work.
//! In a pipe there is none.

use std::future::Future;
use std::io::{IsTerminal as _, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jiff::SignedDuration;
use tokio::time::Instant;

use super::{cut, duration, plain};

/// The time for which nothing is shown.
const QUIET: Duration = Duration::from_secs(1);
/// The period between two drawings.
const REDRAW: Duration = Duration::from_millis(500);

/// True while such a line is the last one of the terminal.
static DRAWN: AtomicBool = AtomicBool::new(false);

/// Work under way.
pub(in crate::cli) struct Activity {
    began: Instant,
}

impl Activity {
    /// Returns work that begins now.
    pub(in crate::cli) fn begin() -> Activity {
        Activity { began: Instant::now() }
    }

    /// Shows what is done, and for how long already.
    pub(in crate::cli) fn show(&self, what: &str) {
        let elapsed = self.began.elapsed();
        if elapsed < QUIET || !std::io::stderr().is_terminal() {
            return;
        }
        let elapsed = duration(SignedDuration::try_from(elapsed).unwrap_or_default());
        let width = terminal_size::terminal_size_of(std::io::stderr()).map(|(width, _)| usize::from(width.0));
        // A line as wide as the terminal would go on in the next one.
        let line = cut(&plain(&format!("{what} ({elapsed})")), width.unwrap_or(80).saturating_sub(1));
        let mut err = std::io::stderr().lock();
        // Nobody is left to be told if standard error is gone.
        let _ = write!(err, "\r\x1b[K{line}").and_then(|()| err.flush());
        DRAWN.store(true, Ordering::Relaxed);
    }
}

impl Drop for Activity {
    fn drop(&mut self) {
        clear();
    }
}

/// Takes the line away, if there is one: something else is printed in its place.
pub(super) fn clear() {
    if DRAWN.swap(false, Ordering::Relaxed) {
        let mut err = std::io::stderr().lock();
        let _ = write!(err, "\r\x1b[K").and_then(|()| err.flush());
    }
}

/// Does some work, and shows for how long.
pub(in crate::cli) async fn during<T>(what: &str, work: impl Future<Output = T>) -> T {
    let activity = Activity::begin();
    tokio::pin!(work);
    loop {
        match tokio::time::timeout(REDRAW, &mut work).await {
            Ok(done) => return done,
            Err(_) => activity.show(what),
        }
    }
}
