//! The description of a node.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use k8s_openapi::api::core::v1::Node;
use serde_json::{Value, json};

/// The version that nodes report.
const VERSION: &str = "v1.36.3";
/// The port of a kubelet.
pub const PORT: u16 = 10250;
/// The fewest address bits of a node's pod network.
const POD_BITS: u32 = 8;

/// A node to register.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSpec {
    /// Its name, also its host name.
    pub name: String,
    /// Its cores, as a Kubernetes quantity.
    pub cpu: String,
    /// Its memory, as a Kubernetes quantity.
    pub memory: String,
    /// The number of pods that it takes.
    pub pods: u32,
    /// Labels besides the usual ones, or in their place.
    pub labels: BTreeMap<String, String>,
    /// Further resources, each as a Kubernetes quantity: `example.com/gpu`.
    pub resources: BTreeMap<String, String>,
}

impl NodeSpec {
    /// Returns a node with 8 cores and 32 GiB that takes 110 pods.
    #[must_use]
    pub fn new(name: impl Into<String>) -> NodeSpec {
        NodeSpec {
            name: name.into(),
            cpu: "8".to_owned(),
            memory: "32Gi".to_owned(),
            pods: 110,
            labels: BTreeMap::new(),
            resources: BTreeMap::new(),
        }
    }

    /// Returns `node-1` and so on.
    #[must_use]
    pub fn several(count: usize) -> Vec<NodeSpec> {
        (1..=count).map(|number| NodeSpec::new(format!("node-{number}"))).collect()
    }
}

/// The place of a node: its own address and the network of its pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecPlace {
    /// The node's address, in 127.0.0.0/8 so that the node can really be reached there.
    pub address: IpAddr,
    /// The port of its kubelet.
    pub port: u16,
    first_pod: u32,
    bits: u32,
}

impl SpecPlace {
    /// Returns the place of the node at `index` of all, which are `specs`.
    pub fn new(index: usize, specs: &[NodeSpec]) -> SpecPlace {
        let most = specs.iter().map(|spec| spec.pods).max().unwrap_or(0);
        let bits = POD_BITS.max(32 - (most + 2).leading_zeros()).min(24);
        let index = u32::try_from(index).unwrap_or(u32::MAX);
        let base = u32::from(Ipv4Addr::new(10, 244, 0, 0));
        let first_pod = base.wrapping_add(index.wrapping_shl(bits)) & 0x00ff_ffff | 0x0a00_0000;
        let address =
            Ipv4Addr::from(u32::from(Ipv4Addr::LOCALHOST).wrapping_add(index + 1) & 0x00ff_ffff | 0x7f00_0000);
        SpecPlace { address: address.into(), port: PORT, first_pod, bits }
    }

    /// Returns how many addresses there are for pods.
    pub fn pod_addresses(&self) -> u32 {
        (1 << self.bits) - 3
    }

    /// Returns the address of the pod at `index`, which is below [`SpecPlace::pod_addresses`].
    pub fn pod_address(&self, index: u32) -> IpAddr {
        IpAddr::V4(Ipv4Addr::from(self.first_pod + 2 + index))
    }

    /// Returns the index of a pod's address, if it is one of this node's.
    pub fn pod_index(&self, address: IpAddr) -> Option<u32> {
        let IpAddr::V4(address) = address else { return None };
        let index = u32::from(address).checked_sub(self.first_pod + 2)?;
        (index < self.pod_addresses()).then_some(index)
    }

    fn pod_network(&self) -> String {
        format!("{}/{}", Ipv4Addr::from(self.first_pod), 32 - self.bits)
    }
}

