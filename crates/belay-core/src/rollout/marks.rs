//! The annotations and labels that belay writes on objects, and those that people write for it.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

/// Annotation for people: the workloads that must be complete before; see [`super::After`].
pub use crate::manifest::AFTER;
/// Annotation on a hook of a Helm chart: the reason for its last run.
pub use crate::manifest::HOOK_RUN;
/// Annotation on a hook of a Helm chart: the Jobs and Pods after which it is deleted; see [`super::HookUntil`].
pub use crate::manifest::UNTIL;

/// The beginning of all labels and annotations of belay.
pub const PREFIX: &str = "belay.dev/";
/// Label on every object that belay applied: the source that it belongs to.
pub const SOURCE: &str = "belay.dev/source";
/// Annotation on a workload: the commit that last changed its pod template.
pub const COMMIT: &str = "belay.dev/commit";
/// Annotation on a workload while its manifest is held; see [`super::Hold`].
pub const HOLD: &str = "belay.dev/hold";
/// Annotation for people: leave the object alone; the value says why.
pub const SUSPEND: &str = "belay.dev/suspend";
/// Annotation for people: `false` keeps the object when its manifest leaves the repository.
pub const PRUNE: &str = "belay.dev/prune";
/// Annotation for people: `report` or `roll-back`, instead of the source's choice.
pub const ON_FAILURE: &str = "belay.dev/on-failure";
/// Annotation for people: the bake time, instead of the source's.
pub const BAKE: &str = "belay.dev/bake";
/// Annotation for people: the analyses within the bake time, with commas between them, instead of the source's.
pub const ANALYSIS: &str = "belay.dev/analysis";
/// Annotation for people: the steps in which a workload is rolled out; see [`super::canary::CanarySteps`].
pub const CANARY: &str = "belay.dev/canary";
/// Annotation on a workload whose canary is under way: its step; see [`super::canary::CanaryMark`].
pub const CANARY_STEP: &str = "belay.dev/canary-step";
/// Annotation on a workload whose canary is under way: a person's request; see [`super::canary::CanaryRequest`].
pub const CANARY_REQUEST: &str = "belay.dev/canary-request";
/// Annotation for people: the deadline of a kind that has none of its own.
pub const PROGRESS_DEADLINE: &str = "belay.dev/progress-deadline-seconds";
/// Annotation for people: `true` or `false`, whether a change of the configuration that its pods read rolls the workload
/// out, instead of the source's choice.
pub const ROLL_ON_CONFIG: &str = "belay.dev/roll-on-config";
/// Annotation in a pod template: the hash of the configuration that its pods read; see [`super::ConfigHash`].
pub const CONFIG_HASH: &str = "belay.dev/config-hash";
/// Annotation on a ReplicationController that a person rolled; see [`super::rolling_update::ByHand`].
pub const ROLLED: &str = "belay.dev/rolled";
/// Annotation on the Lease of a source: the Jobs that were complete, each with the hash of its manifest: JSON.
pub const FINISHED_JOBS: &str = "belay.dev/finished-jobs";
/// Annotation on the Lease of a source: the objects that a person asked to be tried again; see [`super::RetryRequest`].
pub const RETRY: &str = "belay.dev/retry";
/// Annotation on the Lease of a source: the request to let its present head through; see [`super::SyncRequest`].
pub const SYNC_NOW: &str = "belay.dev/sync-now";
/// Annotation of Kubernetes: the reason for the present pod template; copied to the revision.
pub const CHANGE_CAUSE: &str = "kubernetes.io/change-cause";
/// The note of a person about a retry, or about taking an object up again: JSON.
pub const NOTE: &str = "belay.dev/note";
/// The annotation of a pod template by which Kubernetes' tools make new pods without changing anything else.
pub const RESTARTED_AT: &str = "kubectl.kubernetes.io/restartedAt";
/// Annotation of Kubernetes: the number of a Deployment's present revision, and of a ReplicaSet's.
pub const REVISION: &str = "deployment.kubernetes.io/revision";
/// Annotation of Kubernetes: the numbers that a ReplicaSet's revision had before it was used again.
pub const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
/// The end of a failed revision's change-cause, before the reason.
pub const FAILED: &str = " — failed: ";
/// The name under which belay owns fields.
pub const FIELD_MANAGER: &str = "belay";
/// The name under which the commands own fields that a person changes by hand.
pub const COMMAND_MANAGER: &str = "belay-command";
/// The name under which `belay rolling-update` and `belay undo` own the ReplicationControllers that they roll.
pub const ROLLING_UPDATE_MANAGER: &str = "belay-rolling-update";

/// Returns an annotation of an object.
#[must_use]
pub fn annotation<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    object["metadata"]["annotations"].get(name)?.as_str()
}

/// The most characters that are kept of the reason for a suspension.
const SUSPENSION_LIMIT: usize = 200;

/// Returns the reason for which belay is asked to leave an object alone, or its beginning; `None` if it is not.
#[must_use]
pub fn suspension(object: &Value) -> Option<&str> {
    let why = annotation(object, SUSPEND)?;
    let end = why.char_indices().nth(SUSPENSION_LIMIT).map_or(why.len(), |(end, _)| end);
    why.get(..end)
}

/// Returns the JSON value of an object's annotation. A text that says something else (somebody wrote it by hand) says
/// nothing.
#[must_use]
pub fn read<T: DeserializeOwned>(object: &Value, name: &str) -> Option<T> {
    serde_json::from_str(annotation(object, name)?).ok()
}

/// Returns the text of an annotation that [`read`] reads.
///
/// # Panics
/// Panics when `said` is not plain data, which all that belay writes is.
#[must_use]
pub fn written(said: &impl Serialize) -> String {
    serde_json::to_string(said).expect("what is written on objects is plain data")
}

/// Sets an entry of `labels` or `annotations` in an object's metadata, or removes it where `text` is `None`.
pub fn say(metadata: &mut Value, map: &str, name: &str, text: Option<&str>) {
    let Some(metadata) = metadata.as_object_mut() else { return };
    if let Some(text) = text {
        let entries = metadata.entry(map).or_insert_with(|| Map::new().into());
        if !entries.is_object() {
            *entries = json!({});
        }
        entries[name] = json!(text);
    } else if let Some(entries) = metadata.get_mut(map).and_then(Value::as_object_mut) {
        entries.remove(name);
    }
}

/// Returns a label of an object.
#[must_use]
pub fn label<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    object["metadata"]["labels"].get(name)?.as_str()
}

/// Returns the number of a Deployment's present revision, or of a ReplicaSet's or ControllerRevision's own.
#[must_use]
pub fn revision(object: &Value) -> Option<i64> {
    annotation(object, REVISION).and_then(|text| text.parse().ok()).or_else(|| object["revision"].as_i64())
}

/// Returns `metadata.generation`; 0 if there is none.
#[must_use]
pub fn generation(object: &Value) -> i64 {
    object["metadata"]["generation"].as_i64().unwrap_or_default()
}

/// Returns `metadata.uid`; empty if there is none.
#[must_use]
pub fn uid(object: &Value) -> &str {
    object["metadata"]["uid"].as_str().unwrap_or_default()
}
