//! Reports of drift that is not corrected, or not for now.

use std::sync::Arc;

use super::state::Source;
use super::task_result::TaskResult;
use crate::cluster::Served;
use crate::daemon::live::reported::is_about_revisions;
use crate::daemon::publish::dispute::Dispute;
use crate::daemon::publish::obstacle::Obstacle;
use crate::history::HistoryEntry;
use belay_core::manifest::ObjectKey;
use belay_core::rollout::ForeignField;

impl Source {
    /// Says that an object differs by somebody else's hand, and is left so.
    pub fn report_drift(&mut self, key: &ObjectKey, served: Option<Served>, by: String, fields: &[ForeignField]) {
        let (message, note) = self.context.report_drift(key, by, fields);
        self.note_in_history(note);
        self.warn_on_object(key, served, "Drifted", message);
    }

    /// Says that an object is no longer reported as drifted, if it was.
    pub fn no_drift(&mut self, key: &ObjectKey) {
        let is_suspended = self.state.live().get(key).is_some_and(|facts| facts.suspended);
        if let Some(note) = self.context.no_drift(key, is_suspended) {
            self.note_in_history(note);
        }
    }

    /// Notes something in the history beside the loop, after what was noted before.
    fn note_in_history(&mut self, note: HistoryEntry) {
        let written = self.context.note(note);
        self.tasks.spawn(async move {
            written.await;
            TaskResult::Told
        });
    }

    /// Says that somebody else and belay disagree about an object, or that they no longer do.
    pub fn disagree(&mut self, key: &ObjectKey, dispute: Option<&Dispute>) {
        let message = self.context.disagree(key, dispute);
        self.watch_revisions(key, dispute);
        let Some(is_news) = message else { return };
        let served = self.watches.watched.serving_group(&key.group, &key.kind);
        self.warn_on_object(key, served, "Disagreement", is_news);
    }

    /// Says where the good revisions of a workload that somebody keeps changing are gone from the cluster.
    fn watch_revisions(&mut self, key: &ObjectKey, dispute: Option<&Dispute>) {
        let served = self.watches.watched.serving_group(&key.group, &key.kind);
        let is_in_danger = dispute.is_some_and(|dispute| is_about_revisions(key, dispute));
        let Some(served) = served.filter(|_| is_in_danger) else {
            return self.context.status.trouble(&Obstacle::Revisions(key.clone()), None);
        };
        let (context, key) = (Arc::clone(&self.context), key.clone());
        self.tasks.spawn(async move {
            context.watch_revisions(&key, &served).await;
            TaskResult::Told
        });
    }

    fn warn_on_object(&mut self, key: &ObjectKey, served: Option<Served>, reason: &'static str, message: String) {
        let Some(served) = served else { return };
        let (context, key) = (Arc::clone(&self.context), key.clone());
        self.tasks.spawn(async move {
            context.warn_on_object(&key, &served, reason, message).await;
            TaskResult::Told
        });
    }
}
