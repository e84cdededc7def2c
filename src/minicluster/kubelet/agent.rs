//! The agent of all nodes: one entry for each pod that is bound to one of them, stepped when it is due, written when it
//! changed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::PodStatus;
use serde_json::{Map, Value};

use super::desk::{Desk, Moment, after, pause};
use super::life::Life;
use super::nodes::Place;
use super::pod::SeenPod;
use super::requests::{Error, KUBELET};
use super::writes::{Done, What};

/// The nodes and the pods that live on them.
pub struct Agent {
    nodes: BTreeMap<String, NodeState>,
    pods: BTreeMap<String, Entry>,
}

struct NodeState {
    place: Place,
    addresses: BTreeSet<u32>,
}

struct Entry {
    life: Life,
    node: String,
    address: u32,
    written: Map<String, Value>,
    busy: bool,
    removed: bool,
    failures: u32,
}

impl Agent {
    pub fn new(places: impl IntoIterator<Item = (String, Place)>) -> Agent {
        let nodes = places.into_iter().map(|(name, place)| (name, NodeState { place, addresses: BTreeSet::new() }));
        Agent { nodes: nodes.collect(), pods: BTreeMap::new() }
    }

    /// A pod came or changed. Pods on nodes of others are left alone.
    pub fn see(&mut self, desk: &mut Desk, pod: &Arc<SeenPod>, status: &PodStatus) {
        let Some(node) = pod.node() else { return };
        if let Some(entry) = self.pods.get_mut(&pod.uid) {
            entry.life.see(pod.clone());
        } else {
            let Some(state) = self.nodes.get_mut(node) else { return };
            if pod.finished() {
                return;
            }
            let count = state.place.pod_addresses();
            let address = (0..count).find(|index| !state.addresses.contains(index)).unwrap_or(0);
            state.addresses.insert(address);
            let life =
                Life::begin(pod.clone(), state.place.address, state.place.pod_address(address), desk.clock.now());
            let _ = status;
            let entry = Entry {
                life,
                node: node.to_owned(),
                address,
                written: Map::new(),
                busy: false,
                removed: false,
                failures: 0,
            };
            self.pods.insert(pod.uid.clone(), entry);
        }
        self.step(desk, &pod.uid);
    }

    /// A pod is gone.
    pub fn gone(&mut self, desk: &mut Desk, uid: &str) {
        if let Some(entry) = self.pods.remove(uid) {
            desk.moments.clear(&Moment::Pod(uid.to_owned()));
            if let Some(state) = self.nodes.get_mut(&entry.node) {
                state.addresses.remove(&entry.address);
            }
        }
    }

    /// Brings a pod to the present moment and writes what changed.
    pub fn step(&mut self, desk: &mut Desk, uid: &str) {
        let Some(entry) = self.pods.get_mut(uid) else { return };
        entry.life.step(desk.clock.now());
        if let Some(at) = entry.life.wake() {
            desk.moments.set(Moment::Pod(uid.to_owned()), at);
        }
        entry.write(desk);
    }

    /// A write of a pod is done.
    pub fn written(&mut self, desk: &mut Desk, uid: &str, result: Result<(), Error>) {
        let Some(entry) = self.pods.get_mut(uid) else { return };
        entry.busy = false;
        match result {
            Ok(()) => {
                entry.failures = 0;
                entry.write(desk);
            }
            // It is gone, or another of the same name is there; the watch will tell.
            Err(error) if matches!(error.code(), Some(404 | 409)) => {}
            Err(error) => {
                entry.failures += 1;
                entry.written = Map::new();
                entry.removed = false;
                tracing::warn!(%error, pod = entry.life.pod.name, "failed to write what became of a pod; trying again");
                let at = after(desk.clock.now(), pause(entry.failures));
                desk.moments.set(Moment::Pod(uid.to_owned()), at);
            }
        }
    }
}

impl Entry {
    fn write(&mut self, desk: &mut Desk) {
        if self.busy || self.removed {
            return;
        }
        let pod = self.life.pod.id();
        let requests = desk.requests.clone();
        let Value::Object(status) = self.life.status() else { return };
        let changed: Map<String, Value> = status
            .iter()
            .filter(|(key, value)| self.written.get(*key) != Some(value))
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect();
        if !changed.is_empty() {
            self.busy = true;
            self.written = status;
            desk.writes.add(async move {
                let result = requests.patch_pod_status(&pod, Value::Object(changed), KUBELET).await;
                Done { what: What::Pod(pod.uid), result }
            });
        } else if self.life.may_be_deleted() {
            self.busy = true;
            self.removed = true;
            desk.writes.add(async move {
                let result = requests.delete_pod(&pod, Some(0), KUBELET).await;
                Done { what: What::Pod(pod.uid), result }
            });
        }
    }
}
