//! The pod's status about its life.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting, ContainerStatus, HostIP,
    PodIP, PodStatus, ResourceRequirements,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::container::{Container, Creation, Exit, Held, Role, State};
use super::{Phase, SimulatedPod};
use crate::kubelet::pod::CompactMap;

impl Phase {
    /// As a status says it.
    pub fn as_str(self) -> &'static str {
        match self {
            Phase::Pending => "Pending",
            Phase::Running => "Running",
            Phase::Succeeded => "Succeeded",
            Phase::Failed => "Failed",
        }
    }
}

impl SimulatedPod {
    /// Returns the part of the pod's status that is the kubelet's.
    pub fn status(&self) -> PodStatus {
        let verdict = self.verdict.as_ref().filter(|_| self.over);
        let own_network = self.pod.spec.host_network != Some(true);
        let pod_ip = if own_network { self.sandbox.then_some(self.home.pod) } else { Some(self.home.node) };
        let pod_ip = pod_ip.filter(|_| !self.containers.is_empty()).map(|ip| ip.to_string());
        let host_ip = self.home.node.to_string();
        let statuses = |init: bool| {
            let of_list = self.containers.iter().filter(|container| (container.role != Role::App) == init);
            let list: Vec<ContainerStatus> = of_list.map(|container| self.container_status(container)).collect();
            (!list.is_empty()).then_some(list)
        };
        PodStatus {
            phase: Some(self.phase.as_str().to_owned()),
            reason: verdict.map(|verdict| verdict.0.clone()),
            message: verdict.map(|verdict| verdict.1.clone()),
            conditions: Some(self.conditions.all()).filter(|conditions| !conditions.is_empty()),
            container_statuses: statuses(false),
            init_container_statuses: statuses(true),
            host_ips: Some(vec![HostIP { ip: host_ip.clone() }]),
            host_ip: Some(host_ip),
            pod_ips: pod_ip.clone().map(|ip| vec![PodIP { ip }]),
            pod_ip,
            start_time: Some(Time(self.came)),
            observed_generation: self.pod.generation,
            ..PodStatus::default()
        }
    }

    /// Returns why each container is not running and never ran, by its name, for those who ask for its log.
    pub fn waiting(&self) -> impl Iterator<Item = (&str, Option<&str>)> {
        self.containers.iter().map(|container| {
            let waits = match &container.state {
                State::Held(held) => Some(held.reason),
                State::Idle | State::Creating(..) => Some(self.waiting_reason()),
                State::Running(_) | State::Ended(..) => None,
            };
            (container.name.as_str(), waits.filter(|_| !container.has_run()))
        })
    }

    fn waiting_reason(&self) -> &'static str {
        let has_init = self.containers.iter().any(|container| container.role != Role::App);
        if has_init { "PodInitializing" } else { "ContainerCreating" }
    }

    fn container_status(&self, container: &Container) -> ContainerStatus {
        let waiting = |reason: &str, message: Option<String>| ContainerState {
            waiting: Some(ContainerStateWaiting { reason: Some(reason.to_owned()), message }),
            ..ContainerState::default()
        };
        let state = match &container.state {
            State::Held(Held { reason, message, .. })
            | State::Creating(Creation { shown: Some(Held { reason, message, .. }), .. }) => {
                waiting(reason, Some(message.clone()))
            }
            State::Idle | State::Creating(_) => waiting(self.waiting_reason(), None),
            State::Running(run) => ContainerState {
                running: Some(ContainerStateRunning { started_at: Some(Time(run.since)) }),
                ..ContainerState::default()
            },
            State::Ended(exit, _) => exit.state(),
        };
        let done = matches!(&container.state, State::Ended(exit, None) if exit.code == 0);
        let spec = &self.pod.spec;
        let list = if container.role == Role::App { &spec.containers } else { &spec.init_containers };
        let asked = list.get(container.index).and_then(|spec| spec.resources.as_deref());
        let amounts = |pairs: &Option<CompactMap<Quantity>>| pairs.as_ref().map(BTreeMap::from);
        let requests = asked.and_then(|asked| amounts(&asked.requests));
        let on_node = container.found.as_ref().filter(|_| container.id.is_some());
        ContainerStatus {
            name: container.name.clone(),
            state: Some(state),
            last_state: Some(container.last.as_deref().map(Exit::state).unwrap_or_default()),
            ready: if container.role == Role::Init { done } else { container.ready },
            started: Some(container.started),
            restart_count: container.restarts,
            image: on_node.map_or_else(|| container.image.clone(), |image| image.full.clone()),
            image_id: on_node.map(super::super::image::Image::id).unwrap_or_default(),
            container_id: container.id.clone(),
            allocated_resources: requests.clone(),
            resources: on_node.map(|_| {
                let limits = asked.and_then(|asked| amounts(&asked.limits));
                ResourceRequirements { claims: None, limits, requests }
            }),
            ..ContainerStatus::default()
        }
    }
}

impl Container {
    /// Returns true when it has run at all.
    pub fn has_run(&self) -> bool {
        self.last.is_some() || matches!(self.state, State::Running(_) | State::Ended(..))
    }
}

impl Exit {
    fn state(&self) -> ContainerState {
        let terminated = ContainerStateTerminated {
            exit_code: self.code,
            reason: Some(self.reason.to_owned()),
            message: self.message.clone(),
            started_at: self.started.map(Time),
            finished_at: self.finished.map(Time),
            container_id: self.id.clone(),
            signal: None,
        };
        ContainerState { terminated: Some(terminated), ..ContainerState::default() }
    }
}
