//! Gives claims the volumes that they ask for: a default storage class, and a volume of the asked size for each claim of
//! a class with its provisioner. Nothing is stored in them.
//!
//! A class that waits for the first consumer gets its volume when a pod names the claim. Not here: claims are not bound
//! to volumes that people made, and volumes do not grow.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::{DeleteParams, Patch};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::context::{Context, ControllerStart};
use super::error::Error;
use super::events::{EventType, Recorder};
use super::informer::{CacheChange, Informer, Tag};
use super::key::{Key, annotation, is_terminating, name_of, namespace_of, uid_of};
use super::pod::Pod;
use super::requests::{Ignored, Written};
use super::work_queue::WorkQueue;
use super::worker::{self, Reconciler};

/// The provisioner, as classes name it.
pub const PROVISIONER: &str = "volumes.minicluster.local";
/// The class that is made if there is none of its name.
const CLASS: &str = "standard";
/// Marks the default class.
const DEFAULT: &str = "storageclass.kubernetes.io/is-default-class";
/// Says on a volume who made it.
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
/// Keeps volumes that claims hold.
const FINALIZER: &str = "kubernetes.io/pv-protection";
/// The number of claims and volumes that are handled side by side.
const WORKERS: usize = 5;

struct Volumes {
    context: Context,
    recorder: Recorder,
    claims: Informer<PersistentVolumeClaim>,
    volumes: Informer<PersistentVolume>,
    classes: Informer<StorageClass>,
    pods: Informer<Pod>,
    /// Claims, and volumes, which have no namespace; an empty key stands for the default class.
    queue: WorkQueue<Key>,
}

/// Prepares the controller.
pub fn prepare(context: &Context) -> ControllerStart {
    let controller = Arc::new(Volumes {
        context: context.clone(),
        recorder: context.recorder.speaking_as("persistentvolume-controller"),
        claims: context.informers.persistent_volume_claims.clone(),
        volumes: context.informers.persistent_volumes.clone(),
        classes: context.informers.storage_classes.clone(),
        pods: context.informers.pods.clone(),
        queue: WorkQueue::default(),
    });
    let this = controller.clone();
    controller.claims.on_change(move |change| match change {
        CacheChange::Deleted(claim) => {
            if let Some(volume) = volume_of(claim) {
                this.queue.add(Key::new("", volume));
            }
        }
        change => this.queue.add(Key::of(&change.object().metadata)),
    });
    let this = controller.clone();
    controller.volumes.on_change(move |change| {
        if !matches!(change, CacheChange::Deleted(_)) {
            this.queue.add(Key::of(&change.object().metadata));
        }
    });
    let this = controller.clone();
    controller.classes.on_change(move |_| {
        // Claims may have waited for a class, or for a default.
        let all = this.claims.all();
        let waiting = all.iter().filter(|claim| volume_of(claim).is_none());
        waiting.for_each(|claim| this.queue.add(Key::of(&claim.metadata)));
    });
    let this = controller.clone();
    controller.pods.on_change(move |change| {
        if let CacheChange::Added(pod) = change {
            for claim in pod.claims() {
                this.queue.add(Key::new(namespace_of(&pod.metadata), claim));
            }
        }
    });
    controller.queue.add(Key::default());
    Box::new(move |tracker: &TaskTracker, stop: &CancellationToken| worker::spawn(&controller, WORKERS, tracker, stop))
}

impl Reconciler for Volumes {
    type Key = Key;

    fn name(&self) -> &'static str {
        "persistentvolume-binder-controller"
    }

    fn queue(&self) -> &WorkQueue<Key> {
        &self.queue
    }

    async fn sync(&self, key: &Key) -> Result<(), Error> {
        if key.name.is_empty() {
            return self.make_class().await;
        }
        if key.namespace.is_empty() {
            return self.reclaim(key).await;
        }
        let Some(claim) = self.claims.get(key).filter(|claim| !is_terminating(&claim.metadata)) else { return Ok(()) };
        match volume_of(&claim) {
            Some(volume) => self.settle(key, &claim, volume).await,
            None => self.provide(key, &claim).await,
        }
    }
}

