//! The objects of every namespace: the ServiceAccount `default`, and the ConfigMap with the cluster's root certificate.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ServiceAccount};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::context::{Context, ControllerStart};
use super::error::Error;
use super::informer::{CacheChange, Cached, Extent, Informer};
use super::key::{Key, is_terminating, namespace_of};
use super::requests::Ignored;
use super::work_queue::WorkQueue;
use super::worker::{self, Reconciler};

/// The number of namespaces that are handled side by side.
const WORKERS: usize = 2;
const ACCOUNT: &str = "default";
const ROOT_CERTIFICATE: &str = "kube-root-ca.crt";
/// The entry of the ConfigMap that holds the certificate.
const ENTRY: &str = "ca.crt";
const DESCRIPTION: &str = "kubernetes.io/description";
const DESCRIBED: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal \
                         endpoints such as the internal service IP or kubernetes.default.svc. No other usage is \
                         guaranteed across distributions of Kubernetes clusters.";

/// Something that every namespace has.
trait NamespaceDefault: Cached + Resource<DynamicType = ()> + serde::Serialize {
    /// The controller's name, for logs.
    const CONTROLLER: &'static str;
    /// The object's name.
    const NAME: &'static str;
    /// The field selector of the watch.
    const FIELDS: &'static str;

    /// Returns the object in a namespace, created or repaired from the present one; `None` if it is as it should be.
    fn mended(present: Option<&Self>, namespace: &str, certificate: &str) -> Option<Self>;
}

impl NamespaceDefault for ServiceAccount {
    const CONTROLLER: &'static str = "serviceaccount-controller";
    const NAME: &'static str = ACCOUNT;
    const FIELDS: &'static str = "metadata.name=default";

    fn mended(present: Option<&ServiceAccount>, namespace: &str, _: &str) -> Option<ServiceAccount> {
        let fresh = || ServiceAccount { metadata: named(ACCOUNT, namespace), ..ServiceAccount::default() };
        present.is_none().then(fresh)
    }
}

impl NamespaceDefault for ConfigMap {
    const CONTROLLER: &'static str = "root-ca-certificate-publisher-controller";
    const NAME: &'static str = ROOT_CERTIFICATE;
    const FIELDS: &'static str = "metadata.name=kube-root-ca.crt";

    fn mended(present: Option<&ConfigMap>, namespace: &str, certificate: &str) -> Option<ConfigMap> {
        let data = BTreeMap::from([(ENTRY.to_owned(), certificate.to_owned())]);
        let is_described = |map: &ConfigMap| {
            map.metadata.annotations.as_ref().and_then(|all| all.get(DESCRIPTION)).map(String::as_str)
                == Some(DESCRIBED)
        };
        if present.is_some_and(|map| map.data.as_ref() == Some(&data) && is_described(map)) {
            return None;
        }
        let mut map = present
            .cloned()
            .unwrap_or_else(|| ConfigMap { metadata: named(ROOT_CERTIFICATE, namespace), ..ConfigMap::default() });
        map.data = Some(data);
        let annotations = map.metadata.annotations.get_or_insert_default();
        annotations.insert(DESCRIPTION.to_owned(), DESCRIBED.to_owned());
        Some(map)
    }
}

struct DefaultsController<K> {
    context: Context,
    namespaces: Informer<Namespace>,
    objects: Informer<K>,
    certificate: String,
    queue: WorkQueue<Key>,
}

/// Prepares the controller of ServiceAccounts.
pub fn service_accounts(context: &Context) -> ControllerStart {
    prepare::<ServiceAccount>(context, String::new())
}

/// Prepares the controller of root certificates; `certificate` is their content.
pub fn root_certificates(context: &Context, certificate: String) -> ControllerStart {
    prepare::<ConfigMap>(context, certificate)
}

fn prepare<K: NamespaceDefault>(context: &Context, certificate: String) -> ControllerStart {
    let controller = Arc::new(DefaultsController {
        context: context.clone(),
        namespaces: context.informers.namespaces.clone(),
        objects: Informer::<K>::of_some(K::url_path(&(), None), Extent::Whole, K::FIELDS),
        certificate,
        queue: WorkQueue::default(),
    });
    let this = controller.clone();
    controller.namespaces.on_change(move |change| {
        if !matches!(change, CacheChange::Deleted(_)) {
            this.queue.add(Key::of(&change.object().metadata));
        }
    });
    let this = controller.clone();
    controller.objects.on_change(move |change| {
        this.queue.add(Key::new("", namespace_of(Cached::metadata(change.object().as_ref()))));
    });
    Box::new(move |tracker: &TaskTracker, stop: &CancellationToken| {
        let (objects, client) = (controller.objects.clone(), controller.context.requests.client().clone());
        let (random, until) = (controller.context.random.fork(), stop.clone());
        tracker.spawn(async move { objects.run(client, random, until).await });
        let (tasks, stop) = (tracker.clone(), stop.clone());
        tracker.spawn(async move {
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = controller.objects.synced() => worker::spawn(&controller, WORKERS, &tasks, &stop),
            }
        });
    })
}

impl<K: NamespaceDefault> Reconciler for DefaultsController<K> {
    type Key = Key;

    fn name(&self) -> &'static str {
        K::CONTROLLER
    }

    fn queue(&self) -> &WorkQueue<Key> {
        &self.queue
    }

    async fn sync(&self, key: &Key) -> Result<(), Error> {
        let Some(namespace) = self.namespaces.get(key) else { return Ok(()) };
        let phase = namespace.status.as_ref().and_then(|status| status.phase.as_deref());
        if is_terminating(&namespace.metadata) || phase == Some("Terminating") {
            return Ok(());
        }
        let present = self.objects.get(&Key::new(key.name.clone(), K::NAME));
        let Some(mended) = K::mended(present.as_deref(), &key.name, &self.certificate) else { return Ok(()) };
        let written: Result<Ignored, Error> = match present {
            None => self.context.requests.create(&mended).await,
            Some(_) => self.context.requests.replace(&mended).await,
        };
        match written {
            Ok(_) => Ok(()),
            // Made by somebody else, or by us and not seen yet: the watch will report it.
            Err(error) if error.is_already_exists() => Ok(()),
            // The namespace is gone by now.
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) => Err(error),
        }
    }
}

fn named(name: &str, namespace: &str) -> ObjectMeta {
    ObjectMeta { name: Some(name.to_owned()), namespace: Some(namespace.to_owned()), ..ObjectMeta::default() }
}
