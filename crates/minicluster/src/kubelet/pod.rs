//! What the kubelet and the scheduler keep of a pod; the rest of the API object is dropped.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodCondition, PodSpec, PodStatus};

use super::requests::PodName;

/// The annotation that chooses a pod's fate is `kubelet.<domain>/fate`, with whatever domain the user has.
const FATE: (&str, &str) = ("kubelet.", "/fate");

/// What a pod's annotation says of its fate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToldFate {
    /// The annotation's name.
    pub annotation: String,
    /// Its text.
    pub text: String,
}

/// A pod as last seen.
#[derive(Clone, Debug)]
pub struct SeenPod {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// What tells it from others of its name.
    pub uid: String,
    /// Counts changes of its specification.
    pub generation: Option<i64>,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// The uid of the controller that owns it.
    pub owner: Option<String>,
    /// What is said of its fate.
    pub fate: Option<ToldFate>,
    /// Its deletion, if it is under way.
    pub deletion: Option<PodDeletion>,
    /// Its specification.
    pub spec: Arc<PodSpec>,
    /// Its phase, as its status says.
    pub phase: Option<String>,
    /// Its conditions, also those that others wrote.
    pub conditions: Vec<PodCondition>,
}

/// A deletion under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PodDeletion {
    /// When the pod should be gone.
    pub at: Timestamp,
    /// How long it was given, in seconds.
    pub grace: i64,
}

impl SeenPod {
    /// Takes from `pod` what is needed, and apart its status, which matters only the first time. `None` for an object
    /// without name, namespace, uid or spec, which no API server sends.
    pub fn read(pod: Pod) -> Option<(SeenPod, PodStatus)> {
        let Pod { metadata, spec, status } = pod;
        let status = status.unwrap_or_default();
        let grace = metadata.deletion_grace_period_seconds;
        let owners = metadata.owner_references.unwrap_or_default();
        let seen = SeenPod {
            namespace: metadata.namespace?,
            name: metadata.name?,
            uid: metadata.uid?,
            generation: metadata.generation,
            created: metadata.creation_timestamp.map(|time| time.0),
            labels: metadata.labels.unwrap_or_default(),
            owner: owners.into_iter().find(|owner| owner.controller == Some(true)).map(|owner| owner.uid),
            fate: metadata.annotations.and_then(told_fate),
            deletion: metadata.deletion_timestamp.map(|at| PodDeletion { at: at.0, grace: grace.unwrap_or(0) }),
            spec: Arc::new(spec?),
            phase: status.phase.clone(),
            conditions: status.conditions.clone().unwrap_or_default(),
        };
        Some((seen, status))
    }

    /// What requests name it by.
    pub fn id(&self) -> PodName {
        PodName { namespace: self.namespace.clone(), name: self.name.clone(), uid: self.uid.clone() }
    }

    /// The node it is bound to.
    pub fn node(&self) -> Option<&str> {
        self.spec.node_name.as_deref().filter(|name| !name.is_empty())
    }

    /// Whether it has ended for good.
    pub fn finished(&self) -> bool {
        matches!(self.phase.as_deref(), Some("Succeeded" | "Failed"))
    }
}

fn told_fate(annotations: BTreeMap<String, String>) -> Option<ToldFate> {
    let is_it = |name: &str| {
        name.strip_prefix(FATE.0).and_then(|rest| rest.strip_suffix(FATE.1)).is_some_and(|domain| !domain.is_empty())
    };
    let (annotation, text) = annotations.into_iter().find(|(name, _)| is_it(name))?;
    Some(ToldFate { annotation, text })
}
