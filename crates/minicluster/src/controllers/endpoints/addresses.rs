//! The address and ports of a pod for a Service. Pure.

use k8s_openapi::api::core::v1::{ObjectReference, Service, ServicePort};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::controllers::key::{is_terminating, name_of};
use crate::controllers::pod::Pod;

/// A port as it is on the pods.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServedPort {
    /// Its name; empty if the Service has but one.
    pub name: String,
    /// Its number on the pods.
    pub number: i32,
    /// `TCP` and so on.
    pub protocol: String,
    /// The protocol there, if the Service names it.
    pub speaks: Option<String>,
}

/// Returns the pod's address.
pub fn of(pod: &Pod) -> Option<&str> {
    pod.status.pod_ip.as_deref().filter(|address| !address.is_empty())
}

/// Returns true when two states of a pod are the same to every Service.
pub fn tell_the_same(old: &Pod, new: &Pod) -> bool {
    of(old) == of(new)
        && old.is_ready() == new.is_ready()
        && old.is_finished() == new.is_finished()
        && is_terminating(&old.metadata) == is_terminating(&new.metadata)
        && old.metadata.labels == new.metadata.labels
        && old.spec.node_name == new.spec.node_name
}

/// Returns the ports of a Service on one of its pods; ports whose name the pod does not know are left out.
pub fn ports(service: &Service, pod: &Pod) -> Vec<ServedPort> {
    let ports = service.spec.iter().flat_map(|spec| spec.ports.iter().flatten());
    ports
        .filter_map(|port| {
            Some(ServedPort {
                name: port.name.clone().unwrap_or_default(),
                number: number(port, pod)?,
                protocol: port.protocol.clone().unwrap_or_else(|| "TCP".to_owned()),
                speaks: port.app_protocol.clone(),
            })
        })
        .collect()
}

fn number(port: &ServicePort, pod: &Pod) -> Option<i32> {
    match &port.target_port {
        Some(IntOrString::Int(number)) => Some(*number),
        Some(IntOrString::String(name)) => {
            let protocol = port.protocol.as_deref().unwrap_or("TCP");
            let all = pod.spec.containers.iter().flat_map(|container| &container.ports);
            let named = all.filter(|known| known.protocol.as_deref().unwrap_or("TCP") == protocol);
            named.filter(|known| known.name.as_ref() == Some(name)).map(|known| known.container_port).next()
        }
        None => Some(port.port),
    }
}

/// Returns the pod, as endpoints name it.
pub fn reference(pod: &Pod) -> ObjectReference {
    ObjectReference {
        kind: Some("Pod".to_owned()),
        namespace: pod.metadata.namespace.clone(),
        name: pod.metadata.name.clone(),
        uid: pod.metadata.uid.clone(),
        ..ObjectReference::default()
    }
}

/// Returns the name of the pod under its headless Service.
pub fn hostname(service: &Service, pod: &Pod) -> Option<String> {
    let is_under = pod.spec.subdomain.as_deref() == Some(name_of(&service.metadata));
    pod.spec.hostname.clone().filter(|name| is_under && !name.is_empty())
}
