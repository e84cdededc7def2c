//! The start of a source: its plans and rollouts from before belay stopped.

use std::collections::BTreeMap;

use tracing::{error, warn};

use super::state::{Event, Source, WorkBeforeRestart};
use crate::config::Drift;
use crate::daemon::publish::status::set;
use crate::daemon::repository::quarantine::quarantined;
use crate::git::Mirror;
use crate::history::HistoryEntry;
use belay_core::manifest::ObjectKey;
use belay_core::rollout::Record;

impl Source {
    /// Resumes planned and unfinished rollouts at the start.
    pub fn resume_open(&mut self) {
        self.note_what_is_followed(None);
        let source = &self.context.config.name;
        let heads = self.context.history.heads(source).unwrap_or_else(|error| {
            warn!(%error, "failed to ask the history where it was");
            Default::default()
        });
        let planned = heads.recorded.filter(|head| self.fetching.repository.mirror.commit(head).is_ok());
        // Until a head is read, the last one is shown that was planned.
        let shown = planned.clone();
        self.context.status.change(|source| shown.is_some() && set(&mut source.head, shown));
        if self.context.config.drift != Drift::Report {
            let drifts = self.context.history.drifts(source).unwrap_or_default().into_iter();
            let over: Vec<_> = drifts.map(|one| HistoryEntry::PutRight(source.clone(), one.object)).collect();
            if !over.is_empty()
                && let Err(error) = self.context.history.enter(&over)
            {
                warn!(%error, "failed to forget what had drifted while that was only reported");
            }
        }
        let open = self.context.history.open_records(source).unwrap_or_else(|error| {
            warn!(%error, "failed to ask the history what was under way");
            Vec::new()
        });
        let mut records: BTreeMap<ObjectKey, Record> = BTreeMap::new();
        for record in open {
            if let Some(older) = records.insert(record.object.clone(), record) {
                self.supersede(older.id, planned.as_ref());
            }
        }
        let missing = self.context.resume_standings(self.state.desired());
        let disputes = self.context.disputes.all().into_iter().collect();
        let before = Box::new(WorkBeforeRestart { planned, records, missing, disputes });
        self.on(Event::Resumed { before, at: self.context.clock.now() });
    }

    /// Leaves the repository alone for a while where belay ended while it read it, and says so.
    pub fn wait_after_crashes(&mut self) {
        let unended = self.fetching.repository.mirror.unended_attempts();
        if unended == 0 {
            return;
        }
        let rest = Mirror::rest_after(unended);
        let message = quarantined(unended, rest);
        error!(source = self.context.config.name, message);
        self.on(Event::Rests { rest, message, at: self.context.clock.now() });
    }
}
