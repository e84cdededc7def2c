//! Drift that is not corrected, or not for now: shown in status, history and an Event, and withdrawn when it is gone.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tracing::warn;

use crate::cluster::{Backoff, EventKind, Served};
use crate::config::Drift;
use crate::daemon::publish::dispute::Dispute;
use crate::daemon::publish::obstacle::Obstacle;
use crate::daemon::publish::status::{SourceStatus, put_or_remove};
use crate::daemon::shared::context::Context;
use crate::history::{Drifted, HistoryEntry};
use belay_core::manifest::ObjectKey;
use belay_core::rollout::{ForeignField, ObjectState, Outcome, Reason, Record, Workload, marks};

/// The number of fields that a message names.
const NAMED: usize = 3;

impl Context {
    /// Says that an object is no longer reported as drifted, if it was. An object that was taken up again, and is as its manifest
    /// says, is no longer suspended, also if its last record says so. Returns the note for the history, if drift is noted.
    pub fn no_drift(&self, key: &ObjectKey, is_suspended: bool) -> Option<HistoryEntry> {
        self.status.trouble(&Obstacle::Drift(key.clone()), None);
        let ended = |source: &SourceStatus| source.ended.get(key).map(|one| one.state);
        if !is_suspended && self.status.read(ended).flatten() == Some(ObjectState::Suspended) {
            self.note_standing(key, None);
        }
        if self.config.drift != Drift::Report {
            return None;
        }
        Some(HistoryEntry::PutRight(self.config.name.clone(), key.clone()))
    }

    /// Says that an object differs by somebody else's hand, and is left so. Returns the report, and the note for the history.
    pub fn report_drift(&self, key: &ObjectKey, by: String, fields: &[ForeignField]) -> (String, HistoryEntry) {
        let what = if fields.is_empty() { by.clone() } else { format!("{by}: {}", paths(fields)) };
        let message = format!("differs from Git by somebody else's hand ({what}); left alone, as configured");
        self.status.trouble(&Obstacle::Drift(key.clone()), Some(message.clone()));
        let drifted = Drifted { object: key.clone(), by, since: self.clock.now() };
        (message, HistoryEntry::Drifted(self.config.name.clone(), drifted))
    }

    /// Reports that a change by somebody else can't be corrected, and why.
    pub fn say_not_corrected(&self, key: &ObjectKey, fields: &[ForeignField], reason: &Reason) {
        let what = if fields.is_empty() { String::new() } else { format!(" ({})", named(fields)) };
        let message = format!("differs from Git{what} and can't be put right: {reason}; belay tries again");
        warn!(object = %key, message, "drifted");
        self.status.trouble(&Obstacle::Drift(key.clone()), Some(message));
    }

    /// Sends a warning about a live object as an Event.
    pub async fn warn_on_object(&self, key: &ObjectKey, served: &Served, reason: &'static str, message: String) {
        let read = Backoff::until_answered(|_| {}, || self.cluster.get(key, served));
        if let Ok(Some(live)) = read.await {
            self.tell_at_once(key, &live, EventKind::Warning, reason, message).await;
        }
    }

    /// Says if the good revisions of a workload that somebody keeps changing are gone from the cluster.
    pub async fn watch_revisions(self: &Arc<Context>, key: &ObjectKey, served: &Served) {
        let lost = self.lost_revision(key, served).await;
        self.status.trouble(&Obstacle::Revisions(key.clone()), lost);
    }

