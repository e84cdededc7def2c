//! The messages to systemd about the daemon.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, sleep_until};
use tracing::error;

use crate::daemon::{Liveness, Status};
use crate::telemetry::{self, Systemd};

/// Notifies systemd that the daemon is up, of its status, and that the loop of each source runs. Its activity is
/// reported once a second at most, and only after a change: a thousand rollouts make no thousand lines.
pub(super) async fn tell(systemd: Systemd, liveness: Liveness, mut status: watch::Receiver<Status>) {
    const BETWEEN: Duration = Duration::from_secs(1);
    systemd.ready().await;
    let beat = telemetry::watchdog_interval().unwrap_or(Duration::from_hours(1));
    let mut watchdog = tokio::time::interval(beat);
    // Two messages in a row would leave the loops no time to answer between them.
    watchdog.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut told, mut not_before) = (String::new(), Instant::now());
    loop {
        let changed = async {
            sleep_until(not_before).await;
            status.changed().await
        };
        tokio::select! {
            biased;
            _ = watchdog.tick() => match liveness.hanging() {
                // If it does not fit, the next one comes soon.
                hanging if hanging.is_empty() => drop(systemd.alive()),
                hanging => error!(
                    sources = hanging.join(", "),
                    "belay's own fault: the loop of these sources does not turn; systemd's watchdog is not answered"
                ),
            },
            changed = changed => {
                if changed.is_err() {
                    return;
                }
                let line = line(&status.borrow_and_update());
                not_before = Instant::now() + BETWEEN;
                if line != told {
                    match systemd.status(&line) {
                        true => told = line,
                        false => status.mark_changed(),
                    }
                }
            }
        }
    }
}

/// Returns the daemon in one line.
fn line(status: &Status) -> String {
    let trouble = status
        .sources
        .values()
        .flat_map(|source| {
            let obstacles = &source.obstacles;
            obstacles.configuration.values().chain(&obstacles.waits).chain(obstacles.trouble.values())
        })
        .next();
    let heads: Vec<String> = status
        .sources
        .iter()
        .map(|(name, source)| {
            let at = source.planned.as_ref().map_or("nothing yet", |commit| commit.short());
            format!("{name} at {at}: {}", source.summary())
        })
        .collect();
    let mut line = heads.join("; ");
    if let Some(trouble) = trouble {
        line.push_str(&format!("; {trouble}"));
    }
    line
}
