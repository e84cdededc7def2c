//! `[[source.window]]`: a new commit waits until its source may be rolled out.

use std::time::Duration;

use tracing::info;

use crate::clock::Clock;
use crate::config::{WindowConfig, WindowState};
use crate::daemon::publish::status::Publisher;

/// The longest time after which the clock is read again: it can be set, and a machine can be suspended.
const CLOCK_READ: Duration = Duration::from_secs(30);

/// Waits until the windows of a source are open, and says so meanwhile.
pub async fn until_open(source: &str, windows: &[WindowConfig], clock: &Clock, publisher: &Publisher) {
    loop {
        let now = clock.now();
        let WindowState::Closed(until) = WindowState::of(windows, now) else { break };
        let message = match &until {
            Some(until) => format!("waits until {}: outside of its windows", until.strftime("%a %Y-%m-%d %H:%M %Z")),
            None => "waits: outside of its windows for the next two weeks".to_owned(),
        };
        if publisher.says_waiting(&message) {
            info!(source, message);
        }
        let left = until.and_then(|until| Duration::try_from(until.timestamp().duration_since(now)).ok());
        tokio::time::sleep(left.map_or(CLOCK_READ, |left| left.min(CLOCK_READ))).await;
    }
    // Also of a wait for an older head, which was given up.
    publisher.waits_no_longer();
}
