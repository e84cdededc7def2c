//! The signals to stop, and to read the configuration again.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Returns the stream of SIGHUPs; `None` where the signal can't be received.
pub(in crate::cli) fn hangups() -> Option<Signal> {
    signal(SignalKind::hangup()).ok()
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
