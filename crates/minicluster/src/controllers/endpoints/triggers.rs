//! When the change happened that endpoints were last written for: an annotation, from which others measure how long it
//! took to show.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Service;

use crate::controllers::key::{Key, name_of};
use crate::controllers::pod::Pod;

/// The annotation.
const ANNOTATION: &str = "endpoints.kubernetes.io/last-change-trigger-time";

/// The facts about each Service at the last reconciliation.
#[derive(Debug, Default)]
pub struct Triggers(Mutex<BTreeMap<Key, Known>>);

#[derive(Debug, Default)]
struct Known {
    service: Option<Timestamp>,
    /// The time since which each pod is ready, or is not.
    pods: BTreeMap<String, Timestamp>,
}

impl Triggers {
    /// The first of the changes since the last reconciliation: the Service is new, or a pod became ready or ceased to
    /// be. A pod that goes is no change.
    pub fn first_since(&self, service: &Service, pods: &[Arc<Pod>]) -> Option<Timestamp> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = all.entry(Key::of(&service.metadata)).or_default();
        let made = service.metadata.creation_timestamp.as_ref().map(|time| time.0);
        let mut first = made.filter(|made| known.service.is_none_or(|before| before < *made));
        known.service = made;
        let turned = |pod: &Pod| pod.condition("Ready")?.last_transition_time.as_ref().map(|time| time.0);
        let mut turns = BTreeMap::new();
        for pod in pods {
            let Some(at) = turned(pod) else { continue };
            let name = name_of(&pod.metadata).to_owned();
            if known.pods.get(&name).is_none_or(|before| *before < at) {
                first = Some(first.map_or(at, |first| first.min(at)));
            }
            turns.insert(name, at);
        }
        known.pods = turns;
        first
    }

    /// Notes that the Service is gone.
    pub fn forget(&self, service: &Key) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(service);
    }
}

/// Annotations with the moment, or without if there is none.
pub fn annotated(
    annotations: Option<BTreeMap<String, String>>,
    moment: Option<Timestamp>,
) -> Option<BTreeMap<String, String>> {
    let mut annotations = annotations.unwrap_or_default();
    match moment {
        Some(moment) => drop(annotations.insert(ANNOTATION.to_owned(), moment.to_string())),
        None => drop(annotations.remove(ANNOTATION)),
    }
    Some(annotations).filter(|annotations| !annotations.is_empty())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::{Triggers, annotated};
    use crate::controllers::pod::Pod;

    #[test]
    fn the_first_change_since_the_last_look_counts() {
        let service = |second: u32| {
            let made = format!("2000-01-01T00:00:{second:02}Z");
            serde_json::from_value(json!({ "metadata": { "name": "web", "creationTimestamp": made } })).unwrap()
        };
        let pod = |name: &str, second: u32| -> Arc<Pod> {
            let ready = json!({ "type": "Ready", "status": "True", "lastTransitionTime": format!("2000-01-01T00:00:{second:02}Z") });
            let pod = json!({ "metadata": { "name": name }, "status": { "conditions": [ready] } });
            Arc::new(serde_json::from_value(pod).unwrap())
        };
        let triggers = Triggers::default();
        let first = |pods: &[Arc<Pod>]| triggers.first_since(&service(5), pods).map(|at| at.as_second() % 60);
        assert_eq!(first(&[]), Some(5));
        assert_eq!(first(&[]), None);
        assert_eq!(first(&[pod("a", 9), pod("b", 7)]), Some(7));
        assert_eq!(first(&[pod("a", 9), pod("b", 11)]), Some(11));
        assert_eq!(first(&[pod("a", 9)]), None, "what goes is no change");
        assert_eq!(annotated(annotated(None, triggers.first_since(&service(6), &[])), None), None);
    }
}
