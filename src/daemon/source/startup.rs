//! The start of a source: its plans and rollouts from before belay stopped.

use std::collections::BTreeMap;

use jiff::Timestamp;
use tokio::time::Instant;
use tracing::{error, warn};

use super::state::{RetryCause, Source, in_the_way};
use crate::config::Drift;
use crate::daemon::publish::noted_disputes::time_between;
use crate::daemon::publish::status::set;
use crate::daemon::repository::quarantine::quarantined;
use crate::git::Mirror;
use crate::history::HistoryEntry;
use belay_core::manifest::ObjectKey;
use belay_core::rollout::Record;

impl Source {
    /// Resumes planned and unfinished rollouts at the start.
    pub fn resume_open(&mut self) {
        self.note_what_is_followed();
        let source = &self.context.config.name;
        match self.context.history.heads(source) {
            Ok(heads) => {
                self.state.planning.planned =
                    heads.recorded.filter(|head| self.fetching.repository.mirror.commit(head).is_ok())
            }
            Err(error) => warn!(%error, "failed to ask the history where it was"),
        }
        // Until a head is read, the last one is shown that was planned.
        let planned = self.state.planning.planned.clone();
        self.context.status.change(|source| planned.is_some() && set(&mut source.head, planned));
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
        let mut newest: BTreeMap<ObjectKey, Record> = BTreeMap::new();
        for record in open {
            if let Some(older) = newest.insert(record.object.clone(), record) {
                let planned = self.state.planning.planned.clone();
                self.supersede(older.id, planned.as_ref());
            }
        }
        self.state.rollouts.resumed = newest;
        for key in self.context.resume_standings(&self.state.desired) {
            // No watch tells of an object whose kind is missing.
            self.state.retries.put_off(&key, RetryCause::Refused, Instant::now());
        }
        self.resume_disputes();
    }

    /// Takes up the disagreements from before the daemon stopped, and publishes them.
    pub fn resume_disputes(&mut self) {
        let (at, now) = (self.context.clock.now(), Instant::now());
        let then = |time: Timestamp| now.checked_sub(time_between(time, at)).unwrap_or(now);
        for (key, noted) in self.context.disputes.all() {
            self.state.drift.disputes.resume(&key, &noted, then);
            let dispute = self.state.drift.disputes.about(&key, now);
            self.context.disagree(&key, dispute.as_ref());
            if let Some(quiet_at) = self.state.drift.disputes.quiet_at(&key).filter(|_| dispute.is_some()) {
                self.state.drift.later.insert(key, quiet_at);
            }
        }
    }

    /// Leaves the repository alone for a while where belay ended while it read it, and says so.
    pub fn wait_after_crashes(&mut self) {
        let unended = self.fetching.repository.mirror.unended_attempts();
        if unended == 0 {
            return;
        }
        let rest = Mirror::rest_after(unended);
        self.state.fetch.rest(Instant::now() + rest);
        let message = quarantined(unended, rest);
        error!(source = self.context.config.name, message);
        let effect = in_the_way(&mut self.state, Some(message), self.context.clock.now());
        self.perform(effect);
    }
}
