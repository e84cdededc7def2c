//! Events: messages of controllers to people. Fire and forget, and never without a bound.

mod correlate;
mod occurrence;

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::Resource;
use kube::api::Patch;
use serde_json::json;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::key::Key;
use super::requests::{Requests, Written};
use super::template::fnv1;
use crate::Clock;
pub use crate::event_type::EventType;
use correlate::{CorrelationStep, Correlator};
use occurrence::Occurrence;

/// Events are written side by side by so many writers; those about one object by one, in order.
const WRITERS: usize = 8;
/// Events that wait for one writer; more are dropped.
const WAITING: usize = 500;
/// The longest name that an event may have.
const LONGEST_NAME: usize = 253;
/// The namespace of events about objects of the whole cluster.
const CLUSTER_EVENTS: &str = "default";

/// Takes events from one controller. Cheap to clone.
#[derive(Clone)]
pub struct Recorder {
    component: &'static str,
    clock: Clock,
    senders: Arc<[mpsc::Sender<Occurrence>]>,
}

impl Recorder {
    /// Returns a recorder that speaks as another component, `deployment-controller`.
    pub fn speaking_as(&self, component: &'static str) -> Recorder {
        Recorder { component, ..self.clone() }
    }

    /// Sends an event about `object`.
    pub fn say<K>(&self, object: &K, event_type: EventType, reason: &'static str, message: impl Into<String>)
    where
        K: Resource<DynamicType = ()>,
    {
        self.say_of(reference(object), event_type, reason, message);
    }

    /// Sends an event about the object of a reference.
    pub fn say_of(
        &self,
        object: ObjectReference,
        event_type: EventType,
        reason: &'static str,
        message: impl Into<String>,
    ) {
        let message = message.into();
        let at = self.clock.now();
        let occurrence = Occurrence { component: self.component, object, event_type, reason, message, at };
        let writer = fnv1(&[occurrence.object.uid.as_deref().unwrap_or_default().as_bytes()]) as usize % WRITERS;
        if self.senders[writer].try_send(occurrence).is_err() {
            tracing::debug!(component = self.component, reason, "too many events at once; one is dropped");
        }
    }
}

/// Writes the events of recorders.
pub struct EventWriter {
    receiver: mpsc::Receiver<Occurrence>,
    correlator: Correlator,
    last_name: i128,
}

/// Returns a recorder, and the writers that belong to it.
pub fn channel(clock: Clock) -> (Recorder, Vec<EventWriter>) {
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..WRITERS).map(|_| mpsc::channel(WAITING)).unzip();
    let writer = |receiver| EventWriter { receiver, correlator: Correlator::default(), last_name: 0 };
    (Recorder { component: "", clock, senders: senders.into() }, receivers.into_iter().map(writer).collect())
}

impl EventWriter {
    /// Writes events until `stop`.
    pub async fn run(mut self, requests: Requests, stop: CancellationToken) {
        loop {
            let occurrence = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                occurrence = self.receiver.recv() => occurrence,
            };
            let Some(occurrence) = occurrence else { return };
            self.write(&requests, occurrence).await;
        }
    }

    async fn write(&mut self, requests: &Requests, occurrence: Occurrence) {
        match self.correlator.take(occurrence) {
            CorrelationStep::Drop => {}
            CorrelationStep::Create { occurrence, place } => {
                self.create(requests, &occurrence, place).await;
            }
            CorrelationStep::Count { occurrence, event, count, place } => {
                let changed = json!({
                    "count": count, "lastTimestamp": Time(occurrence.at), "message": occurrence.message,
                });
                let patched = requests.patch::<Event, _, Written>(&event, &Patch::Strategic(changed)).await;
                match patched {
                    Ok(_) => {}
                    Err(error) if error.is_not_found() => self.create(requests, &occurrence, place).await,
                    Err(error) => tracing::debug!(%error, "an event is lost"),
                }
            }
        }
    }

    async fn create(&mut self, requests: &Requests, occurrence: &Occurrence, place: correlate::EventPlace) {
        let event = self.event(occurrence);
        match requests.create::<Event, Written>(&event).await {
            Ok(written) => self.correlator.created(place, Key::of(&written.metadata)),
            Err(error) => tracing::debug!(%error, "an event is lost"),
        }
    }

    fn event(&mut self, occurrence: &Occurrence) -> Event {
        // The name holds the time, which on a stopped clock is the same for all.
        self.last_name = occurrence.at.as_nanosecond().max(self.last_name + 1);
        let end = format!(".{:x}", self.last_name);
        let mut name = occurrence.object.name.clone().unwrap_or_default();
        // Names are plain ASCII; one that is not is cut at a letter all the same.
        while name.len() + end.len() > LONGEST_NAME {
            name.pop();
        }
        name.push_str(&end);
        let namespace = occurrence.object.namespace.clone().filter(|namespace| !namespace.is_empty());
        let time = Some(Time(occurrence.at));
        Event {
            metadata: ObjectMeta {
                name: Some(name),
                namespace: Some(namespace.unwrap_or_else(|| CLUSTER_EVENTS.to_owned())),
                ..ObjectMeta::default()
            },
            involved_object: occurrence.object.clone(),
            reason: Some(occurrence.reason.to_owned()),
            message: Some(occurrence.message.clone()),
            source: Some(EventSource { component: Some(occurrence.component.to_owned()), host: None }),
            reporting_component: Some(occurrence.component.to_owned()),
            reporting_instance: Some(String::new()),
            first_timestamp: time.clone(),
            last_timestamp: time,
            count: Some(1),
            type_: Some(occurrence.event_type.as_str().to_owned()),
            ..Event::default()
        }
    }
}

fn reference<K: Resource<DynamicType = ()>>(object: &K) -> ObjectReference {
    let metadata = object.meta();
    ObjectReference {
        api_version: Some(K::api_version(&()).into_owned()),
        kind: Some(K::kind(&()).into_owned()),
        namespace: metadata.namespace.clone(),
        name: metadata.name.clone(),
        uid: metadata.uid.clone(),
        resource_version: metadata.resource_version.clone(),
        field_path: None,
    }
}
