//! Priorities in systemd's journal. It reads them at the beginning of each line on standard error: `<3>` is an error, `<4>` a
//! warning. Without them all lines count as information, and `journalctl -p warning` shows nothing.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;

use tracing::{Level, Metadata};
use tracing_subscriber::fmt::MakeWriter;

/// The priority of an error.
pub(super) const ERROR: u8 = 3;

/// Returns true when standard error goes to the journal: systemd names the stream that it gave the service, and a child
/// of the service may have sent its own elsewhere.
pub(super) fn is_read_by_it() -> bool {
    let Some(stream) = std::env::var_os("JOURNAL_STREAM") else { return false };
    let own = io::stderr().as_fd().try_clone_to_owned().and_then(|own| File::from(own).metadata());
    own.is_ok_and(|own| stream == *format!("{}:{}", own.dev(), own.ino()))
}

/// Returns a text with its priority in front of each line.
pub(super) fn with_priority(priority: u8, text: &str) -> String {
    text.split_inclusive('\n').map(|line| format!("<{priority}>{line}")).collect()
}

/// Writes to another writer, each line with the priority of its event.
pub(super) struct Journal<W>(pub W);

impl<'a, W: MakeWriter<'a>> MakeWriter<'a> for Journal<W> {
    type Writer = Prioritized<W::Writer>;

    fn make_writer(&'a self) -> Self::Writer {
        Prioritized { priority: priority(Level::INFO), to: self.0.make_writer() }
    }

    fn make_writer_for(&'a self, event: &Metadata<'_>) -> Self::Writer {
        Prioritized { priority: priority(*event.level()), to: self.0.make_writer_for(event) }
    }
}

/// Lines of one priority. An event is written at once.
pub(super) struct Prioritized<W> {
    priority: u8,
    to: W,
}

impl<W: Write> Write for Prioritized<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.to.write_all(with_priority(self.priority, &String::from_utf8_lossy(bytes)).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// Returns syslog's number for a level.
fn priority(level: Level) -> u8 {
    match level {
        Level::ERROR => ERROR,
        Level::WARN => 4,
        Level::INFO => 6,
        _ => 7,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn each_line_has_the_priority_of_its_event() {
        let heard = tempfile::NamedTempFile::new().unwrap();
        let to = Journal(Arc::new(heard.reopen().unwrap()));
        let logs = tracing_subscriber::fmt().with_max_level(Level::DEBUG).with_ansi(false).with_target(false);
        let subscriber = logs.without_time().with_writer(to).finish();
        tracing::subscriber::with_default(subscriber, || {
            tracing::error!("the history is damaged");
            tracing::warn!("away\nfor a while");
            tracing::info!("complete");
            tracing::debug!("asked");
        });
        let heard = std::fs::read_to_string(heard.path()).unwrap();
        assert_eq!(
            heard,
            "<3>ERROR the history is damaged\n<4> WARN away\n<4>for a while\n<6> INFO complete\n<7>DEBUG asked\n"
        );
    }
}
