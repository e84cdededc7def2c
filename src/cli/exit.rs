//! The exit codes of belay, on which scripts rely.

use std::process::ExitCode;

/// The end of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It succeeded.
    Done,
    /// It could not; standard error says why.
    Error,
    /// It was not understood.
    Usage,
    /// The answer is "failed", or "differs".
    No,
    /// It took too long.
    TimedOut,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(match exit {
            Exit::Done => 0,
            Exit::Error => 1,
            Exit::Usage => 2,
            Exit::No => 3,
            Exit::TimedOut => 4,
        })
    }
}
