//! `[[source.window]]`: a new commit waits until its source may be rolled out.

use std::time::Duration;

use tracing::info;

use super::sync_now::SyncNow;
use crate::clock::Clock;
use crate::config::{WindowConfig, WindowState};
use crate::daemon::publish::status::Publisher;

/// The longest time after which the clock is read again: it can be set, and a machine can be suspended.
const CLOCK_READ: Duration = Duration::from_secs(30);

/// The end of the words for a source that waits for a window.
const OUTSIDE: &str = "outside of its windows";

/// Returns true when a source waits for a window, by its words for that.
#[must_use]
pub fn is_window_wait(waits: &str) -> bool {
    waits.contains(OUTSIDE)
}

/// Waits until the windows of a source are open, and says so meanwhile. Returns who let its head through before, if somebody did.
pub async fn until_open(
    source: &str,
    windows: &[WindowConfig],
    clock: &Clock,
    (publisher, sync_now): (&Publisher, &SyncNow),
) -> Option<String> {
    sync_now.begin_wait();
    loop {
        let now = clock.now();
        let WindowState::Closed(until) = WindowState::of(windows, now) else { break };
        if sync_now.is_asked() {
            break;
        }
        let message = match &until {
            Some(until) => format!("waits until {}: {OUTSIDE}", until.strftime("%a %Y-%m-%d %H:%M %Z")),
            None => format!("waits: {OUTSIDE} for the next two weeks"),
        };
        if publisher.says_waiting(&message) {
            info!(source, message);
        }
        let left = until.and_then(|until| Duration::try_from(until.timestamp().duration_since(now)).ok());
        let time = tokio::time::sleep(left.map_or(CLOCK_READ, |left| left.min(CLOCK_READ)));
        tokio::select! {
            () = time => {}
            () = sync_now.news() => {}
        }
    }
    // Also of a wait for an older head, which was given up.
    publisher.waits_no_longer();
    let by = sync_now.end_wait();
    if let Some(by) = &by {
        info!(source, by, "a person lets the head through outside of its windows");
    }
    by
}
