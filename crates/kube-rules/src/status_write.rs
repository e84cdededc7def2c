//! Writes of a status for which it is enough to know an object's metadata and status.
//!
//! A write of the status leaves the rest of an object alone, so that for most kinds the rest need not be read, compared
//! or written again. The result is that of [`update`] for the whole object; if that can't be known, there is none.

use serde_json::Value;

use super::value_ext::ValueExt;
use super::{Definition, Read, WriteContext, apply, update, validate};

/// Kinds whose rules for the status read nothing but metadata and status; of pods, the fields that
/// [`validate::pod_status_needs_spec`] names.
const KINDS: [(&str, &str); 6] = [
    ("", "Node"),
    ("", "Pod"),
    ("", "ReplicationController"),
    ("apps", "Deployment"),
    ("apps", "ReplicaSet"),
    ("apps", "StatefulSet"),
];

/// Returns true when a write may be tried with metadata and status alone.
#[must_use]
pub fn may_do_without_spec(write: &WriteContext<'_>) -> bool {
    let Definition { group, kind, custom, .. } = write.definition;
    write.subresource == Some("status") && custom.is_none() && KINDS.contains(&(group.as_str(), kind.as_str()))
}

/// Returns metadata and status of an object that a client sent for a write of the status; `None` if the rest of it
/// matters to field ownership.
#[must_use]
pub fn metadata_and_status(definition: &Definition, object: &Value) -> Option<Value> {
    let fields = object.as_object()?;
    if apply::lacks_keys(object, &definition.schema) {
        return None;
    }
    let kept = fields.iter().filter(|(name, _)| is_kept(name)).map(|(name, value)| (name.clone(), value.clone()));
    Some(Value::Object(kept.collect()))
}

/// Returns the result of [`update`] for an object of which only metadata and status are there, before and after. `None`
/// if a write is refused, or if its result depends on the rest of the object.
#[must_use]
pub fn update_status(write: &WriteContext<'_>, old: &Value, object: Value) -> Option<Read> {
    let is_apart = |object: &Value| object.as_object().is_some_and(|fields| fields.keys().all(|name| is_kept(name)));
    let ends = old["metadata"].has("deletionTimestamp");
    if ends || !is_apart(&object) || !apply::same_but_status(old, &object) || needs_spec(write, old) {
        return None;
    }
    update(write, old, object).ok()
}

fn needs_spec(write: &WriteContext<'_>, old: &Value) -> bool {
    write.definition.kind == "Pod" && validate::pod_status_needs_spec(&old["status"])
}

