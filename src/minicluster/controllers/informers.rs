//! All informers: one for each kind, whoever needs it.

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::ReplicationController;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::informer::{Cached, Extent, Informer};
use super::pod::Pod;
use crate::minicluster::Random;

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

cached!(Deployment, ReplicaSet, ReplicationController);

/// The informers. Cheap to clone; only those that somebody wants are run.
#[derive(Clone)]
pub struct Informers {
    pub pods: Informer<Pod>,
    pub deployments: Informer<Deployment>,
    pub replica_sets: Informer<ReplicaSet>,
    pub replication_controllers: Informer<ReplicationController>,
}

impl Informers {
    /// Informers that do not run yet.
    pub fn new() -> Informers {
        Informers { pods: whole(), deployments: whole(), replica_sets: whole(), replication_controllers: whole() }
    }

    /// Runs those that are wanted.
    pub fn run(&self, client: &kube::Client, random: &Random, tracker: &TaskTracker, stop: &CancellationToken) {
        let run = Run { client, random, tracker, stop };
        run.start(&self.deployments);
        run.start(&self.replica_sets);
        run.start(&self.replication_controllers);
        run.start(&self.pods);
    }

    /// Waits until those that are wanted have listed their kinds.
    pub async fn synced(&self) {
        synced(&self.deployments).await;
        synced(&self.replica_sets).await;
        synced(&self.replication_controllers).await;
        synced(&self.pods).await;
    }
}

fn whole<K: Cached + Resource<DynamicType = ()>>() -> Informer<K> {
    Informer::new(K::url_path(&(), None), Extent::Whole)
}

async fn synced<K: Cached>(informer: &Informer<K>) {
    if informer.is_wanted() {
        informer.synced().await;
    }
}

struct Run<'a> {
    client: &'a kube::Client,
    random: &'a Random,
    tracker: &'a TaskTracker,
    stop: &'a CancellationToken,
}

impl Run<'_> {
    fn start<K: Cached>(&self, informer: &Informer<K>) {
        if informer.is_wanted() {
            let (informer, client, stop) = (informer.clone(), self.client.clone(), self.stop.clone());
            let random = self.random.fork();
            self.tracker.spawn(async move { informer.run(client, random, stop).await });
        }
    }
}
