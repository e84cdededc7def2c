//! Records of manifests: one for each manifest of a commit.

pub(in crate::rollout) mod commit;
pub(in crate::rollout) mod note;
pub(in crate::rollout) mod outcome;
pub(in crate::rollout) mod reason;
pub(in crate::rollout) mod reason_code;
pub(in crate::rollout) mod rebuilt;
pub(in crate::rollout) mod short_cause;
pub(in crate::rollout) mod state;
pub(in crate::rollout) mod template_change;
pub(in crate::rollout) mod trigger;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CommitId, Hold, ObjectState, Outcome, Reason, ReasonCode, TemplateMarks, Trigger};
use crate::manifest::{Complaint, ObjectKey, Place};

/// The number of a record in the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct RecordId(pub i64);

/// The record of one manifest of one commit. There is exactly one record for each that the daemon acted on; until it
/// has an end its outcome says where it stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// Its number; 0 until the history has given it one.
    pub id: RecordId,
    /// The source that it belongs to.
    pub source: String,
    /// The commit that is charged with it.
    pub commit: CommitId,
    /// The object.
    pub object: ObjectKey,
    /// The place of the manifest; unknown for records that were rebuilt from the cluster.
    pub place: Option<Place>,
    /// The path of the kustomization or the chart that rendered the manifest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rendered_by: Option<String>,
    /// The trigger.
    pub trigger: Trigger,
    /// The outcome.
    #[serde(serialize_with = "as_state", deserialize_with = "of_state")]
    #[schemars(with = "ObjectState")]
    pub outcome: Outcome,
    /// The reason, for everything but complete and unchanged.
    pub reason: Option<Reason>,
    /// The hash of the manifest, by which a hold knows it again.
    pub manifest_hash: Option<String>,
    /// True when the pod template changed, so that there is a rollout.
    pub rolls_out: bool,
    /// The revision that the cluster gave to the new template.
    pub revision: Option<i64>,
    /// The commit whose template the workload went back to.
    pub back_to: Option<CommitId>,
    /// The revision that it went back to.
    pub back_to_revision: Option<i64>,
    /// The complaints about a rejected manifest.
    pub complaints: Vec<Complaint>,
    /// The observations at its failure.
    pub evidence: Option<Evidence>,
    /// When belay took it up; of one that was rebuilt, the earliest time that is known of it.
    pub started: Timestamp,
    /// When it ended; `None` while it is under way, and of one that was rebuilt where that is not known.
    pub ended: Option<Timestamp>,
}

impl Record {
    /// Returns the record of what is planned for an object, on behalf of a commit: nothing is known yet but these.
    #[must_use]
    pub fn planned(source: &str, commit: &CommitId, object: ObjectKey, started: Timestamp) -> Record {
        Record {
            id: RecordId(0),
            source: source.to_owned(),
            commit: commit.clone(),
            object,
            place: None,
            rendered_by: None,
            trigger: Trigger::Commit,
            outcome: Outcome::Planned,
            reason: None,
            manifest_hash: None,
            rolls_out: false,
            revision: None,
            back_to: None,
            back_to_revision: None,
            complaints: Vec::new(),
            evidence: None,
            started,
            ended: None,
        }
    }

    /// Returns the same of a manifest at this place, which was read from this file: another one where it was rendered.
    /// One that is written nowhere any more, as far as is known, has no place.
    #[must_use]
    pub fn written_in(self, place: Place, file: &str) -> Record {
        let rendered_by = (*file != *place.path).then(|| file.to_owned());
        Record { place: Some(place).filter(|place| !place.path.is_empty()), rendered_by, ..self }
    }

    /// Returns true when its workload is back, though its rollback was recorded as failed: it is complete, held for the
    /// manifest of this record, and has another commit's template, as its marks say.
    #[must_use]
    pub fn is_back(&self, hold: &Hold, marks: &TemplateMarks) -> bool {
        self.outcome == Outcome::RollbackFailed
            && self.manifest_hash.as_ref() == Some(&hold.manifest)
            && marks.commit.as_deref() != Some(self.commit.as_str())
    }

