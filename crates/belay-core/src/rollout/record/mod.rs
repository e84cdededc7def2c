//! What became of a manifest of a commit.

pub(in crate::rollout) mod commit;
pub(in crate::rollout) mod note;
pub(in crate::rollout) mod outcome;
pub(in crate::rollout) mod reason;
pub(in crate::rollout) mod reason_code;
pub(in crate::rollout) mod rebuilt;
pub(in crate::rollout) mod state;
pub(in crate::rollout) mod template_change;
pub(in crate::rollout) mod trigger;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CommitId, ObjectState, Outcome, Reason, Trigger};
use crate::manifest::{Complaint, ObjectKey, Place};

/// The number of a record in the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct RecordId(pub i64);

/// What became of one manifest of one commit. There is exactly one record for each that the daemon acted on; until it
/// has an end its outcome says where it stands.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
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
    /// Where the manifest is written; unknown for what was rebuilt from the cluster.
    pub place: Option<Place>,
    /// What the manifest was rendered by: the path of the kustomization or the chart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rendered_by: Option<String>,
    /// What set it off.
    pub trigger: Trigger,
    /// What became of it.
    #[serde(serialize_with = "as_state")]
    #[schemars(with = "ObjectState")]
    pub outcome: Outcome,
    /// Why, for everything but complete and unchanged.
    pub reason: Option<Reason>,
    /// The hash of the manifest, by which a hold knows it again.
    pub manifest_hash: Option<String>,
    /// Whether the pod template changed, so that there is a rollout.
    pub rolls_out: bool,
    /// The revision that the cluster gave to the new template.
    pub revision: Option<i64>,
    /// The commit whose template the workload went back to.
    pub back_to: Option<CommitId>,
    /// The revision that it went back to.
    pub back_to_revision: Option<i64>,
    /// The complaints about a rejected manifest.
    pub complaints: Vec<Complaint>,
    /// What was seen when it failed.
    pub evidence: Option<Evidence>,
    /// When belay took it up; of one that was rebuilt, the earliest time that is known of it.
    pub started: Timestamp,
    /// When it ended; `None` while it is under way, and of one that was rebuilt where that is not known.
    pub ended: Option<Timestamp>,
}

impl Record {
    /// The record of what is planned for an object, on behalf of a commit: nothing is known yet but these.
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

    /// The same of a manifest at this place, which was read from this file: another one where it was rendered.
    #[must_use]
    pub fn written_in(self, place: Place, file: &str) -> Record {
        let rendered_by = (*file != *place.path).then(|| file.to_owned());
        Record { place: Some(place), rendered_by, ..self }
    }

    /// Where the manifest is written and, where that is another file, what it was rendered by.
    #[must_use]
    pub fn written_at(&self) -> Option<String> {
        let place = self.place.as_ref()?;
        Some(
            self.rendered_by.as_ref().map_or_else(|| place.to_string(), |unit| format!("{place} (rendered by {unit})")),
        )
    }
}

/// What users see of an outcome.
fn as_state<S: serde::Serializer>(outcome: &Outcome, serializer: S) -> Result<S::Ok, S::Error> {
    outcome.state().serialize(serializer)
}

/// What was seen when a rollout failed. Never a value of a Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Evidence {
    /// The workload's own conditions, one line each.
    pub conditions: Vec<String>,
    /// Its pods at the failed revision, the stuck ones first; bounded.
    pub pods: Vec<PodSeen>,
    /// The newest events about it and its pods; bounded.
    pub events: Vec<EventSeen>,
    /// What could not be read, and why.
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
    /// What kubectl would show as its status, `ImagePullBackOff`.
    pub state: String,
    /// The container that is the cause.
    pub container: Option<String>,
    /// What the kubelet says of it.
    pub message: String,
    /// The exit code of that container's last run.
    pub exit_code: Option<i32>,
    /// How often its containers were restarted.
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
    /// What.
    pub kind: StepKind,
    /// In a few words.
    pub detail: String,
}

/// What a step is.
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
    /// The judge has ruled.
    Verdict,
    /// What was seen has been saved.
    Evidence,
    /// About to go back.
    GoingBack,
    /// The API server has the earlier template, and the hold.
    WentBack,
    /// The failed revision has been marked.
    Marked,
    /// A fault of the infrastructure is in the way; belay waits.
    Waiting,
    /// Which workloads read what was changed and are not rolled out for it.
    Unnoticed,
    /// belay started again and took it up where it was.
    Resumed,
    /// It was not well when another took its place.
    Unwell,
    /// What the person said who asked for it.
    Note,
    /// The end.
    Ended,
}

impl StepKind {
    /// The word for people.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            StepKind::Planned => "planned",
            StepKind::Applying => "applying",
            StepKind::Applied => "applied",
            StepKind::Progress => "progress",
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
