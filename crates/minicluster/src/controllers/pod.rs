//! Pods as controllers see them: only fields that one of them reads are kept in memory.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{PodCondition, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde::Deserialize;

use super::informer::{Cached, Tag};
use super::key::{Key, is_terminating, namespace_of};
use crate::impl_resource::impl_resource;

/// A pod.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Pod {
    /// Its metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// The specification.
    #[serde(default)]
    pub spec: PodSpec,
    /// The status.
    #[serde(default)]
    pub status: PodStatus,
}

/// The specification of a pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodSpec {
    /// The node that it is bound to.
    pub node_name: Option<String>,
    /// The allowed nodes, for pods of DaemonSets that are not bound yet.
    pub affinity: Option<Box<k8s_openapi::api::core::v1::Affinity>>,
    /// The claims that it mounts.
    #[serde(default)]
    pub volumes: Vec<PodVolume>,
    /// Its containers.
    #[serde(default)]
    pub containers: Vec<PodContainer>,
    /// Containers that run first, or beside.
    #[serde(default)]
    pub init_containers: Vec<PodContainer>,
    /// The host name, under a headless service.
    pub hostname: Option<String>,
    /// The headless service.
    pub subdomain: Option<String>,
    /// The cost of running it besides its containers.
    pub overhead: Option<BTreeMap<String, k8s_openapi::apimachinery::pkg::api::resource::Quantity>>,
    /// The longest time of its run.
    pub active_deadline_seconds: Option<i64>,
    /// Its priority class.
    pub priority_class_name: Option<String>,
}

/// A volume of a pod, as far as it is a claim.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodVolume {
    /// The volume's name.
    #[serde(default)]
    pub name: String,
    /// The claim that it stands for.
    pub persistent_volume_claim: Option<ClaimName>,
    /// The claim that is made for this pod alone.
    pub ephemeral: Option<Present>,
}

/// The name of a claim.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClaimName {
    /// The claim, in the pod's namespace.
    #[serde(default)]
    pub claim_name: String,
}

/// Something that matters only by being there.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub struct Present {}

/// A container of a pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodContainer {
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// The needs.
    pub resources: Option<Box<ResourceRequirements>>,
    /// The ports that it names.
    #[serde(default)]
    pub ports: Vec<PodPort>,
    /// `Always` for an init container that runs beside the others.
    pub restart_policy: Option<String>,
}

/// A port of a container.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodPort {
    /// Its name.
    pub name: Option<String>,
    /// Its number.
    #[serde(default)]
    pub container_port: i32,
    /// `TCP` where it is not said.
    pub protocol: Option<String>,
}

/// The status of a pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodStatus {
    /// `Pending`, `Running`, `Succeeded`, `Failed`, `Unknown`.
    pub phase: Option<String>,
    /// Ready, scheduled and so on.
    #[serde(default)]
    pub conditions: Vec<PodCondition>,
    /// Its containers.
    #[serde(default)]
    pub container_statuses: Vec<PodContainerStatus>,
    /// Its init containers.
    #[serde(default)]
    pub init_container_statuses: Vec<PodContainerStatus>,
    /// Its address.
    #[serde(rename = "podIP")]
    pub pod_ip: Option<String>,
}

/// The status of a container.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodContainerStatus {
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// The number of restarts.
    #[serde(default)]
    pub restart_count: i32,
    /// The state.
    #[serde(default)]
    pub state: PodContainerState,
}

/// The state of a container.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct PodContainerState {
    /// It has ended.
    pub terminated: Option<Terminated>,
}

/// The end of a container.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Terminated {
    /// The exit code.
    #[serde(default)]
    pub exit_code: i32,
    /// When.
    pub finished_at: Option<Time>,
}

impl_resource!(Pod, k8s_openapi::api::core::v1::Pod);

