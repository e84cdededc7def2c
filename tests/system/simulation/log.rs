//! The log of belay, line by line, with the time of the simulation; and a trap that springs after so many lines.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;
use tokio::time::Instant;
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::fmt::MakeWriter;

use crate::support::log::listen;

/// Everything that is logged on this thread while it listens.
#[derive(Clone)]
pub struct Log(Arc<Mutex<Lines>>);

struct Lines {
    started: Instant,
    lines: Vec<(u64, String)>,
    trap: Option<u64>,
    sprung: Arc<Notify>,
}

impl Log {
    /// Listens until the guard is dropped. `sprung` is told when the trap springs.
    pub fn listen(sprung: Arc<Notify>) -> (Log, DefaultGuard) {
        let lines = Lines { started: Instant::now(), lines: Vec::new(), trap: None, sprung };
        let log = Log(Arc::new(Mutex::new(lines)));
        let guard = listen(belay::telemetry::what_is_logged(0), log.clone());
        (log, guard)
    }

    /// Sets the trap: it springs after so many more lines.
    pub fn trap(&self, lines: Option<u64>) {
        self.0.lock().unwrap().trap = lines;
    }

    /// Returns all lines, each with its time in milliseconds from the start.
    pub fn take(&self) -> Vec<(u64, String)> {
        std::mem::take(&mut self.0.lock().unwrap().lines)
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Log;

    fn make_writer(&'a self) -> Log {
        self.clone()
    }
}

impl Write for Log {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        let mut lines = self.0.lock().unwrap();
        let at = u64::try_from(lines.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        lines.lines.push((at, String::from_utf8_lossy(text).trim_end().to_owned()));
        match lines.trap {
            Some(0) => {
                lines.trap = None;
                lines.sprung.notify_one();
            }
            Some(left) => lines.trap = Some(left - 1),
            None => {}
        }
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
