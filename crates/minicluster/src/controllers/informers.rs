//! All informers: one for each kind, shared by all controllers.

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet, StatefulSet};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{
    ConfigMap, Endpoints, Namespace, PersistentVolume, PersistentVolumeClaim, ResourceQuota, Service, ServiceAccount,
};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::ClusterRole;
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::informer::{Cached, Extent, Informer, MetadataChange};
use super::node::Node;
use super::pod::Pod;
use super::templated::{Deployment, ReplicaSet, ReplicationController};
use crate::Random;

/// Lets the typed kinds be kept by informers.
macro_rules! cached {
    ($($kind:ty),* $(,)?) => {
        $(impl Cached for $kind {
            fn metadata(&self) -> &ObjectMeta {
                &self.metadata
            }

            fn metadata_mut(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }
        })*
    };
}

/// One informer per line: its name and its kind.
macro_rules! informers {
    ($($name:ident: $kind:ty,)*) => {
        /// The informers. Cheap to clone; only those that somebody wants are run.
        #[derive(Clone)]
        pub struct Informers {
            $(pub $name: Informer<$kind>,)*
        }

        impl Informers {
            /// Informers that do not run yet.
            pub fn new() -> Informers {
                Informers { $($name: whole(),)* }
            }

            /// Runs those that are wanted.
            pub fn run(&self, client: &kube::Client, random: &Random, tracker: &TaskTracker, stop: &CancellationToken) {
                let run = InformerRun { client, random, tracker, stop };
                $(run.start(&self.$name);)*
            }

            /// Waits until those that are wanted have listed their kinds.
            pub async fn synced(&self) {
                $(synced(&self.$name).await;)*
            }

            /// Calls `handler` with the path of the kind on every change in the wanted informers. Returns their paths.
            pub fn on_any_change(
                &self,
                handler: impl Fn(&str, MetadataChange<'_>) + Clone + Send + Sync + 'static,
            ) -> BTreeSet<String> {
                let mut paths = BTreeSet::new();
                $(paths.extend(on_change(&self.$name, handler.clone()));)*
                paths
            }
        }
    };
}

cached!(
    ClusterRole,
    ConfigMap,
    ControllerRevision,
    CronJob,
    DaemonSet,
    EndpointSlice,
    Endpoints,
    Job,
    Namespace,
    PersistentVolume,
    PersistentVolumeClaim,
    ResourceQuota,
    ServiceAccount,
    StatefulSet,
    StorageClass,
);

informers! {
    namespaces: Namespace,
    deployments: Deployment,
    replica_sets: ReplicaSet,
    replication_controllers: ReplicationController,
    stateful_sets: StatefulSet,
    daemon_sets: DaemonSet,
    controller_revisions: ControllerRevision,
    jobs: Job,
    cron_jobs: CronJob,
    pod_disruption_budgets: PodDisruptionBudget,
    resource_quotas: ResourceQuota,
    services: Service,
    endpoints: Endpoints,
    endpoint_slices: EndpointSlice,
    persistent_volumes: PersistentVolume,
    persistent_volume_claims: PersistentVolumeClaim,
    storage_classes: StorageClass,
    nodes: Node,
    pods: Pod,
    cluster_roles: ClusterRole,
}

fn whole<K: Cached + Resource<DynamicType = ()>>() -> Informer<K> {
    Informer::new(K::url_path(&(), None), Extent::Whole)
}

async fn synced<K: Cached>(informer: &Informer<K>) {
    if informer.is_wanted() {
        informer.synced().await;
    }
}

/// Calls `handler` on every change of a kind, if its informer is wanted. Returns its path then.
fn on_change<K: Cached>(
    informer: &Informer<K>,
    handler: impl Fn(&str, MetadataChange<'_>) + Send + Sync + 'static,
) -> Option<String> {
    let path = informer.is_wanted().then(|| informer.path().to_owned())?;
    let of = path.clone();
    informer.on_change(move |change| handler(&of, change.metadata()));
    Some(path)
}

struct InformerRun<'a> {
    client: &'a kube::Client,
    random: &'a Random,
    tracker: &'a TaskTracker,
    stop: &'a CancellationToken,
}

impl InformerRun<'_> {
    fn start<K: Cached>(&self, informer: &Informer<K>) {
        if informer.is_wanted() {
            let (informer, client, stop) = (informer.clone(), self.client.clone(), self.stop.clone());
            let random = self.random.fork();
            self.tracker.spawn(async move { informer.run(client, random, stop).await });
        }
    }
}
