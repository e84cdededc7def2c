//! The objects of one kind as last seen, with the indexes that controllers use.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{Cached, Tag};
use crate::controllers::key::{Key, version_of};

/// The objects of one kind.
#[derive(Debug)]
pub struct Cache<K> {
    objects: BTreeMap<Key, Arc<K>>,
    /// Most tags have one object.
    tagged: BTreeMap<(Tag, Key), Arc<K>>,
    /// Up to which `resourceVersion` everything that happened to the kind has been seen.
    version: u64,
}

/// The change of an object.
#[derive(Debug)]
pub enum CacheChange<K> {
    /// It is there now.
    Added(Arc<K>),
    /// It was `old`, and is `new`.
    Modified {
        /// As it was.
        old: Arc<K>,
        /// As it is.
        new: Arc<K>,
    },
    /// It is gone; this is the last that was seen of it.
    Deleted(Arc<K>),
}

impl<K> CacheChange<K> {
    /// Returns the object as it is, or last was.
    pub fn object(&self) -> &Arc<K> {
        match self {
            CacheChange::Added(object) | CacheChange::Deleted(object) | CacheChange::Modified { new: object, .. } => {
                object
            }
        }
    }
}

/// The change of an object's metadata, whatever its kind.
#[derive(Clone, Copy, Debug)]
pub enum MetadataChange<'a> {
    /// The object is there now.
    Added(&'a ObjectMeta),
    /// They were `old`, and are `new`.
    Modified {
        /// As they were.
        old: &'a ObjectMeta,
        /// As they are.
        new: &'a ObjectMeta,
    },
    /// The object is gone; this is the last that was seen of it.
    Deleted(&'a ObjectMeta),
}

impl<K: Cached> CacheChange<K> {
    /// Returns the change of the object's metadata.
    pub fn metadata(&self) -> MetadataChange<'_> {
        match self {
            CacheChange::Added(object) => MetadataChange::Added(object.metadata()),
            CacheChange::Modified { old, new } => MetadataChange::Modified { old: old.metadata(), new: new.metadata() },
            CacheChange::Deleted(object) => MetadataChange::Deleted(object.metadata()),
        }
    }
}

impl<K> Default for Cache<K> {
    fn default() -> Cache<K> {
        Cache { objects: BTreeMap::new(), tagged: BTreeMap::new(), version: 0 }
    }
}

impl<K: Cached> Cache<K> {
    pub fn get(&self, key: &Key) -> Option<Arc<K>> {
        self.objects.get(key).cloned()
    }

    pub fn tagged(&self, tag: &Tag) -> Vec<Arc<K>> {
        let from = (tag.clone(), Key::default());
        let of_tag = self.tagged.range(from..).take_while(|((other, _), _)| other == tag);
        of_tag.map(|(_, object)| object.clone()).collect()
    }

    pub fn in_namespace(&self, namespace: &str) -> Vec<Arc<K>> {
        let from = Bound::Included(Key::new(namespace, ""));
        let range = self.objects.range((from, Bound::Unbounded));
        range.take_while(|(key, _)| key.namespace == namespace).map(|(_, object)| object.clone()).collect()
    }

    pub fn all(&self) -> Vec<Arc<K>> {
        self.objects.values().cloned().collect()
    }

    pub fn version(&self) -> u64 {
        self.version
    }

    /// Notes that everything up to `version` has been seen.
    pub fn reached(&mut self, version: u64) {
        self.version = self.version.max(version);
    }

    /// Notes that an object was added or modified: the changes go to `changes`. An object of the same name with another
    /// uid is another object: the old one is gone.
    pub fn put(&mut self, mut object: K, changes: &mut Vec<CacheChange<K>>) {
        self.reached(version_of(object.metadata()));
        let key = Key::of(object.metadata());
        if let Some(before) = self.objects.get(&key) {
            object.share(before);
        }
        let new = Arc::new(object);
        let old = self.objects.insert(key.clone(), new.clone());
        if let Some(old) = &old {
            if version_of(old.metadata()) == version_of(new.metadata()) {
                return;
            }
            self.untag(&key, old);
        }
        for tag in new.tags() {
            self.tagged.insert((tag, key.clone()), new.clone());
        }
        match old {
            Some(old) if old.metadata().uid == new.metadata().uid => changes.push(CacheChange::Modified { old, new }),
            Some(old) => changes.extend([CacheChange::Deleted(old), CacheChange::Added(new)]),
            None => changes.push(CacheChange::Added(new)),
        }
    }

    /// Notes that an object was deleted. `last` is its last state.
    pub fn remove(&mut self, last: &K, changes: &mut Vec<CacheChange<K>>) {
        self.reached(version_of(last.metadata()));
        changes.extend(self.take(&Key::of(last.metadata())));
    }

    /// Replaces the whole kind after a new list: `objects`, as of `version`.
    pub fn replace(&mut self, objects: Vec<K>, version: u64) -> Vec<CacheChange<K>> {
        let present: BTreeSet<Key> = objects.iter().map(|object| Key::of(object.metadata())).collect();
        let gone: Vec<Key> = self.objects.keys().filter(|key| !present.contains(*key)).cloned().collect();
        let mut changes: Vec<CacheChange<K>> = gone.iter().filter_map(|key| self.take(key)).collect();
        for object in objects {
            self.put(object, &mut changes);
        }
        self.reached(version);
        changes
    }

    fn take(&mut self, key: &Key) -> Option<CacheChange<K>> {
        let old = self.objects.remove(key)?;
        self.untag(key, &old);
        Some(CacheChange::Deleted(old))
    }

    fn untag(&mut self, key: &Key, object: &K) {
        for tag in object.tags() {
            self.tagged.remove(&(tag, key.clone()));
        }
    }
}
