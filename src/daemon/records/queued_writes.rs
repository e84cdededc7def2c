//! Writes of many tasks at the same moment, which are one transaction, in the order in which they were queued.

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
        self.to_write().push(ToWrite { entries, told: Some(told) });
        // Other writers queue their entries in between. The first writer that resumes writes for all.
        tokio::task::yield_now().await;
        let written = tokio::select! {
            biased;
            written = &mut outcome => written,
            () = self.write_queued() => outcome.await,
        };
        written.expect("whoever takes it out of the list tells it")
    }

    /// Queues a note behind all entries that wait to be written: the next who writes takes it with him, in this order. The
    /// returned work does so if nobody else has. A note that can't be written is logged, and not tried again: a later note
    /// about the same object would be overtaken.
    pub fn note(self: &Arc<Context>, note: HistoryEntry) -> impl Future<Output = ()> + Send + use<> {
        self.to_write().push(ToWrite { entries: vec![note], told: None });
        let context = Arc::clone(self);
        async move {
            tokio::task::yield_now().await;
            context.write_queued().await;
        }
    }

    /// Writes what is queued. One writer takes all of it and writes it before anybody writes later entries; the others wait for
    /// their turn as tasks, not on threads of their own.
    async fn write_queued(&self) {
        let _turn = self.journal.turn.lock().await;
        // Entries that nobody waits for any more were cancelled before they were written.
        let is_wanted = |queued: &ToWrite| !queued.told.as_ref().is_some_and(oneshot::Sender::is_closed);
        let all: Vec<ToWrite> = std::mem::take(&mut *self.to_write()).into_iter().filter(is_wanted).collect();
        if all.is_empty() {
            return;
        }
        self.follow_the_clock();
        let written = self.history.enter(all.iter().flat_map(|queued| &queued.entries)).map_err(Arc::new);
        if written.is_ok() {
            self.holds.write_unwritten();
        }
        let mut results = written.map(Vec::into_iter);
        for ToWrite { entries, told } in all {
            let of_these: JournalWrite = match &mut results {
                Ok(results) => Ok(results.by_ref().take(entries.len()).filter_map(Result::err).collect()),
                Err(trouble) => Err(Arc::clone(trouble)),
            };
            match (told, of_these) {
                // It was broken off just now.
                (Some(told), of_these) => drop(told.send(of_these)),
                (None, Ok(refused)) => refused.iter().for_each(|error| warn!(%error, "the history refuses a note")),
                (None, Err(error)) => warn!(%error, "failed to write down a note"),
            }
        }
    }

    fn to_write(&self) -> MutexGuard<'_, Vec<ToWrite>> {
        self.journal.to_write.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
