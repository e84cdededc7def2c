//! Logs, notifications for systemd, and metrics.

mod journal;
mod log_writer;
mod metrics;
mod process;
mod terminal_line;

use std::io::{self, ErrorKind, IsTerminal as _};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use journal::Journal;
use log_writer::LogWriter;
pub use metrics::{Hooked, Metrics, NoticeLabels, Took};
pub use process::Process;
use sd_notify::NotifyState;
pub use terminal_line::{can_draw_line, clear_line, draw_line};
use tracing_subscriber::EnvFilter;

/// The format of logs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// For people, without times where journald adds its own.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// Returns the filter of log lines for the number of `-v`, but for [`without_answers`].
#[must_use]
pub fn what_is_logged(verbosity: u8) -> &'static str {
    match verbosity {
        0 => "belay=info,warn",
        1 => "belay=debug,warn",
        2 => "belay=trace,info",
        _ => "debug",
    }
}

/// Starts logging to standard error. `verbosity` is how often `-v` was said; `BELAY_LOG` overrides it, in the manner of
/// `belay=debug,hyper=warn`, kube's client left out.
pub fn start_logging(verbosity: u8, format: LogFormat) {
    let filter = EnvFilter::try_from_env("BELAY_LOG").unwrap_or_else(|_| EnvFilter::new(what_is_logged(verbosity)));
    let filter = without_answers(filter);
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_target(false);
    let coloured = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let logs = logs.with_ansi(coloured);
    // A second start (tests in one process) keeps the first.
    let _ = match (format, journal::is_read_by_it()) {
        (LogFormat::Json, false) => logs.json().try_init(),
        (LogFormat::Json, true) => logs.with_writer(Journal(std::io::stderr)).json().try_init(),
        (LogFormat::Text, false) => logs.with_writer(LogWriter { to: std::io::stderr, coloured }).try_init(),
        (LogFormat::Text, true) => {
            // The text of a panic is an error like any other.
            std::panic::set_hook(Box::new(|panic| tracing::error!("belay's own fault: {panic}")));
            logs.with_writer(LogWriter { to: Journal(std::io::stderr), coloured }).without_time().try_init()
        }
    };
}

/// Returns a line that says why the program ends, as standard error should have it: with an error's priority for the
/// journal.
#[must_use]
pub fn as_error(line: &str) -> String {
    if journal::is_read_by_it() { journal::with_priority(journal::ERROR, line) } else { line.to_owned() }
}

/// Returns the filter with only the errors of kube's client: it logs a whole answer that it can't read, and that may be
/// a truncated one with Secrets.
#[must_use]
pub fn without_answers(filter: EnvFilter) -> EnvFilter {
    // An error of one request is told with its object, by whoever asked.
    let quiet = ["kube_client=error", "kube_client::client=error", "kube_client::client::builder=off"];
    quiet.iter().fold(filter, |filter, quiet| filter.add_directive(quiet.parse().expect("a directive")))
}

/// The line to systemd. A message never waits: a socket that nobody reads must not keep the service from its work, nor
/// from its end. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Systemd {
    socket: Option<PathBuf>,
    /// True when the last message was not taken, so that the log says so once.
    unheard: Arc<AtomicBool>,
}

impl Systemd {
    /// Returns the line to systemd if it asked for it (`NOTIFY_SOCKET`), and to nobody otherwise.
    #[must_use]
    pub fn of_this_process() -> Systemd {
        Systemd { socket: std::env::var_os("NOTIFY_SOCKET").map(PathBuf::from), unheard: Arc::default() }
    }

    /// Returns the line to the reader of the datagram socket at this path.
    #[must_use]
    pub fn at(socket: PathBuf) -> Systemd {
        Systemd { socket: Some(socket), unheard: Arc::default() }
    }

