//! Reads the history for an answer: beside the daemon, by a reader of its own, a few at once, and not for ever.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

use super::problem::Problem;
use crate::history::{History, HistoryError, HistoryLocation};

/// The number of answers that may read the history at once. SQLite reads are short; more would only wait for the disk
/// together.
const AT_ONCE: usize = 4;
/// The longest time that an answer may wait for its turn and read.
const READ_TIMEOUT: Duration = Duration::from_secs(20);

/// The history, for reading. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct HistoryReader {
    location: HistoryLocation,
    room: Arc<Semaphore>,
}

impl HistoryReader {
    pub(super) fn new(location: HistoryLocation) -> HistoryReader {
        HistoryReader { location, room: Arc::new(Semaphore::new(AT_ONCE)) }
    }

    /// Asks the history, beside the runtime's threads. It is opened each time: the daemon may have begun a fresh one.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&History) -> Result<T, HistoryError> + Send + 'static,
    ) -> Result<T, Problem> {
        let asked = async {
            let turn = Arc::clone(&self.room).acquire_owned().await;
            let location = self.location.clone();
            tokio::task::spawn_blocking(move || {
                // Kept until it is read, also if nobody waits for it any more.
                let _turn = turn;
                question(&location.read()?)
            })
            .await
        };
        match tokio::time::timeout(READ_TIMEOUT, asked).await {
            Ok(Ok(Ok(answer))) => Ok(answer),
            Ok(Ok(Err(error))) => Err(Problem::Unavailable(error.to_string())),
            Ok(Err(error)) => Err(Problem::Unavailable(format!("belay's own fault: {error}"))),
            Err(_) => Err(Problem::Unavailable(format!("the history did not answer within {READ_TIMEOUT:?}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_waits_for_a_turn_hears_that_it_takes_too_long() {
        let folder = tempfile::tempdir().unwrap();
        drop(History::open(folder.path(), jiff::Timestamp::UNIX_EPOCH).unwrap());
        let history = HistoryReader::new(HistoryLocation::in_folder(folder.path()));
        let turns = Arc::clone(&history.room).acquire_many_owned(u32::try_from(AT_ONCE).unwrap()).await.unwrap();
        let began = tokio::time::Instant::now();
        let Err(Problem::Unavailable(why)) = history.ask(|_| Ok(())).await else { panic!("all turns are taken") };
        assert!(why.contains("20s") && began.elapsed() >= READ_TIMEOUT, "{why}");
        drop(turns);
        assert!(history.ask(|_| Ok(())).await.is_ok());
    }
}