impl Cached for Pod {
    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }

    fn trim(&mut self) {
        self.metadata.managed_fields = None;
        let has_claim = |volume: &PodVolume| volume.persistent_volume_claim.is_some() || volume.ephemeral.is_some();
        self.spec.volumes.retain(has_claim);
        self.spec.volumes.shrink_to_fit();
        if self.spec.node_name.is_some() {
            self.spec.affinity = None;
        }
    }

    fn tags(&self) -> Vec<Tag> {
        let mut tags = vec![Tag::of_owner(&self.metadata)];
        tags.extend(self.spec.node_name.clone().map(Tag::Node));
        tags.extend(self.claims().map(|claim| Tag::Claim(Key::new(namespace_of(&self.metadata), claim))));
        tags.extend(Tag::of_labels(&self.metadata));
        tags
    }
}

impl Pod {
    /// Returns the phase; empty while there is none.
    pub fn phase(&self) -> &str {
        self.status.phase.as_deref().unwrap_or_default()
    }

    /// Returns true when it has ended for good.
    pub fn is_finished(&self) -> bool {
        matches!(self.phase(), "Succeeded" | "Failed")
    }

    /// Returns true when it counts: neither ended nor asked to go.
    pub fn is_active(&self) -> bool {
        !self.is_finished() && !is_terminating(&self.metadata)
    }

    /// Returns true when it was asked to go and has not ended yet.
    pub fn is_leaving(&self) -> bool {
        !self.is_finished() && is_terminating(&self.metadata)
    }

    /// Returns the condition of this type.
    pub fn condition(&self, kind: &str) -> Option<&PodCondition> {
        self.status.conditions.iter().find(|condition| condition.type_ == kind)
    }

    /// Returns true when it is ready.
    pub fn is_ready(&self) -> bool {
        self.condition("Ready").is_some_and(|ready| ready.status == "True")
    }

    /// Returns since when it is ready, if it is and says so.
    pub fn ready_since(&self) -> Option<Timestamp> {
        let ready = self.condition("Ready").filter(|ready| ready.status == "True")?;
        ready.last_transition_time.as_ref().map(|time| time.0)
    }

    /// Returns true when it has been ready for `min_ready_seconds` at `now`.
    pub fn is_available(&self, min_ready_seconds: i32, now: Timestamp) -> bool {
        self.is_ready()
            && (min_ready_seconds <= 0 || self.available_in(min_ready_seconds, now) == Some(SignedDuration::ZERO))
    }

    /// Returns the time until it will have been ready long enough, if it stays ready; zero if it has been; `None` if it
    /// is not ready or does not say since when.
    pub fn available_in(&self, min_ready_seconds: i32, now: Timestamp) -> Option<SignedDuration> {
        let since = self.ready_since()?;
        let needed = SignedDuration::from_secs(i64::from(min_ready_seconds.max(0)));
        let elapsed = now.duration_since(since);
        Some(if elapsed >= needed { SignedDuration::ZERO } else { needed - elapsed })
    }

    /// Returns the highest number of restarts: of its containers first, then of those that run beside them.
    pub fn restarts(&self) -> (i32, i32) {
        let most = |statuses: &mut dyn Iterator<Item = &PodContainerStatus>| {
            statuses.map(|status| status.restart_count).max().unwrap_or(0)
        };
        let beside = |status: &&PodContainerStatus| {
            let container = self.spec.init_containers.iter().find(|container| container.name == status.name);
            container.is_some_and(|container| container.restart_policy.as_deref() == Some("Always"))
        };
        (
            most(&mut self.status.container_statuses.iter()),
            most(&mut self.status.init_container_statuses.iter().filter(beside)),
        )
    }

    /// Returns the claims that it mounts, by name.
    pub fn claims(&self) -> impl Iterator<Item = String> + '_ {
        let pod = self.metadata.name.as_deref().unwrap_or_default();
        self.spec.volumes.iter().filter_map(move |volume| match (&volume.persistent_volume_claim, &volume.ephemeral) {
            (Some(claim), _) => Some(claim.claim_name.clone()),
            (None, Some(_)) => Some(format!("{pod}-{}", volume.name)),
            (None, None) => None,
        })
    }
}
