//! What the API server refuses, said at its place, with what can be done.

use crate::cluster::ClusterError;
use crate::manifest::Complaint;
use crate::rollout::{Wanted, Workload};

/// What the API server says of a manifest that it refuses, each field at its place.
pub(super) fn complaints(wanted: &Wanted, error: &ClusterError) -> Vec<Complaint> {
    let ClusterError::Refused(refusal) = error else { return vec![wanted.complaint("", &error.to_string())] };
    let named: Vec<Complaint> = refusal
        .causes
        .iter()
        .filter(|(field, _)| !field.is_empty())
        .map(|(field, message)| {
            let hint = if is_immutable(message) { Some(choices(wanted)) } else { None };
            Complaint { hint, ..wanted.complaint(field, &format!("{field}: {message}")) }
        })
        .collect();
    if !named.is_empty() {
        return named;
    }
    // `strict decoding error: unknown field "spec.foo", unknown field "spec.bar"`
    let mut unknown = Vec::new();
    for part in refusal.message.split("unknown field \"").skip(1) {
        if let Some((field, _)) = part.split_once('"') {
            unknown.push(wanted.complaint(field, &format!("there is no field {field}")));
        }
    }
    if !unknown.is_empty() {
        return unknown;
    }
    let hint = if is_immutable(&refusal.message) { Some(choices(wanted)) } else { None };
    vec![Complaint { hint, ..wanted.complaint("", &refusal.message) }]
}

/// Whether the API server says that a field can't change once the object is there.
fn is_immutable(message: &str) -> bool {
    message.contains("immutable") || message.contains("updates to statefulset spec for fields other than")
}

/// What can be done about a field that can't change.
fn choices(wanted: &Wanted) -> String {
    let key = &wanted.key;
    let target = format!("{}/{}", key.kind.to_lowercase(), key.name);
    let space = key.namespace.as_ref().map(|namespace| format!(" -n {namespace}")).unwrap_or_default();
    match Workload::of(key) {
        Some(Workload::Job) => format!(
            "a Job runs once and can't change: give it another name (web-migrate-2), or delete it (kubectl delete \
             {target}{space}) and belay makes it anew, or let a CronJob make it"
        ),
        _ => format!(
            "leave the field as it was, or give the object another name, or delete it (kubectl delete {target}{space}; \
             --cascade=orphan keeps its pods) and belay makes it anew"
        ),
    }
}