    /// Says that the service is up. Says so again until it is taken: without it systemd would end the service.
    pub async fn ready(&self) {
        const AGAIN: Duration = Duration::from_millis(200);
        while !self.tell(&NotifyState::Ready) {
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// Says that the service reads its configuration again; [`Systemd::ready`] says that it has. `false` where it was not
    /// taken.
    pub fn reloading(&self) -> bool {
        // systemd waits for the answer to its signal by this time.
        let at = NotifyState::monotonic_usec_now().map(|at| format!("{}\n{at}", NotifyState::Reloading));
        at.is_ok_and(|message| self.send_or_report(&message))
    }

    /// Says that the service is going down. `false` where it was not taken.
    pub fn stopping(&self) -> bool {
        self.tell(&NotifyState::Stopping)
    }

    /// Reports the present activity of the service, in one line. `false` where it was not taken.
    pub fn status(&self, line: &str) -> bool {
        // Each further line would be a message of its own.
        self.tell(&NotifyState::Status(&line.replace('\n', " ")))
    }

    /// Says that the service is alive. `false` where it was not taken.
    pub fn alive(&self) -> bool {
        self.tell(&NotifyState::Watchdog)
    }

    /// Returns true when it was taken, or nobody asked.
    fn tell(&self, state: &NotifyState<'_>) -> bool {
        self.send_or_report(&state.to_string())
    }

    fn send_or_report(&self, message: &str) -> bool {
        let Some(socket) = &self.socket else { return true };
        let said = send(socket, &format!("{message}\n"));
        let unheard = self.unheard.swap(said.is_err(), Ordering::Relaxed);
        match said {
            Err(error) if !unheard => {
                let full = error.kind() == ErrorKind::WouldBlock;
                let error = if full { "its socket is full, and nobody reads it".to_owned() } else { error.to_string() };
                tracing::warn!(error, "failed to tell systemd; no more is said of this until it hears again");
                false
            }
            said => said.is_ok(),
        }
    }
}

/// Returns the period at which [`Systemd::alive`] must be called: half the time after which systemd would restart the
/// service; `None` if it does not watch.
#[must_use]
pub fn watchdog_interval() -> Option<Duration> {
    sd_notify::watchdog_enabled().map(|interval| interval / 2)
}

/// Sends one message. The crate's own way would wait while the socket is full.
fn send(path: &Path, message: &str) -> io::Result<()> {
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    socket.connect(path)?;
    socket.send(message.as_bytes()).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_nobody_reads_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let reader = UnixDatagram::bind(&path).unwrap();
        reader.set_nonblocking(true).unwrap();
        let systemd = Systemd::at(path);
        let taken = (0..100_000).take_while(|_| systemd.alive()).count();
        assert!(taken > 0 && taken < 100_000, "{taken} were taken");
        assert!(!systemd.status("still at it") && !systemd.stopping());
        // READY is not lost: it comes as soon as there is room.
        let waiting = tokio::spawn({
            let systemd = systemd.clone();
            async move { systemd.ready().await }
        });
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(!waiting.is_finished());
        let mut buffer = [0; 64];
        let mut heard = || reader.recv(&mut buffer).ok().map(|length| buffer[..length].to_vec());
        assert_eq!(std::iter::from_fn(&mut heard).count(), taken);
        waiting.await.unwrap();
        assert_eq!(heard().unwrap(), b"READY=1\n");
        assert!(systemd.status("one\ntwo"));
        assert_eq!(heard().unwrap(), b"STATUS=one two\n");
    }

    #[test]
    fn answers_that_nobody_could_read_are_not_logged() {
        let asked = ["trace", "kube_client=trace", "kube_client::client=trace", "belay=info,kube_client::client=warn"];
        for text in (0..4).map(what_is_logged).chain(asked) {
            let heard = tempfile::NamedTempFile::new().unwrap();
            let to = Arc::new(heard.reopen().unwrap());
            let filter = without_answers(EnvFilter::new(text));
            let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_writer(to).finish();
            tracing::subscriber::with_default(subscriber, || {
                tracing::warn!(target: "kube_client::client", "an answer");
                tracing::error!(target: "kube_client::client", "an error");
            });
            let heard = std::fs::read_to_string(heard.path()).unwrap();
            assert!(heard.contains("an error") && !heard.contains("an answer"), "{text}: {heard}");
        }
    }

    #[test]
    fn where_nobody_asked_nothing_is_said() {
        assert!(Systemd::default().alive());
    }
}