impl Volumes {
    async fn make_class(&self) -> Result<(), Error> {
        if self.classes.get(&Key::new("", CLASS)).is_some() {
            return Ok(());
        }
        let class = json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
            "metadata": { "name": CLASS, "annotations": { DEFAULT: "true" } },
            "provisioner": PROVISIONER, "reclaimPolicy": "Delete", "volumeBindingMode": "Immediate",
        });
        let made = self.context.requests.create_from::<StorageClass, _, Ignored>(&Key::new("", CLASS), &class).await;
        made.map(drop).or_else(|error| if error.is_already_exists() { Ok(()) } else { Err(error) })
    }

    /// Returns the class of a claim, if there is such a one; a claim without gets the default one.
    async fn class_of(&self, key: &Key, claim: &PersistentVolumeClaim) -> Result<Option<Arc<StorageClass>>, Error> {
        let named = claim.spec.as_ref().and_then(|spec| spec.storage_class_name.as_deref());
        let named = named.or_else(|| annotation(&claim.metadata, "volume.beta.kubernetes.io/storage-class"));
        if let Some(name) = named {
            return Ok(if name.is_empty() { None } else { self.classes.get(&Key::new("", name)) });
        }
        // The newest of several counts.
        let all = self.classes.all();
        let default = all.iter().filter(|class| annotation(&class.metadata, DEFAULT) == Some("true"));
        let Some(default) = default.max_by_key(|class| class.metadata.creation_timestamp.clone()) else {
            return Ok(None);
        };
        let patch = json!({ "spec": { "storageClassName": name_of(&default.metadata) } });
        self.change(key, claim, patch).await?;
        Ok(Some(default.clone()))
    }

    /// Makes the volume that a claim asks for, if it is to come from here.
    async fn provide(&self, key: &Key, claim: &PersistentVolumeClaim) -> Result<(), Error> {
        let Some(class) = self.class_of(key, claim).await? else { return Ok(()) };
        let waits = class.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer");
        if class.provisioner != PROVISIONER || waits && self.pods.tagged(&Tag::Claim(key.clone())).is_empty() {
            return Ok(());
        }
        let name = format!("pvc-{}", uid_of(&claim.metadata));
        let volume = drafted(&name, claim, &class);
        let made =
            self.context.requests.create_from::<PersistentVolume, _, Ignored>(&Key::new("", &*name), &volume).await;
        match made {
            Ok(_) => {
                let message = format!("Successfully provisioned volume {name}");
                self.recorder.say(claim, EventType::Normal, "ProvisioningSucceeded", message);
            }
            Err(error) if error.is_already_exists() => {}
            Err(error) => return Err(error),
        }
        let annotations = json!({
            "pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes",
            "volume.kubernetes.io/storage-provisioner": PROVISIONER,
            "volume.beta.kubernetes.io/storage-provisioner": PROVISIONER,
        });
        self.change(key, claim, json!({ "metadata": { "annotations": annotations }, "spec": { "volumeName": name } }))
            .await
    }

    async fn change(&self, key: &Key, claim: &PersistentVolumeClaim, mut patch: Value) -> Result<(), Error> {
        patch["metadata"]["uid"] = json!(claim.metadata.uid);
        let patched: Result<Written, Error> =
            self.context.requests.patch::<PersistentVolumeClaim, _, _>(key, &Patch::Merge(patch)).await;
        match patched {
            Err(error) if !error.is_not_found() && !error.is_conflict() => Err(error),
            _ => Ok(()),
        }
    }

    /// Says of a claim and its volume that they are bound.
    async fn settle(&self, key: &Key, claim: &PersistentVolumeClaim, volume: &str) -> Result<(), Error> {
        let phase = |status: Option<&str>| status == Some("Bound");
        let volume_key = Key::new("", volume);
        let Some(there) = self.volumes.get(&volume_key).filter(|there| is_ours(there)) else { return Ok(()) };
        if !phase(there.status.as_ref().and_then(|status| status.phase.as_deref())) {
            let path = format!("/api/v1/persistentvolumes/{volume}/status");
            self.write_status(&path, json!({ "phase": "Bound" })).await?;
        }
        if phase(claim.status.as_ref().and_then(|status| status.phase.as_deref())) {
            return Ok(());
        }
        let spec = there.spec.clone().unwrap_or_default();
        let path = format!("/api/v1/namespaces/{}/persistentvolumeclaims/{}/status", key.namespace, key.name);
        let status = json!({ "phase": "Bound", "accessModes": spec.access_modes, "capacity": spec.capacity });
        self.write_status(&path, status).await
    }

    async fn write_status(&self, path: &str, status: Value) -> Result<(), Error> {
        let media_type = "application/merge-patch+json";
        let body = json!({ "status": status });
        match self.context.requests.raw("patch", "PATCH", path, media_type, &body).await {
            Err(error) if !error.is_not_found() => Err(error),
            _ => Ok(()),
        }
    }

    /// Deletes a volume from here whose claim is gone, unless it is to stay, and stops tracking it.
    async fn reclaim(&self, key: &Key) -> Result<(), Error> {
        let Some(volume) = self.volumes.get(key).filter(|volume| is_ours(volume)) else { return Ok(()) };
        let spec = volume.spec.clone().unwrap_or_default();
        let held = spec.claim_ref.unwrap_or_default();
        let claim = Key::new(held.namespace.unwrap_or_default(), held.name.unwrap_or_default());
        if let Some(there) = self.claims.get(&claim).filter(|there| there.metadata.uid == held.uid) {
            // Its volume has shown only now.
            return if volume_of(&there).is_some() { self.settle(&claim, &there, &key.name).await } else { Ok(()) };
        }
        if is_terminating(&volume.metadata) {
            let left: Vec<&String> =
                volume.metadata.finalizers.iter().flatten().filter(|finalizer| *finalizer != FINALIZER).collect();
            let metadata = json!({ "resourceVersion": volume.metadata.resource_version, "finalizers": left });
            let patch = Patch::Merge(json!({ "metadata": metadata }));
            return match self.context.requests.patch::<PersistentVolume, _, Written>(key, &patch).await {
                Err(error) if !error.is_not_found() => Err(error),
                _ => Ok(()),
            };
        }
        if spec.persistent_volume_reclaim_policy.as_deref() != Some("Delete") {
            let is_told = volume.status.as_ref().is_some_and(|status| status.phase.as_deref() == Some("Released"));
            let path = format!("/api/v1/persistentvolumes/{}/status", key.name);
            return if is_told { Ok(()) } else { self.write_status(&path, json!({ "phase": "Released" })).await };
        }
        match self.context.requests.delete::<PersistentVolume>(key, &DeleteParams::default()).await {
            Err(error) if !error.is_not_found() => Err(error),
            _ => Ok(()),
        }
    }
}