/// Returns the object that registers a node.
pub fn object(spec: &NodeSpec, place: &SpecPlace, now: &str) -> Result<Node, serde_json::Error> {
    let mut labels: BTreeMap<String, String> = [
        ("beta.kubernetes.io/arch", "amd64"),
        ("beta.kubernetes.io/os", "linux"),
        ("kubernetes.io/arch", "amd64"),
        ("kubernetes.io/hostname", &spec.name),
        ("kubernetes.io/os", "linux"),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .collect();
    labels.extend(spec.labels.clone());
    let cidr = place.pod_network();
    serde_json::from_value(json!({
        "metadata": {
            "name": spec.name,
            "labels": labels,
            "annotations": {"volumes.kubernetes.io/controller-managed-attach-detach": "true"},
        },
        "spec": {"podCIDR": cidr, "podCIDRs": [cidr]},
        "status": status(spec, place, now),
    }))
}

/// Returns a node's status.
pub fn status(spec: &NodeSpec, place: &SpecPlace, now: &str) -> Value {
    let mut resources = json!({
        "cpu": spec.cpu, "memory": spec.memory, "pods": spec.pods.to_string(),
        "ephemeral-storage": "100Gi", "hugepages-1Gi": "0", "hugepages-2Mi": "0",
    });
    for (name, amount) in &spec.resources {
        resources[name] = json!(amount);
    }
    let condition = |kind: &str, status: &str, reason: &str, message: &str| {
        json!({"type": kind, "status": status, "reason": reason, "message": message,
               "lastHeartbeatTime": now, "lastTransitionTime": now})
    };
    let id = format!("{:032x}", u128::from_be_bytes(first_bytes(&spec.name)));
    json!({
        "addresses": [
            {"type": "InternalIP", "address": place.address.to_string()},
            {"type": "Hostname", "address": spec.name},
        ],
        "capacity": resources,
        "allocatable": resources,
        "daemonEndpoints": {"kubeletEndpoint": {"Port": place.port}},
        "nodeInfo": {
            "architecture": "amd64",
            "bootID": uuid(&id),
            "containerRuntimeVersion": "containerd://2.1.4",
            "kernelVersion": "6.12.0",
            "kubeProxyVersion": "",
            "kubeletVersion": VERSION,
            "machineID": id,
            "operatingSystem": "linux",
            "osImage": "Minicluster",
            "systemUUID": uuid(&id),
        },
        "conditions": [
            condition("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
            condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
            condition("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
            condition("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
        ],
    })
}

fn first_bytes(name: &str) -> [u8; 16] {
    use sha2::Digest;
    let digest = sha2::Sha256::digest(name.as_bytes());
    let mut bytes = [0; 16];
    for (byte, of_digest) in bytes.iter_mut().zip(digest) {
        *byte = of_digest;
    }
    bytes
}

fn uuid(id: &str) -> String {
    format!("{}-{}-{}-{}-{}", &id[..8], &id[8..12], &id[12..16], &id[16..20], &id[20..])
}

#[cfg(test)]
mod tests {
    use super::{NodeSpec, SpecPlace};

    #[test]
    fn nodes_and_pods_have_addresses_of_their_own() {
        let specs = NodeSpec::several(300);
        let (first, last) = (SpecPlace::new(0, &specs), SpecPlace::new(299, &specs));
        assert_eq!(first.address.to_string(), "127.0.0.2");
        assert_eq!(first.pod_network(), "10.244.0.0/24");
        assert_eq!(first.pod_address(0).to_string(), "10.244.0.2");
        assert_eq!(last.address.to_string(), "127.0.1.45");
        assert_eq!(last.pod_network(), "10.245.43.0/24");
        assert_eq!(last.pod_address(last.pod_addresses() - 1).to_string(), "10.245.43.254");
    }

    #[test]
    fn a_node_for_many_pods_has_a_larger_network() {
        let specs = vec![NodeSpec { pods: 5000, ..NodeSpec::new("large") }];
        let place = SpecPlace::new(0, &specs);
        assert!(place.pod_addresses() >= 5000);
        assert_eq!(place.pod_network(), "10.244.0.0/19");
    }
}
