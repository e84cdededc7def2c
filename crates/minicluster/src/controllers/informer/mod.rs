//! Informers: one watch per kind, shared by all controllers, with the kind's objects kept in memory.
//!
//! An informer lists its kind once, then follows its watch; it survives lost connections and expired versions with
//! back-off. Handlers get every change, in order, on the informer's own task; they only put keys into queues.

mod cache;
mod follow;

use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::key::{Key, namespace_of, uid_of};
use super::owner::controller_of;
use super::selector::Selector;
use crate::Random;
pub(super) use cache::Cache;
pub use cache::{CacheChange, MetadataChange};

/// The part of an object that an informer keeps.
pub trait Cached: Clone + Debug + DeserializeOwned + Send + Sync + 'static {
    /// Returns the object's metadata.
    fn metadata(&self) -> &ObjectMeta;

    /// Returns the object's metadata, to be changed.
    fn metadata_mut(&mut self) -> &mut ObjectMeta;

    /// Drops fields that no controller reads, to save memory.
    fn trim(&mut self) {
        self.metadata_mut().managed_fields = None;
    }

    /// Shares the parts that are equal in the object's former state.
    fn share(&mut self, _before: &Self) {}

    /// Returns the tags under which the object can be looked up, besides its name.
    fn tags(&self) -> Vec<Tag> {
        vec![Tag::of_owner(self.metadata())]
    }
}

/// The keys by which objects are looked up.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tag {
    /// The uid of the controller.
    Controller(String),
    /// No controller, in this namespace.
    Orphan(String),
    /// The node that a pod is bound to.
    Node(String),
    /// A claim, `namespace/name`, that a pod names.
    Claim(Key),
    /// A label that an object has, in this namespace.
    Label(String, Label),
    /// A label without which its selector takes nothing, in this namespace; `None` if there is no such label.
    Selects(String, Option<Label>),
}

/// A label's name and value.
pub type Label = (String, String);

impl Tag {
    /// Returns the tag for who controls the object, or that nobody does.
    pub fn of_owner(metadata: &ObjectMeta) -> Tag {
        match controller_of(metadata) {
            Some(owner) => Tag::Controller(owner.uid.clone()),
            None => Tag::Orphan(namespace_of(metadata).to_owned()),
        }
    }

    /// Returns the tag for a selector's objects, of an object that has one; `None` if it selects nothing.
    pub fn of_selector(metadata: &ObjectMeta, selector: &Selector) -> Option<Tag> {
        let selects = || Tag::Selects(namespace_of(metadata).to_owned(), selector.needed_label());
        (*selector != Selector::nothing()).then(selects)
    }

    /// Returns the tags for an object's labels.
    pub fn of_labels(metadata: &ObjectMeta) -> impl Iterator<Item = Tag> {
        let labels = metadata.labels.iter().flatten();
        labels.map(|(name, value)| Tag::Label(namespace_of(metadata).to_owned(), (name.clone(), value.clone())))
    }
}

/// The extent of an object that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// All of it.
    Whole,
    /// Its metadata only.
    Metadata,
}

type Handler<K> = Box<dyn Fn(&CacheChange<K>) + Send + Sync>;

/// An object of which only the metadata is kept, and of that only its owners and its deletion.
#[derive(Clone, Debug, Deserialize)]
pub struct OwnerInfo {
    #[serde(default)]
    metadata: ObjectMeta,
}

impl Cached for OwnerInfo {
    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }

    fn trim(&mut self) {
        let whole = std::mem::take(&mut self.metadata);
        self.metadata = ObjectMeta {
            name: whole.name,
            namespace: whole.namespace,
            uid: whole.uid,
            resource_version: whole.resource_version,
            owner_references: whole.owner_references,
            finalizers: whole.finalizers,
            deletion_timestamp: whole.deletion_timestamp,
            ..ObjectMeta::default()
        };
    }
}

/// The watch of one kind. Cheap to clone.
pub struct Informer<K>(Arc<InformerShared<K>>);

impl<K> Clone for Informer<K> {
    fn clone(&self) -> Informer<K> {
        Informer(self.0.clone())
    }
}

struct InformerShared<K> {
    /// The path of the kind, `/apis/apps/v1/deployments`.
    path: String,
    extent: Extent,
    /// The field selector, `metadata.name=default`; empty for all.
    fields: &'static str,
    cache: Mutex<Cache<K>>,
    handlers: Mutex<Vec<Handler<K>>>,
    /// Handlers and caches are needed; nothing is watched otherwise.
    wanted: Mutex<bool>,
    synced: watch::Sender<bool>,
}

