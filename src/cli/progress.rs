//! What is going on: one line that is redrawn on a terminal, a line for each change in a pipe.

use std::io::{IsTerminal as _, Write as _};

use super::output::say;

/// A line that changes.
#[derive(Default)]
pub(super) struct Progress {
    shown: String,
}

impl Progress {
    /// Shows how far it is; does nothing where that is shown already.
    pub(super) fn show(&mut self, line: &str) {
        if self.shown == line {
            return;
        }
        line.clone_into(&mut self.shown);
        if on_terminal() {
            // Back to the beginning of the line, and clear it.
            let mut out = std::io::stdout().lock();
            // Nobody is left to be told if standard output is gone.
            let _ = write!(out, "\r\x1b[K{line}").and_then(|()| out.flush());
        } else {
            say(line);
        }
    }

    /// Ends the line with what became of it.
    pub(super) fn done(&mut self, line: &str) {
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
