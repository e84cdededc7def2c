//! What `-o json` and `-o yaml` print, as types, and their JSON schemas. Fields are only ever added.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde::Serialize;
use serde_json::Value;

use super::history_view::{HistoryView, Told};
use super::remembered;
use super::simulate::SimulateAnswer;
use belay_core::manifest::{Complaint, ObjectKey, Place};
use belay_core::rollout::{
    Change, Commit, CommitId, Hold, ObjectState, Reason, Record, RevisionPods, SourceState, StateCounts, Unnoticed,
};

/// What `belay history` prints.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct HistoryAnswer {
    /// What was rolled out, the newest first.
    pub records: Vec<RecordAnswer>,
    /// What is not known, because the daemon's history is not here; empty where it is.
    pub missing: Vec<String>,
}

/// What became of one manifest of one commit, with what is known of the commit.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct RecordAnswer {
    #[serde(flatten)]
    pub record: Record,
    /// What it waits for; null where it waits for nothing.
    #[serde(rename = "waitsFor")]
    pub waits_for: Option<String>,
    /// The workloads that read it and were not rolled out for its change: they notice when they restart.
    pub unnoticed: Vec<Unnoticed>,
    /// What the person said who asked for it, with who that was; null where nobody said anything.
    pub note: Option<String>,
    /// The first line of the commit's message; null where the commit is not known.
    pub subject: Option<String>,
    /// Who wrote the commit; null where that is not known.
    pub author: Option<AuthorAnswer>,
    /// When the commit was written; null where that is not known.
    pub authored: Option<Timestamp>,
}

/// Who wrote a commit.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct AuthorAnswer {
    /// The name.
    pub name: String,
    /// The address; null where only the change-cause tells of the commit.
    pub email: Option<String>,
}

impl RecordAnswer {
    /// A record, with what a book tells of its commit.
    pub(super) fn of(book: &HistoryView, record: &Record) -> RecordAnswer {
        let (subject, author, authored) = match book.told(&record.commit) {
            Some(Told { subject, author, email, authored }) => {
                (Some(subject), Some(AuthorAnswer { name: author, email }), authored)
            }
            None => (None, None, None),
        };
        let waits_for = remembered::waits_for(&book.history, record).ok().flatten();
        let unnoticed = remembered::unnoticed(&book.history, record).unwrap_or_default();
        let note = remembered::note(&book.history, record).ok().flatten();
        RecordAnswer { record: record.clone(), waits_for, unnoticed, note, subject, author, authored }
    }
}

/// What `belay show COMMIT` prints.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ShowAnswer {
    /// The commit; null where only its id is known.
    pub commit: Option<Commit>,
    /// What became of its manifests, the oldest first.
    pub records: Vec<RecordAnswer>,
    /// Why there are no records; null where there are.
    pub why: Option<String>,
    /// What is not known, because the daemon's history is not here; empty where it is.
    pub missing: Vec<String>,
}

/// What `belay history --stats` prints.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct StatsAnswer {
    /// From when on rollouts are counted, by when they were taken up.
    pub since: Timestamp,
    /// Until when.
    pub until: Timestamp,
    /// One line for each source, workload or month.
    pub stats: Vec<LineAnswer>,
}

/// The numbers of one source, workload or month.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct LineAnswer {
    /// Of what: `shop`, `shop: Deployment shop/web`, `2026-11`.
    pub of: String,
    /// How many rollouts ended.
    pub rollouts: u64,
    /// How many of them failed.
    pub failures: u64,
    /// How many rollouts a day.
    pub per_day: f64,
    /// Which part of them failed, from 0 to 1.
    pub change_failure_rate: f64,
    /// From the writing of the commit until it was complete; null where none was.
    pub lead_time: Option<SpreadAnswer>,
    /// From the beginning of a rollout that failed until the workload was well again; null where none failed.
    pub time_to_restore: Option<SpreadAnswer>,
}

/// How times spread, in seconds.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct SpreadAnswer {
    /// How many there were.
    pub count: u64,
    /// The one in the middle.
    pub median_seconds: f64,
    /// Nine of ten took at most this.
    pub ninth_tenth_seconds: f64,
    /// The longest.
    pub longest_seconds: f64,
}

/// What `belay status` prints. With `--watch`, each workload that changes is a line of its own.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct StatusAnswer {
    /// The sources, as far as the daemon's history is here.
    pub sources: Vec<SourceAnswer>,
    /// The workloads that belay has applied, or is to apply.
    pub workloads: Vec<WorkloadAnswer>,
    /// The other objects, and files, that are not as the head says; of the kinds that have no pods.
    pub objects: Vec<WorkloadAnswer>,
}

/// Where one source is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct SourceAnswer {
    /// Its name.
    pub source: String,
    /// The head that was planned last; null where none was yet.
    pub head: Option<CommitId>,
    /// Its state.
    pub state: SourceState,
    /// How many of its objects are in which state.
    pub objects: StateCounts,
    /// What keeps the daemon from reading the repository, or what it finds there from being planned; null where nothing
    /// does.
    pub trouble: Option<TroubleAnswer>,
    /// What else is in its way, by where.
    pub troubles: BTreeMap<String, String>,
}

/// What `belay status --commit C --wait` prints.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct WaitAnswer {
    /// The commit.
    pub commit: String,
    /// Whether all that it touched is complete, or it touched nothing here.
    pub complete: bool,
    /// Whether it was not through in time.
    pub timed_out: bool,
    /// What there is to say of it, for people.
    pub messages: Vec<String>,
    /// What became of its manifests, the newest first.
    pub records: Vec<RecordAnswer>,
}

