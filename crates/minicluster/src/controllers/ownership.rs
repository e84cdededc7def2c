//! Ownership of objects: adopting and releasing.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::Resource;
use kube::api::Patch;
use serde_json::json;

use super::error::Error;
use super::informer::Cached;
use super::key::{Key, is_terminating, uid_of, version_of};
use super::owner::controller_of;
use super::requests::{Requests, Written};
use super::selector::Selector;

/// Returns true when an owner was asked to go, as the server knows. Pods that have gone may have been deleted together
/// with it, and the watch of pods may report that before the owner's own: none may be created in their place then.
///
/// # Errors
/// The server can't be asked.
pub async fn is_going<O>(requests: &Requests, owner: &ObjectMeta) -> Result<bool, Error>
where
    O: Resource<DynamicType = ()> + serde::de::DeserializeOwned,
{
    match requests.get::<O>(&Key::of(owner)).await {
        Ok(live) => Ok(is_terminating(live.meta()) || live.meta().uid != owner.uid),
        Err(error) if error.is_not_found() => Ok(true),
        Err(error) => Err(error),
    }
}

/// The action of a controller on one object that it may or may not own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// It is ours.
    Ours,
    /// Nobody's, and it matches: take it.
    Adopt,
    /// Ours, but it does not match any more: let it go.
    Release,
    /// None of our business.
    Ignore,
}

/// Decides about one object: the table of the claiming rules.
pub fn claim(owner: &ObjectMeta, selector: &Selector, object: &ObjectMeta) -> Claim {
    let matches = selector.matches(object.labels.as_ref());
    match controller_of(object) {
        Some(reference) if reference.uid != uid_of(owner) => Claim::Ignore,
        Some(_) if matches => Claim::Ours,
        Some(_) if is_terminating(owner) => Claim::Ignore,
        Some(_) => Claim::Release,
        None if matches && !is_terminating(owner) && !is_terminating(object) => Claim::Adopt,
        None => Claim::Ignore,
    }
}

/// Claims objects for an owner: keeps what is its own, adopts, releases. One live read of the owner precedes the first
/// adoption, because the cache may show an owner that is gone.
pub struct Claimer<'a> {
    /// Through which patches are sent.
    pub requests: &'a Requests,
    /// The owner's metadata as cached.
    pub owner: &'a ObjectMeta,
    /// The owner's selector.
    pub selector: &'a Selector,
    /// The reference that adopted objects get.
    pub reference: OwnerReference,
    /// Finalizers that adopted objects get besides.
    pub finalizer: Option<&'static str>,
}

/// The result of claiming.
#[derive(Debug)]
pub struct Claimed<C> {
    /// The owner's objects.
    pub objects: Vec<Arc<C>>,
    /// The highest `resourceVersion` of an object that was adopted or released, if any was.
    pub wrote: Option<u64>,
}

