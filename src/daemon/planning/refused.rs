//! The API server's refusals, each at its place, with advice.

use crate::cluster::ClusterError;
use belay_core::manifest::{Complaint, brief};
use belay_core::rollout::{Reason, ReasonCode, Wanted, Workload};

/// Returns the API server's complaints about a manifest, each field at its place.
pub fn complaints(wanted: &Wanted, error: &ClusterError) -> Vec<Complaint> {
    let ClusterError::Refused(refusal) = error else { return vec![wanted.complaint("", &error.to_string())] };
    let is_secret = wanted.key.kind == "Secret";
    let fields = refusal.causes.iter().filter(|(field, _)| !field.is_empty());
    let named: Vec<Complaint> = fields
        .map(|(field, message)| {
            let is_fixed = is_immutable(field, message) || is_secret && is_fixed_in_a_secret(field, message);
            let can_change = !is_fixed;
            let message = match (is_secret, can_change) {
                (true, false) => "it can't change".to_owned(),
                (true, true) => format!("the API server does not take it ({message})"),
                (false, _) => brief(message),
            };
            let hint = (!can_change).then(|| choices(wanted, field));
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
    let hint = is_immutable("", &refusal.message).then(|| choices(wanted, ""));
    vec![Complaint { hint, ..wanted.complaint("", &brief(&refusal.message)) }]
}

/// Returns true when an object that was refused, or given up, for this reason may be accepted later without a change of
/// its manifest: a policy, a quota, a port or a right may change, and an object that is in the way may be removed.
pub fn is_tried_again(reason: &Reason) -> bool {
    !matches!(reason.code, ReasonCode::InvalidManifest | ReasonCode::PruneRefused | ReasonCode::ClaimedTwice)
}

/// Returns true when the API server says that a field can't change once the object exists.
fn is_immutable(field: &str, message: &str) -> bool {
    const SAID: [&str; 5] = [
        "immutable",
        "updates to statefulset spec for fields other than",
        "may not change once set",
        "can not be unset",
        "cannot change roleRef",
    ];
    SAID.iter().any(|said| message.contains(said))
        || field == "spec.clusterIP" && message.contains("may not be changed")
}

/// Returns true when a field of a Secret can't change. The server's words about a Secret are not known, for they may
/// repeat a value.
fn is_fixed_in_a_secret(field: &str, reason: &str) -> bool {
    field == "type" && reason == "FieldValueInvalid" || reason == "FieldValueForbidden"
}

/// Returns advice about a field that can't change.
fn choices(wanted: &Wanted, field: &str) -> String {
    let key = &wanted.key;
    let target = format!("{}/{}", key.kind.to_lowercase(), key.name);
    let space = key.namespace.as_ref().map(|namespace| format!(" -n {namespace}")).unwrap_or_default();
    let delete = format!("kubectl delete {target}{space}");
    match (Workload::of(key), key.kind.as_str()) {
        (Some(Workload::Job), _) => format!(
            "a Job runs once and can't change: give it another name (web-migrate-2), or delete it ({delete}) and belay makes \
             it anew, or let a CronJob make it"
        ),
        (Some(_), _) => format!(
            "leave the field as it was, or give the object another name, or delete it ({delete}; --cascade=orphan keeps its \
             pods) and belay makes it anew"
        ),
        (None, "Service") if field.starts_with("spec.clusterIP") => format!(
            "a Service keeps its clusterIP: leave the field as it was, or delete it ({delete}) and belay makes it anew, with \
             another address"
        ),
        (None, "RoleBinding" | "ClusterRoleBinding") => format!(
            "a binding keeps its roleRef: give it another name, or delete it ({delete}) and belay makes it anew"
        ),
        (None, "CustomResourceDefinition") => format!(
            "leave the field as it was, or delete the definition with all of its objects ({delete}) and belay makes both anew"
        ),
        (None, "Secret") if field == "type" => {
            format!("a Secret keeps its type: give it another name, or delete it ({delete}) and belay makes it anew")
        }
        (None, _) => format!(
            "leave the field as it was, or give the object another name, or delete it ({delete}) and belay makes it anew"
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

    fn refused(text: &str, field: &str, message: &str) -> Complaint {
        let manifest = read_file("a.yaml", text.as_bytes(), &Scopes::new("shop")).manifests.remove(0);
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
            causes: vec![(field.to_owned(), message.to_owned())],
        };
        complaints(&wanted, &ClusterError::Refused(refusal)).remove(0)
    }

    #[test]
    fn what_can_not_change_comes_with_the_choices() {
        let service =
            "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {clusterIP: None, ports: [{port: 80}]}\n";
        let binding = "apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: web}\nroleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: b}\n";
        let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: web}\ntype: kubernetes.io/basic-auth\nstringData: {password: a}\n";
        let cases = [
            (
                service,
                "spec.clusterIPs[0]",
                "Invalid value: [\"None\"]: may not change once set",
                "keeps its clusterIP",
            ),
            (service, "spec.clusterIP", "Invalid value: \"None\": field is immutable", "delete service/web -n shop"),
            (
                binding,
                "roleRef",
                "Invalid value: {\"name\":\"b\"}: cannot change roleRef",
                "a binding keeps its roleRef",
            ),
            (secret, "type", "FieldValueInvalid", "a Secret keeps its type"),
            (secret, "data", "FieldValueForbidden", "give the object another name"),
        ];
        for (text, field, message, hint) in cases {
            let said = refused(text, field, message).hint.unwrap_or_default();
            assert!(said.contains(hint), "{field}: {said}");
        }
        let other = refused(secret, "data[a]", "FieldValueInvalid");
        assert_eq!(
            (other.message.as_str(), other.hint),
            ("data[a]: the API server does not take it (FieldValueInvalid)", None)
        );
    }

    #[test]
    fn a_job_that_can_not_change_comes_with_the_choices() {
        let text = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: migrate}\nspec:\n  template: {spec: {restartPolicy: Never, containers: [{name: a, image: \"a:1\"}]}}\n";
        let template = format!("{{\"metadata\":{{\"labels\":{{\"a\":\"{}\"}}}}}}", "x".repeat(1700));
        let complaint = refused(text, "spec.template", &format!("Invalid value: {template}: field is immutable"));
        let hint = complaint.hint.as_deref().unwrap();
        assert!(hint.contains("another name") && hint.contains("kubectl delete job/migrate -n shop"), "{hint}");
        assert_eq!(
            (complaint.place.line, complaint.message.as_str()),
            (5, "spec.template: Invalid value: {…}: field is immutable")
        );
    }
}