fn is_kept(name: &str) -> bool {
    matches!(name, "apiVersion" | "kind" | "metadata" | "status")
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::{Value, json};

    use super::{KINDS, is_kept, may_do_without_spec, metadata_and_status, update_status};
    use crate::{
        BodyFormat, Definition, Effect, FieldValidation, PatchKind, WriteContext, create, patch, read, update,
    };

    fn definition(group: &str, kind: &str) -> Definition {
        Definition::built_in(kube_facts::facts().kind(group, "v1", kind).unwrap())
    }

    /// Returns a write of the status of a kind, so many seconds after the object was made.
    fn status_write(definition: &Definition, second: i64) -> WriteContext<'_> {
        WriteContext {
            definition,
            subresource: Some("status"),
            manager: "controller",
            now: Timestamp::from_second(second).unwrap(),
            field_validation: FieldValidation::Ignore,
            effect: Effect::Stored,
        }
    }

    fn made(write: &WriteContext<'_>) -> Value {
        let template = json!({
            "metadata": { "labels": { "app": "x" } },
            "spec": { "containers": [{ "name": "app", "image": "app:1" }] },
        });
        let spec = match write.definition.kind.as_str() {
            "Node" => json!({}),
            "Pod" => template["spec"].clone(),
            "ReplicationController" => json!({ "selector": { "app": "x" }, "template": template }),
            _ => json!({ "selector": { "matchLabels": { "app": "x" } }, "template": template }),
        };
        let mut metadata = json!({ "name": "x", "uid": "u", "resourceVersion": "1", "labels": { "app": "x" } });
        if write.definition.namespaced {
            metadata["namespace"] = json!("default");
        }
        let body = json!({ "metadata": metadata, "spec": spec }).to_string();
        let write = WriteContext { subresource: None, manager: "person", ..write.clone() };
        let object = read(&write, body.as_bytes(), BodyFormat::Json).unwrap().object;
        create(&write, object, &|_| Ok(())).unwrap().object
    }

    /// Returns the parts of an object that a write of the status reads.
    fn apart(object: &Value) -> Value {
        let fields = object.as_object().unwrap().iter().filter(|(name, _)| is_kept(name));
        Value::Object(fields.map(|(name, value)| (name.clone(), value.clone())).collect())
    }

    /// Writes a status with the whole object and without its spec, as a patch and as a PUT. Returns how many of the two
    /// were done without, and the object.
    fn both_ways(write: &WriteContext<'_>, old: &Value, change: &Value) -> (usize, Value) {
        let body = change.to_string();
        let merged = |old: &Value| patch(write, old, PatchKind::Strategic, body.as_bytes()).unwrap().object;
        let whole = update(write, old, merged(old));
        let old_apart = apart(old);
        let ways = [
            update_status(write, &old_apart, merged(&old_apart)),
            metadata_and_status(write.definition, &merged(old))
                .and_then(|object| update_status(write, &old_apart, object)),
        ];
        for without in ways.iter().flatten() {
            let whole = whole.as_ref().unwrap();
            assert_eq!((&without.object, &without.warnings), (&apart(&whole.object), &whole.warnings), "{change}");
        }
        (ways.iter().flatten().count(), whole.map_or_else(|_| old.clone(), |read| read.object))
    }

    #[test]
    fn a_status_is_written_the_same_without_the_rest() {
        for (group, kind) in KINDS {
            let definition = &definition(group, kind);
            let condition = |status: &str, reason: &str| json!({ "type": "Ready", "status": status, "reason": reason, "lastTransitionTime": null });
            // A scale has counters, the others have not.
            let counts = if matches!(kind, "Node" | "Pod") { 0 } else { 3 };
            let mut object = made(&status_write(definition, 0));
            let statuses = [
                json!({ "conditions": [condition("False", "Starting")], "replicas": counts }),
                json!({ "conditions": [condition("True", "Started")], "replicas": counts, "readyReplicas": counts }),
                json!({ "conditions": [condition("True", "Started")], "replicas": counts, "readyReplicas": counts }),
                json!({ "conditions": [], "replicas": counts, "readyReplicas": null }),
                json!({ "conditions": [condition("True", "Again")], "observedGeneration": 1 }),
            ];
            for (second, status) in (1..).zip(&statuses) {
                let write = status_write(definition, second);
                assert!(may_do_without_spec(&write));
                let (without, next) = both_ways(&write, &object, &json!({ "status": status }));
                assert_eq!(without, 2, "{kind} {status}");
                object = next;
            }
            let write = status_write(definition, 10);
            let refused =
                json!({ "status": { "replicas": -1, "observedGeneration": -1, "conditions": [{ "type": "/" }] } });
            let other = json!({ "metadata": { "labels": { "app": "y" } }, "status": { "replicas": counts } });
            let spec = json!({ "spec": { "replicas": 7 }, "status": { "replicas": counts } });
            if kind != "Node" {
                assert_eq!(both_ways(&write, &object, &refused).0, 0, "{kind}");
            }
            assert_eq!(both_ways(&write, &object, &other).0, 0, "{kind}: metadata changes");
            let (without, _) = both_ways(&write, &object, &spec);
            assert!(without <= 1, "{kind}: a patch of the spec needs it");
        }
    }

    #[test]
    fn a_pod_that_ended_is_looked_at_as_a_whole() {
        let definition = &definition("", "Pod");
        let state = |state: Value| json!({ "status": { "containerStatuses": [{ "name": "app", "state": state }] } });
        let (ended, running) = (json!({ "terminated": { "exitCode": 0 } }), json!({ "running": {} }));
        let pod = made(&status_write(definition, 0));
        let (without, pod) = both_ways(&status_write(definition, 1), &pod, &state(ended));
        assert_eq!(without, 2);
        assert_eq!(both_ways(&status_write(definition, 2), &pod, &state(running)).0, 0);
    }
}
