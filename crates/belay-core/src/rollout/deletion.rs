//! Objects that are being deleted: what keeps them.

use serde_json::Value;

use super::{Reason, ReasonCode};
use crate::manifest::{brief, shortened};

/// Returns why nothing is applied to an object that is on its way out: it would be gone with it.
#[must_use]
pub fn being_deleted(live: &Value) -> Option<Reason> {
    live["metadata"].get("deletionTimestamp").filter(|at| !at.is_null())?;
    let kept = match (finalizers(live), namespace_stays(live)) {
        (_, Some(why)) => format!(", and stays ({why})"),
        (names, None) if names.is_empty() => String::new(),
        (names, None) => format!(", kept by its finalizers {names}"),
    };
    let message = format!("it is being deleted{kept}: belay makes it anew as soon as it is gone");
    Some(Reason::new(ReasonCode::DeletionHangs, message))
}

/// Returns why a Namespace that is being deleted stays, in the words of its conditions; `None` if they say nothing.
#[must_use]
pub fn namespace_stays(live: &Value) -> Option<String> {
    const STAYS: [&str; 5] = [
        "NamespaceDeletionDiscoveryFailure",
        "NamespaceDeletionGroupVersionParsingFailure",
        "NamespaceDeletionContentFailure",
        "NamespaceFinalizersRemaining",
        "NamespaceContentRemaining",
    ];
    let conditions = live["status"]["conditions"].as_array()?;
    let says = |kind: &&str| conditions.iter().find(|one| one["type"] == **kind && one["status"] == "True");
    let (kind, condition) = STAYS.iter().find_map(|kind| Some((kind, says(kind)?)))?;
    let message = brief(condition["message"].as_str().unwrap_or_default());
    Some(format!("{kind}: {}", shortened(&message, 300)))
}

/// Returns the finalizers of an object, for people.
#[must_use]
pub fn finalizers(live: &Value) -> String {
    let finalizers = live["metadata"]["finalizers"].as_array().into_iter().flatten();
    finalizers.filter_map(Value::as_str).collect::<Vec<_>>().join(", ")
}
