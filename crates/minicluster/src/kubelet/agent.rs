//! The agent of all nodes: one entry for each pod that is bound to one of them, stepped when it is due, written when its
//! status changed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::PodStatus;
use serde_json::{Map, Value};

use super::Options;
use super::directory::Directory;
use super::events::{Events, ReportingComponent};
use super::fate::FateRules;
use super::io::{Io, Moment, after, pause};
use super::nodes::{Addresses, SpecPlace};
use super::pod::SeenPod;
use super::pod_name::{PodName, Uid};
use super::requests::{Error, KUBELET, Requests};
use super::simulated_pod::{Found, Home, PodEffect, PodEnvironment, Rejection, SimulatedPod};
use super::writes::{What, WriteResult};
use super::written_status::WrittenStatus;
use crate::{PodLogs, Random};

/// Names of images kept for each node; beyond that it forgets them all, as if it had made room.
const IMAGES_KEPT: usize = 10_000;

/// The slowest and the fastest that pods may live.
const SPEEDS: (f64, f64) = (0.001, 1_000_000.0);

/// The nodes and the pods that live on them.
pub struct Agent {
    nodes: BTreeMap<String, NodeState>,
    /// Boxed, since the map has room for more than there are.
    pods: BTreeMap<Uid, Box<AgentEntry>>,
    rules: FateRules,
    random: Random,
    speed: f64,
    logs: PodLogs,
    /// For those who ask for logs by name, if any can.
    directory: Option<Directory>,
}

struct NodeState {
    place: SpecPlace,
    addresses: Addresses,
    images: BTreeSet<String>,
}

struct AgentEntry {
    life: SimulatedPod,
    address: Option<u32>,
    written: WrittenStatus,
    /// True when it may have another status by now.
    moved: bool,
    busy: bool,
    removed: bool,
    failures: u32,
}

impl Agent {
    /// Returns the agent of the nodes that have these places.
    pub fn new(places: BTreeMap<String, SpecPlace>, options: &Options, directory: Option<Directory>) -> Agent {
        let nodes = places.into_iter().map(|(name, place)| {
            let addresses = Addresses::new(&place);
            (name, NodeState { place, addresses, images: BTreeSet::new() })
        });
        Agent {
            nodes: nodes.collect(),
            pods: BTreeMap::new(),
            rules: FateRules::new(options.script.clone()),
            random: options.random.clone(),
            speed: if options.speed.is_finite() { options.speed.clamp(SPEEDS.0, SPEEDS.1) } else { 1.0 },
            logs: options.logs.clone(),
            directory,
        }
    }

    /// Returns true when a pod has just come to one of these nodes, which must decide whether to take it.
    pub fn is_new(&self, pod: &SeenPod, status: &PodStatus) -> bool {
        let ours = pod.node().is_some_and(|node| self.nodes.contains_key(node));
        ours && status.start_time.is_none() && !self.pods.contains_key(&pod.uid)
    }

    /// Notes that a pod came or changed; `refused` says why its node does not take it. Pods on other nodes are left
    /// alone.
    pub fn see(
        &mut self,
        io: &mut Io,
        events: &mut Events,
        pod: &Arc<SeenPod>,
        status: &PodStatus,
        refused: Option<Rejection>,
    ) {
        let Some(node) = pod.node() else { return };
        let Some(state) = self.nodes.get_mut(node) else { return };
        let mut environment = environment(io, self.speed, &mut self.rules, &self.random, &mut state.images);
        if let Some(entry) = self.pods.get_mut(&pod.uid) {
            let known = entry.life.pod();
            let same = (&known.fate, known.generation, known.deletion) == (&pod.fate, pod.generation, pod.deletion);
            let gated = !pod.spec.readiness_gates.is_empty();
            // The status says nothing of the specification that does not change with its generation.
            if !same || pod.generation.is_none() {
                entry.written.keep(|| entry.life.status());
            }
            entry.life.see(pod.clone(), &mut environment);
            entry.moved = true;
            // Most events of the watch are the echo of writes from here.
            if same && !gated {
                return;
            }
        } else {
            // For a pod that has ended, at most its removal is left to do.
            if pod.finished() && pod.deletion.is_none_or(|deletion| deletion.grace == 0) {
                return;
            }
            let host_network = pod.spec.host_network == Some(true);
            let address =
                if host_network { None } else { Some(state.addresses.take(status.pod_ip.as_deref(), &state.place)) };
            let own = address.map(|address| state.place.pod_address(address));
            let home = Home { node: state.place.address, pod: own.unwrap_or(state.place.address) };
            let life = match status.start_time {
                Some(_) => SimulatedPod::take_up(pod.clone(), status, home, &mut environment),
                None => SimulatedPod::begin(pod.clone(), status, home, refused, &mut environment),
            };
            let written = WrittenStatus::text(status);
            let entry = AgentEntry { life, address, written, moved: true, busy: false, removed: false, failures: 0 };
            self.pods.insert(pod.uid.clone(), Box::new(entry));
        }
        let effects = std::mem::take(&mut environment.effects);
        self.apply(io, events, &pod.id(), effects);
        self.step(io, events, &pod.uid);
    }

    /// Notes that a pod is gone.
    pub fn gone(&mut self, io: &mut Io, uid: &str) {
        if let Some(entry) = self.pods.remove(uid) {
            io.timers.clear(&Moment::Pod(uid.into()));
            let state = entry.life.pod().node().and_then(|node| self.nodes.get_mut(node));
            if let (Some(state), Some(address)) = (state, entry.address) {
                state.addresses.free(address);
            }
            if let Some(directory) = &self.directory {
                directory.remove(entry.life.pod());
            }
        }
        self.logs.forget(uid);
    }

