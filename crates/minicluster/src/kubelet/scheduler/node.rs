//! The scheduler's facts about a node and about its pods.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Taint};

use super::labels::Labels;
use super::resources::Resources;
use crate::kubelet::pod::SeenPod;
use crate::kubelet::pod_name::Uid;

/// A node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeFacts {
    /// Its labels.
    pub labels: Labels,
    /// The taints, which keep pods away that do not tolerate them.
    pub taints: Vec<Taint>,
    /// Someone has said that nothing more is to be placed there.
    pub cordoned: bool,
    /// The resources for pods.
    pub allocatable: Resources,
}

impl NodeFacts {
    /// Takes the necessary fields from the API object.
    pub fn read(node: Node) -> NodeFacts {
        let spec = node.spec.unwrap_or_default();
        let allocatable = node.status.and_then(|status| status.allocatable).unwrap_or_default();
        NodeFacts {
            labels: node.metadata.labels.unwrap_or_default().into(),
            taints: spec.taints.unwrap_or_default(),
            cordoned: spec.unschedulable == Some(true),
            allocatable: Resources::of(&allocatable),
        }
    }
}

/// A pod as it counts on a node.
#[derive(Clone, Debug)]
pub struct Placed {
    /// The pod.
    pub pod: Arc<SeenPod>,
    /// The node at which it is, or will be.
    pub node: String,
    /// Its requests.
    pub asked: Resources,
}

/// A port of a node that a pod takes: address, protocol, number.
pub type Port = (String, String, i32);

/// Returns the ports of its node that a pod takes.
pub fn host_ports(pod: &SeenPod) -> impl Iterator<Item = Port> {
    let all = pod.spec.containers.iter().flat_map(|container| &container.ports);
    all.filter_map(|port| {
        let number = port.host_port.filter(|number| *number > 0)?;
        let address = port.host_ip.clone().filter(|ip| !ip.is_empty()).unwrap_or_else(|| "0.0.0.0".to_owned());
        Some((address, port.protocol.clone().unwrap_or_else(|| "TCP".to_owned()), number))
    })
}

/// The load of a node.
#[derive(Clone, Debug, Default)]
pub struct Load {
    /// The requests of its pods.
    pub used: Resources,
    /// The uids of its pods.
    pub pods: BTreeSet<Uid>,
    ports: BTreeMap<Port, u32>,
    /// Pods by their controller.
    owners: BTreeMap<String, u32>,
}

impl Load {
    /// Notes that a pod comes.
    pub fn add(&mut self, placed: &Placed) {
        self.pods.insert(placed.pod.uid.clone());
        self.used.add(&placed.asked);
        for port in host_ports(&placed.pod) {
            *self.ports.entry(port).or_default() += 1;
        }
        if let Some(owner) = &placed.pod.owner {
            *self.owners.entry(owner.clone()).or_default() += 1;
        }
    }

    /// Notes that a pod goes.
    pub fn remove(&mut self, placed: &Placed) {
        if !self.pods.remove(&placed.pod.uid) {
            return;
        }
        self.used.subtract(&placed.asked);
        for port in host_ports(&placed.pod) {
            decrease(&mut self.ports, &port);
        }
        if let Some(owner) = &placed.pod.owner {
            decrease(&mut self.owners, owner);
        }
    }

    /// Returns how many pods of a controller are there.
    pub fn of_owner(&self, owner: &str) -> u32 {
        self.owners.get(owner).copied().unwrap_or(0)
    }

    /// Returns true when a port that a pod wants is taken; every address conflicts with `0.0.0.0`.
    pub fn conflicts(&self, pod: &SeenPod) -> bool {
        host_ports(pod).any(|(address, protocol, number)| {
            self.ports.keys().any(|(taken, other, port)| {
                let address = *taken == address || taken == "0.0.0.0" || address == "0.0.0.0";
                *port == number && *other == protocol && address
            })
        })
    }
}

fn decrease<K: Ord>(counts: &mut BTreeMap<K, u32>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}
