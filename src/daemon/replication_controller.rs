//! What the daemon says of a changed ReplicationController, whose pods no controller replaces.

use crate::manifest::ObjectKey;
use crate::rollout::{Apply, Reason, Workload};

/// The code of the reason.
const CODE: &str = "OnlyNewPods";

/// What must be told of a complete rollout that has replaced no pod: the template of a ReplicationController changed, but
/// the pods that it has stay as they were.
pub(super) fn only_new_pods(key: &ObjectKey, apply: &Apply) -> Option<Reason> {
    if Workload::of(key) != Some(Workload::ReplicationController) || apply.creates || !apply.rolls_out {
        return None;
    }
    let namespace = key.namespace.as_deref().map(|namespace| format!(" -n {namespace}")).unwrap_or_default();
    let message = format!(
        "its new template is only for pods made from now on: a ReplicationController replaces none; \
         `belay rolling-update{namespace} {} --image=IMAGE` replaces them one by one",
        key.name
    );
    Some(Reason { code: CODE.to_owned(), message })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(kind: &str, creates: bool, rolls_out: bool) -> Option<Reason> {
        let group = if kind == "Deployment" { "apps" } else { "" };
        let key = ObjectKey {
            group: group.to_owned(),
            kind: kind.to_owned(),
            namespace: Some("shop".to_owned()),
            name: "web".to_owned(),
        };
        let apply = Apply { body: serde_json::Value::Null, creates, rolls_out, takes_over: false, changes: Vec::new() };
        only_new_pods(&key, &apply)
    }

    #[test]
    fn only_a_changed_template_of_a_replication_controller_is_told_of() {
        let reason = told("ReplicationController", false, true).unwrap();
        assert!(reason.message.contains("belay rolling-update -n shop web"), "{reason}");
        assert_eq!(told("ReplicationController", true, true), None);
        assert_eq!(told("ReplicationController", false, false), None);
        assert_eq!(told("Deployment", false, true), None);
    }
}
