//! Every object there is, and its latest changes: one sequence of revisions for the whole server.
//!
//! Objects lie in one [`ResourceStore`] a resource, ordered as their paths are in the real server's storage. Each keeps
//! a window of its latest events, from which watches start and older lists are answered; a request for more than the
//! window holds is refused ([`Gone`]).

mod backup;
mod change;
mod event;
mod journal;
mod persisted;
mod persistence;
mod resource_store;
mod storage_key;
mod stored;
mod watcher;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use serde_json::Value;

pub use backup::Backup;
pub use change::{Change, WriteExtent};
pub use event::Event;
pub use journal::KeepError;
pub use resource_store::{Gone, Page, PartOfList, Snapshot};
pub use storage_key::{GroupResource, Scope, path};
pub use stored::{Stored, WrittenObject};
pub use watcher::{Next, Watcher};

use journal::Noted;
use persistence::{Persistence, Unsaved};
use resource_store::ResourceStore;
use stored::Draft;

/// One change to be made, if nobody was faster.
#[derive(Debug)]
pub struct StoreOp {
    /// The place of the object.
    pub group_resource: GroupResource,
    /// Its path there.
    pub path: String,
    /// The revision that the object must have; `None` if there must be none.
    pub expected: Option<u64>,
    /// The object from now on; `None` removes it. Its resource version is set here.
    pub object: Option<Value>,
    /// The values for field selectors, in the order of the resource's list of them.
    pub fields: Vec<String>,
    /// The extent of the object.
    pub extent: WriteExtent,
}

/// Somebody was faster: the object at this place of the list of writes is not in the expected state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stale(pub usize);

/// The store, shared by its clones.
#[derive(Clone, Debug, Default)]
pub struct Store(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    inner: Mutex<StoreInner>,
    /// The persistence of writes, if they are kept.
    persistence: Option<Persistence>,
}

#[derive(Debug, Default)]
struct StoreInner {
    revision: u64,
    /// The revision up to which watches have the events.
    told: u64,
    stores: BTreeMap<GroupResource, ResourceStore>,
    watchers_made: u64,
    closed: bool,
    unsaved: Unsaved,
}

/// A write whose object is written down already.
struct Prepared {
    group_resource: GroupResource,
    path: Arc<str>,
    expected: Option<u64>,
    draft: Option<Draft>,
}

impl StoreOp {
    /// Puts a whole object, for which no field selector asks, at a path.
    #[must_use]
    pub fn put(group_resource: GroupResource, path: String, expected: Option<u64>, object: Value) -> StoreOp {
        let object = Some(object);
        StoreOp { group_resource, path, expected, object, fields: Vec::new(), extent: WriteExtent::Whole }
    }

    /// Removes an object that is at this revision.
    #[must_use]
    pub fn remove(group_resource: GroupResource, path: String, revision: u64) -> StoreOp {
        let expected = Some(revision);
        StoreOp { group_resource, path, expected, object: None, fields: Vec::new(), extent: WriteExtent::Whole }
    }
}