impl Claimer<'_> {
    /// Returns the owner's objects after adopting and releasing. `O` is the owner's kind, `K` the kind of the objects
    /// on the server, `C` its cached form.
    ///
    /// # Errors
    /// The first failure; the others are tried all the same.
    pub async fn claim<O, K, C>(&self, objects: Vec<Arc<C>>) -> Result<Claimed<C>, Error>
    where
        O: Resource<DynamicType = ()> + serde::de::DeserializeOwned,
        K: Resource<DynamicType = ()>,
        C: Cached,
    {
        let mut ours = Vec::with_capacity(objects.len());
        let mut errors = Vec::new();
        let mut wrote: Option<u64> = None;
        let mut owner_is_there: Option<bool> = None;
        for object in objects {
            match claim(self.owner, self.selector, object.metadata()) {
                Claim::Ignore => {}
                Claim::Ours => ours.push(object),
                Claim::Release => match self.release::<K>(object.metadata()).await {
                    Ok(version) => wrote = wrote.max(version),
                    Err(error) => errors.push(error),
                },
                Claim::Adopt => {
                    if owner_is_there.is_none() {
                        match self.look_for_owner::<O>().await {
                            Ok(()) => owner_is_there = Some(true),
                            Err(error) => {
                                owner_is_there = Some(false);
                                errors.push(error);
                            }
                        }
                    }
                    if owner_is_there == Some(true) {
                        match self.adopt::<K>(object.metadata()).await {
                            Ok(Some(version)) => {
                                wrote = wrote.max(Some(version));
                                ours.push(object);
                            }
                            Ok(None) => {}
                            Err(error) => errors.push(error),
                        }
                    }
                }
            }
        }
        Error::first_of(errors).map_or(Ok(Claimed { objects: ours, wrote }), Err)
    }

    async fn look_for_owner<O>(&self) -> Result<(), Error>
    where
        O: Resource<DynamicType = ()> + serde::de::DeserializeOwned,
    {
        let key = Key::of(self.owner);
        let live: O = self.requests.get(&key).await?;
        let not = |why: &str| Error::NotYet { what: format!("{} {key}", O::plural(&())), why: why.to_owned() };
        if live.meta().uid != self.owner.uid {
            return Err(not("it has been replaced by another of the same name"));
        }
        if is_terminating(live.meta()) {
            return Err(not("it is being deleted, so it can't adopt"));
        }
        Ok(())
    }

    /// Returns the object's version now that it is ours; `None` if it is gone.
    async fn adopt<K: Resource<DynamicType = ()>>(&self, object: &ObjectMeta) -> Result<Option<u64>, Error> {
        let mut metadata = json!({ "ownerReferences": [self.reference], "uid": object.uid });
        if let Some(finalizer) = self.finalizer {
            metadata["finalizers"] = json!([finalizer]);
        }
        let patch = Patch::Strategic(json!({ "metadata": metadata }));
        match self.requests.patch::<K, _, Written>(&Key::of(object), &patch).await {
            Ok(written) => Ok(Some(version_of(&written.metadata))),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the object's version now that it is free; `None` if it is gone.
    async fn release<K: Resource<DynamicType = ()>>(&self, object: &ObjectMeta) -> Result<Option<u64>, Error> {
        let ours = json!({ "$patch": "delete", "uid": self.reference.uid });
        let mut metadata = json!({ "ownerReferences": [ours], "uid": object.uid });
        if let Some(finalizer) = self.finalizer {
            metadata["$deleteFromPrimitiveList/finalizers"] = json!([finalizer]);
        }
        let patch = Patch::Strategic(json!({ "metadata": metadata }));
        match self.requests.patch::<K, _, Written>(&Key::of(object), &patch).await {
            Ok(written) => Ok(Some(version_of(&written.metadata))),
            // Gone, or another object by now: nothing of ours to release.
            Err(error) if error.is_not_found() || error.is_invalid() => Ok(None),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Claim, Selector, claim};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
    use std::collections::BTreeMap;

    #[test]
    fn the_claiming_table_holds() {
        let labels = |value: &str| Some(BTreeMap::from([("app".to_owned(), value.to_owned())]));
        let selector = Selector::of_labels(&labels("web").unwrap());
        let deleted = || Some(Time(jiff::Timestamp::UNIX_EPOCH));
        let owner = ObjectMeta { uid: Some("one".to_owned()), ..ObjectMeta::default() };
        let leaving = ObjectMeta { deletion_timestamp: deleted(), ..owner.clone() };
        let object = |uid: Option<&str>, app: &str| ObjectMeta {
            labels: labels(app),
            owner_references: uid.map(|uid| {
                vec![OwnerReference { uid: uid.to_owned(), controller: Some(true), ..OwnerReference::default() }]
            }),
            ..ObjectMeta::default()
        };
        for (owner, object, expected) in [
            (&owner, object(Some("two"), "web"), Claim::Ignore),
            (&owner, object(Some("one"), "web"), Claim::Ours),
            (&leaving, object(Some("one"), "web"), Claim::Ours),
            (&owner, object(Some("one"), "api"), Claim::Release),
            (&leaving, object(Some("one"), "api"), Claim::Ignore),
            (&owner, object(None, "web"), Claim::Adopt),
            (&leaving, object(None, "web"), Claim::Ignore),
            (&owner, ObjectMeta { deletion_timestamp: deleted(), ..object(None, "web") }, Claim::Ignore),
            (&owner, object(None, "api"), Claim::Ignore),
        ] {
            assert_eq!(claim(owner, &selector, &object), expected, "{owner:?} {object:?}");
        }
    }
}
