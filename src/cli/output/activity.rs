//! A line on a terminal about work that takes longer than a second. It goes away with the work. In a pipe there is none.

use std::future::Future;
use std::time::Duration;

use jiff::SignedDuration;
use tokio::time::Instant;

use super::{cut, duration, plain};
use crate::telemetry::{can_draw_line, clear_line, draw_line};

/// The time for which nothing is shown.
const QUIET: Duration = Duration::from_secs(1);
/// The period between two drawings.
pub(in crate::cli) const REDRAW: Duration = Duration::from_millis(500);

/// Work under way.
pub(in crate::cli) struct Activity {
    began: Instant,
}

impl Activity {
    /// Returns work that begins now.
    pub(in crate::cli) fn begin() -> Activity {
        Activity { began: Instant::now() }
    }

    /// Shows the work, and its time until now.
    pub(in crate::cli) fn show(&self, what: &str) {
        let elapsed = self.began.elapsed();
        if elapsed < QUIET || !can_draw_line() {
            return;
        }
        let elapsed = duration(SignedDuration::try_from(elapsed).unwrap_or_default());
        let width = terminal_size::terminal_size_of(std::io::stderr()).map(|(width, _)| usize::from(width.0));
        // A line as wide as the terminal would go on in the next one.
        draw_line(&cut(&plain(&format!("{what} ({elapsed})")), width.unwrap_or(80).saturating_sub(1)));
    }
}

impl Drop for Activity {
    fn drop(&mut self) {
        clear_line();
    }
}

/// Does some work, and shows it.
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
