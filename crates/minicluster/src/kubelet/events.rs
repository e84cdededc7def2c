//! Reports the life of pods as events: one object for the same thing, counted if it happens again.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, Time};
use serde_json::json;

use super::event_key::EventKey;
use super::io::Io;
use super::pod_name::{PodName, Uid};
use super::requests::{Error, KUBELET, SCHEDULER};
use super::simulated_pod::{EventType, ReportedState};
use super::writes::{What, WriteResult};

/// The different events of one pod; more are dropped, as by a spam filter.
const KINDS_OF_A_POD: usize = 50;

/// The reporter of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportingComponent<'a> {
    /// The kubelet of a node.
    Kubelet(&'a str),
    /// The scheduler.
    Scheduler,
}

/// The field manager that writes an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FieldManager {
    Kubelet,
    Scheduler,
}

impl FieldManager {
    fn as_str(self) -> &'static str {
        match self {
            FieldManager::Kubelet => KUBELET,
            FieldManager::Scheduler => SCHEDULER,
        }
    }
}

/// All reported events.
#[derive(Debug, Default)]
pub struct Events {
    pods: BTreeMap<Uid, PodEvents>,
    count: u64,
}

/// The events about a pod.
#[derive(Debug, Default)]
struct PodEvents {
    namespace: Box<str>,
    name: Box<str>,
    /// Few entries, in the order of their first reports.
    entries: Vec<EventEntry>,
}

#[derive(Debug)]
struct EventEntry {
    key: EventKey,
    /// The end of the event's name, which begins with the pod's.
    stamp: u128,
    manager: FieldManager,
    count: u32,
    last: Timestamp,
    /// True while a write of it is under way; and the count that the API server knows.
    busy: bool,
    written: u32,
}

impl Events {
    /// Tells something about a pod.
    pub fn tell(&mut self, io: &mut Io, pod: &PodName, source: ReportingComponent<'_>, told: &ReportedState) {
        let now = io.clock.now();
        let key = EventKey::of(told);
        let of_pod = self.pods.entry(pod.uid.clone()).or_insert_with(|| PodEvents::of(pod));
        if let Some(entry) = of_pod.entries.iter_mut().find(|entry| entry.key == key) {
            entry.count = entry.count.saturating_add(1).max(told.count);
            entry.last = now;
            of_pod.write(io, &pod.uid, key);
            return;
        }
        if of_pod.entries.len() >= KINDS_OF_A_POD {
            return;
        }
        // The moment distinguishes events over restarts, the count those within a moment.
        let stamp = u128::try_from(now.as_nanosecond()).unwrap_or(0) + u128::from(self.count);
        self.count += 1;
        let manager = match source {
            ReportingComponent::Kubelet(_) => FieldManager::Kubelet,
            ReportingComponent::Scheduler => FieldManager::Scheduler,
        };
        let event = object(pod, &of_pod.name_of(stamp), source, told, now);
        of_pod.entries.reserve_exact(1);
        of_pod.entries.push(EventEntry {
            key,
            stamp,
            manager,
            count: told.count,
            last: now,
            busy: true,
            written: told.count,
        });
        let (requests, uid) = (io.requests.clone(), pod.uid.clone());
        io.writes.add(async move {
            let result = requests.create_event(&event, manager.as_str()).await;
            WriteResult { what: What::Event(uid, key), result }
        });
    }

    /// Notes that a write of an event is done.
    pub fn written(&mut self, io: &mut Io, uid: &Uid, key: EventKey, result: Result<(), Error>) {
        if let Err(error) = result {
            // Events are sent once; a namespace that goes takes none.
            tracing::debug!(%error, %uid, "failed to write an event");
        }
        let Some(of_pod) = self.pods.get_mut(uid) else { return };
        if let Some(entry) = of_pod.entries.iter_mut().find(|entry| entry.key == key) {
            entry.busy = false;
            of_pod.write(io, uid, key);
        }
    }

    /// Forgets a pod that is gone.
    pub fn forget(&mut self, uid: &str) {
        self.pods.remove(uid);
    }
}

impl PodEvents {
    fn of(pod: &PodName) -> PodEvents {
        PodEvents { namespace: pod.namespace.as_str().into(), name: pod.name.as_str().into(), entries: Vec::new() }
    }

    fn name_of(&self, stamp: u128) -> String {
        format!("{}.{stamp:x}", self.name)
    }

    /// Writes the count of an event, unless that is under way or known.
    fn write(&mut self, io: &mut Io, uid: &Uid, key: EventKey) {
        let Some(entry) = self.entries.iter_mut().find(|entry| entry.key == key) else { return };
        if entry.busy || entry.written == entry.count {
            return;
        }
        entry.busy = true;
        entry.written = entry.count;
        let patch = match entry.manager {
            FieldManager::Kubelet => {
                let last = entry.last.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
                json!({"count": entry.count, "lastTimestamp": last})
            }
            FieldManager::Scheduler => {
                let last = entry.last.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string();
                json!({"series": {"count": entry.count, "lastObservedTime": last}})
            }
        };
        let (requests, uid) = (io.requests.clone(), uid.clone());
        let (manager, stamp) = (entry.manager, entry.stamp);
        let (namespace, name) = (self.namespace.clone(), self.name_of(stamp));
        io.writes.add(async move {
            let result = requests.patch_event(&namespace, &name, patch, manager.as_str()).await;
            WriteResult { what: What::Event(uid, key), result }
        });
    }
}

fn object(pod: &PodName, name: &str, source: ReportingComponent<'_>, told: &ReportedState, now: Timestamp) -> Event {
    let mut event = Event {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(pod.namespace.clone()),
            ..ObjectMeta::default()
        },
        involved_object: ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            namespace: Some(pod.namespace.clone()),
            name: Some(pod.name.clone()),
            uid: Some(pod.uid.to_string()),
            field_path: told.field.clone(),
            resource_version: None,
        },
        type_: Some(told.event_type.as_str().to_owned()),
        reason: Some(told.reason.clone().into_owned()),
        message: Some(told.message.clone()),
        ..Event::default()
    };
    match source {
        ReportingComponent::Kubelet(node) => {
            event.source = Some(EventSource { component: Some(KUBELET.to_owned()), host: Some(node.to_owned()) });
            event.reporting_component = Some(KUBELET.to_owned());
            event.reporting_instance = Some(node.to_owned());
            event.first_timestamp = Some(Time(now));
            event.last_timestamp = Some(Time(now));
            event.count = i32::try_from(told.count).ok();
        }
        // The scheduler writes events of the newer kind, which have a moment and no count.
        ReportingComponent::Scheduler => {
            event.event_time = Some(MicroTime(now));
            event.action = Some(if told.event_type == EventType::Normal { "Binding" } else { "Scheduling" }.to_owned());
            event.reporting_component = Some("default-scheduler".to_owned());
            event.reporting_instance = Some("default-scheduler".to_owned());
        }
    }
    event
}