    /// Brings a pod to the present moment and writes the changes.
    pub fn step(&mut self, io: &mut Io, events: &mut Events, uid: &str) {
        let Some(entry) = self.pods.get_mut(uid) else { return };
        let node = entry.life.pod().node();
        let Some(state) = node.and_then(|node| self.nodes.get_mut(node)) else { return };
        if state.images.len() > IMAGES_KEPT {
            state.images.clear();
        }
        let mut environment = environment(io, self.speed, &mut self.rules, &self.random, &mut state.images);
        entry.written.keep(|| entry.life.status());
        entry.life.step(&mut environment);
        entry.moved = true;
        let wake = entry.life.wake(&environment);
        let effects = std::mem::take(&mut environment.effects);
        if let Some(at) = wake {
            io.timers.set(Moment::Pod(entry.life.pod().uid.clone()), at);
        }
        if entry.life.is_over()
            && let Some(address) = entry.address.take()
        {
            state.addresses.free(address);
        }
        if let Some(directory) = &self.directory {
            directory.update(&entry.life);
        }
        let pod = entry.life.pod().id();
        entry.write(io);
        self.apply(io, events, &pod, effects);
    }

    /// Notes that a write of a pod is done.
    pub fn written(&mut self, io: &mut Io, uid: &str, result: Result<(), Error>) {
        let Some(entry) = self.pods.get_mut(uid) else { return };
        entry.busy = false;
        match result {
            Ok(()) => {
                entry.failures = 0;
                entry.write(io);
            }
            // The watch will report that it is gone.
            Err(error) if error.code() == Some(404) => {}
            Err(error) => {
                entry.failures += 1;
                entry.written = WrittenStatus::nothing();
                entry.moved = true;
                entry.removed = false;
                let pod = entry.life.pod();
                tracing::warn!(%error, namespace = pod.namespace, pod = pod.name, "failed to write what became of a pod; trying again");
                io.timers.set(Moment::Pod(pod.uid.clone()), after(io.clock.now(), pause(entry.failures)));
            }
        }
    }

    /// Takes the result of the search for a pod's needs.
    pub fn found(&mut self, io: &mut Io, events: &mut Events, uid: &str, found: Result<Found, Error>) {
        let Some(entry) = self.pods.get_mut(uid) else { return };
        match found {
            Ok(found) => {
                entry.life.found(&found, io.clock.now());
                self.step(io, events, uid);
            }
            Err(error) => {
                entry.failures += 1;
                entry.life.not_found_out();
                let pod = entry.life.pod();
                tracing::warn!(%error, namespace = pod.namespace, pod = pod.name, "failed to look for what a pod needs; trying again");
                io.timers.set(Moment::Pod(pod.uid.clone()), after(io.clock.now(), pause(entry.failures)));
            }
        }
    }

    fn apply(&self, io: &mut Io, events: &mut Events, pod: &PodName, effects: Vec<PodEffect>) {
        let now = io.clock.now();
        for effect in effects {
            match effect {
                PodEffect::Event(told) => {
                    let node = self.pods.get(&pod.uid).and_then(|entry| entry.life.pod().node()).unwrap_or_default();
                    events.tell(io, pod, ReportingComponent::Kubelet(node), &told);
                }
                PodEffect::LogBegins { container } => self.logs.begin(&pod.uid, &container),
                PodEffect::LogEnds { container } => self.logs.end(&pod.uid, &container),
                PodEffect::Log { container, text } => self.logs.append(&pod.uid, &container, now, &text),
                PodEffect::LookUp => {
                    let Some(entry) = self.pods.get(&pod.uid) else { continue };
                    let (needs, requests) = (entry.life.needs().objects(), io.requests.clone());
                    let pod = pod.clone();
                    io.writes.add(async move {
                        let found = look_up(&requests, &pod.namespace, needs).await;
                        WriteResult { what: What::LookUp(pod.uid, found), result: Ok(()) }
                    });
                }
            }
        }
    }
}

fn environment<'a>(
    io: &Io,
    speed: f64,
    rules: &'a mut FateRules,
    random: &'a Random,
    images: &'a mut BTreeSet<String>,
) -> PodEnvironment<'a> {
    PodEnvironment { now: io.clock.now(), speed, rules, random, images, effects: Vec::new() }
}

async fn look_up(
    requests: &Requests,
    namespace: &str,
    needs: BTreeSet<super::simulated_pod::Name>,
) -> Result<Found, Error> {
    let mut found = Found::new();
    for (kind, name) in needs {
        let keys = requests.keys(kind.resource(), namespace, &name).await?;
        found.insert((kind, name), keys);
    }
    Ok(found)
}

impl AgentEntry {
    fn write(&mut self, io: &mut Io) {
        if self.busy || self.removed {
            return;
        }
        let changed =
            if std::mem::take(&mut self.moved) { self.written.change(|| self.life.status()) } else { Map::new() };
        let pod = self.life.pod().id();
        let requests = io.requests.clone();
        if !changed.is_empty() {
            self.busy = true;
            io.writes.add(async move {
                let result = requests.patch_pod_status(&pod, Value::Object(changed), KUBELET).await;
                WriteResult { what: What::Pod(pod.uid), result }
            });
        } else if self.life.may_be_deleted() {
            self.busy = true;
            self.removed = true;
            io.writes.add(async move {
                let result = requests.delete_pod(&pod, Some(0)).await;
                WriteResult { what: What::Pod(pod.uid), result }
            });
        }
    }
}
