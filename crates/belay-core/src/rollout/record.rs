//! What became of a manifest of a commit.

use std::fmt;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CommitId, ObjectState, Trigger};
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
}

/// Where a record stands, or how it ended, as the history keeps it. What users see of it is its [`Outcome::state`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// In a plan, not applied yet.
    #[serde(rename = "pending", alias = "planned")]
    Planned,
    /// Not applied yet: it waits, and its last step says for what.
    Waiting,
    /// Applied; the rollout is being watched.
    #[serde(rename = "progressing", alias = "under-way")]
    UnderWay,
    /// It has failed; the workload is on its way back.
    RollingBack,
    /// Done: applied, and complete where it rolls out.
    Complete,
    /// Failed, and left as it is.
    Failed,
    /// Failed, and back on its last good revision.
    RolledBack,
    /// Failed, and the way back failed too.
    RollbackFailed,
    /// A newer commit took its place.
    Superseded,
    /// The manifest was invalid.
    Rejected,
    /// There was nothing to do.
    Unchanged,
    /// Not applied: the manifest is held.
    Held,
    /// Not applied: the object is suspended.
    Suspended,
    /// Not applied: it waits for another object that failed, or that is held. A record that has ended, unlike `Waiting`.
    Skipped,
    /// Deleted, because its manifest left the repository.
    Pruned,
    /// Its manifest left the repository, and the object stays: pruning is off, or was refused.
    Orphaned,
    /// Not known any more; only of records that were rebuilt.
    Unknown,
}

impl Outcome {
    /// All of them.
    pub const ALL: [Outcome; 17] = [
        Outcome::Planned,
        Outcome::Waiting,
        Outcome::UnderWay,
        Outcome::RollingBack,
        Outcome::Complete,
        Outcome::Failed,
        Outcome::RolledBack,
        Outcome::RollbackFailed,
        Outcome::Superseded,
        Outcome::Rejected,
        Outcome::Unchanged,
        Outcome::Held,
        Outcome::Suspended,
        Outcome::Skipped,
        Outcome::Pruned,
        Outcome::Orphaned,
        Outcome::Unknown,
    ];

    /// Whether it is final.
    #[must_use]
    pub fn is_final(self) -> bool {
        !matches!(self, Outcome::Planned | Outcome::Waiting | Outcome::UnderWay | Outcome::RollingBack)
    }

    /// The word of its state.
    #[must_use]
    pub fn word(self) -> &'static str {
        self.state().word()
    }
}

/// What users see of an outcome.
fn as_state<S: serde::Serializer>(outcome: &Outcome, serializer: S) -> Result<S::Ok, S::Error> {
    outcome.state().serialize(serializer)
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// Why something ended as it did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Reason {
    /// One word that programs can rely on, `ProgressDeadlineExceeded`.
    pub code: String,
    /// One sentence for people.
    pub message: String,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
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
    #[serde(alias = "exit_code")]
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
    /// Something of the world is in the way; belay waits.
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
