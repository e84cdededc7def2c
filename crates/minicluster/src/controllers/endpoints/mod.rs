//! Tells where the pods of Services are: EndpointSlices, and Endpoints for those who still read them.

mod addresses;
mod old;
mod slices;
mod triggers;

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Endpoints, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::context::{Context, ControllerStart};
use super::informer::{CacheChange, Cached, Informer, Tag};
use super::key::{Key, namespace_of, uid_of};
use super::pod::Pod;
use super::selector::Selector;
use super::work_queue::WorkQueue;
use super::worker;
use triggers::Triggers;

/// The number of Services that are handled side by side.
const WORKERS: usize = 5;

/// The objects that both controllers watch.
struct Watched {
    context: Context,
    services: Informer<Service>,
    triggers: Triggers,
    queue: WorkQueue<Key>,
}

/// The controller of EndpointSlices.
struct Slices {
    watched: Watched,
    slices: Informer<EndpointSlice>,
}

/// The controller of Endpoints.
struct Old {
    watched: Watched,
    endpoints: Informer<Endpoints>,
}

/// Prepares the controller of EndpointSlices.
pub fn slices(context: &Context) -> ControllerStart {
    let slices = context.informers.endpoint_slices.clone();
    let controller = Arc::new(Slices { watched: Watched::new(context), slices });
    context.informers.nodes.want();
    follow(&controller.watched);
    let this = controller.clone();
    controller.slices.on_change(move |change| {
        // Somebody else may have changed or deleted our object.
        if matches!(change, CacheChange::Added(_)) {
            return;
        }
        let metadata = &change.object().metadata;
        if let Some(service) = super::key::label(metadata, slices::SERVICE) {
            this.watched.queue.add(Key::new(namespace_of(metadata), service));
        }
    });
    Box::new(move |tracker, stop| worker::spawn(&controller, WORKERS, tracker, stop))
}

/// Prepares the controller of Endpoints.
pub fn old(context: &Context) -> ControllerStart {
    let endpoints = context.informers.endpoints.clone();
    let controller = Arc::new(Old { watched: Watched::new(context), endpoints });
    follow(&controller.watched);
    controller.endpoints.want();
    Box::new(move |tracker, stop| worker::spawn(&controller, WORKERS, tracker, stop))
}

/// Queues Services on changes of them and of their pods.
fn follow(watched: &Watched) {
    let queue = watched.queue.clone();
    watched.services.on_change(move |change| queue.add(Key::of(&change.object().metadata)));
    let (queue, services) = (watched.queue.clone(), watched.services.clone());
    watched.context.informers.pods.on_change(move |change| match change {
        CacheChange::Added(pod) | CacheChange::Deleted(pod) => add_services(&queue, &services, pod),
        CacheChange::Modified { old, new } => {
            if addresses::tell_the_same(old, new) {
                return;
            }
            if old.metadata.labels != new.metadata.labels {
                add_services(&queue, &services, old);
            }
            add_services(&queue, &services, new);
        }
    });
}

fn add_services(queue: &WorkQueue<Key>, services: &Informer<Service>, pod: &Pod) {
    for service in services.may_select(&pod.metadata) {
        if selector(&service).matches(pod.metadata.labels.as_ref()) {
            queue.add(Key::of(&service.metadata));
        }
    }
}

impl Watched {
    fn new(context: &Context) -> Watched {
        let services = context.informers.services.clone();
        let (triggers, queue) = (Triggers::default(), WorkQueue::default());
        Watched { context: context.clone(), services, triggers, queue }
    }

    /// Returns the pods of a Service that have an address and have not ended, by name.
    fn pods(&self, service: &Service) -> Vec<Arc<Pod>> {
        let mut pods = self.selected(service);
        pods.retain(|pod| !pod.is_finished() && addresses::of(pod).is_some());
        pods
    }

    fn selected(&self, service: &Service) -> Vec<Arc<Pod>> {
        self.context.informers.pods.selected(namespace_of(&service.metadata), &selector(service))
    }

    /// Returns the time of the first change since the last reconciliation.
    fn trigger(&self, service: &Service) -> Option<Timestamp> {
        self.triggers.first_since(service, &self.selected(service))
    }
}

impl Slices {
    /// Returns the slices that this controller has made for a Service.
    fn of(&self, service: &Service) -> Vec<Arc<EndpointSlice>> {
        self.slices.controlled_by(uid_of(&service.metadata))
    }
}

impl Cached for Service {
    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }

    fn tags(&self) -> Vec<Tag> {
        let selects = Tag::of_selector(&self.metadata, &selector(self));
        std::iter::once(Tag::of_owner(&self.metadata)).chain(selects).collect()
    }
}

/// Returns the selector of a Service; one for nothing if it has none.
fn selector(service: &Service) -> Selector {
    let labels = service.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    labels.filter(|labels| !labels.is_empty()).map_or(Selector::nothing(), Selector::of_labels)
}

/// Returns true when the Service is one whose pods are published: not another name for something outside.
fn is_told(service: &Service) -> bool {
    let spec = service.spec.as_ref();
    spec.is_some_and(|spec| spec.type_.as_deref() != Some("ExternalName"))
        && spec.and_then(|spec| spec.selector.as_ref()).is_some()
}

/// Returns true when the Service has no address of its own.
fn is_headless(service: &Service) -> bool {
    service.spec.as_ref().and_then(|spec| spec.cluster_ip.as_deref()) == Some("None")
}
