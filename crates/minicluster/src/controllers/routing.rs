//! Routing of changes: from an object to the owner that controls it, or that may want to.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::Resource;

use super::error::Error;
use super::informer::{CacheChange, Cached, Informer};
use super::key::{Key, is_terminating, namespace_of, uid_of};
use super::owner::controller_of;
use super::selector::Selector;
use super::work_queue::WorkQueue;

/// Returns the object that a reference from `namespace` names: `None` if it is of another kind than `owners`, gone, or
/// another object of that name.
pub fn owner_among<O>(owners: &Informer<O>, namespace: &str, reference: &OwnerReference) -> Option<Arc<O>>
where
    O: Cached + Resource<DynamicType = ()>,
{
    if reference.kind != O::kind(&()) {
        return None;
    }
    let owner = owners.get(&Key::new(namespace, reference.name.clone()))?;
    (uid_of(Cached::metadata(owner.as_ref())) == reference.uid).then_some(owner)
}

/// Queues the owners that a change of an owned object concerns: the present controller, the former one, and for an
/// object without a controller those whose selectors take it, for they may want to adopt it.
pub fn route<O, C>(
    change: &CacheChange<C>,
    owners: &Informer<O>,
    selector: impl Fn(&O) -> Result<Selector, Error>,
    queue: &WorkQueue<Key>,
) where
    O: Cached + Resource<DynamicType = ()>,
    C: Cached,
{
    let add_owner = |object: &ObjectMeta| {
        let owner = controller_of(object).and_then(|owner| owner_among(owners, namespace_of(object), owner));
        if let Some(owner) = owner {
            queue.add(Key::of(Cached::metadata(owner.as_ref())));
        }
    };
    let add_takers = |object: &ObjectMeta| add_takers(object, owners, &selector, queue);
    match change {
        CacheChange::Added(object) if controller_of(object.metadata()).is_none() => add_takers(object.metadata()),
        CacheChange::Added(object) | CacheChange::Deleted(object) => add_owner(object.metadata()),
        CacheChange::Modified { old, new } => {
            let (old, new) = (old.metadata(), new.metadata());
            let moved = controller_of(old) != controller_of(new);
            if moved {
                add_owner(old);
            }
            if controller_of(new).is_some() {
                add_owner(new);
            } else if moved || old.labels != new.labels {
                add_takers(new);
            }
        }
    }
}

/// Queues those whose selectors take an object that is nobody's. A selector that takes everything must be a mistake,
/// and nobody adopts an object that is being deleted.
pub fn add_takers<O: Cached>(
    object: &ObjectMeta,
    owners: &Informer<O>,
    selector: impl Fn(&O) -> Result<Selector, Error>,
    queue: &WorkQueue<Key>,
) {
    if is_terminating(object) {
        return;
    }
    for owner in owners.in_namespace(namespace_of(object)) {
        let takes = selector(&owner)
            .is_ok_and(|selector| !selector.is_everything() && selector.matches(object.labels.as_ref()));
        if takes {
            queue.add(Key::of(Cached::metadata(owner.as_ref())));
        }
    }
}
