//! The loop: one watch on pods, one on nodes, one queue of timers; due pods are stepped, then written.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Node;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::agent::Agent;
use super::directory::Directory;
use super::events::Events;
use super::io::{Io, Moment, TimerQueue, after, pause};
use super::log_server::{self, Archive};
use super::nodes::{self, SpecPlace};
use super::pod::{Pod, SeenPod};
use super::pod_name::Uid;
use super::requests::Requests;
use super::scheduler::Scheduler;
use super::writes::{What, WriteResult, Writes};
use super::{Options, Ports};
use crate::unmanaged::Unmanaged;

/// Watch events that are taken before the next writes are made.
const EVENTS_AT_ONCE: usize = 1000;

/// No lease is renewed more often.
const SHORTEST_HEARTBEAT: Duration = Duration::from_secs(1);

/// Drives nodes and pods until `stop` is cancelled.
pub async fn run(client: Client, options: Options, stop: CancellationToken) {
    tokio::select! {
        biased;
        () = stop.cancelled() => {}
        () = drive(client, options) => {}
    }
}

async fn drive(client: Client, options: Options) {
    let requests = Requests::new(client.clone());
    let directory = Directory::default();
    let mut places: Vec<SpecPlace> =
        (0..options.nodes.len()).map(|index| SpecPlace::new(index, &options.nodes)).collect();
    let serving = serve_logs(&mut places, &options, &directory).await;
    let places = register(&requests, &options, places).await;
    let io = Io { requests, writes: Writes::default(), timers: TimerQueue::default(), clock: options.clock.clone() };
    let mut driver = Driver {
        agent: Agent::new(places.clone(), &options, serving.is_some().then_some(directory)),
        io,
        events: Events::default(),
        names: places.into_keys().collect(),
        scheduler: Scheduler::default(),
        pods: BTreeMap::new(),
        listed: None,
        heartbeat: options.heartbeat.max(SHORTEST_HEARTBEAT),
        failures: BTreeMap::new(),
        waits: BTreeMap::new(),
        pushed: BTreeSet::new(),
    };
    driver.beat();
    let mut pods = events::<Pod>(Api::all(client.clone()));
    let mut nodes = events::<Node>(Api::all(client));
    loop {
        let wait = driver.io.timers.next().map(|at| at.duration_since(driver.io.clock.now()));
        tokio::select! {
            biased;
            done = driver.io.writes.next() => driver.done(done),
            Some(event) = nodes.next() => driver.node(event),
            Some(event) = pods.next() => driver.pod(event),
            () = reach(wait) => {}
        }
        // Existing nodes are taken in one go, so that the scheduler sees all of them.
        for _ in 0..EVENTS_AT_ONCE {
            if let Some(Some(event)) = nodes.next().now_or_never() {
                driver.node(event);
            } else if let Some(Some(event)) = pods.next().now_or_never() {
                driver.pod(event);
            } else {
                break;
            }
        }
        driver.turn();
    }
}

/// Opens the nodes' ports, if they are to have some, and answers there until the result is dropped. If that fails, pods
/// live without.
async fn serve_logs(
    places: &mut [SpecPlace],
    options: &Options,
    directory: &Directory,
) -> Option<AbortOnDropHandle<()>> {
    if options.ports == Ports::Closed {
        return None;
    }
    let archive = Archive { logs: options.logs.clone(), directory: directory.clone(), clock: options.clock.clone() };
    match log_server::open(places, archive).await {
        Ok(serving) => Some(AbortOnDropHandle::new(tokio::spawn(serving))),
        Err(error) => {
            tracing::error!(%error, "the nodes can't be asked for logs");
            None
        }
    }
}

/// Registers all nodes, each until it succeeds.
async fn register(requests: &Requests, options: &Options, places: Vec<SpecPlace>) -> BTreeMap<String, SpecPlace> {
    let mut registered = BTreeMap::new();
    for (spec, place) in options.nodes.iter().zip(places) {
        let mut failures = 0;
        while let Err(error) = nodes::register(requests, spec, &place, &options.clock).await {
            failures += 1;
            tracing::warn!(%error, node = spec.name, "failed to register a node; trying again");
            tokio::time::sleep(pause(failures)).await;
        }
        registered.insert(spec.name.clone(), place);
    }
    registered
}

/// Returns the events of a watch that restarts after every failure, later each time.
fn events<K>(api: Api<Unmanaged<K>>) -> BoxStream<'static, Event<K>>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let mut failures = 0;
    let watch = watcher(api, watcher::Config::default());
    let delayed = watch.then(move |event| {
        failures = if event.is_ok() { 0 } else { failures + 1 };
        let pause = pause(failures);
        async move {
            match event {
                Ok(event) => Some(read(event)),
                Err(error) => {
                    tracing::warn!(%error, "the kubelet's watch broke; starting it anew");
                    tokio::time::sleep(pause).await;
                    None
                }
            }
        }
    });
    delayed.filter_map(|event| async { event }).boxed()
}

fn read<K>(event: Event<Unmanaged<K>>) -> Event<K> {
    match event {
        Event::Init => Event::Init,
        Event::InitApply(Unmanaged(object)) => Event::InitApply(object),
        Event::InitDone => Event::InitDone,
        Event::Apply(Unmanaged(object)) => Event::Apply(object),
        Event::Delete(Unmanaged(object)) => Event::Delete(object),
    }
}

