//! Bindings: a pod is given its node.

use serde_json::{Value, json};

use super::{body, done};
use crate::api::call::Call;
use crate::api::json_pointer::text;
use crate::api::options::WriteOptions;
use crate::api::reply::Reply;
use crate::api::route::Target;
use crate::api::time::rfc3339;
use crate::api::{ApiError, ApiServer};
use kube_rules::Read;

impl ApiServer {
    /// Answers a POST of a Binding to a pod's `binding`, or to `bindings` with the pod's name in it.
    pub(in crate::api) fn bind(&self, call: &Call, target: &Target) -> Result<Reply, ApiError> {
        let options = WriteOptions::create(call)?;
        let binding = body(call, "Binding")?;
        let name = text(&binding, "/metadata/name");
        if target.name.as_deref().is_some_and(|wanted| wanted != name) {
            return Err(ApiError::bad_request("name in URL does not match name in Binding object"));
        }
        check(&binding)?;
        let registry = self.registry();
        let Some(pods) = registry.resource("", "v1", "pods") else { return Err(ApiError::no_such_resource()) };
        let pod = Target { resource: pods.clone(), name: Some(name.to_owned()), subresource: None, ..target.clone() };
        let now = rfc3339(self.now());
        self.change_object(&pod, &options, |old| {
            assign(old, &binding, &now).map(|object| Read { object, warnings: Vec::new() })
        })?;
        Ok(done())
    }
}

fn check(binding: &Value) -> Result<(), ApiError> {
    let kind = text(binding, "/target/kind");
    let mut wrong = Vec::new();
    if !matches!(kind, "" | "Node") {
        wrong.push(format!("target.kind: Unsupported value: {kind:?}: supported values: \"Node\", \"<empty>\""));
    }
    if text(binding, "/target/name").is_empty() {
        wrong.push("target.name: Required value".to_owned());
    }
    match wrong.as_slice() {
        [] => Ok(()),
        [one] => Err(ApiError::internal(one.clone())),
        several => Err(ApiError::internal(format!("[{}]", several.join(", ")))),
    }
}

fn assign(old: &Value, binding: &Value, now: &str) -> Result<Value, ApiError> {
    let name = text(old, "/metadata/name");
    let node = text(old, "/spec/nodeName");
    let conflict = |why: String| Err(ApiError::conflict("", "pods/binding", name, &why));
    let uid = text(binding, "/metadata/uid");
    if !uid.is_empty() && uid != text(old, "/metadata/uid") {
        return conflict(format!(
            "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
            text(old, "/metadata/uid")
        ));
    }
    if old["metadata"]["deletionTimestamp"].is_string() {
        return conflict(format!("pod {name} is being deleted, cannot be assigned to a host"));
    }
    if !node.is_empty() {
        return conflict(format!("pod {name} is already assigned to node {node:?}"));
    }
    let mut pod = old.clone();
    pod["spec"]["nodeName"] = binding["target"]["name"].clone();
    for part in ["annotations", "labels"] {
        let Some(more) = binding["metadata"][part].as_object() else { continue };
        for (key, value) in more {
            pod["metadata"][part][key] = value.clone();
        }
    }
    let scheduled = json!({
        "type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": now,
    });
    set_condition(&mut pod, scheduled);
    Ok(pod)
}

/// Puts a condition in the place of the one of its type. A condition with the same status keeps the moment of its last
/// change.
pub(super) fn set_condition(pod: &mut Value, mut condition: Value) {
    if !pod["status"]["conditions"].is_array() {
        pod["status"]["conditions"] = json!([]);
    }
    let Some(conditions) = pod["status"]["conditions"].as_array_mut() else { return };
    match conditions.iter_mut().find(|known| known["type"] == condition["type"]) {
        Some(known) => {
            if known["status"] == condition["status"] {
                condition["lastTransitionTime"] = known["lastTransitionTime"].clone();
            }
            *known = condition;
        }
        None => conditions.push(condition),
    }
}
