//! Writes of many tasks at the same moment, which are one transaction; and the notes of the loop, in the order in which it made them.

use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tracing::{error, warn};

use crate::backoff::Backoff;
use crate::daemon::publish::obstacle::Obstacle;
use crate::daemon::shared::context::Context;
use crate::daemon::shared::journal_queue::{JournalWrite, ToWrite};
use crate::history::HistoryEntry;

/// The waits between two tries to write.
pub(super) const WAITS: Backoff = Backoff::between(Duration::from_millis(100), Duration::from_secs(30));

impl Context {
    /// Writes into the history until it is written. An entry that can never be written is belay's own fault: it is
    /// logged.
    pub(super) async fn remember(&self, entries: Vec<HistoryEntry>) {
        let mut waits = WAITS;
        loop {
            match self.write_with_others(entries.clone()).await {
                Ok(refused) => {
                    self.status.trouble(&Obstacle::History, None);
                    for wrong in refused {
                        error!(error = %wrong, "belay's own fault: the history refuses a step");
                    }
                    return;
                }
                Err(trouble) => {
                    warn!(error = %trouble, "failed to write the history, trying again");
                    self.status.trouble(&Obstacle::History, Some(trouble.to_string()));
                    if self.mend(&trouble) {
                        // The record went with the file: its rollout is taken up again.
                        return;
                    }
                }
            }
            tokio::time::sleep(waits.wait()).await;
        }
    }

    /// Writes in one transaction with all others that have something to write at this moment. Returns the refused
    /// entries.
    async fn write_with_others(&self, entries: Vec<HistoryEntry>) -> JournalWrite {
        let (told, mut outcome) = oneshot::channel();
        self.to_write().push((entries, told));
        // Other writers queue their entries in between. The first writer that resumes writes for all.
        tokio::task::yield_now().await;
        if let Ok(written) = outcome.try_recv() {
            return written;
        }
        let all = std::mem::take(&mut *self.to_write());
        self.write_all(all);
        outcome.await.expect("whoever takes it out of the list tells it")
    }

    fn write_all(&self, all: Vec<ToWrite>) {
        // Entries that nobody waits for any more were cancelled before they were written.
        let all: Vec<ToWrite> = all.into_iter().filter(|(_, told)| !told.is_closed()).collect();
        if all.is_empty() {
            return;
        }
        self.follow_the_clock();
        let written = self.history.enter(all.iter().flat_map(|(entries, _)| entries)).map_err(Arc::new);
        if written.is_ok() {
            self.holds.write_unwritten();
        }
        let mut results = written.map(Vec::into_iter);
        for (entries, told) in all {
            let of_these = match &mut results {
                Ok(results) => Ok(results.by_ref().take(entries.len()).filter_map(Result::err).collect()),
                Err(trouble) => Err(Arc::clone(trouble)),
            };
            // It was broken off just now.
            drop(told.send(of_these));
        }
    }

    /// Queues a note of the loop. The returned work writes it, with those queued before. A note that can't be written is logged,
    /// and not tried again: a later note about the same object would be overtaken.
    pub fn note(self: &Arc<Context>, note: HistoryEntry) -> impl Future<Output = ()> + Send + use<> {
        self.notes().push(note);
        let context = Arc::clone(self);
        async move {
            // The task that takes notes writes them before another writes later ones.
            let _turn = context.journal.turn_of_notes.lock().await;
            let notes = std::mem::take(&mut *context.notes());
            if notes.is_empty() {
                return;
            }
            match context.history.enter(&notes) {
                Ok(written) => {
                    written.iter().filter_map(|one| one.as_ref().err()).for_each(|error| {
                        warn!(%error, "the history refuses a note");
                    });
                }
                Err(error) => warn!(%error, "failed to write down a note"),
            }
        }
    }

    fn notes(&self) -> MutexGuard<'_, Vec<HistoryEntry>> {
        self.journal.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn to_write(&self) -> MutexGuard<'_, Vec<ToWrite>> {
        self.journal.to_write.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
