//! A head that exceeds belay's limits: the error is reported, and the head is not read again at every fetch.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::git::GitError;
use belay_core::rollout::CommitId;

/// The time after which such a head is read again: memory that others took may be free by then.
const AGAIN: Duration = Duration::from_mins(10);

/// The input for reading a head: the head itself, the commit that was planned last, and the commit whose state is
/// known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeadRead {
    pub head: CommitId,
    pub planned: Option<CommitId>,
    pub known: Option<CommitId>,
}

/// The head that was found to be beyond the limits, if the last one was.
#[derive(Clone, Debug, Default)]
pub struct HeadBeyondLimits(Arc<Mutex<Option<FoundBeyond>>>);

#[derive(Debug)]
struct FoundBeyond {
    read: HeadRead,
    error: GitError,
    until: Instant,
}

impl HeadBeyondLimits {
    fn found(&self) -> MutexGuard<'_, Option<FoundBeyond>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads a head, unless it was found to be beyond the limits a short while ago.
    pub fn unless_beyond<T>(&self, read: HeadRead, work: impl FnOnce() -> Result<T, GitError>) -> Result<T, GitError> {
        let known = self.found().take().filter(|found| found.read == read && Instant::now() < found.until);
        if let Some(found) = known
            && let Some(error) = found.error.of_limits()
        {
            *self.found() = Some(found);
            return Err(error);
        }
        let done = work();
        if let Some(error) = done.as_ref().err().and_then(GitError::of_limits) {
            *self.found() = Some(FoundBeyond { read, error, until: Instant::now() + AGAIN });
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(head: char) -> HeadRead {
        let commit = |digit: char| -> CommitId { digit.to_string().repeat(40).parse().unwrap() };
        HeadRead { head: commit(head), planned: Some(commit('0')), known: None }
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_beyond_the_limits_is_read_once_in_a_while() {
        let beyond = HeadBeyondLimits::default();
        let mut reads = 0;
        let mut look = |head: char, fails: bool| {
            let work = || {
                reads += 1;
                let error = || GitError::TooLarge { what: "it".to_owned(), size: 2, limit: 1 };
                if fails { Err(error()) } else { Ok(()) }
            };
            let done = beyond.unless_beyond(read(head), work).map_err(|error| error.to_string());
            (done, reads)
        };
        let told = Err("it has 2 bytes; the limit is 1".to_owned());
        assert_eq!(look('a', true), (told.clone(), 1));
        assert_eq!(look('a', true), (told.clone(), 1), "the same is told, and nothing is read");
        assert_eq!(look('b', false), (Ok(()), 2), "another head is");
        assert_eq!(look('a', true), (told.clone(), 3));
        tokio::time::advance(AGAIN).await;
        assert_eq!(look('a', true), (told, 4));
    }

    #[tokio::test(start_paused = true)]
    async fn what_may_pass_is_tried_at_every_look() {
        let beyond = HeadBeyondLimits::default();
        for _ in 0..2 {
            let mut ran = false;
            let error = beyond.unless_beyond(read('a'), || {
                ran = true;
                Err::<(), _>(GitError::Cancelled)
            });
            assert!(ran && error.is_err());
        }
    }
}
