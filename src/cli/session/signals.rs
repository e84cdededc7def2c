//! The signals to stop, and to read the configuration again.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The SIGHUPs of this process; none come where the signal can't be received.
pub(in crate::cli) struct Hangups(Option<Signal>);

impl Hangups {
    /// Receives the signal from here on.
    pub fn receive() -> Hangups {
        Hangups(signal(SignalKind::hangup()).ok())
    }

    /// Waits for the next one.
    pub async fn next(&mut self) {
        if let Some(signal) = &mut self.0
            && signal.recv().await.is_some()
        {
            return;
        }
        std::future::pending().await
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
