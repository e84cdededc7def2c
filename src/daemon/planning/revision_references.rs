//! The ConfigMaps and Secrets that the revisions of this source's workloads name: a rollback needs them, even if the
//! repository has them no more. Kustomize gives each content of a generated one a name of its own.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::cluster::{Backoff, ClusterError};
use crate::daemon::shared::context::Context;
use belay_core::manifest::ObjectKey;
use belay_core::rollout::{Workload, is_configuration, named_configuration, revisions};

/// The objects that keep revisions.
const KEEPERS: [&str; 2] = ["ReplicaSet", "ControllerRevision"];

/// The named configuration by namespace: each is read once.
#[derive(Debug, Default)]
pub struct RevisionReferences(BTreeMap<Option<String>, NamedConfiguration>);

#[derive(Debug)]
enum NamedConfiguration {
    These(BTreeSet<ObjectKey>),
    /// The revisions can't be read.
    Unknown,
}

impl RevisionReferences {
    /// Returns true when a template of a possible rollback names a ConfigMap or Secret. If that can't be known, it
    /// counts as named.
    pub async fn has(&mut self, context: &Context, key: &ObjectKey) -> bool {
        if !is_configuration(key) {
            return false;
        }
        if !self.0.contains_key(&key.namespace) {
            let named = named(context, key).await;
            self.0.insert(key.namespace.clone(), named);
        }
        match self.0.get(&key.namespace) {
            Some(NamedConfiguration::These(names)) => names.contains(key),
            Some(NamedConfiguration::Unknown) | None => true,
        }
    }
}

/// Returns the configuration that is named in the namespace of an object.
async fn named(context: &Context, key: &ObjectKey) -> NamedConfiguration {
    let workloads = workloads(context, key.namespace.as_deref());
    let read = || keepers(context, key.namespace.as_deref(), &workloads);
    let read = Backoff::until_answered(context.in_the_way(key), read).await;
    context.status.object_trouble(key, None);
    let keepers = match read {
        Ok(keepers) => keepers,
        Err(error) => {
            tracing::warn!(%error, "the revisions of workloads can't be read: ConfigMaps and Secrets that have left the repository stay");
            return NamedConfiguration::Unknown;
        }
    };
    let kept = revisions(&keepers).into_iter().map(|revision| revision.template);
    // A template that was complete is a rollback target even if the cluster has it no more.
    let good = workloads.iter().filter_map(|workload| Some(context.last_good(workload)?.template));
    let names = |template: Value| named_configuration(&template, key.namespace.as_deref());
    NamedConfiguration::These(kept.chain(good).flat_map(names).collect())
}

/// Returns the objects that keep the revisions of these workloads, all of one namespace.
async fn keepers(
    context: &Context,
    namespace: Option<&str>,
    workloads: &BTreeSet<ObjectKey>,
) -> Result<Vec<Value>, ClusterError> {
    let mut found = Vec::new();
    for kind in KEEPERS {
        let served = context.cluster.served("apps/v1", kind).await?;
        let keepers = context.cluster.list(&served, namespace, "").await?;
        found.extend(keepers.into_iter().filter(|keeper| workloads.iter().any(|workload| is_of(keeper, workload))));
    }
    Ok(found)
}

/// Returns true when the controller of `keeper` is that workload.
fn is_of(keeper: &Value, workload: &ObjectKey) -> bool {
    let mut owners = keeper["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    owners.any(|owner| owner["controller"] == true && owner["kind"] == workload.kind && owner["name"] == workload.name)
}

/// Returns the workloads of the repository in a namespace that can go back.
fn workloads(context: &Context, namespace: Option<&str>) -> BTreeSet<ObjectKey> {
    let can_go_back = |key: &&ObjectKey| Workload::of(key).is_some_and(Workload::can_go_back);
    let desired = context.repository.desired();
    desired.keys().filter(|key| key.namespace.as_deref() == namespace).filter(can_go_back).cloned().collect()
}
