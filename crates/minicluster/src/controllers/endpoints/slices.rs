//! EndpointSlices: for every set of ports, the pods that have them, a hundred to a slice.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::DeleteParams;

use super::addresses::{self, ServedPort};
use super::triggers::annotated;
use super::{Slices, is_headless, is_told};
use crate::controllers::error::Error;
use crate::controllers::key::{Key, is_terminating, label, name_of};
use crate::controllers::owner::controller_reference;
use crate::controllers::pod::Pod;
use crate::controllers::requests::Ignored;
use crate::controllers::work_queue::WorkQueue;
use crate::controllers::worker::Reconciler;

/// The label with the Service's name.
pub const SERVICE: &str = "kubernetes.io/service-name";
/// The label with who keeps the slice.
const KEEPER: &str = "endpointslice.kubernetes.io/managed-by";
const OURSELVES: &str = "endpointslice-controller.k8s.io";
const HEADLESS: &str = "service.kubernetes.io/headless";
const ZONE: &str = "topology.kubernetes.io/zone";
/// The most endpoints of one slice.
const MOST: usize = 100;

impl Reconciler for Slices {
    type Key = Key;

    fn name(&self) -> &'static str {
        "endpointslice-controller"
    }

    fn queue(&self) -> &WorkQueue<Key> {
        &self.watched.queue
    }

    async fn sync(&self, key: &Key) -> Result<(), Error> {
        // With the Service go its slices, by their owner.
        let Some(service) = self.watched.services.get(key) else {
            self.watched.triggers.forget(key);
            return Ok(());
        };
        if !is_told(&service) || is_terminating(&service.metadata) {
            return Ok(());
        }
        let mut present: Vec<Arc<EndpointSlice>> = self.of(&service);
        present.retain(|slice| label(&slice.metadata, KEEPER) == Some(OURSELVES) && !is_terminating(&slice.metadata));
        let trigger = self.watched.trigger(&service);
        for mut wanted in self.wanted(&service) {
            // Slices of the same ports are written over; so few change.
            let same = present.iter().position(|slice| has_ports_of(slice, &wanted));
            let same = same.or_else(|| (!present.is_empty()).then_some(0));
            match same.map(|at| present.remove(at)) {
                Some(slice) => {
                    wanted.metadata.annotations = annotated(slice.metadata.annotations.clone(), trigger);
                    self.replace(&slice, wanted).await?;
                }
                None => {
                    wanted.metadata.annotations = annotated(None, trigger);
                    let _: Ignored = self.watched.context.requests.create(&wanted).await?;
                }
            }
        }
        for slice in present {
            let how = DeleteParams::default();
            match self.watched.context.requests.delete::<EndpointSlice>(&Key::of(&slice.metadata), &how).await {
                Err(error) if !error.is_not_found() => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}

impl Slices {
    async fn replace(&self, slice: &EndpointSlice, wanted: EndpointSlice) -> Result<(), Error> {
        // A list with nothing in it comes back as none.
        let is_same = has_ports_of(slice, &wanted)
            && slice.endpoints.as_deref().unwrap_or_default() == wanted.endpoints.as_deref().unwrap_or_default()
            && slice.metadata.labels == wanted.metadata.labels;
        if is_same {
            return Ok(());
        }
        let ObjectMeta { labels, annotations, .. } = wanted.metadata;
        let metadata = ObjectMeta { labels, annotations, ..slice.metadata.clone() };
        let changed = EndpointSlice { metadata, ..wanted };
        match self.watched.context.requests.replace::<_, Ignored>(&changed).await {
            Err(error) if !error.is_not_found() => Err(error),
            _ => Ok(()),
        }
    }

    /// Returns the slices that there should be; an empty one if there are no pods.
    fn wanted(&self, service: &Service) -> Vec<EndpointSlice> {
        let mut by_ports: BTreeMap<Vec<ServedPort>, Vec<Endpoint>> = BTreeMap::new();
        for pod in self.watched.pods(service) {
            by_ports.entry(addresses::ports(service, &pod)).or_default().push(self.endpoint(service, &pod));
        }
        let mut slices = Vec::new();
        for (ports, endpoints) in by_ports {
            for part in endpoints.chunks(MOST) {
                slices.push(EndpointSlice {
                    ports: Some(ports.iter().map(port).collect()),
                    ..slice(service, Some(part.to_vec()))
                });
            }
        }
        if slices.is_empty() {
            slices.push(slice(service, None));
        }
        slices
    }

    fn endpoint(&self, service: &Service, pod: &Pod) -> Endpoint {
        let spec = service.spec.as_ref();
        let all_count = spec.and_then(|spec| spec.publish_not_ready_addresses) == Some(true);
        let (serving, terminating) = (pod.is_ready(), is_terminating(&pod.metadata));
        let node = pod.spec.node_name.clone();
        let zone = node.as_ref().and_then(|node| self.watched.context.informers.nodes.get(&Key::new("", node.clone())));
        Endpoint {
            addresses: addresses::of(pod).map(str::to_owned).into_iter().collect(),
            conditions: Some(EndpointConditions {
                ready: Some(all_count || (serving && !terminating)),
                serving: Some(serving),
                terminating: Some(terminating),
            }),
            hostname: addresses::hostname(service, pod),
            target_ref: Some(addresses::reference(pod)),
            zone: zone.and_then(|node| label(&node.metadata, ZONE).map(str::to_owned)),
            node_name: node,
            ..Endpoint::default()
        }
    }
}

/// Returns a slice of a Service, without its ports.
fn slice(service: &Service, endpoints: Option<Vec<Endpoint>>) -> EndpointSlice {
    let mut labels = service.metadata.labels.clone().unwrap_or_default();
    labels.insert(SERVICE.to_owned(), name_of(&service.metadata).to_owned());
    labels.insert(KEEPER.to_owned(), OURSELVES.to_owned());
    if is_headless(service) {
        labels.insert(HEADLESS.to_owned(), String::new());
    } else {
        labels.remove(HEADLESS);
    }
    let families = service.spec.as_ref().and_then(|spec| spec.ip_families.as_ref());
    let family = families.and_then(|families| families.first().cloned()).unwrap_or_else(|| "IPv4".to_owned());
    EndpointSlice {
        metadata: ObjectMeta {
            generate_name: Some(format!("{}-", name_of(&service.metadata))),
            namespace: service.metadata.namespace.clone(),
            labels: Some(labels),
            owner_references: Some(vec![controller_reference::<Service>(&service.metadata)]),
            ..ObjectMeta::default()
        },
        address_type: family,
        endpoints,
        ports: None,
    }
}

/// Returns true when two slices have the same ports: none may be written in two ways.
fn has_ports_of(one: &EndpointSlice, other: &EndpointSlice) -> bool {
    one.ports.as_deref().unwrap_or_default() == other.ports.as_deref().unwrap_or_default()
}

fn port(port: &ServedPort) -> EndpointPort {
    EndpointPort {
        name: Some(port.name.clone()),
        port: Some(port.number),
        protocol: Some(port.protocol.clone()),
        app_protocol: port.speaks.clone(),
    }
}