impl Store {
    /// Returns the revision of the latest write; 0 before the first.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.lock().revision
    }

    /// Returns the object at a path.
    #[must_use]
    pub fn get(&self, group_resource: &GroupResource, path: &str) -> Option<Arc<Stored>> {
        self.lock().stores.get(group_resource)?.get(path)
    }

    /// Returns all objects of a scope, as they are now, of the resource that is stored under this group and plural.
    #[must_use]
    pub fn all(&self, group: &str, resource: &str, scope: &Scope) -> Vec<Arc<Stored>> {
        // The present is in every window.
        let snapshot = self.snapshot(&GroupResource::new(group, resource), scope, &Page::default());
        snapshot.map(|snapshot| snapshot.objects).unwrap_or_default()
    }

    /// Returns the objects of a scope as they are now, or were at a revision, from after a path on.
    ///
    /// # Errors
    /// The window does not reach back to the revision.
    pub fn snapshot(&self, group_resource: &GroupResource, scope: &Scope, page: &Page) -> Result<Snapshot, Gone> {
        let inner = self.lock();
        match inner.stores.get(group_resource) {
            Some(store) => store.snapshot(scope, page, inner.revision),
            None => Ok(Snapshot { revision: page.at.unwrap_or(inner.revision), objects: Vec::new() }),
        }
    }

    /// The first so many of the wanted objects of a scope. No more is read than that takes.
    ///
    /// # Errors
    /// The window does not reach back to the revision.
    pub fn part(
        &self,
        group_resource: &GroupResource,
        scope: &Scope,
        page: &Page,
        limit: usize,
        wanted: impl Fn(&Stored) -> bool,
    ) -> Result<PartOfList, Gone> {
        let inner = self.lock();
        match inner.stores.get(group_resource) {
            Some(store) => store.part(scope, page, inner.revision, limit, wanted),
            None => {
                let revision = page.at.unwrap_or(inner.revision);
                Ok(PartOfList { revision, objects: Vec::new(), more: false })
            }
        }
    }

    /// Returns how many objects of a scope there are from after a path on.
    ///
    /// # Errors
    /// The window does not reach back to the revision.
    pub fn count(&self, group_resource: &GroupResource, scope: &Scope, page: &Page) -> Result<usize, Gone> {
        let inner = self.lock();
        inner.stores.get(group_resource).map_or(Ok(0), |store| store.count(scope, page, inner.revision))
    }

    /// Makes all the changes, or none.
    ///
    /// # Errors
    /// Tells the first write whose object was not as expected.
    pub fn write(&self, writes: Vec<StoreOp>) -> Result<Vec<Arc<Stored>>, Stale> {
        // Objects are written down before the lock is taken, or everybody would wait for it.
        let writes: Vec<Prepared> = writes.into_iter().map(|write| self.prepare(write)).collect();
        let written = self.lock().write(writes, self.0.persistence.is_some())?;
        self.save();
        Ok(written)
    }

    fn prepare(&self, write: StoreOp) -> Prepared {
        let StoreOp { group_resource, path, expected, object, fields, extent } = write;
        let path: Arc<str> = path.into();
        let draft = object.map(|object| {
            let before = expected.and_then(|_| self.get(&group_resource, &path));
            Draft::new(WrittenObject { object, path: Arc::clone(&path), fields }, extent, before.as_deref())
        });
        Prepared { group_resource, path, expected, draft }
    }

    /// Forgets all events so far, as the real server does with old ones from time to time: a request for changes after
    /// an earlier revision is refused.
    pub fn compact(&self) {
        let mut inner = self.lock();
        let revision = inner.revision;
        inner.stores.values_mut().for_each(|store| store.compact(revision));
    }

    /// Ends every watch, now and from now on.
    pub fn close(&self) {
        let mut inner = self.lock();
        inner.closed = true;
        inner.stores.values_mut().for_each(ResourceStore::end_watches);
    }

    fn lock(&self) -> MutexGuard<'_, StoreInner> {
        self.0.lock()
    }
}

#[cfg(test)]
impl Store {
    /// Returns a store with these objects, each with its group and plural, to try rules on that read stored objects.
    pub fn of(objects: &[(&str, &str, Value)]) -> Store {
        let store = Store::default();
        for (group, resource, object) in objects {
            let metadata = &object["metadata"];
            let path = path(metadata["namespace"].as_str(), metadata["name"].as_str().unwrap());
            store.write(vec![StoreOp::put(GroupResource::new(group, resource), path, None, object.clone())]).unwrap();
        }
        store
    }
}

impl StoreInner {
    /// Makes all the changes, or none. If writes are `kept`, they are noted, and no watch gets them yet.
    fn write(&mut self, writes: Vec<Prepared>, kept: bool) -> Result<Vec<Arc<Stored>>, Stale> {
        for (index, write) in writes.iter().enumerate() {
            let present = self.stores.get(&write.group_resource).and_then(|store| store.get(&write.path));
            if present.map(|object| object.revision) != write.expected {
                return Err(Stale(index));
            }
        }
        let mut events = Vec::with_capacity(writes.len());
        for Prepared { group_resource: name, path, draft, .. } in writes {
            self.revision += 1;
            let store = self.stores.entry(name.clone()).or_default();
            if let Some(event) = store.write(path, draft, self.revision) {
                events.push((name, event));
            }
        }
        let written = events.iter().map(|(_, event)| Arc::clone(&event.object)).collect();
        if kept {
            let noted = |(group_resource, event): &(GroupResource, Arc<Event>)| Noted {
                group_resource: group_resource.clone(),
                object: Arc::clone(&event.object),
                deleted: event.change == Change::Deleted,
            };
            self.unsaved.writes.push(events.iter().map(noted).collect());
            self.unsaved.events.append(&mut events);
        } else {
            self.tell(self.revision, &events);
        }
        Ok(written)
    }

    /// Tells the watches of everything up to a revision.
    fn tell(&mut self, revision: u64, events: &[(GroupResource, Arc<Event>)]) {
        for (group_resource, event) in events {
            if let Some(store) = self.stores.get_mut(group_resource) {
                store.tell(event);
            }
        }
        self.told = revision;
    }
}

#[cfg(test)]
mod tests;
