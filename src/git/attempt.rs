//! Notices that reading a repository has brought belay down: killed for its memory, or aborted.
//!
//! A file beside the mirror says that an attempt to fetch and read is under way, and how many before it did not end. It is
//! there before the attempt begins, and goes when the attempt ends, well or not. One that is found at a start is of
//! an attempt that ended with belay.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use super::damage::sync_folder;
use super::error::{GitError, with_file};
use super::mirror::Mirror;

/// How long the first attempt waits after a start, when one did not end.
const FIRST: Duration = Duration::from_secs(30);
/// The longest that it waits.
const LONGEST: Duration = Duration::from_hours(2);

/// An attempt under way. It has ended when this is dropped.
pub struct Attempt {
    file: PathBuf,
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.file) {
            tracing::warn!(%error, file = %self.file.display(), "failed to note that the repository was read");
        }
    }
}

impl Mirror {
    /// Notes that the repository is about to be fetched and read.
    ///
    /// # Errors
    ///
    /// When the mirror's folder can't be written.
    pub fn attempt(&self) -> Result<Attempt, GitError> {
        let file = self.attempt_file();
        let count = self.unended_attempts() + 1;
        let folder = file.parent().map_or_else(PathBuf::new, PathBuf::from);
        let note = |file: &PathBuf| {
            let mut file = File::create(file)?;
            writeln!(file, "{count}")?;
            // A process that is killed leaves what it wrote. Only where belay has ended before is more feared than that.
            if count > 1 { file.sync_all() } else { Ok(()) }
        };
        note(&file).map_err(with_file("write", &file))?;
        if count > 1 {
            sync_folder(&folder)?;
        }
        Ok(Attempt { file })
    }

    /// How many attempts in a row did not end, because belay ended with them. To be asked before the next one begins.
    #[must_use]
    pub fn unended_attempts(&self) -> u32 {
        let Ok(text) = fs::read_to_string(self.attempt_file()) else { return 0 };
        // A file that was cut off is one, too.
        text.trim().parse().unwrap_or(1)
    }

    /// How long to leave the repository alone after so many attempts that did not end.
    #[must_use]
    pub fn rest_after(unended: u32) -> Duration {
        match unended {
            0 => Duration::ZERO,
            more => FIRST.saturating_mul(4_u32.saturating_pow(more - 1)).min(LONGEST),
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
        assert_eq!(Mirror::rest_after(u32::MAX), LONGEST);
    }
}
