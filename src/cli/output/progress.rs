//! The progress: one line that is redrawn on a terminal, a line for each change in a pipe.

use std::io::{IsTerminal as _, Write as _};

use super::{for_output, say, terminal_height};

/// A line that changes.
#[derive(Default)]
pub(in crate::cli) struct Progress {
    shown: String,
}

impl Progress {
    /// Shows how far it is; does nothing if that is shown already.
    pub(in crate::cli) fn show(&mut self, line: &str) {
        if self.shown == line {
            return;
        }
        line.clone_into(&mut self.shown);
        if on_terminal() {
            // Back to the beginning of the line, and clear it.
            let mut out = std::io::stdout().lock();
            // Nobody is left to be told if standard output is gone.
            let _ = write!(out, "\r\x1b[K{}", for_output(line, true)).and_then(|()| out.flush());
        } else {
            say(line);
        }
    }

    /// Ends the line with its result.
    pub(in crate::cli) fn done(&mut self, line: &str) {
        if on_terminal() {
            let mut out = std::io::stdout().lock();
            let _ = write!(out, "\r\x1b[K").and_then(|()| out.flush());
        }
        self.shown.clear();
        say(line);
    }
}

fn on_terminal() -> bool {
    std::io::stdout().is_terminal()
}

/// Lines that are drawn over each other.
#[derive(Default)]
pub(in crate::cli) struct Screen {
    drawn: usize,
}

impl Screen {
    /// Returns true when there is a terminal to draw on.
    pub(in crate::cli) fn is_there() -> bool {
        on_terminal()
    }

    /// Draws these lines over those before.
    pub(in crate::cli) fn show(&mut self, lines: &[String]) {
        if self.drawn > 0 {
            // Up to the first of them, and clear from there on.
            let mut out = std::io::stdout().lock();
            // Nobody is left to be told if standard output is gone.
            let _ = write!(out, "\x1b[{}A\x1b[J", self.drawn).and_then(|()| out.flush());
        }
        // Lines that have scrolled away can't be drawn over.
        let room = terminal_height().saturating_sub(1).max(1);
        let shown = if lines.len() > room { room - 1 } else { lines.len() };
        lines.iter().take(shown).for_each(say);
        self.drawn = shown;
        if shown < lines.len() {
            say(format!("… and {} more lines; a larger window, or -l, shows them", lines.len() - shown));
            self.drawn += 1;
        }
    }
}
