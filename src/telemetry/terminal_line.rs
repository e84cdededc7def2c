//! A line about work under way, the last one of the terminal that standard error goes to. It goes away before anything else
//! is printed.

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};

/// True while there is such a line.
static DRAWN: AtomicBool = AtomicBool::new(false);

/// Returns true when there is a terminal to draw on.
#[must_use]
pub fn can_draw_line() -> bool {
    io::stderr().is_terminal()
}

/// Draws the line over the one before. It must be narrower than the terminal, and without characters that steer it.
pub fn draw_line(line: &str) {
    let mut err = io::stderr().lock();
    // Nobody is left to be told if standard error is gone.
    let _ = write!(err, "\r\x1b[K{line}").and_then(|()| err.flush());
    DRAWN.store(true, Ordering::Relaxed);
}

/// Takes the line away, if there is one.
pub fn clear_line() {
    if DRAWN.swap(false, Ordering::Relaxed) {
        let mut err = io::stderr().lock();
        let _ = write!(err, "\r\x1b[K").and_then(|()| err.flush());
    }
}
