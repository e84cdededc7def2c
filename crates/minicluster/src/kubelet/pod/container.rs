//! Containers as they come from the watch: only fields that the kubelet or the scheduler reads.

use k8s_openapi::api::core::v1::{ContainerPort, EnvFromSource, EnvVar, SleepAction};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde::Deserialize;

use super::compact::{CompactList, CompactMap};
use super::null::or_default;

/// A container of a pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ContainerSpec {
    /// Its name.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// Its image as the pod names it.
    pub image: Option<String>,
    /// When its image is pulled.
    pub image_pull_policy: Option<PullPolicy>,
    /// When it is started again, if that differs from the pod.
    pub restart_policy: Option<RestartPolicy>,
    /// The source of its termination message.
    pub termination_message_policy: Option<MessagePolicy>,
    /// The requests and limits.
    pub resources: Option<Box<ResourceRequirements>>,
    /// Its ports. Those of its node are kept.
    pub ports: CompactList<ContainerPort>,
    /// Tells whether it has started.
    pub startup_probe: Option<Box<ProbeSpec>>,
    /// Tells whether it lives.
    pub liveness_probe: Option<Box<ProbeSpec>>,
    /// Tells whether it is ready.
    pub readiness_probe: Option<Box<ProbeSpec>>,
    /// The handlers for its stop.
    pub lifecycle: Option<Box<Lifecycle>>,
    /// Its variables; not kept.
    pub env: CompactList<EnvVar>,
    /// The sources of more variables; not kept.
    pub env_from: CompactList<EnvFromSource>,
}

/// When containers are started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum RestartPolicy {
    Always,
    OnFailure,
    Never,
    /// A value that no API server accepts.
    #[serde(other)]
    Other,
}

/// When an image is pulled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum PullPolicy {
    Always,
    Never,
    #[serde(other)]
    IfNotPresent,
}

/// The source of a termination message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum MessagePolicy {
    FallbackToLogsOnError,
    #[serde(other)]
    File,
}

/// Requests and limits.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ResourceRequirements {
    /// The most that it may use.
    pub limits: Option<CompactMap<Quantity>>,
    /// The amounts that are set aside for it.
    pub requests: Option<CompactMap<Quantity>>,
}

/// A probe.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ProbeSpec {
    /// The delay from the container's start to the first probe.
    pub initial_delay_seconds: Option<i32>,
    /// The period between two probes.
    pub period_seconds: Option<i32>,
    /// The number of failures that count as failed.
    pub failure_threshold: Option<i32>,
    /// The number of successes that count as passed.
    pub success_threshold: Option<i32>,
    /// It asks over HTTP.
    pub http_get: Option<ProbeHandler>,
    /// It opens a connection.
    pub tcp_socket: Option<ProbeHandler>,
    /// It asks over gRPC.
    pub grpc: Option<ProbeHandler>,
}

/// A way to probe, of which only that it is chosen matters.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub struct ProbeHandler {}

/// The handlers for the turns of a container's life.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Lifecycle {
    /// When it is to stop.
    pub pre_stop: Option<LifecycleHandler>,
}

/// The action at such a turn, as far as it takes a known time.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct LifecycleHandler {
    /// It waits.
    pub sleep: Option<SleepAction>,
}

impl ContainerSpec {
    /// Drops fields that are not read again.
    pub(super) fn trim(&mut self) {
        self.env = CompactList::default();
        self.env_from = CompactList::default();
        self.ports.retain(|port| port.host_port.is_some_and(|number| number > 0));
        self.resources.take_if(|amounts| **amounts == ResourceRequirements::default());
    }
}
