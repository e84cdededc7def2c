//! Every commit that a new record is charged with is in the history, with its subject and its author: also one that did not
//! come with the head, and one that was forgotten.

use std::collections::BTreeSet;

use jiff::Timestamp;
use tracing::warn;

use crate::blocking::blocking;
use crate::daemon::repository::head_change::HeadChange;
use crate::daemon::shared::context::Context;
use crate::git::GitError;
use crate::history::{HistoryEntry, HistoryError};
use belay_core::rollout::{Commit, CommitId, Record, RecordId, Step, StepKind};

impl Context {
    /// Records the rollouts that begin under a head, and the commits that are charged with them. It blocks.
    pub fn begin_records(
        &self,
        head: &CommitId,
        records: &[Record],
        now: Timestamp,
    ) -> Result<Vec<RecordId>, HistoryError> {
        let (history, source) = (&self.history, &self.config.name);
        self.write_owed()?;
        self.follow_the_clock();
        let unknown = self.charged_and_unknown(records)?;
        // Most often all are known, and a write less is a wait for the disk less.
        if !unknown.is_empty() {
            history.saw(source, head, &unknown, now)?;
        }
        history.begin(source, head, records, now)
    }

    /// Notes on the records of a head who let it through outside of the windows of its source. It blocks.
    pub fn note_let_through(&self, news: &HeadChange, ids: &[RecordId], at: Timestamp) -> Result<(), HistoryError> {
        let Some(by) = &news.let_through else { return Ok(()) };
        let detail = format!("let through outside of its windows by {by}");
        let notes =
            ids.iter().map(|id| HistoryEntry::Step(*id, Step { at, kind: StepKind::Note, detail: detail.clone() }));
        let notes: Vec<HistoryEntry> = notes.collect();
        self.history.enter(&notes)?.into_iter().collect()
    }

    /// Returns the commits of these records that the history does not know, as the mirror has them.
    fn charged_and_unknown(&self, records: &[Record]) -> Result<Vec<Commit>, HistoryError> {
        let charged: BTreeSet<&CommitId> = records.iter().map(|record| &record.commit).collect();
        let mut unknown = Vec::new();
        for id in charged {
            if self.history.commit(id)?.is_some() {
                continue;
            }
            match blocking(|| self.repository.mirror.commit(id)) {
                Ok(commit) => unknown.push(commit),
                // One of a manifest that was live before belay came: nobody has it.
                Err(GitError::NoCommit { .. }) => {}
                Err(error) => warn!(commit = id.short(), %error, "failed to read a commit that is charged"),
            }
        }
        Ok(unknown)
    }
}