    /// Returns the sentence about the last good revision before the present one, if the cluster does not keep it any
    /// more: each change of a pod template is a revision, and only so many are kept.
    async fn lost_revision(self: &Arc<Context>, key: &ObjectKey, served: &Served) -> Option<String> {
        let live = self.cluster.get(key, served).await.ok().flatten()?;
        let kept = self.cluster.revisions(key, &live).await.ok()?;
        let present = marks::annotation(&live, marks::COMMIT).map(str::to_owned);
        let (reader, object) = (Arc::clone(self), key.clone());
        let read = move || {
            let is_good = |record: &Record| record.rolls_out && record.outcome == Outcome::Complete;
            let records = reader.newest_records(&object).into_iter();
            records
                .filter(is_good)
                .map(|record| record.commit)
                .find(|commit| present.as_deref() != Some(commit.as_str()))
        };
        let good = self.repository.blocking_pool.run(read).await?;
        if kept.iter().any(|revision| revision.marks.commit.as_deref() == Some(good.as_str())) {
            return None;
        }
        let (short, kind) = (good.short(), key.kind.to_lowercase());
        // The present revision does not count.
        let limit = live.pointer("/spec/revisionHistoryLimit").and_then(Value::as_u64);
        let is_full = limit.is_some_and(|limit| u64::try_from(kept.len()).is_ok_and(|kept| kept > limit));
        let why = if is_full { ": so many changes have pushed it out of revisionHistoryLimit" } else { "" };
        let namespace = key.namespace.as_ref().map(|namespace| format!(" -n {namespace}")).unwrap_or_default();
        Some(format!(
            "the revision of {short} is gone{why}; belay still has its template: belay undo {kind}/{}{namespace} --to-commit \
             {short}",
            key.name
        ))
    }

    /// Publishes that somebody else and belay disagree about an object, or that they no longer do. Returns the report,
    /// if it is new.
    pub fn disagree(&self, key: &ObjectKey, dispute: Option<&Dispute>) -> Option<String> {
        let now = self.clock.now();
        self.disputes.note(key, dispute, now);
        self.status.change(|source| {
            let since = dispute.map(|dispute| since(dispute, now));
            put_or_remove(&mut source.obstacles.disputed_since, key, since)
        });
        let obstacle = Obstacle::Disagreement(key.clone());
        let known = self.status.read(|source| source.obstacles.trouble.contains_key(&obstacle)).unwrap_or_default();
        let message = dispute.map(|dispute| message(dispute, now));
        self.status.trouble(&obstacle, message.clone());
        let message = message.filter(|_| !known)?;
        warn!(object = %key, message, "belay waits longer before each correction");
        Some(message)
    }
}

/// Returns the sentence of a disagreement: who, about which fields, since when.
fn message(dispute: &Dispute, now: Timestamp) -> String {
    let since = since(dispute, now);
    let Dispute { fields, times, wait, .. } = dispute;
    let is_gone = fields.iter().all(|field| field.path.is_empty());
    let about = if is_gone { "its existence".to_owned() } else { paths(fields) };
    let by = managers(fields);
    let since = since.strftime("%Y-%m-%dT%H:%M:%SZ");
    format!(
        "{by} and belay disagree about {about} since {since}: put right {times} times, by now every {wait:?} at most"
    )
}

/// Returns true when somebody keeps changing the pod template of a workload that can go back.
pub fn is_about_revisions(key: &ObjectKey, dispute: &Dispute) -> bool {
    Workload::of(key).is_some_and(Workload::can_go_back)
        && dispute.fields.iter().any(|field| field.path.starts_with("spec.template"))
}

/// Returns the time since which a disagreement lasts.
fn since(dispute: &Dispute, now: Timestamp) -> Timestamp {
    let lasted = SignedDuration::try_from(dispute.lasted).unwrap_or_default();
    now.checked_sub(lasted).unwrap_or(now)
}

/// Returns the fields with who has changed them: `kubectl-set: spec.replicas`.
pub fn named(fields: &[ForeignField]) -> String {
    if fields.is_empty() {
        return String::new();
    }
    format!("{}: {}", managers(fields), paths(fields))
}

fn managers(fields: &[ForeignField]) -> String {
    let mut names: Vec<&str> = fields.iter().map(|field| field.manager.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    names.join(", ")
}

fn paths(fields: &[ForeignField]) -> String {
    let mut names: Vec<&str> = fields.iter().map(|field| field.path.as_str()).filter(|path| !path.is_empty()).collect();
    names.sort_unstable();
    names.dedup();
    let more = names.len().saturating_sub(NAMED);
    names.truncate(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", names.join(", "))
}
