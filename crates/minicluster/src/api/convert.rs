//! One object in the versions in which it is served. If two kinds are one (Events of two groups), or a kind is served
//! in two versions (HorizontalPodAutoscalers), objects lie in the store in one form and change on their way out and in.

use serde_json::Value;

use super::resource::Resource;
use kube_rules::{from_version, to_version};

mod event;
mod horizontal_pod_autoscaler;

/// Returns an object from the store as the resource serves it.
#[must_use]
pub fn from_storage(resource: &Resource, mut object: Value) -> Value {
    if resource.custom.is_some() {
        from_version(&resource.definition, &mut object);
        return object;
    }
    if resource.is_stored_version() {
        return object;
    }
    match resource.definition.kind.as_str() {
        "Event" => event::to_events_group(&mut object),
        "HorizontalPodAutoscaler" => horizontal_pod_autoscaler::to_v1(&mut object),
        _ => {}
    }
    object["apiVersion"] = Value::from(resource.api_version());
    object
}

/// Returns an object as the resource serves it in the form in which it lies in the store.
#[must_use]
pub fn to_storage(resource: &Resource, mut object: Value) -> Value {
    if resource.is_stored_version() {
        return object;
    }
    if resource.custom.is_some() {
        to_version(&resource.definition, &resource.storage_version, &mut object);
        return object;
    }
    match resource.definition.kind.as_str() {
        "Event" => event::to_core(&mut object),
        "HorizontalPodAutoscaler" => horizontal_pod_autoscaler::to_v2(&mut object),
        _ => {}
    }
    let group = &resource.group_resource.group;
    let version = &resource.storage_version;
    object["apiVersion"] = Value::from(if group.is_empty() { version.clone() } else { format!("{group}/{version}") });
    object
}
