//! Logs, and what systemd wants to hear.

use std::io::IsTerminal as _;
use std::time::Duration;

use sd_notify::NotifyState;
use tracing_subscriber::EnvFilter;

/// How logs look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// For people, without times where journald adds its own.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// Starts logging to standard error. `verbosity` is how often `-v` was said; `BELAY_LOG` overrides it, in the manner of
/// `belay=debug,kube=warn`.
pub fn start_logging(verbosity: u8, format: LogFormat) {
    let default = match verbosity {
        0 => "belay=info,warn",
        1 => "belay=debug,warn",
        2 => "belay=trace,info",
        _ => "debug",
    };
    let filter = EnvFilter::try_from_env("BELAY_LOG").unwrap_or_else(|_| EnvFilter::new(default));
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_target(false);
    let logs = logs.with_ansi(std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none());
    // A second start (tests in one process) keeps the first.
    let _ = match format {
        LogFormat::Json => logs.json().try_init(),
        LogFormat::Text if std::env::var_os("JOURNAL_STREAM").is_some() => logs.without_time().try_init(),
        LogFormat::Text => logs.try_init(),
    };
}

/// Tells systemd that the service is up. Does nothing where systemd did not ask.
pub fn ready() {
    notify(&[NotifyState::Ready]);
}

/// Tells systemd that the service is going down.
pub fn stopping() {
    notify(&[NotifyState::Stopping]);
}

/// Tells systemd, in one line, what the service is doing.
pub fn status(line: &str) {
    notify(&[NotifyState::Status(line)]);
}

/// Tells systemd that the service is alive.
pub fn alive() {
    notify(&[NotifyState::Watchdog]);
}

/// How often [`alive`] must be said: half the time after which systemd would restart the service; `None` where it does
/// not watch.
#[must_use]
pub fn watchdog_interval() -> Option<Duration> {
    sd_notify::watchdog_enabled().map(|interval| interval / 2)
}

fn notify(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "failed to tell systemd");
    }
}