fn volume_of(claim: &PersistentVolumeClaim) -> Option<&str> {
    claim.spec.as_ref()?.volume_name.as_deref().filter(|name| !name.is_empty())
}

fn is_ours(volume: &PersistentVolume) -> bool {
    annotation(&volume.metadata, PROVISIONED_BY) == Some(PROVISIONER)
}

/// Returns the volume that a claim asks for.
fn drafted(name: &str, claim: &PersistentVolumeClaim, class: &StorageClass) -> Value {
    let spec = claim.spec.clone().unwrap_or_default();
    let size = spec.resources.and_then(|resources| resources.requests).unwrap_or_default().remove("storage");
    json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": { "name": name, "annotations": { PROVISIONED_BY: PROVISIONER } },
        "spec": {
            "capacity": { "storage": size },
            "accessModes": spec.access_modes, "volumeMode": spec.volume_mode,
            "persistentVolumeReclaimPolicy": class.reclaim_policy, "storageClassName": name_of(&class.metadata),
            "claimRef": {
                "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": namespace_of(&claim.metadata),
                "name": name_of(&claim.metadata), "uid": uid_of(&claim.metadata),
            },
            "hostPath": { "path": format!("/var/lib/volumes/{name}") },
        },
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jiff::Timestamp;
    use serde_json::{Value, json};

    use crate::Clock;
    use crate::MiniCluster;
    use crate::controllers::test_request::request;

    /// Returns a cluster in virtual time.
    async fn start() -> MiniCluster {
        MiniCluster::builder().clock(Clock::tokio(Timestamp::UNIX_EPOCH)).start().await.unwrap()
    }

    async fn ask(cluster: &MiniCluster, method: &str, path: &str, body: Value) -> Value {
        let answer = request(cluster, method, path, body).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        answer
    }

    const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
    const VOLUMES: &str = "/api/v1/persistentvolumes";

    #[tokio::test(start_paused = true)]
    async fn claims_of_a_stateful_set_are_bound_and_their_volumes_go_with_them() {
        let cluster = start().await;
        let set = json!({
            "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": { "name": "db" },
            "spec": {
                "replicas": 2, "serviceName": "db", "selector": { "matchLabels": { "app": "db" } },
                "persistentVolumeClaimRetentionPolicy": { "whenScaled": "Delete", "whenDeleted": "Retain" },
                "volumeClaimTemplates": [{ "metadata": { "name": "data" }, "spec": {
                    "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } },
                } }],
                "template": {
                    "metadata": { "labels": { "app": "db" } },
                    "spec": { "containers": [{ "name": "app", "image": "db:1" }] },
                },
            },
        });
        ask(&cluster, "POST", "/apis/apps/v1/namespaces/default/statefulsets", set).await;
        for name in ["data-db-0", "data-db-1"] {
            let claim = ask(&cluster, "GET", &format!("{CLAIMS}/{name}"), Value::Null).await;
            assert_eq!(claim["spec"]["storageClassName"], "standard", "{claim}");
            assert_eq!(
                (&claim["status"]["phase"], &claim["status"]["capacity"]["storage"]),
                (&json!("Bound"), &json!("1Gi"))
            );
            let volume = claim["spec"]["volumeName"].as_str().unwrap();
            let volume = ask(&cluster, "GET", &format!("{VOLUMES}/{volume}"), Value::Null).await;
            assert_eq!(
                (&volume["status"]["phase"], &volume["spec"]["claimRef"]["name"]),
                (&json!("Bound"), &json!(name))
            );
        }
        let one = json!({ "spec": { "replicas": 1 } });
        ask(&cluster, "PATCH", "/apis/apps/v1/namespaces/default/statefulsets/db", one).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        let claims = ask(&cluster, "GET", CLAIMS, Value::Null).await;
        let names: Vec<&Value> =
            claims["items"].as_array().unwrap().iter().map(|one| &one["metadata"]["name"]).collect();
        assert_eq!(names, ["data-db-0"]);
        let volumes = ask(&cluster, "GET", VOLUMES, Value::Null).await;
        assert_eq!(volumes["items"].as_array().unwrap().len(), 1, "{volumes}");
        cluster.stop().await;
    }

    #[tokio::test(start_paused = true)]
    async fn classes_say_when_and_for_how_long() {
        let cluster = start().await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let class = |name: &str, provisioner: &str| {
            json!({
                "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": { "name": name },
                "provisioner": provisioner, "reclaimPolicy": "Retain", "volumeBindingMode": "WaitForFirstConsumer",
            })
        };
        for (name, provisioner) in [("patient", super::PROVISIONER), ("foreign", "example.com/disks")] {
            ask(&cluster, "POST", "/apis/storage.k8s.io/v1/storageclasses", class(name, provisioner)).await;
            let claim = json!({
                "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": name },
                "spec": {
                    "storageClassName": name, "accessModes": ["ReadWriteOnce"],
                    "resources": { "requests": { "storage": "1Gi" } },
                },
            });
            ask(&cluster, "POST", CLAIMS, claim).await;
        }
        let phase = async |name: &str| {
            ask(&cluster, "GET", &format!("{CLAIMS}/{name}"), Value::Null).await["status"]["phase"].clone()
        };
        assert_eq!((phase("patient").await, phase("foreign").await), (json!("Pending"), json!("Pending")));
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "web" },
            "spec": {
                "terminationGracePeriodSeconds": 1, "containers": [{ "name": "app", "image": "web:1" }],
                "volumes": [{ "name": "data", "persistentVolumeClaim": { "claimName": "patient" } }],
            },
        });
        ask(&cluster, "POST", "/api/v1/namespaces/default/pods", pod).await;
        assert_eq!((phase("patient").await, phase("foreign").await), (json!("Bound"), json!("Pending")));
        ask(&cluster, "DELETE", "/api/v1/namespaces/default/pods/web", Value::Null).await;
        ask(&cluster, "DELETE", &format!("{CLAIMS}/patient"), Value::Null).await;
        let volumes = ask(&cluster, "GET", VOLUMES, Value::Null).await;
        assert_eq!(volumes["items"][0]["status"]["phase"], "Released", "{volumes}");
        cluster.stop().await;
    }
}
