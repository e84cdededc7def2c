//! When belay is asked to stop.

use tokio::signal::unix::{SignalKind, signal};
use tracing::warn;

/// Says, each time that SIGHUP comes, that it changes nothing: without that it would end the daemon.
pub(in crate::cli) async fn ignore_hangups() {
    let Ok(mut hangup) = signal(SignalKind::hangup()) else { return };
    while hangup.recv().await.is_some() {
        warn!("SIGHUP changes nothing: a new configuration is read when belay is started again");
    }
}

/// Waits for SIGTERM or SIGINT.
pub(in crate::cli) async fn asked_to_stop() {
    let (terminate, interrupt) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()));
    let (Ok(mut terminate), Ok(mut interrupt)) = (terminate, interrupt) else {
        // Without signal handlers the system's own way of stopping a process still works.
        return std::future::pending().await;
    };
    tokio::select! {
        biased;
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}
