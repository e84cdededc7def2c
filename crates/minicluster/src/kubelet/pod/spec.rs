//! Pods as they come from the watch: of a specification only fields that the kubelet or the scheduler reads.
//!
//! The types of `k8s-openapi` have room for all that a pod can say, more than two thousand bytes for each container and
//! each volume.

use k8s_openapi::api::core::v1::{
    Affinity, ConfigMapVolumeSource, PodAntiAffinity, PodReadinessGate, PodSchedulingGate, PodStatus,
    ProjectedVolumeSource, SecretVolumeSource, Toleration, TopologySpreadConstraint,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;

use super::compact::{CompactList, CompactMap};
use super::container::{ContainerSpec, ResourceRequirements, RestartPolicy};
use super::null::or_default;
use crate::impl_resource::impl_resource;

/// A pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Pod {
    /// Its metadata.
    #[serde(deserialize_with = "or_default")]
    pub metadata: ObjectMeta,
    /// The specification.
    pub spec: Option<PodSpec>,
    /// The status.
    pub status: Option<PodStatus>,
}

/// The specification of a pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodSpec {
    /// The node that it is bound to.
    pub node_name: Option<String>,
    /// Its containers.
    pub containers: CompactList<ContainerSpec>,
    /// Containers that run first, or beside.
    pub init_containers: CompactList<ContainerSpec>,
    /// Its volumes; not kept.
    pub volumes: CompactList<Volume>,
    /// When its containers are started again.
    pub restart_policy: Option<RestartPolicy>,
    /// True when it has its node's address.
    pub host_network: Option<bool>,
    /// The longest time of its run.
    pub active_deadline_seconds: Option<i64>,
    /// The time that it has to stop.
    pub termination_grace_period_seconds: Option<i64>,
    /// Conditions of others without which it is not ready.
    pub readiness_gates: CompactList<PodReadinessGate>,
    /// The requests and limits of the whole pod.
    pub resources: Option<Box<ResourceRequirements>>,
    /// The cost of running it besides its containers.
    pub overhead: Option<CompactMap<Quantity>>,
    /// The priority.
    pub priority: Option<i32>,
    /// The policy by which it may push others out; kept while it waits for a node.
    pub preemption_policy: Option<String>,
    /// The labels that its node must have; kept until it has come to its node.
    pub node_selector: Option<CompactMap<String>>,
    /// The wanted placement. Terms that keep others away are kept for as long as the pod is there.
    pub affinity: Option<Box<Affinity>>,
    /// The taints that it tolerates; kept while it waits for a node.
    pub tolerations: Option<Vec<Toleration>>,
    /// The wanted spreading; kept while it waits for a node.
    pub topology_spread_constraints: CompactList<TopologySpreadConstraint>,
    /// The scheduler that places it; kept while it waits for a node.
    pub scheduler_name: Option<String>,
    /// The gates that must be lifted before it is placed; kept while it waits for a node.
    pub scheduling_gates: CompactList<PodSchedulingGate>,
}

/// A volume, as far as something that it shows may be missing.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Volume {
    /// Its name.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// It shows a ConfigMap.
    pub config_map: Option<ConfigMapVolumeSource>,
    /// It shows a Secret.
    pub secret: Option<SecretVolumeSource>,
    /// It shows several of them.
    pub projected: Option<ProjectedVolumeSource>,
}

impl PodSpec {
    /// Drops fields that are not read again; `came` is whether the pod has come to its node.
    pub(super) fn trim(&mut self, came: bool) {
        self.volumes = CompactList::default();
        self.containers.iter_mut().chain(self.init_containers.iter_mut()).for_each(ContainerSpec::trim);
        self.tolerations.iter_mut().for_each(Vec::shrink_to_fit);
        if self.node_name.as_ref().is_some_and(|name| !name.is_empty()) {
            self.preemption_policy = None;
            self.tolerations = None;
            self.topology_spread_constraints = CompactList::default();
            self.scheduler_name = None;
            self.scheduling_gates = CompactList::default();
            self.trim_affinity(came);
        }
    }

    fn trim_affinity(&mut self, came: bool) {
        if came {
            self.node_selector = None;
        }
        let Some(affinity) = &mut self.affinity else { return };
        affinity.pod_affinity = None;
        let far = affinity.pod_anti_affinity.as_mut();
        let required = far.and_then(|far| far.required_during_scheduling_ignored_during_execution.take());
        affinity.pod_anti_affinity = required.map(|required| PodAntiAffinity {
            required_during_scheduling_ignored_during_execution: Some(required),
            preferred_during_scheduling_ignored_during_execution: None,
        });
        if came {
            affinity.node_affinity = None;
        }
        self.affinity.take_if(|affinity| **affinity == Affinity::default());
    }
}

impl_resource!(Pod, k8s_openapi::api::core::v1::Pod);
