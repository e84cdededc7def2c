//! The output of `-o json` and `-o yaml`, as types, and their JSON schemas. Fields are only ever added.

use std::collections::BTreeMap;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde::Serialize;
use serde_json::Value;

use crate::cli::commands::simulate::SimulateAnswer;
pub(in crate::cli) use crate::history::query::answers::{
    HistoryAnswer, LineAnswer, RecordAnswer, ShowAnswer, SourceAnswer, StatsAnswer, StatusAnswer, TroubleAnswer,
    WorkloadAnswer,
};
use belay_core::manifest::{Complaint, ObjectKey, Place};
use belay_core::rollout::{Change, Hold, Reason, Unnoticed};

/// The output of `belay status --commit C --wait`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) struct WaitAnswer {
    /// The commit.
    pub commit: String,
    /// True when all that it touched is complete, or it touched nothing here.
    pub complete: bool,
    /// True when it was not through in time.
    pub timed_out: bool,
    /// The messages about it, for people.
    pub messages: Vec<String>,
    /// The records of its manifests, the newest first.
    pub records: Vec<RecordAnswer>,
}

/// The output of `belay plan`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) struct PlanAnswer {
    /// The source that the manifests are for.
    pub source: String,
    /// True when anything would change, or more has left the repository than `prune_limit` allows.
    pub changes: bool,
    /// The message that more objects have left the repository than `prune_limit` allows: none of them is deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beyond_prune_limit: Option<String>,
    /// One step for each manifest.
    pub steps: Vec<StepAnswer>,
    /// The complaints about the manifests.
    pub complaints: Vec<Complaint>,
}

/// The step for one manifest. Values of Secrets are masked.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) struct StepAnswer {
    /// The object.
    pub object: ObjectKey,
    /// The place of its manifest.
    pub place: Place,
    /// The action.
    pub action: ActionWord,
    /// True when the pod template changes; of `create` and `update`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rolls_out: Option<bool>,
    /// The workloads that must be complete before it is applied; absent if it waits for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Vec<ObjectKey>>,
    /// The fields that change; of `create` and `update`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changes: Option<Vec<Change>>,
    /// The hold; of `held`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold: Option<Hold>,
    /// The reason for which it is left alone; of `suspended`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The reason for which it is refused, has to wait or stays; of `rejected`, `waiting` and `orphan`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// The complaints about it; of `rejected`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub complaints: Option<Vec<Complaint>>,
    /// The workloads that read it and are not rolled out for its change; absent if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unnoticed: Option<Vec<Unnoticed>>,
    /// The power of the analyses that will judge its rollout; absent if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guards: Option<Vec<String>>,
}

/// The action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(in crate::cli) enum ActionWord {
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
    /// Its manifest has left, and it stays; `reason` says why.
    Orphan,
}

/// The output of `belay check`.
#[derive(Debug, Serialize, JsonSchema)]
pub(in crate::cli) struct CheckAnswer {
    /// The number of objects.
    pub objects: usize,
    /// The complaints about them.
    pub complaints: Vec<Complaint>,
    /// The warnings about them: those of an API server, references to objects that no manifest creates, and analyses that can prove
    /// nothing.
    pub warnings: Vec<Complaint>,
    /// The power of their analyses; with `--config`.
    pub notes: Vec<Complaint>,
}

/// The output of `belay version`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) struct VersionAnswer {
    /// belay's version.
    pub version: String,
    /// The version of Kubernetes that the embedded cluster is like.
    pub embedded_kubernetes: String,
    /// The tools that render, as far as they were found.
    pub renderers: Vec<RendererAnswer>,
    /// The limits that those tools lack on this machine; absent if they lack none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_confined: Option<String>,
}

/// A tool that renders.
#[derive(Debug, Serialize, JsonSchema)]
pub(in crate::cli) struct RendererAnswer {
    /// The tool: `kustomize`, `kubectl` or `helm`.
    pub tool: &'static str,
    /// Its program.
    pub program: String,
    /// Its version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The reason for which its version is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The output of `belay import`.
#[derive(Debug, Serialize, JsonSchema)]
pub(in crate::cli) struct ImportAnswer {
    /// The sources that do the same, as in the configuration (its schema: `belay run --print-config-schema`).
    pub sources: Vec<Value>,
    /// The settings without a counterpart.
    pub warnings: Vec<Complaint>,
    /// The objects that can't be taken over.
    pub errors: Vec<Complaint>,
}

/// The output of `belay notify test`.
#[derive(Debug, Serialize, JsonSchema)]
pub(in crate::cli) struct NotifyTestAnswer {
    /// The receiver.
    pub receiver: String,
    /// True when it took the message; for a forge, when it shows the repository to the token.
    pub taken: bool,
    /// Its answer; absent if there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// The reason for which there was no answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Returns the JSON schemas (draft 2020-12) of what the commands print with `-o json`, by command, and of what webhooks
/// are sent. The commands that change objects (`undo`, `retry`, `pause` …) print those, as kubectl does.
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
        of::<ImportAnswer>("import"),
        of::<NotifyTestAnswer>("notify test"),
        ("notice", crate::notices::schema()),
    ])
}
