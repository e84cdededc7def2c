//! The annotations that people write on a manifest for belay, and complaints about them.

use serde_json::Value;

use super::marks;
use crate::manifest::{Complaint, Manifest};
use crate::rollout::plan::after;

/// The request of a manifest for the case that its rollout fails, instead of the source's choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailurePolicy {
    /// `belay.dev/on-failure: report`
    Report,
    /// `belay.dev/on-failure: roll-back`
    RollBack,
}

/// Returns the request of a manifest, else of the live object.
#[must_use]
pub fn failure_policy(manifest: &Value, live: &Value) -> Option<FailurePolicy> {
    [manifest, live].into_iter().find_map(|object| match marks::annotation(object, marks::ON_FAILURE)? {
        "report" => Some(FailurePolicy::Report),
        "roll-back" => Some(FailurePolicy::RollBack),
        _ => None,
    })
}

/// Returns the complaints about a manifest's requests to belay.
#[must_use]
pub fn complaints(manifest: &Manifest, complaint: impl Fn(&str, &str) -> Complaint) -> Vec<Complaint> {
    let value = manifest.value();
    let said = |name: &str| marks::annotation(&value, name);
    let mut complaints = Vec::new();
    let mut complain = |name: &str, text: &str, hint: &str| {
        let field = format!("metadata.annotations[{name}]");
        let mut complaint = complaint(&field, &format!("{name} is {text:?}, which is not a valid value"));
        complaint.hint = Some(hint.to_owned());
        complaints.push(complaint);
    };
    if let Some(text) = said(marks::ON_FAILURE).filter(|text| !["report", "roll-back"].contains(text)) {
        complain(marks::ON_FAILURE, text, "write report or roll-back");
    }
    for name in [marks::PRUNE, marks::ROLL_ON_CONFIG] {
        if let Some(text) = said(name).filter(|text| !["true", "false"].contains(text)) {
            complain(name, text, "write \"true\" or \"false\"");
        }
    }
    let is_deadline = |text: &str| text.parse::<i64>().is_ok_and(|seconds| seconds > 0);
    if let Some(text) = said(marks::PROGRESS_DEADLINE).filter(|text| !is_deadline(text)) {
        complain(marks::PROGRESS_DEADLINE, text, "write a number of seconds, \"600\"");
    }
    if let Some(part) = said(marks::AFTER).and_then(|text| after::names(text, manifest.key.namespace.as_deref()).err())
    {
        let hint =
            "write kind/name or namespace/kind/name of a workload, deployment/db; several with commas between them";
        complain(marks::AFTER, &part, hint);
    }
    complaints
}
