//! Logged events, each on a line of its own. An event may hold a text from elsewhere: a message of the API server, of a webhook,
//! of a Git server. Nothing in it steers a terminal or looks like another event.

use std::io::{self, Write};

use super::terminal_line::clear_line;
use belay_core::manifest::is_hidden;
use tracing::Metadata;
use tracing_subscriber::fmt::MakeWriter;

/// Writes to another writer, each event on one line.
pub(super) struct LogWriter<W> {
    pub to: W,
    /// True where the events are coloured for a terminal.
    pub coloured: bool,
}

impl<'a, W: MakeWriter<'a>> MakeWriter<'a> for LogWriter<W> {
    type Writer = LogLine<W::Writer>;

    fn make_writer(&'a self) -> Self::Writer {
        LogLine { to: self.to.make_writer(), coloured: self.coloured }
    }

    fn make_writer_for(&'a self, event: &Metadata<'_>) -> Self::Writer {
        LogLine { to: self.to.make_writer_for(event), coloured: self.coloured }
    }
}

/// One event, which is written at once.
pub(super) struct LogLine<W> {
    to: W,
    coloured: bool,
}

impl<W: Write> Write for LogLine<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        clear_line();
        let text = String::from_utf8_lossy(bytes);
        let (line, end) = text.strip_suffix('\n').map_or((&*text, ""), |line| (line, "\n"));
        self.to.write_all(format!("{}{end}", in_one_line(line, self.coloured)).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// Returns a text without line breaks, and without characters that are not seen; colours stay where they are wanted.
fn in_one_line(text: &str, coloured: bool) -> String {
    let (mut line, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(next) = rest.chars().next() {
        if let Some(colour) = colour(rest).filter(|_| coloured) {
            line.push_str(&rest[..colour]);
            rest = &rest[colour..];
            continue;
        }
        match next {
            '\n' => line.push_str("\\n"),
            '\t' => line.push('\t'),
            hidden if is_hidden(hidden) => line.push('\u{fffd}'),
            seen => line.push(seen),
        }
        rest = &rest[next.len_utf8()..];
    }
    line
}

/// Returns the length of the sequence that sets a colour, if the text begins with one.
fn colour(text: &str) -> Option<usize> {
    let numbers = text.strip_prefix("\x1b[")?;
    let end = numbers.find(|c: char| !c.is_ascii_digit() && c != ';')?;
    numbers[end..].starts_with('m').then_some(2 + end + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_an_event_steers_a_terminal_or_begins_a_line() {
        let evil = "a\x1b[31mb\x1b]0;c\x07 \u{202e}d\u{200b}\r\n2026 INFO e\tf";
        let written = |coloured: bool| {
            let mut line = LogLine { to: Vec::new(), coloured };
            writeln!(line, "{evil}").unwrap();
            String::from_utf8(line.to).unwrap()
        };
        assert!(written(false).ends_with("\\n2026 INFO e\tf\n"), "{:?}", written(false));
        assert!(!written(false).contains(['\x1b', '\x07', '\r', '\u{202e}', '\u{200b}']), "{:?}", written(false));
        assert!(written(true).starts_with("a\x1b[31mb\u{fffd}]0;c"), "{:?}", written(true));
        assert_eq!(written(true).matches('\n').count(), 1);
    }
}
