//! The daemon's writes into the history, step by step. A step that can't be written is tried again, for an unrecorded
//! step must not be taken.

use std::sync::{MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tracing::{error, warn};

use super::queued_writes::WAITS;
use crate::daemon::publish::obstacle::Obstacle;
use crate::daemon::shared::context::Context;
use crate::history::{
    HistoryEntry, HistoryError, JudgedBake, JudgedBaseline, JudgedWrite, KeptTemplate, LastGood, Query, Update,
};
use belay_core::manifest::{Complaint, ObjectKey};
use belay_core::rollout::analysis::Measurement;
use belay_core::rollout::{
    Baseline, CommitId, Evidence, Known, Outcome, Reason, Record, RecordId, Recorded, Step, StepKind, TemplateMarks,
    Trigger, Wanted, Workload, marks, template, template_hash,
};

/// A clock that differs by less was not set: it is put right a little at a time.
const CLOCK_SET: SignedDuration = SignedDuration::from_secs(2);

impl Context {
    /// Writes a step.
    pub async fn step(&self, record: RecordId, kind: StepKind, detail: &str) {
        let step = self.now(kind, detail);
        self.remember(vec![HistoryEntry::Step(record, step)]).await;
    }

    fn now(&self, kind: StepKind, detail: &str) -> Step {
        Step { at: self.clock.now(), kind, detail: detail.to_owned() }
    }

    /// Records the revision that the cluster has given to the new template.
    pub async fn revised(&self, record: RecordId, live: &Value) {
        let update = Update { revision: marks::revision(live), ..Update::default() };
        self.remember(vec![HistoryEntry::Update(record, Box::new(update))]).await;
    }

    /// Records that it can't be applied yet, and its dependencies.
    pub async fn waits(&self, record: RecordId, message: &str) {
        let steps = vec![self.now(StepKind::Waiting, message)];
        let update = Update { outcome: Some(Outcome::Waiting), steps, ..Update::default() };
        self.remember(vec![HistoryEntry::Update(record, Box::new(update))]).await;
    }

    /// Records that the API server has the manifest: judging starts from here, also after a restart.
    /// A record that was planned as waiting shows only now that it rolls out.
    pub async fn applied(&self, record: RecordId, rolls_out: bool, baseline: &Baseline) {
        let (outcome, rolls_out) = (Some(Outcome::UnderWay), rolls_out.then_some(true));
        let update = Update { outcome, rolls_out, ..self.written(JudgedWrite::Applied, baseline) };
        self.remember(vec![HistoryEntry::Update(record, Box::new(update))]).await;
    }

    /// Records that a write's rollout, or a step of its canary, is watched for its time.
    pub async fn begin_bake(&self, record: RecordId, bake: JudgedBake, outcome: Option<Outcome>, detail: &str) {
        let unseen = if bake.start.restarts.is_none() { "; its pods can't be seen" } else { "" };
        let steps = vec![self.now(StepKind::Baking, &format!("{detail}{unseen}"))];
        let update = Update { outcome, bake: Some(bake), steps, ..Update::default() };
        self.remember(vec![HistoryEntry::Update(record, Box::new(update))]).await;
    }

    /// Records, before the write, that a canary begins or goes on. The time for which the step before was watched is forgotten
    /// with its baseline.
    pub async fn canary_goes_on(&self, record: RecordId, baseline: Option<Baseline>, detail: &str) {
        let step = self.now(StepKind::Canary, detail);
        let baseline = baseline.map(|baseline| JudgedBaseline { of: JudgedWrite::Applied, at: step.at, baseline });
        let update = Update { baseline, steps: vec![step], ..Update::default() };
        self.remember(vec![HistoryEntry::Update(record, Box::new(update))]).await;
    }

    /// Records what an analysis has measured.
    pub async fn measured(&self, record: RecordId, measurement: Measurement) {
        self.remember(vec![HistoryEntry::Measured(record, Box::new(measurement))]).await;
    }

    /// Records that pods are replaced for the manifest, which is applied when they are.
    pub async fn rolls(&self, record: RecordId, detail: &str) {
        let steps = vec![self.now(StepKind::Applying, detail)];
        let update = Update { outcome: Some(Outcome::UnderWay), steps, ..Update::default() };
        self.remember(vec![HistoryEntry::Update(record, Box::new(update))]).await;
    }

    /// Records the verdict, and the evidence.
    pub async fn save_evidence(&self, record: RecordId, reason: &Reason, evidence: &Evidence) {
        let kept = format!("pods: {}, events: {}", evidence.pods.len(), evidence.events.len());
        let steps = vec![self.now(StepKind::Verdict, &reason.message), self.now(StepKind::Evidence, &kept)];
        let (reason, evidence) = (Some(reason.clone()), Some(evidence.clone()));
        let update = Update { reason, evidence, steps, ..Update::default() };
        self.remember(vec![HistoryEntry::Update(record, Box::new(update))]).await;
    }

    /// Records that a rollback is about to begin.
    pub async fn going_back(
        &self,
        record: RecordId,
        reason: &Reason,
        back_to: Option<&CommitId>,
        back_to_revision: Option<i64>,
        to: &str,
    ) {
        let update = Update {
            outcome: Some(Outcome::RollingBack),
            reason: Some(reason.clone()),
            back_to: back_to.cloned(),
            back_to_revision,
            steps: vec![self.now(StepKind::GoingBack, to)],
            ..Update::default()
        };
        self.remember(vec![HistoryEntry::Update(record, Box::new(update))]).await;
    }

    /// Records that the API server has the earlier template, and the hold.
    pub async fn went_back(&self, record: RecordId, baseline: &Baseline) {
        self.remember(vec![HistoryEntry::Update(record, Box::new(self.written(JudgedWrite::WentBack, baseline)))])
            .await;
    }

    /// Returns a write, and from where the rollout that it began is judged.
    fn written(&self, of: JudgedWrite, baseline: &Baseline) -> Update {
        let step = self.now(of.step(), &format!("as generation {}", baseline.generation));
        let baseline = JudgedBaseline { of, at: step.at, baseline: baseline.clone() };
        Update { baseline: Some(baseline), steps: vec![step], ..Update::default() }
    }

    /// Records the end.
    pub async fn end(&self, record: RecordId, outcome: Outcome, reason: Option<&Reason>) {
        let at = self.clock.now();
        self.remember(vec![HistoryEntry::End(record, outcome, reason.cloned(), at)]).await;
    }

    /// Records that a seeming drift was an undo by hand.
    pub async fn was_undone(&self, record: RecordId, by: &str) {
        let update = Update { trigger: Some(Trigger::UndoByHand(by.to_owned())), ..Update::default() };
        self.remember(vec![HistoryEntry::Update(record, Box::new(update))]).await;
    }

    /// Complaints of the API server about a manifest that it refused when it was applied.
    pub async fn complain(&self, record: RecordId, complaints: Vec<Complaint>) {
        let update = Update { complaints: Some(complaints), ..Update::default() };
        self.remember(vec![HistoryEntry::Update(record, Box::new(update))]).await;
    }

    /// Records the end of a complete rollout: its revision, and its template, to go back to also past its history
    /// limit.
    /// The object itself is not kept until it is written.
    pub fn complete(&self, record: RecordId, wanted: &Wanted, live: &Value) -> impl Future<Output = ()> + use<'_> {
        let at = self.clock.now();
        let update = Update { revision: marks::revision(live), ..Update::default() };
        let mut entries: Vec<HistoryEntry> = self.good(wanted, live, at).map(HistoryEntry::Kept).into_iter().collect();
        entries.extend([
            HistoryEntry::Update(record, Box::new(update)),
            HistoryEntry::End(record, Outcome::Complete, None, at),
        ]);
        self.remember(entries)
    }

    fn good(&self, wanted: &Wanted, live: &Value, at: Timestamp) -> Option<KeptTemplate> {
        let template = template(live).filter(|_| Workload::of(&wanted.key).is_some_and(Workload::can_go_back))?;
        let kept = KeptTemplate::of(&self.config.name, &wanted.key, &wanted.commit.id, template, at);
        // Without it belay goes back to a revision that the cluster keeps; that is no reason to stop.
        kept.inspect_err(|error| warn!(object = %wanted.key, %error, "failed to keep the template")).ok()
    }

    /// Returns the newest record of an object, as far as the history knows.
    pub fn newest_record(&self, key: &ObjectKey) -> Option<Record> {
        self.history.newest(&self.config.name, key).unwrap_or_else(|error| {
            warn!(object = %key, %error, "failed to read its newest record; going on as if there were none");
            None
        })
    }

    /// Returns true when an object was applied, and not deleted since, as far as the history knows.
    pub fn was_applied(&self, key: &ObjectKey) -> bool {
        use Outcome::{Planned, Pruned, Rejected, Skipped, Superseded, Waiting};
        let decisive = |outcome: &Outcome| !matches!(outcome, Planned | Rejected | Skipped | Superseded | Waiting);
        self.newest_records(key)
            .iter()
            .map(|record| record.outcome)
            .find(decisive)
            .is_some_and(|outcome| outcome != Pruned)
    }

    /// Returns the newest record of a workload whose pod template changed.
    pub fn newest_rollout(&self, key: &ObjectKey) -> Option<Record> {
        let applied = |record: &Record| {
            !matches!(record.outcome, Outcome::Rejected | Outcome::Held | Outcome::Planned | Outcome::Waiting)
        };
        self.newest_records(key).into_iter().find(|record| record.rolls_out && record.object == *key && applied(record))
    }

    /// Returns the newest records of an object, the newest first.
    pub fn newest_records(&self, key: &ObjectKey) -> Vec<Record> {
        /// The number of records that are searched.
        const RECORDS: u32 = 50;
        let query = Query { limit: Some(RECORDS), ..Query::of(&self.config.name, key) };
        self.history.records(&query).unwrap_or_else(|error| {
            warn!(object = %key, %error, "failed to read its newest records; going on as if there were none");
            Vec::new()
        })
    }

    /// Returns the hash of the template that was seen complete for a commit.
    pub fn kept_template(&self, key: &ObjectKey, commit: &str) -> Option<String> {
        let template = self.history.template(&self.config.name, key, &commit.parse().ok()?).ok().flatten()?;
        Some(template_hash(&template))
    }

    /// Returns the recorded facts about a commit and a workload.
    pub fn recorded(&self, key: &ObjectKey, commit: &str) -> Recorded {
        let query = Query { commit: Some(commit.to_owned()), ..Query::of(&self.config.name, key) };
        let records = self.history.records(&query).unwrap_or_default();
        let rolled_out = records.iter().any(|record| record.rolls_out && record.object == *key);
        Recorded { rolled_out, template: self.kept_template(key, commit) }
    }

    /// Returns the newest template of a workload that was seen complete.
    pub fn last_good(&self, key: &ObjectKey) -> Option<Known> {
        self.known_good(key, self.history.last_good(&self.config.name, key))
    }

    /// Returns the same of other commits than these.
    pub fn last_good_beside(&self, key: &ObjectKey, commits: &[CommitId]) -> Option<Known> {
        self.known_good(key, self.history.last_good_beside(&self.config.name, key, commits))
    }

    fn known_good(&self, key: &ObjectKey, found: Result<Option<LastGood>, HistoryError>) -> Option<Known> {
        let good = match found {
            Ok(good) => good?,
            Err(error) => {
                warn!(object = %key, %error, "failed to ask the history for the last good revision");
                return None;
            }
        };
        let commit = good.record.commit;
        let known = match self.history.commit(&commit) {
            Ok(Some(known)) => TemplateMarks::of(&known),
            _ => TemplateMarks { commit: Some(commit.to_string()), change_cause: None },
        };
        Some(Known { template: good.template?, commit: Some(commit), marks: known })
    }

    /// Returns the baseline of a record's last write of this kind, as far as the history knows.
    pub fn baseline(&self, record: RecordId, of: JudgedWrite) -> Option<Baseline> {
        self.history.baseline(record, of).unwrap_or_else(|error| {
            warn!(%error, "failed to read where a rollout began; going on as if that were not known");
            None
        })
    }

    /// Begins a fresh history where this trouble says that the file is damaged. Returns true when there is a fresh one.
    pub fn mend(&self, trouble: &HistoryError) -> bool {
        if !trouble.wants_a_new_file() {
            return false;
        }
        match self.begin_anew_if_damaged() {
            // If it is sound, another writer has replaced it already.
            Ok(_) => true,
            Err(error) => {
                warn!(%error, "failed to begin a fresh history");
                false
            }
        }
    }

    /// Looks the history over; a damaged one is set aside, and a fresh one begun. Returns true when that was so.
    pub fn begin_anew_if_damaged(&self) -> Result<bool, HistoryError> {
        let Some(to) = self.history.mend(self.clock.now())? else { return Ok(false) };
        warn!(to = %to.display(), "the history is damaged and was set aside; a fresh one was begun");
        self.journal.renewed.notify_waiters();
        Ok(true)
    }

    /// Writes ends of records at once. Returns `None` if they can't be written now: then they are owed.
    pub fn enter_or_owe(&self, ends: Vec<HistoryEntry>) -> Option<Vec<Result<(), HistoryError>>> {
        let trouble = match self.write_owed().and_then(|()| self.history.enter(&ends)) {
            Ok(results) => return Some(results),
            Err(trouble) => trouble,
        };
        error!(records = ends.len(), error = %trouble, "failed to end records, trying again");
        self.status.trouble(&Obstacle::History, Some(trouble.to_string()));
        if !self.mend(&trouble) {
            self.owed().extend(ends);
        }
        None
    }

    /// Writes the ends that are owed. It blocks.
    pub fn write_owed(&self) -> Result<(), HistoryError> {
        let mut owed = self.owed();
        if !owed.is_empty() {
            self.history.enter(owed.iter())?;
            owed.clear();
        }
        Ok(())
    }

    /// Writes the ends that are owed until they are written.
    pub async fn until_nothing_is_owed(&self) {
        let mut waits = WAITS;
        while let Err(trouble) = self.write_owed() {
            if self.mend(&trouble) {
                // The records went with the file.
                self.owed().clear();
                return;
            }
            tokio::time::sleep(waits.wait()).await;
        }
        self.status.trouble(&Obstacle::History, None);
    }

    fn owed(&self) -> MutexGuard<'_, Vec<HistoryEntry>> {
        self.journal.owed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves the beginnings of what is open along where somebody has set the clock since they were written: how long it takes is
    /// counted by the clock as it is now.
    pub fn follow_the_clock(&self) {
        let offset = self.clock.now().duration_since(self.clock.steady());
        let mut known = self.journal.clock_offset.lock().unwrap_or_else(PoisonError::into_inner);
        let moved = offset.saturating_sub(*known.get_or_insert(offset));
        if moved.abs() < CLOCK_SET {
            return;
        }
        match self.history.clock_was_set(&self.config.name, moved) {
            Ok(()) => {
                warn!(seconds = moved.as_secs(), "the machine's clock was set");
                *known = Some(offset);
            }
            Err(error) => warn!(%error, "failed to move open records along with the clock"),
        }
    }
}