    /// Returns true when an object with belay's last apply at that time was applied under this record, though it does
    /// not say so: belay was killed in between. The API server cuts its times to whole seconds.
    #[must_use]
    pub fn was_applied(&self, last_apply: Option<Timestamp>) -> bool {
        let began = self.started.as_second();
        matches!(self.outcome, Outcome::Planned | Outcome::Waiting | Outcome::UnderWay | Outcome::Baking)
            && last_apply.is_some_and(|applied| applied.as_second() >= began)
    }

    /// Returns its end if a newer commit takes its place. A failure by then stays a failure, with its reason.
    #[must_use]
    pub fn superseded(&self, by: &CommitId) -> (Outcome, Reason) {
        let took_place = format!("commit {} took its place", by.short());
        match &self.reason {
            Some(reason) if self.outcome == Outcome::RollingBack => {
                (Outcome::Failed, reason.clone().and(format!("{took_place} on the way back")))
            }
            _ => (Outcome::Superseded, Reason::new(ReasonCode::Superseded, took_place)),
        }
    }

    /// Returns a record that was read from JSON, as the history has it.
    #[must_use]
    pub fn as_kept(self) -> Record {
        Record { outcome: Outcome::of_state(self.outcome.state(), self.ended.is_some()), ..self }
    }

    /// Returns the place of the manifest and, if that is another file, of the kustomization or chart that rendered it.
    #[must_use]
    pub fn written_at(&self) -> Option<String> {
        let place = self.place.as_ref()?;
        Some(
            self.rendered_by.as_ref().map_or_else(|| place.to_string(), |unit| format!("{place} (rendered by {unit})")),
        )
    }
}

/// Serializes an outcome as the state that users see.
fn as_state<S: serde::Serializer>(outcome: &Outcome, serializer: S) -> Result<S::Ok, S::Error> {
    outcome.state().serialize(serializer)
}

/// Reads the outcome of a record that has not ended from its state; [`Record::as_kept`] knows if it has.
fn of_state<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Outcome, D::Error> {
    Ok(Outcome::of_state(ObjectState::deserialize(deserializer)?, false))
}

/// The observations at the failure of a rollout. Never a value of a Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Evidence {
    /// The workload's own conditions, one line each.
    pub conditions: Vec<String>,
    /// Its pods at the failed revision, the stuck ones first; bounded.
    pub pods: Vec<PodSeen>,
    /// The newest events about it and its pods; bounded.
    pub events: Vec<EventSeen>,
    /// The parts that could not be read, and the reasons.
    pub missing: Vec<String>,
}

/// One pod, as it was when its rollout failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodSeen {
    /// Its name.
    pub name: String,
    /// The node that it was bound to.
    pub node: Option<String>,
    /// The status that kubectl would show, `ImagePullBackOff`.
    pub state: String,
    /// The container that is the cause.
    pub container: Option<String>,
    /// The kubelet's message about it.
    pub message: String,
    /// The exit code of that container's last run.
    pub exit_code: Option<i32>,
    /// The number of restarts of its containers.
    pub restarts: i32,
    /// The last lines that it wrote; bounded.
    pub log: Vec<String>,
}

/// One event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EventSeen {
    /// When it was last seen.
    pub at: Timestamp,
    /// `Warning` or `Normal`.
    pub kind: String,
    /// The object, `Pod/web-7f9`.
    pub object: String,
    /// The reason, `FailedScheduling`.
    pub reason: String,
    /// The text.
    pub message: String,
}

/// One step of a record: written before and after everything that belay does about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Step {
    /// When.
    pub at: Timestamp,
    /// The kind of step.
    pub kind: StepKind,
    /// In a few words.
    pub detail: String,
}

