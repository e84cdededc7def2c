//! The daemon's facts about each live object: a few words, however large the object is.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use jiff::Timestamp;
use serde_json::Value;
use tokio::time::Instant;

use crate::cluster::{ClusterError, ObjectText};
use belay_core::rollout::{Hold, Note, marks};

/// Facts about a live object. There are thousands: what few have is boxed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LiveFacts {
    /// Its [`digest`], when it was last found to be as it should be.
    pub well: Option<u64>,
    /// Its [`digest`], as the watch has seen it last.
    pub seen: Option<u64>,
    /// Its hold.
    pub hold: Option<Box<Hold>>,
    /// A hold that somebody has taken off, so that its manifest is to be applied again.
    pub released: Option<Box<Hold>>,
    /// True for a workload whose status says that it is complete.
    pub complete: bool,
    /// True when somebody asked to leave it alone.
    pub suspended: bool,
    /// When it was complete last and then was not, without a rollout; or when it was seen first.
    pub faltered: Option<Instant>,
    /// The last note of a person about it.
    pub note: Option<Box<Note>>,
    /// When it was restarted, as it says itself, and as it was noticed last.
    pub restarted: Option<String>,
    /// The number of pods that it asks for.
    pub replicas: Option<i64>,
    /// When it was last written down that an autoscaler has changed that.
    pub scaled: Option<Instant>,
}

/// Returns a number that changes when anybody changes an object, and not when its controllers report on it.
pub fn digest(object: &Value) -> u64 {
    // The answer stays in this process, so that the hasher may change with the compiler.
    let mut hasher = DefaultHasher::new();
    for (name, value) in object.as_object().into_iter().flatten() {
        match name.as_str() {
            "status" => {}
            "metadata" => metadata(value, &mut hasher),
            _ => (name, value.to_string()).hash(&mut hasher),
        }
    }
    hasher.finish()
}

fn metadata(metadata: &Value, hasher: &mut DefaultHasher) {
    for name in ["labels", "annotations", "finalizers", "ownerReferences", "deletionTimestamp", "uid"] {
        match metadata[name].as_object() {
            Some(entries) => {
                // The annotations in which the Deployment controller counts are a kind of status.
                let said = entries.iter().filter(|(key, _)| !key.starts_with("deployment.kubernetes.io/"));
                said.for_each(|(key, value)| (name, key, value.to_string()).hash(hasher));
            }
            None => (name, metadata[name].to_string()).hash(hasher),
        }
    }
    let own = metadata["managedFields"].as_array().into_iter().flatten();
    for entry in own.filter(|entry| entry["manager"] == marks::FIELD_MANAGER && entry["operation"] == "Apply") {
        entry["fieldsV1"].to_string().hash(hasher);
    }
}

/// Leaves out which fields of the status its controllers own: as much text as the rest of a small object, and nobody asks.
pub fn forget_reporters(object: &mut Value) {
    if let Some(entries) = object.pointer_mut("/metadata/managedFields").and_then(Value::as_array_mut) {
        entries.retain(|entry| entry["subresource"] != "status");
    }
}

/// Returns the field manager that wrote an object last, other than belay and the controllers that report its status.
pub fn newest_other_manager(object: &Value) -> Option<String> {
    let entries = object["metadata"]["managedFields"].as_array()?.iter();
    let others = entries.filter(|entry| entry["manager"] != marks::FIELD_MANAGER && entry.get("subresource").is_none());
    let newest = others.max_by_key(|entry| entry["time"].as_str().unwrap_or_default().to_owned())?;
    newest["manager"].as_str().map(str::to_owned)
}

/// Returns when belay applied an object last: a write that changes nothing leaves the time as it was.
pub fn applied_at(object: &Value) -> Option<Timestamp> {
    let entries = object["metadata"]["managedFields"].as_array()?.iter();
    let own = entries.filter(|entry| entry["manager"] == marks::FIELD_MANAGER && entry["operation"] == "Apply");
    own.filter_map(|entry| entry["time"].as_str()?.parse().ok()).max()
}

/// Returns true when nobody has written an object since belay did, apart from the controllers that report its status.
pub fn was_belays_last(object: &Value) -> bool {
    let entries = object["metadata"]["managedFields"].as_array().into_iter().flatten();
    let entries = entries.filter(|entry| entry["subresource"] != "status");
    // Times have no parts of a second: who wrote in the same one may have been later.
    let newest = entries.map(|entry| (entry["time"].as_str(), entry["manager"] != marks::FIELD_MANAGER)).max();
    newest.is_some_and(|(_, another)| !another)
}

/// The live object of a manifest, if there is one, or why belay may not read it.
pub type Live = Result<Option<Value>, ClusterError>;
/// The same as a list says it, as text.
pub type ListedLive = Result<Option<ObjectText>, ClusterError>;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn who_wrote_last() {
        let object = |entries: Value| json!({"metadata": {"managedFields": entries}});
        let by =
            |manager: &str, second: u32| json!({"manager": manager, "time": format!("2026-01-01T00:00:0{second}Z")});
        assert!(was_belays_last(&object(json!([by("kubectl", 1), by("belay", 2)]))));
        assert!(!was_belays_last(&object(json!([by("belay", 2), by("kubectl", 2)]))));
        assert!(!was_belays_last(&object(json!([by("belay", 2), by("kubectl", 3)]))));
        assert!(!was_belays_last(&object(json!([]))));
        let mut report = by("kube-controller-manager", 4);
        report["subresource"] = json!("status");
        assert!(was_belays_last(&object(json!([by("belay", 2), report]))));
    }

    #[test]
    fn reports_of_controllers_leave_the_digest_alone() {
        let object = |change: &dyn Fn(&mut Value)| {
            let mut object = json!({"spec": {"replicas": 1}, "metadata": {"annotations": {"a": "b"}, "generation": 1}});
            change(&mut object);
            digest(&object)
        };
        let same = object(&|_| {});
        assert_eq!(same, object(&|object| object["status"] = json!({"replicas": 1})));
        assert_eq!(same, object(&|object| object["metadata"]["resourceVersion"] = json!("8")));
        assert_eq!(
            same,
            object(&|object| object["metadata"]["annotations"]["deployment.kubernetes.io/revision"] = json!("2"))
        );
        assert_ne!(same, object(&|object| object["spec"]["replicas"] = json!(2)));
        assert_ne!(same, object(&|object| object["metadata"]["annotations"]["a"] = json!("c")));
        assert_ne!(same, object(&|object| object["metadata"]["labels"] = json!({"a": "c"})));
    }

    #[test]
    fn the_newest_other_manager_is_told() {
        let object = json!({"metadata": {"managedFields": [
            {"manager": "belay", "operation": "Apply", "time": "2026-01-01T00:00:09Z"},
            {"manager": "kubectl-edit", "time": "2026-01-01T00:00:05Z"},
            {"manager": "kubectl-scale", "time": "2026-01-01T00:00:07Z"},
            {"manager": "kube-controller-manager", "subresource": "status", "time": "2026-01-01T00:00:08Z"}]}});
        assert_eq!(newest_other_manager(&object).as_deref(), Some("kubectl-scale"));
    }
}
