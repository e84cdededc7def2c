//! What the API server refuses, said at its place, with what can be done.

use crate::cluster::ClusterError;
use belay_core::manifest::Complaint;
use belay_core::rollout::{Wanted, Workload};

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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::cluster::ServerRefusal;
    use belay_core::manifest::{Scopes, read_file};
    use belay_core::rollout::{Commit, Person, Trigger};
    use jiff::Timestamp;

    #[test]
    fn a_job_that_can_not_change_comes_with_the_choices() {
        let text = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: migrate}\nspec:\n  template: {spec: {restartPolicy: Never, containers: [{name: a, image: \"a:1\"}]}}\n";
        let manifest = read_file("job.yaml", text.as_bytes(), &Scopes::new("shop")).manifests.remove(0);
        let commit = Commit {
            id: "1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d".parse().unwrap(),
            subject: String::new(),
            author: Person { name: String::new(), email: String::new() },
            authored: Timestamp::UNIX_EPOCH,
            committed: Timestamp::UNIX_EPOCH,
            parents: Vec::new(),
            trailers: Vec::new(),
        };
        let wanted = Wanted::of(manifest, Arc::new(commit), Trigger::Commit);
        let refusal = ServerRefusal {
            code: 422,
            reason: "Invalid".to_owned(),
            message: "no".to_owned(),
            causes: vec![("spec.template".to_owned(), "Invalid value: {}: field is immutable".to_owned())],
        };
        let complaints = complaints(&wanted, &ClusterError::Refused(refusal));
        let hint = complaints[0].hint.as_deref().unwrap();
        assert!(hint.contains("another name") && hint.contains("kubectl delete job/migrate -n shop"), "{hint}");
        assert_eq!(complaints[0].place.line, 5);
    }
}
