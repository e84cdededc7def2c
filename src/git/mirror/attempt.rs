//! Notices that reading a repository has brought belay down: killed for its memory, or aborted.
//!
//! A file beside the mirror says that something new is being brought over or read, and how many attempts at that did not end
//! before. It is there before the attempt begins, and goes when the attempt ends, well or not. One that is found at a start
//! is of an attempt that ended with belay. A fetch that finds nothing new is no attempt: if belay is killed then, the
//! repository is not the cause.

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::path::PathBuf;
use std::time::Duration;

use tracing::{debug, warn};

use super::Mirror;
use super::damage::sync_folder;
use crate::backoff::Backoff;
use crate::git::error::{GitError, with_file};
use crate::regular_file::{make_own, read_own_text};

/// The rests before the first attempt after a start, by the number of attempts in a row that did not end.
const RESTS: Backoff = Backoff::between(Duration::from_secs(30), Duration::from_hours(2)).growing_by(4);

/// An attempt under way. It has ended when this is dropped.
pub struct Attempt<'m> {
    mirror: &'m Mirror,
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        let mut under_way = self.mirror.attempts_under_way();
        *under_way = under_way.saturating_sub(1);
        if *under_way > 0 {
            return;
        }
        let file = self.mirror.attempt_file();
        if self.mirror.folder.is_in_place()
            && let Err(error) = fs::remove_file(&file)
            && error.kind() != ErrorKind::NotFound
        {
            warn!(%error, file = %file.display(), "failed to note that the repository was read");
        }
    }
}

impl Mirror {
    /// Notes that something new is about to be brought over or read. An attempt within another one is part of it.
    ///
    /// If that can't be noted, it goes on: later writes report the obstacle.
    #[must_use]
    pub fn attempt(&self) -> Attempt<'_> {
        let mut under_way = self.attempts_under_way();
        if *under_way == 0
            && let Err(error) = self.note_attempt()
        {
            debug!(%error, "failed to note an attempt");
        }
        *under_way += 1;
        Attempt { mirror: self }
    }

    fn note_attempt(&self) -> Result<(), GitError> {
        self.make_folder()?;
        let file = self.attempt_file();
        let count = self.unended_attempts() + 1;
        let note = |file: &PathBuf| {
            let mut file = make_own(file)?;
            file.set_len(0)?;
            writeln!(file, "{count}")?;
            // A killed process leaves its file. Only if belay has ended before is more feared than that.
            if count > 1 { file.sync_all() } else { Ok(()) }
        };
        note(&file).map_err(with_file("write", &file))?;
        match file.parent().filter(|_| count > 1) {
            Some(folder) => sync_folder(folder),
            None => Ok(()),
        }
    }

    /// Returns how many attempts in a row did not end, because belay ended with them. To be asked before the next one
    /// begins.
    #[must_use]
    pub fn unended_attempts(&self) -> u32 {
        let Ok(text) = read_own_text(&self.attempt_file(), 64) else { return 0 };
        // A file that was cut off is one, too.
        text.trim().parse().unwrap_or(1)
    }

    /// Returns how long to leave the repository alone after so many attempts that did not end.
    #[must_use]
    pub fn rest_after(unended: u32) -> Duration {
        match unended {
            0 => Duration::ZERO,
            more => RESTS.wait_number(more - 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_grows_and_ends() {
        let minutes = |unended| Mirror::rest_after(unended).as_secs_f64() / 60.0;
        assert_eq!([minutes(0), minutes(1), minutes(2), minutes(3), minutes(9)], [0.0, 0.5, 2.0, 8.0, 120.0]);
        assert_eq!(Mirror::rest_after(u32::MAX), Duration::from_hours(2));
    }
}
