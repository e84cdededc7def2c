//! The parts of a pod that the kubelet and the scheduler keep; the rest of the API object is dropped.

mod compact;
mod container;
mod null;
mod spec;

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{PodCondition, PodStatus};

use super::pod_name::{PodName, Uid};
use super::simulated_pod::Needs;

pub use compact::CompactMap;
pub use container::{ContainerSpec, MessagePolicy, ProbeSpec, PullPolicy, ResourceRequirements, RestartPolicy};
pub use spec::{Pod, PodSpec, Volume};

/// The annotation that chooses a pod's fate is `kubelet.<domain>/fate`, with whatever domain the user has.
const FATE: (&str, &str) = ("kubelet.", "/fate");

/// The annotation with a pod's fate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FateAnnotation {
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
    /// The identity among others of its name.
    pub uid: Uid,
    /// Counts changes of its specification.
    pub generation: Option<i64>,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// Its labels.
    pub labels: CompactMap<String>,
    /// The uid of the controller that owns it.
    pub owner: Option<String>,
    /// The annotation about its fate.
    pub fate: Option<Box<FateAnnotation>>,
    /// Its deletion, if it is under way.
    pub deletion: Option<PodDeletion>,
    /// Its specification.
    pub spec: PodSpec,
    /// The needs without which it can't start.
    pub needs: Needs,
    /// True when it has ended for good, by its status.
    pub finished: bool,
    /// The conditions that its readiness gates name, and while it waits for a node the condition for that.
    pub conditions: Vec<PodCondition>,
}

/// A deletion under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PodDeletion {
    /// When the pod should be gone.
    pub at: Timestamp,
    /// The time that it was given, in seconds.
    pub grace: i64,
}

impl SeenPod {
    /// Takes the necessary fields from `pod`, and apart its status, which matters only the first time. `None` for an
    /// object without name, namespace, uid or spec, which no API server sends.
    pub fn read(pod: Pod) -> Option<(SeenPod, PodStatus)> {
        let Pod { metadata, spec, status } = pod;
        let (mut spec, status) = (spec?, status.unwrap_or_default());
        let needs = Needs::of(&spec);
        spec.trim(status.start_time.is_some());
        let grace = metadata.deletion_grace_period_seconds;
        let owners = metadata.owner_references.unwrap_or_default();
        let seen = SeenPod {
            namespace: metadata.namespace?,
            name: metadata.name?,
            uid: metadata.uid?.into(),
            generation: metadata.generation,
            created: metadata.creation_timestamp.map(|time| time.0),
            labels: metadata.labels.unwrap_or_default().into(),
            owner: owners.into_iter().find(|owner| owner.controller == Some(true)).map(|owner| owner.uid),
            fate: metadata.annotations.and_then(fate_annotation).map(Box::new),
            deletion: metadata.deletion_timestamp.map(|at| PodDeletion { at: at.0, grace: grace.unwrap_or(0) }),
            conditions: kept_conditions(&status, &spec),
            finished: matches!(status.phase.as_deref(), Some("Succeeded" | "Failed")),
            needs,
            spec,
        };
        Some((seen, status))
    }

    /// Returns its name in requests.
    pub fn id(&self) -> PodName {
        PodName { namespace: self.namespace.clone(), name: self.name.clone(), uid: self.uid.clone() }
    }

    /// The node it is bound to.
    pub fn node(&self) -> Option<&str> {
        self.spec.node_name.as_deref().filter(|name| !name.is_empty())
    }

    /// Returns true when it has ended for good.
    pub fn finished(&self) -> bool {
        self.finished
    }
}

fn kept_conditions(status: &PodStatus, spec: &PodSpec) -> Vec<PodCondition> {
    let waits = spec.node_name.as_deref().is_none_or(str::is_empty);
    let is_kept = |condition: &&PodCondition| {
        let kind = &condition.type_;
        (waits && kind == "PodScheduled") || spec.readiness_gates.iter().any(|gate| gate.condition_type == *kind)
    };
    status.conditions.iter().flatten().filter(is_kept).cloned().collect()
}

fn fate_annotation(annotations: BTreeMap<String, String>) -> Option<FateAnnotation> {
    let is_it = |name: &str| {
        name.strip_prefix(FATE.0).and_then(|rest| rest.strip_suffix(FATE.1)).is_some_and(|domain| !domain.is_empty())
    };
    let (annotation, text) = annotations.into_iter().find(|(name, _)| is_it(name))?;
    Some(FateAnnotation { annotation, text })
}

#[cfg(test)]
mod tests {
    use super::{Pod, SeenPod};
    use serde_json::{Value, json};

    fn seen(spec: Value, status: Value) -> SeenPod {
        let metadata = json!({"namespace": "default", "name": "web", "uid": "1"});
        let pod: Pod = serde_json::from_value(json!({"metadata": metadata, "spec": spec, "status": status})).unwrap();
        SeenPod::read(pod).unwrap().0
    }

    #[test]
    fn of_a_pod_on_its_node_only_whom_it_keeps_away_is_kept_of_its_wishes() {
        let far = json!({"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]});
        let mut spec = json!({
            "containers": [{"name": "app", "ports": [{"containerPort": 80}, {"containerPort": 81, "hostPort": 81}]}],
            "nodeSelector": {"zone": "a"}, "tolerations": [{"operator": "Exists"}], "schedulerName": "mine",
            "affinity": {"nodeAffinity": {}, "podAntiAffinity": far},
        });
        let waits = seen(spec.clone(), json!({})).spec;
        assert!(waits.node_selector.is_some() && waits.tolerations.is_some() && waits.scheduler_name.is_some());
        assert_eq!(waits.containers[0].ports.len(), 1, "the other is not the node's");
        spec["nodeName"] = "node-1".into();
        let bound = seen(spec.clone(), json!({})).spec;
        assert!(bound.tolerations.is_none() && bound.scheduler_name.is_none());
        assert!(bound.node_selector.is_some() && bound.affinity.unwrap().node_affinity.is_some());
        let came = seen(spec, json!({"startTime": "2026-01-01T00:00:00Z"})).spec;
        let affinity = came.affinity.unwrap();
        assert!(came.node_selector.is_none() && affinity.node_affinity.is_none());
        assert_eq!(serde_json::to_value(affinity.pod_anti_affinity).unwrap(), far);
    }

    #[test]
    fn null_is_nothing_and_what_has_a_wrong_type_is_refused() {
        let pod = seen(json!({"containers": [{"name": null, "env": null}], "volumes": null}), Value::Null);
        assert_eq!((pod.spec.containers[0].name.as_str(), pod.spec.volumes.len()), ("", 0));
        for wrong in [json!({"containers": {}}), json!({"hostNetwork": "yes"}), json!({"restartPolicy": 1})] {
            assert!(serde_json::from_value::<Pod>(json!({"spec": wrong})).is_err(), "{wrong}");
        }
    }
}
