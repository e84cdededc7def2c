//! The target of a HorizontalPodAutoscaler.

use serde_json::Value;

use crate::manifest::ObjectKey;

/// Returns the object whose replicas this one sets; `None` for other objects than HorizontalPodAutoscalers.
#[must_use]
pub fn scaled_by(key: &ObjectKey, object: &Value) -> Option<ObjectKey> {
    if key.group != "autoscaling" || key.kind != "HorizontalPodAutoscaler" {
        return None;
    }
    let target = &object["spec"]["scaleTargetRef"];
    let version = target["apiVersion"].as_str().unwrap_or_default();
    Some(ObjectKey {
        group: version.split_once('/').map(|(group, _)| group).unwrap_or_default().to_owned(),
        kind: target["kind"].as_str()?.to_owned(),
        namespace: key.namespace.clone(),
        name: target["name"].as_str()?.to_owned(),
    })
}
