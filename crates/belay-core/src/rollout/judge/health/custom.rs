//! Custom kinds, and built-in ones with conditions: healthy by the usual conditions, if they have any.

use serde_json::Value;

use super::{Counters, Health, Standing, condition, failure, number, text};
use crate::manifest::ObjectKey;

pub(super) fn health(key: &ObjectKey, object: &Value) -> Option<Health> {
    if key.kind == "CustomResourceDefinition" {
        return Some(by_condition(object, "Established"));
    }
    // Built-in kinds of these groups are healthy as soon as they exist; a kind with a dot in its group that is not
    // Kubernetes' own is custom.
    if !key.group.contains('.') || key.group.ends_with(".k8s.io") {
        return None;
    }
    let conditions = object["status"]["conditions"].as_array()?;
    let has = |kind: &str| conditions.iter().any(|condition| condition["type"] == kind);
    if let Some(stalled) = condition(object, "Stalled").filter(|stalled| stalled["status"] == "True") {
        let message = text(stalled, "message").to_owned();
        let failure = Some(failure(stalled, text(stalled, "reason"), message.clone()));
        return Some(Health { standing: Standing::Failed, failure, message, ..by_condition(object, "Ready") });
    }
    ["Ready", "Available"].into_iter().find(|kind| has(kind)).map(|kind| by_condition(object, kind))
}

/// Returns true when the controller of a custom kind has said something about the present generation of an object: its
/// status has the usual conditions, or names the generation.
#[must_use]
pub fn is_taken_up(key: &ObjectKey, object: &Value) -> bool {
    let observed = object["status"]["observedGeneration"].as_i64();
    health(key, object).is_some() || observed.is_some_and(|observed| observed >= number(object, "/metadata/generation"))
}

fn by_condition(object: &Value, kind: &str) -> Health {
    let condition = condition(object, kind);
    let standing = if condition.is_some_and(|condition| condition["status"] == "True") {
        Standing::Complete
    } else {
        Standing::Moving
    };
    let message = match condition.map(|condition| text(condition, "message")) {
        Some(message) if !message.is_empty() => message.to_owned(),
        _ if standing == Standing::Complete => format!("{kind} is true"),
        _ => format!("{kind} is not true yet"),
    };
    let observed_generation = if object["status"].get("observedGeneration").is_some() {
        number(object, "/status/observedGeneration")
    } else {
        i64::MAX
    };
    Health { observed_generation, standing, failure: None, counters: Counters::default(), message }
}