async fn reach(wait: Option<SignedDuration>) {
    match wait {
        Some(wait) => tokio::time::sleep(Duration::try_from(wait).unwrap_or_default()).await,
        None => std::future::pending().await,
    }
}

/// Everything that is driven.
pub(super) struct Driver {
    pub(super) io: Io,
    pub(super) agent: Agent,
    pub(super) scheduler: Scheduler,
    pub(super) events: Events,
    names: BTreeSet<String>,
    /// All pods, by uid.
    pub(super) pods: BTreeMap<Uid, Arc<SeenPod>>,
    /// The uids that a list under way has named so far.
    listed: Option<BTreeSet<Uid>>,
    heartbeat: Duration,
    /// Pods whose binding or whose wait could not be written, and how often.
    pub(super) failures: BTreeMap<String, u32>,
    /// The last message about pods that no node could take, and the node that they will go to once others are gone.
    pub(super) waits: BTreeMap<String, (String, Option<String>)>,
    /// Pods that are being pushed out.
    pub(super) pushed: BTreeSet<String>,
}

impl Driver {
    fn pod(&mut self, event: Event<Pod>) {
        match event {
            Event::Init => self.listed = Some(BTreeSet::new()),
            Event::InitApply(pod) | Event::Apply(pod) => self.pod_seen(pod),
            Event::Delete(pod) => {
                if let Some(uid) = pod.metadata.uid {
                    self.pod_gone(&uid);
                }
            }
            Event::InitDone => {
                let listed = self.listed.take().unwrap_or_default();
                let gone: Vec<Uid> = self.pods.keys().filter(|uid| !listed.contains(*uid)).cloned().collect();
                for uid in gone {
                    self.pod_gone(&uid);
                }
            }
        }
    }

    fn pod_seen(&mut self, pod: Pod) {
        let Some((mut pod, status)) = SeenPod::read(pod) else { return };
        if let Some((uid, _)) = self.pods.get_key_value(&pod.uid) {
            pod.uid = uid.clone();
        }
        if let Some(listed) = &mut self.listed {
            listed.insert(pod.uid.clone());
        }
        let pod = Arc::new(pod);
        self.pods.insert(pod.uid.clone(), pod.clone());
        self.scheduler.pod_seen(&pod);
        let refused = if self.agent.is_new(&pod, &status) { self.scheduler.reject(&pod) } else { None };
        self.agent.see(&mut self.io, &mut self.events, &pod, &status, refused);
    }

    fn pod_gone(&mut self, uid: &str) {
        self.pods.remove(uid);
        self.failures.remove(uid);
        self.waits.remove(uid);
        self.pushed.remove(uid);
        self.scheduler.pod_gone(uid);
        self.agent.gone(&mut self.io, uid);
        self.events.forget(uid);
        self.io.timers.clear(&Moment::Binding(uid.into()));
    }

    fn node(&mut self, event: Event<Node>) {
        match event {
            Event::InitApply(node) | Event::Apply(node) => self.scheduler.node_seen(node),
            Event::Delete(node) => self.scheduler.node_gone(node.metadata.name.as_deref().unwrap_or_default()),
            Event::Init | Event::InitDone => {}
        }
    }

    /// Does all that is due, then places pods.
    fn turn(&mut self) {
        let now = self.io.clock.now();
        while let Some(moment) = self.io.timers.pop(now) {
            match moment {
                Moment::Heartbeat => self.beat(),
                Moment::Pod(uid) => self.agent.step(&mut self.io, &mut self.events, &uid),
                Moment::Binding(uid) => {
                    if let Some(pod) = self.pods.get(&uid) {
                        self.scheduler.pod_seen(pod);
                    }
                }
            }
        }
        self.place_pods();
    }

    fn beat(&mut self) {
        for name in &self.names {
            let (name, requests) = (name.clone(), self.io.requests.clone());
            let (every, clock) = (self.heartbeat, self.io.clock.clone());
            self.io.writes.add(async move {
                let result = nodes::heartbeat(&requests, &name, every, &clock).await;
                WriteResult { what: What::Lease(name), result }
            });
        }
        self.io.timers.set(Moment::Heartbeat, after(self.io.clock.now(), self.heartbeat));
    }

    fn done(&mut self, done: WriteResult) {
        match done.what {
            What::Pod(uid) => self.agent.written(&mut self.io, &uid, done.result),
            What::Lease(node) => {
                if let Err(error) = done.result {
                    tracing::warn!(%error, node, "failed to renew a node's lease");
                }
            }
            What::Event(uid, key) => self.events.written(&mut self.io, &uid, key, done.result),
            What::LookUp(uid, found) => self.agent.found(&mut self.io, &mut self.events, &uid, found),
            What::Binding(uid, node) => self.bound(&uid, &node, done.result),
            What::Wait(uid) => self.waits_written(&uid, done.result),
        }
    }

    /// Tries a pod's placing again after a pause that grows with its failures.
    pub(super) fn place_later(&mut self, uid: &str) {
        let failures = self.failures.entry(uid.to_owned()).or_default();
        *failures += 1;
        let at = after(self.io.clock.now(), pause(*failures));
        self.io.timers.set(Moment::Binding(uid.into()), at);
    }
}
