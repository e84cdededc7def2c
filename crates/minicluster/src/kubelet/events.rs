//! Tells what happens to pods as events: one object for the same thing, counted where it happens again.

use std::borrow::Cow;
use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, Time};
use serde_json::json;

use super::io::Io;
use super::requests::{Error, KUBELET, PodName, SCHEDULER};
use super::simulated_pod::{EventType, ReportedState};
use super::writes::{What, WriteResult};

/// Different things told of one pod; more are dropped, as by a spam filter.
const KINDS_OF_A_POD: usize = 50;

/// Who tells something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportingComponent<'a> {
    /// The kubelet of a node.
    Kubelet(&'a str),
    /// The scheduler.
    Scheduler,
}

/// All that was told.
#[derive(Debug, Default)]
pub struct Events {
    /// What was told of each pod: few things, in the order in which they were first told.
    pods: BTreeMap<String, Vec<(Key, EventEntry)>>,
    count: u64,
}

/// The same thing, as far as events go.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    field: Option<String>,
    reason: Cow<'static, str>,
    message: String,
}

#[derive(Debug)]
struct EventEntry {
    namespace: String,
    name: String,
    manager: &'static str,
    count: u32,
    last: Timestamp,
    /// Whether a write of it is under way, and what the API server knows.
    busy: bool,
    written: u32,
}

impl Events {
    /// Tells something about a pod.
    pub fn tell(&mut self, io: &mut Io, pod: &PodName, source: ReportingComponent<'_>, told: &ReportedState) {
        let now = io.clock.now();
        let key = Key { field: told.field.clone(), reason: told.reason.clone(), message: told.message.clone() };
        let of_pod = self.pods.entry(pod.uid.clone()).or_default();
        if let Some(entry) = find(of_pod, &key) {
            entry.count = entry.count.saturating_add(1).max(told.count);
            entry.last = now;
            entry.write(io, &pod.uid, key);
            return;
        }
        if of_pod.len() >= KINDS_OF_A_POD {
            return;
        }
        // The moment tells events apart over restarts, the count within a moment.
        let stamp = u128::try_from(now.as_nanosecond()).unwrap_or(0) + u128::from(self.count);
        self.count += 1;
        let manager = match source {
            ReportingComponent::Kubelet(_) => KUBELET,
            ReportingComponent::Scheduler => SCHEDULER,
        };
        let name = format!("{}.{stamp:x}", pod.name);
        let event = object(pod, &name, source, told, now);
        let entry = EventEntry {
            namespace: pod.namespace.clone(),
            name,
            manager,
            count: told.count,
            last: now,
            busy: true,
            written: told.count,
        };
        of_pod.push((key.clone(), entry));
        let (requests, uid) = (io.requests.clone(), pod.uid.clone());
        io.writes.add(async move {
            let result = requests.create_event(&event, manager).await;
            WriteResult { what: What::Event(uid, key), result }
        });
    }

    /// A write of an event is done.
    pub fn written(&mut self, io: &mut Io, uid: &str, key: Key, result: Result<(), Error>) {
        if let Err(error) = result {
            // Events are told once; a namespace that goes takes none.
            tracing::debug!(%error, uid, "failed to write an event");
        }
        if let Some(entry) = self.pods.get_mut(uid).and_then(|of_pod| find(of_pod, &key)) {
            entry.busy = false;
            entry.write(io, uid, key);
        }
    }

    /// Forgets a pod that is gone.
    pub fn forget(&mut self, uid: &str) {
        self.pods.remove(uid);
    }
}

fn find<'a>(of_pod: &'a mut [(Key, EventEntry)], key: &Key) -> Option<&'a mut EventEntry> {
    of_pod.iter_mut().find(|(known, _)| known == key).map(|(_, entry)| entry)
}

impl EventEntry {
    fn write(&mut self, io: &mut Io, uid: &str, key: Key) {
        if self.busy || self.written == self.count {
            return;
        }
        self.busy = true;
        self.written = self.count;
        let patch = if self.manager == KUBELET {
            let last = self.last.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
            json!({"count": self.count, "lastTimestamp": last})
        } else {
            let last = self.last.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string();
            json!({"series": {"count": self.count, "lastObservedTime": last}})
        };
        let (requests, uid) = (io.requests.clone(), uid.to_owned());
        let (namespace, name, manager) = (self.namespace.clone(), self.name.clone(), self.manager);
        io.writes.add(async move {
            let result = requests.patch_event(&namespace, &name, patch, manager).await;
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
            uid: Some(pod.uid.clone()),
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