/// The kind of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StepKind {
    /// In a plan.
    Planned,
    /// About to be applied.
    Applying,
    /// The API server has it.
    Applied,
    /// The rollout moved.
    Progress,
    /// A step of its canary begins, or its canary is over.
    Canary,
    /// The Job of an analysis is about to be made.
    Job,
    /// It is complete, and is watched for its bake time.
    Baking,
    /// The judge has ruled.
    Verdict,
    /// The evidence has been saved.
    Evidence,
    /// About to go back.
    GoingBack,
    /// The API server has the earlier template, and the hold.
    WentBack,
    /// The failed revision has been marked.
    Marked,
    /// A fault of the infrastructure is in the way; belay waits.
    Waiting,
    /// The workloads that read a changed configuration and are not rolled out for it.
    Unnoticed,
    /// belay started again and took it up where it was.
    Resumed,
    /// It was not well when another took its place.
    Unwell,
    /// The note of the person who asked for it.
    Note,
    /// The end.
    Ended,
}

impl StepKind {
    /// Returns the word for people.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            StepKind::Planned => "planned",
            StepKind::Applying => "applying",
            StepKind::Applied => "applied",
            StepKind::Progress => "progress",
            StepKind::Canary => "canary",
            StepKind::Job => "job",
            StepKind::Baking => "baking",
            StepKind::Verdict => "verdict",
            StepKind::Evidence => "evidence saved",
            StepKind::GoingBack => "going back",
            StepKind::WentBack => "went back",
            StepKind::Marked => "marked as failed",
            StepKind::Waiting => "waiting",
            StepKind::Unnoticed => "not noticed",
            StepKind::Resumed => "resumed",
            StepKind::Unwell => "not well any more",
            StepKind::Note => "note",
            StepKind::Ended => "ended",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(outcome: Outcome, reason: Option<&str>) -> Record {
        let commit: CommitId = "0123456789abcdef0123456789abcdef01234567".parse().unwrap();
        let object =
            ObjectKey { group: String::new(), kind: "ConfigMap".to_owned(), namespace: None, name: "a".to_owned() };
        let started = "2026-01-01T00:00:07.500Z".parse().unwrap();
        let reason = reason.map(|reason| Reason::new(ReasonCode::ProgressDeadlineExceeded, reason));
        Record { outcome, reason, ..Record::planned("shop", &commit, object, started) }
    }

    #[test]
    fn what_had_failed_stays_a_failure_when_a_newer_commit_takes_its_place() {
        let by: CommitId = "89abcdef0123456789abcdef0123456789abcdef".parse().unwrap();
        for (outcome, reason, expected, said) in [
            (Outcome::UnderWay, None, Outcome::Superseded, "commit 89abcde took its place"),
            (Outcome::Waiting, Some("for a quota"), Outcome::Superseded, "commit 89abcde took its place"),
            (
                Outcome::RollingBack,
                Some("too late"),
                Outcome::Failed,
                "too late; commit 89abcde took its place on the way back",
            ),
        ] {
            let (outcome, reason) = record(outcome, reason).superseded(&by);
            assert_eq!((outcome, reason.message.as_str()), (expected, said));
        }
    }

    #[test]
    fn what_was_applied_under_a_record_is_told_by_the_time_of_the_apply() {
        let at = |text: &str| Some(text.parse().unwrap());
        for (outcome, last_apply, expected) in [
            (Outcome::Planned, at("2026-01-01T00:00:07Z"), true),
            (Outcome::Planned, at("2026-01-01T00:00:09Z"), true),
            (Outcome::Planned, at("2026-01-01T00:00:06Z"), false),
            (Outcome::Planned, None, false),
            (Outcome::Held, at("2026-01-01T00:00:09Z"), false),
        ] {
            assert_eq!(record(outcome, None).was_applied(last_apply), expected, "{outcome} {last_apply:?}");
        }
    }
}