impl<K: Cached> Informer<K> {
    /// Returns an informer of the kind at `path`. It does nothing until it is run.
    pub fn new(path: impl Into<String>, extent: Extent) -> Informer<K> {
        Informer::of_some(path, extent, "")
    }

    /// Returns an informer of those objects only that a field selector takes.
    pub fn of_some(path: impl Into<String>, extent: Extent, fields: &'static str) -> Informer<K> {
        Informer(Arc::new(InformerShared {
            path: path.into(),
            extent,
            fields,
            cache: Mutex::default(),
            handlers: Mutex::default(),
            wanted: Mutex::new(false),
            synced: watch::Sender::new(false),
        }))
    }

    /// Says that the cache is needed, though no handler is.
    pub fn want(&self) {
        *lock(&self.0.wanted) = true;
    }

    /// Returns true when anybody needs it.
    pub fn is_wanted(&self) -> bool {
        *lock(&self.0.wanted)
    }

    /// Calls `handler` on every change. To be called before the informer runs; the objects that are there first arrive
    /// as added.
    pub fn on_change(&self, handler: impl Fn(&CacheChange<K>) + Send + Sync + 'static) {
        self.want();
        lock(&self.0.handlers).push(Box::new(handler));
    }

    /// Returns the path of the kind, `/apis/apps/v1/deployments`.
    pub fn path(&self) -> &str {
        &self.0.path
    }

    /// Returns the object as last seen.
    pub fn get(&self, key: &Key) -> Option<Arc<K>> {
        lock(&self.0.cache).get(key)
    }

    /// Returns the objects with a tag, by namespace and name.
    pub fn tagged(&self, tag: &Tag) -> Vec<Arc<K>> {
        lock(&self.0.cache).tagged(tag)
    }

    /// Returns the objects that the one with this uid controls, by namespace and name.
    pub fn controlled_by(&self, uid: &str) -> Vec<Arc<K>> {
        self.tagged(&Tag::Controller(uid.to_owned()))
    }

    /// Returns the objects that an owner may claim: those that it controls, then those that nobody does in its
    /// namespace.
    pub fn candidates(&self, owner: &ObjectMeta) -> Vec<Arc<K>> {
        let mut candidates = self.controlled_by(uid_of(owner));
        candidates.extend(self.tagged(&Tag::Orphan(namespace_of(owner).to_owned())));
        candidates
    }

    /// Returns the objects of a namespace, by name.
    pub fn in_namespace(&self, namespace: &str) -> Vec<Arc<K>> {
        lock(&self.0.cache).in_namespace(namespace)
    }

    /// Returns the objects of a namespace that a selector takes, by name; of kinds that are tagged with their labels.
    pub fn selected(&self, namespace: &str, selector: &Selector) -> Vec<Arc<K>> {
        let mut objects = match selector.needed_label() {
            Some(label) => self.tagged(&Tag::Label(namespace.to_owned(), label)),
            None if *selector == Selector::nothing() => Vec::new(),
            None => self.in_namespace(namespace),
        };
        objects.retain(|object| selector.matches(object.metadata().labels.as_ref()));
        objects
    }

    /// Returns the objects whose selectors may take something with this metadata, by name; of kinds that are tagged by
    /// their selectors.
    pub fn may_select(&self, metadata: &ObjectMeta) -> Vec<Arc<K>> {
        let namespace = namespace_of(metadata);
        let mut objects = self.tagged(&Tag::Selects(namespace.to_owned(), None));
        for (name, value) in metadata.labels.iter().flatten() {
            objects.extend(self.tagged(&Tag::Selects(namespace.to_owned(), Some((name.clone(), value.clone())))));
        }
        objects.sort_by(|one, other| one.metadata().name.cmp(&other.metadata().name));
        objects
    }

    /// Returns all objects, by namespace and name.
    pub fn all(&self) -> Vec<Arc<K>> {
        lock(&self.0.cache).all()
    }

    /// Returns everything that happened to the kind up to this `resourceVersion` has been seen.
    pub fn version(&self) -> u64 {
        lock(&self.0.cache).version()
    }

    /// Waits until the kind has been listed for the first time.
    pub async fn synced(&self) {
        // The sender lives in the shared part, so it can't be gone.
        drop(self.0.synced.subscribe().wait_for(|synced| *synced).await);
    }

    /// Follows the kind until `stop`.
    pub async fn run(&self, client: kube::Client, random: Random, stop: CancellationToken) {
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = follow::follow(self, &client, &random) => {}
        }
    }

    fn announce(&self, changes: &[CacheChange<K>]) {
        let handlers = lock(&self.0.handlers);
        for change in changes {
            for handler in handlers.iter() {
                handler(change);
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
