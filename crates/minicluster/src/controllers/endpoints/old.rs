//! Endpoints: one object a Service, with at most a thousand addresses.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{EndpointAddress, EndpointPort, EndpointSubset, Endpoints, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::DeleteParams;

use super::addresses::{self, ServedPort};
use super::triggers::annotated;
use super::{Old, is_headless, is_told};
use crate::controllers::error::Error;
use crate::controllers::key::{Key, is_terminating};
use crate::controllers::pod::Pod;
use crate::controllers::requests::Ignored;
use crate::controllers::work_queue::WorkQueue;
use crate::controllers::worker::Reconciler;

const HEADLESS: &str = "service.kubernetes.io/headless";
/// The label with who keeps the object.
const KEEPER: &str = "endpoints.kubernetes.io/managed-by";
const OURSELVES: &str = "endpoint-controller";
/// The most addresses; more are left out.
const MOST: usize = 1000;

impl Reconciler for Old {
    type Key = Key;

    fn name(&self) -> &'static str {
        "endpoint-controller"
    }

    fn queue(&self) -> &WorkQueue<Key> {
        &self.watched.queue
    }

    async fn sync(&self, key: &Key) -> Result<(), Error> {
        let requests = &self.watched.context.requests;
        let Some(service) = self.watched.services.get(key) else {
            self.watched.triggers.forget(key);
            return match requests.delete::<Endpoints>(key, &DeleteParams::default()).await {
                Err(error) if !error.is_not_found() => Err(error),
                _ => Ok(()),
            };
        };
        if !is_told(&service) {
            return Ok(());
        }
        let subsets = self.subsets(&service);
        let trigger = self.watched.trigger(&service);
        let mut labels = service.metadata.labels.clone().unwrap_or_default();
        labels.insert(KEEPER.to_owned(), OURSELVES.to_owned());
        if is_headless(&service) {
            labels.insert(HEADLESS.to_owned(), String::new());
        } else {
            labels.remove(HEADLESS);
        }
        let subsets = Some(subsets).filter(|subsets| !subsets.is_empty());
        let Some(present) = self.endpoints.get(key) else {
            let metadata = ObjectMeta {
                name: service.metadata.name.clone(),
                namespace: service.metadata.namespace.clone(),
                labels: Some(labels),
                annotations: annotated(None, trigger),
                ..ObjectMeta::default()
            };
            let _: Ignored = match requests.create(&Endpoints { metadata, subsets }).await {
                Err(error) if error.is_namespace_terminating() => return Ok(()),
                made => made?,
            };
            return Ok(());
        };
        if present.subsets == subsets && present.metadata.labels.as_ref() == Some(&labels) {
            return Ok(());
        }
        let annotations = annotated(present.metadata.annotations.clone(), trigger);
        let metadata = ObjectMeta { labels: Some(labels), annotations, ..present.metadata.clone() };
        let _: Ignored = requests.replace(&Endpoints { metadata, subsets }).await?;
        Ok(())
    }
}

impl Old {
    /// Addresses by ports, those that are ready apart from the others.
    fn subsets(&self, service: &Service) -> Vec<EndpointSubset> {
        let all_count = service.spec.as_ref().and_then(|spec| spec.publish_not_ready_addresses) == Some(true);
        let mut by_ports: BTreeMap<Vec<ServedPort>, (Vec<EndpointAddress>, Vec<EndpointAddress>)> = BTreeMap::new();
        let pods = self.watched.pods(service);
        let counted = pods.iter().filter(|pod| all_count || !is_terminating(&pod.metadata));
        for pod in counted.take(MOST) {
            let (ready, others) = by_ports.entry(addresses::ports(service, pod)).or_default();
            let list = if all_count || pod.is_ready() { ready } else { others };
            list.push(address(service, pod));
        }
        let listed = |mut list: Vec<EndpointAddress>| {
            list.sort_by_key(|one| (one.ip.clone(), one.target_ref.as_ref().and_then(|pod| pod.uid.clone())));
            Some(list).filter(|list| !list.is_empty())
        };
        let subset = |(ports, (ready, others)): (Vec<ServedPort>, (Vec<_>, Vec<_>))| EndpointSubset {
            addresses: listed(ready),
            not_ready_addresses: listed(others),
            ports: Some(ports.iter().map(port).collect::<Vec<_>>()).filter(|ports| !ports.is_empty()),
        };
        by_ports.into_iter().map(subset).collect()
    }
}

fn address(service: &Service, pod: &Pod) -> EndpointAddress {
    EndpointAddress {
        ip: addresses::of(pod).unwrap_or_default().to_owned(),
        hostname: addresses::hostname(service, pod),
        node_name: pod.spec.node_name.clone(),
        target_ref: Some(addresses::reference(pod)),
    }
}

fn port(port: &ServedPort) -> EndpointPort {
    EndpointPort {
        name: Some(port.name.clone()).filter(|name| !name.is_empty()),
        port: port.number,
        protocol: Some(port.protocol.clone()),
        app_protocol: port.speaks.clone(),
    }
}