/// What is in a source's way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct TroubleAnswer {
    /// What it is.
    pub message: String,
    /// Since when.
    pub since: Timestamp,
}

/// Where one workload is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct WorkloadAnswer {
    /// The workload.
    pub object: ObjectKey,
    /// The source that it belongs to.
    pub source: String,
    /// The commit that made its pod template; empty where none is named.
    pub commit: String,
    /// Where it stands.
    pub state: ObjectState,
    /// One sentence for people.
    pub message: String,
    /// Where the manifest is written that the state is about; null where that is not known.
    pub place: Option<Place>,
    /// What it waits for; null where it waits for nothing.
    pub waits_for: Option<String>,
    /// Since when it is held, waits or differs from Git; null where it does not.
    pub since: Option<Timestamp>,
    /// Who has changed it, which belay only reports; null where nobody has.
    pub drifted_by: Option<String>,
    /// Whether somebody paused its rollout.
    pub paused: bool,
    /// Pods of the present template.
    pub updated: i64,
    /// Pods that are ready.
    pub ready: i64,
    /// Pods that are available.
    pub available: i64,
    /// Pods wanted.
    pub desired: i64,
    /// When its rollout has failed unless something moves; null where nothing is under way, or its kind has no deadline.
    pub deadline: Option<Timestamp>,
    /// The pods of each revision that has any, the newest first; null where no workload was asked for by name.
    pub revisions: Option<Vec<RevisionPods>>,
    /// Why those are not known; null where they are.
    pub revisions_missing: Option<String>,
}

impl WorkloadAnswer {
    /// An object in a state, of which nothing else is known yet.
    pub(super) fn of_object(object: &ObjectKey, source: &str, state: ObjectState) -> WorkloadAnswer {
        WorkloadAnswer {
            object: object.clone(),
            source: source.to_owned(),
            commit: String::new(),
            state,
            message: String::new(),
            place: None,
            waits_for: None,
            since: None,
            drifted_by: None,
            paused: false,
            updated: 0,
            ready: 0,
            available: 0,
            desired: 0,
            deadline: None,
            revisions: None,
            revisions_missing: None,
        }
    }
}

/// What `belay plan` prints.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct PlanAnswer {
    /// The source that the manifests are for.
    pub source: String,
    /// Whether anything would change.
    pub changes: bool,
    /// One step for each manifest.
    pub steps: Vec<StepAnswer>,
    /// What is wrong with the manifests.
    pub complaints: Vec<Complaint>,
}

/// What would be done about one manifest. Values of Secrets are masked.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct StepAnswer {
    /// The object.
    pub object: ObjectKey,
    /// Where its manifest is written.
    pub place: Place,
    /// What would be done.
    pub action: ActionWord,
    /// Whether the pod template changes; of `create` and `update`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rolls_out: Option<bool>,
    /// The workloads that must be complete before it is applied; absent where it waits for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Vec<ObjectKey>>,
    /// The fields that change; of `create` and `update`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changes: Option<Vec<Change>>,
    /// What holds it; of `held`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold: Option<Hold>,
    /// Why it is left alone; of `suspended`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Why it is refused or has to wait; of `rejected` and `waiting`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// What is wrong with it; of `rejected`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub complaints: Option<Vec<Complaint>>,
    /// The workloads that read it and are not rolled out for its change; absent where there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unnoticed: Option<Vec<Unnoticed>>,
}

/// What would be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ActionWord {
    /// It is made.
    Create,
    /// It is changed.
    Update,
    /// It is as it should be.
    Unchanged,
    /// It is held.
    Held,
    /// It is suspended.
    Suspended,
    /// It is refused.
    Rejected,
    /// It has to wait for something that is not there yet.
    Waiting,
    /// It is deleted.
    Delete,
}

/// What `belay check` prints.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct CheckAnswer {
    /// How many objects there are.
    pub objects: usize,
    /// What is wrong with them.
    pub complaints: Vec<Complaint>,
    /// What is doubtful about them: what an API server warns of, and what they name that no manifest makes.
    pub warnings: Vec<Complaint>,
}

/// What `belay version` prints.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct VersionAnswer {
    /// belay's version.
    pub version: String,
    /// The version of Kubernetes that the embedded cluster is like.
    pub embedded_kubernetes: String,
}

/// The JSON schemas (draft 2020-12) of what the commands print with `-o json`, by command. The commands that change
/// objects (`undo`, `retry`, `pause` …) print those, as kubectl does.
#[must_use]
pub fn schemas() -> BTreeMap<&'static str, Value> {
    fn of<T: JsonSchema>(title: &'static str) -> (&'static str, Value) {
        let generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
        let schema: Schema = generator.into_root_schema_for::<T>();
        let mut schema = schema.to_value();
        schema["title"] = format!("belay {title} -o json").into();
        (title, schema)
    }
    BTreeMap::from([
        of::<HistoryAnswer>("history"),
        of::<ShowAnswer>("show"),
        of::<StatsAnswer>("history --stats"),
        of::<StatusAnswer>("status"),
        of::<WorkloadAnswer>("status --watch"),
        of::<WaitAnswer>("status --wait"),
        of::<PlanAnswer>("plan"),
        of::<CheckAnswer>("check"),
        of::<VersionAnswer>("version"),
        of::<SimulateAnswer>("simulate"),
    ])
}
