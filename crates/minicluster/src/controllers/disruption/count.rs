//! The number of pods that should exist under a budget: the sizes of those who control them.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::Resource;
use serde_json::Value;

use super::{CountedPods, Disruption, size_of};
use crate::controllers::deployment::{Rounding, scaled};
use crate::controllers::discovery;
use crate::controllers::error::Error;
use crate::controllers::key::{Key, name_of, namespace_of, uid_of};
use crate::controllers::owner::controller_of;
use crate::controllers::pod::Pod;
use crate::controllers::templated::{Deployment, ReplicaSet, ReplicationController};

impl Disruption {
    /// Returns how many pods there should be, and how many of them must be healthy.
    pub(super) async fn expected(&self, budget: &PodDisruptionBudget, pods: &[Arc<Pod>]) -> Result<CountedPods, Error> {
        let spec = budget.spec.clone().unwrap_or_default();
        match (&spec.max_unavailable, &spec.min_available) {
            (Some(most), _) => {
                let (expected, unmanaged) = self.sizes(pods).await?;
                let most = scaled(Some(most), expected, Rounding::Up);
                Ok(CountedPods { expected, needed: expected.saturating_sub(most).max(0), unmanaged })
            }
            (None, Some(IntOrString::Int(needed))) => {
                let expected = i32::try_from(pods.len()).unwrap_or(i32::MAX);
                Ok(CountedPods { expected, needed: *needed, unmanaged: Vec::new() })
            }
            (None, Some(share)) => {
                let (expected, unmanaged) = self.sizes(pods).await?;
                Ok(CountedPods { expected, needed: scaled(Some(share), expected, Rounding::Up), unmanaged })
            }
            (None, None) => Ok(CountedPods::default()),
        }
    }

    /// Returns the sizes of all controllers of these pods together, and the pods that nobody controls.
    async fn sizes(&self, pods: &[Arc<Pod>]) -> Result<(i32, Vec<String>), Error> {
        let mut sizes: BTreeMap<String, i32> = BTreeMap::new();
        let mut unmanaged = Vec::new();
        let mut known: BTreeMap<String, String> = BTreeMap::new();
        for pod in pods {
            let Some(owner) = controller_of(&pod.metadata) else {
                unmanaged.push(name_of(&pod.metadata).to_owned());
                continue;
            };
            if known.contains_key(&owner.uid) {
                continue;
            }
            let namespace = namespace_of(&pod.metadata);
            let Some((uid, size)) = self.size(namespace, owner, name_of(&pod.metadata)).await? else { continue };
            known.insert(owner.uid.clone(), uid.clone());
            sizes.insert(uid, size);
        }
        Ok((sizes.values().fold(0, |sum: i32, size| sum.saturating_add(*size)), unmanaged))
    }

    /// Returns the uid and size of the one at the top of the pod's owners; `None` if it is not there any more.
    async fn size(&self, namespace: &str, owner: &OwnerReference, pod: &str) -> Result<Option<(String, i32)>, Error> {
        let key = Key::new(namespace, owner.name.clone());
        let informers = &self.context.informers;
        let is_of = |group: &str, kind: &str| {
            owner.kind == kind && owner.api_version.rsplit_once('/').map_or("", |(group, _)| group) == group
        };
        if is_of("apps", &ReplicaSet::kind(&())) {
            let Some(set) = informers.replica_sets.get(&key).filter(|set| uid_of(&set.metadata) == owner.uid) else {
                return Ok(None);
            };
            return match controller_of(&set.metadata).filter(|above| above.kind == Deployment::kind(&())) {
                Some(above) => {
                    let found: Value = self.read("/apis/apps/v1", namespace, "deployments", &above.name).await?;
                    Ok(Some((above.uid.clone(), size_of(&found))))
                }
                None => Ok(Some((owner.uid.clone(), set.spec.replicas.unwrap_or(1)))),
            };
        }
        let path = if is_of("apps", &StatefulSet::kind(&())) {
            ("/apis/apps/v1".to_owned(), "statefulsets".to_owned())
        } else if is_of("", &ReplicationController::kind(&())) {
            ("/api/v1".to_owned(), "replicationcontrollers".to_owned())
        } else {
            return self.scale(namespace, owner, pod).await;
        };
        let found: Value = self.read(&path.0, namespace, &path.1, &owner.name).await?;
        let is_same = found["metadata"]["uid"] == owner.uid.as_str();
        Ok(is_same.then(|| (owner.uid.clone(), size_of(&found))))
    }

    /// Returns the size of an owner of any other kind, from its `scale`.
    async fn scale(&self, namespace: &str, owner: &OwnerReference, pod: &str) -> Result<Option<(String, i32)>, Error> {
        let group = owner.api_version.rsplit_once('/').map_or("", |(group, _)| group);
        let kinds = discovery::kinds(&self.context.requests).await?;
        let found = kinds.iter().find(|kind| kind.group == group && kind.kind == owner.kind);
        let unable = |why: String| Error::Unusable { what: format!("the owner of pod {namespace}/{pod}"), why };
        let Some(kind) = found else {
            return Err(unable(format!("no matches for kind \"{}\" in group \"{group}\"", owner.kind)));
        };
        let path = format!("{}/{}/scale", kind.path_in(namespace), owner.name);
        match self.context.requests.read_value(&path).await {
            Ok(scale) => Ok(Some((owner.uid.clone(), size_of(&scale)))),
            Err(error) if error.is_not_found() => {
                let kind = if group.is_empty() { kind.plural.clone() } else { format!("{}.{group}", kind.plural) };
                Err(unable(format!("{kind} does not implement the scale subresource")))
            }
            Err(error) => Err(error),
        }
    }

    async fn read(&self, root: &str, namespace: &str, plural: &str, name: &str) -> Result<Value, Error> {
        let path = format!("{root}/namespaces/{namespace}/{plural}/{name}");
        match self.context.requests.read_value(&path).await {
            Err(error) if error.is_not_found() => Ok(Value::Null),
            found => found,
        }
    }
}
