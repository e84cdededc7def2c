//! A store that outlives its process. A write is noted under the store's lock and nothing more; the file is written by
//! one task at a time, on a thread that may wait for the disk, with everything that was noted until then. No client
//! gets an answer or an event of a write before it is in the file.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::journal::{Entry, Journal, KeepError, Noted};
use super::persistence::{Persistence, Saved, Unsaved, tell};
use super::storage_key::GroupResource;
use super::stored::{Stored, WrittenObject};
use super::{Shared, Store, StoreInner};

/// An object as it lies in the file.
struct StoredRecord {
    revision: u64,
    fields: Vec<String>,
    object: Vec<u8>,
}

/// The result of one visit to the file.
struct Visit {
    saved: Saved,
    /// True when more was noted meanwhile, which is left to the maker of this visit.
    more: bool,
}

impl Store {
    /// Returns a store with the content of a folder, where every write is kept from now on. All events are forgotten:
    /// every older watch is answered with 410 and lists again.
    ///
    /// # Errors
    /// As [`KeepError`] says.
    pub fn open(folder: &Path) -> Result<Store, KeepError> {
        let mut revision = 0;
        let mut kept: BTreeMap<(GroupResource, String), StoredRecord> = BTreeMap::new();
        let mut journal = Journal::open(folder, |entry| {
            let at = match entry {
                Entry::Put { group_resource, path, revision, fields, object } => {
                    kept.insert((group_resource, path), StoredRecord { revision, fields, object });
                    revision
                }
                Entry::Delete { group_resource, path, revision } => {
                    kept.remove(&(group_resource, path));
                    revision
                }
                Entry::Revision(revision) => revision,
            };
            revision = revision.max(at);
        })?;
        let mut inner = StoreInner { revision, told: revision, ..StoreInner::default() };
        for ((group_resource, path), StoredRecord { revision: at, fields, object }) in kept {
            let Ok(object) = serde_json::from_slice(&object) else {
                return Err(KeepError::Damaged { path: folder.to_owned(), at: 0 });
            };
            let written = WrittenObject { object, path: path.into(), fields };
            inner.stores.entry(group_resource).or_default().put_back(Arc::new(Stored::new(written, at)));
        }
        inner.stores.values_mut().for_each(|store| store.compact(revision));
        if revision > 0 {
            journal.settle(revision, &inner.everything());
        }
        let persistence = Persistence {
            failed: journal.failed(),
            journal: Mutex::new(journal),
            saved: Arc::new(watch::Sender::new(Saved { visit: 0, revision })),
        };
        Ok(Store(Arc::new(Shared { inner: Mutex::new(inner), persistence: Some(persistence) })))
    }

    /// Returns the token that is cancelled when a write could not be kept; never, if nothing is kept.
    #[must_use]
    pub fn failed(&self) -> CancellationToken {
        self.0.persistence.as_ref().map(|persistence| persistence.failed.clone()).unwrap_or_default()
    }

    /// Returns when everything that is written by now is in the file, or the file can't be written: at once, if nothing
    /// is kept.
    pub async fn saved(&self) {
        let Some(persistence) = &self.0.persistence else { return };
        let (wanted, mut saved) = (self.revision(), persistence.saved.subscribe());
        // The other end is held by this store.
        drop(saved.wait_for(|saved| saved.revision >= wanted).await);
    }

    /// Has the file written, unless somebody is at it, who then writes this too. On a runtime it is written on a thread
    /// that may block; elsewhere by the caller.
    pub(super) fn save(&self) {
        let Some(persistence) = &self.0.persistence else { return };
        {
            let unsaved = &mut self.0.lock().unsaved;
            if unsaved.saving || unsaved.writes.is_empty() {
                return;
            }
            unsaved.saving = true;
        }
        let saved = Arc::clone(&persistence.saved);
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(save_beside(Arc::downgrade(&self.0), saved))),
            Err(_) => {
                while let Some(visit) = self.0.visit() {
                    tell(&saved, visit.saved);
                    if !visit.more {
                        break;
                    }
                }
            }
        }
    }
}

/// Writes the file until nothing more is to be written. Between two visits nothing here holds the store, or its folder
/// could not be opened again right after it was dropped.
async fn save_beside(store: Weak<Shared>, saved: Arc<watch::Sender<Saved>>) {
    let mut unfinished = Unfinished(Some(store));
    while let Some(store) = unfinished.0.as_ref().and_then(Weak::upgrade) {
        let Ok(Some(visit)) = tokio::task::spawn_blocking(move || store.visit()).await else { return };
        if !visit.more {
            unfinished.0 = None;
        }
        tell(&saved, visit.saved);
    }
}

/// Lets others write the file where the runtime ended before it was written.
struct Unfinished(Option<Weak<Shared>>);

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some(store) = self.0.take().and_then(|store| store.upgrade()) {
            store.lock().unsaved.saving = false;
        }
    }
}

impl Shared {
    /// Writes the noted changes to the file, then sends them to the watches.
    fn visit(&self) -> Option<Visit> {
        let persistence = self.persistence.as_ref()?;
        // The holder of the file takes the noted writes, so that they are written in their order.
        let mut journal = persistence.journal.lock().unwrap_or_else(PoisonError::into_inner);
        let (writes, events, revision, everything) = {
            let mut inner = self.lock();
            let Unsaved { writes, events, .. } = &mut inner.unsaved;
            let (writes, events) = (std::mem::take(writes), std::mem::take(events));
            let everything = journal.is_due().then(|| inner.everything());
            (writes, events, inner.revision, everything)
        };
        match everything {
            Some(everything) => journal.settle(revision, &everything),
            None => journal.append(&writes),
        }
        let mut inner = self.lock();
        inner.tell(revision, &events);
        let more = !inner.unsaved.writes.is_empty();
        inner.unsaved.saving = more;
        Some(Visit { saved: inner.unsaved.visited(revision), more })
    }
}

impl Drop for Shared {
    /// Writes that nobody waited for are kept as well.
    fn drop(&mut self) {
        while self.visit().is_some_and(|visit| visit.more) {}
    }
}

impl Shared {
    pub(super) fn lock(&self) -> MutexGuard<'_, StoreInner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StoreInner {
    /// Every object there is.
    pub(super) fn everything(&self) -> Vec<Noted> {
        let noted = |(group_resource, object): (&GroupResource, &Arc<Stored>)| Noted {
            group_resource: group_resource.clone(),
            object: Arc::clone(object),
            deleted: false,
        };
        let objects = self.stores.iter().flat_map(|(name, store)| store.objects().map(move |object| (name, object)));
        objects.map(noted).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use serde_json::json;

    use super::super::{Page, Scope, StoreOp};
    use super::*;

    fn group_resource() -> GroupResource {
        GroupResource::new("", "configmaps")
    }

    fn put(store: &Store, name: &str, value: usize) {
        let path = format!("default/{name}");
        let expected = store.get(&group_resource(), &path).map(|object| object.revision);
        let object = json!({"kind": "ConfigMap", "metadata": {"name": name, "uid": name}, "data": {"n": value}});
        let put = StoreOp::put(group_resource(), path, expected, object);
        store.write(vec![StoreOp { fields: vec![name.to_owned()], ..put }]).unwrap();
    }

    fn delete(store: &Store, name: &str) {
        let path = format!("default/{name}");
        let revision = store.get(&group_resource(), &path).unwrap().revision;
        store.write(vec![StoreOp::remove(group_resource(), path, revision)]).unwrap();
    }

    fn all(store: &Store) -> Vec<(u64, serde_json::Value)> {
        let snapshot = store.snapshot(&group_resource(), &Scope::All, &Page::default()).unwrap();
        snapshot.objects.iter().map(|object| (object.revision, object.value())).collect()
    }

    #[test]
    fn what_was_written_is_there_again() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        assert!(matches!(Store::open(folder.path()), Err(KeepError::Taken(_))));
        for (index, name) in ["a", "b", "c", "a"].into_iter().enumerate() {
            put(&store, name, index);
        }
        delete(&store, "b");
        let (before, revision) = (all(&store), store.revision());
        drop(store);
        for _ in 0..2 {
            let store = Store::open(folder.path()).unwrap();
            assert_eq!((all(&store), store.revision()), (before.clone(), revision));
            assert!(store.watch(&group_resource(), &Scope::All, 1).is_err(), "older events are forgotten");
            assert!(store.watch(&group_resource(), &Scope::All, revision).is_ok());
            assert_eq!(&*store.get(&group_resource(), "default/c").unwrap().fields, &["c".into()]);
        }
    }

    /// The thread that runs tasks writes no file; who waits for the file, and who watches, learns of it afterwards.
    #[tokio::test(start_paused = true)]
    async fn the_file_is_written_beside_the_tasks() {
        use std::task::{Context, Waker};

        use super::super::Next;

        let folder = tempfile::tempdir().unwrap();
        let length = || std::fs::metadata(folder.path().join("state")).unwrap().len();
        let store = Store::open(folder.path()).unwrap();
        let mut watcher = store.watch(&group_resource(), &Scope::All, 0).unwrap();
        let mut told = || {
            let next = watcher.poll_next(&mut Context::from_waker(Waker::noop()));
            matches!(next, std::task::Poll::Ready(Next::Event(_)))
        };
        let empty = length();
        for number in 0..100 {
            put(&store, "a", number);
        }
        assert_eq!(length(), empty, "nothing was written on this thread");
        assert!(!told(), "nobody hears of what may be lost");
        assert_eq!(store.watch(&group_resource(), &Scope::All, 0).unwrap().revision(), 0);
        store.saved().await;
        assert!(length() > empty);
        assert_eq!((0..101).filter(|_| told()).count(), 100, "each is told once");
        // After a drop it can be opened again at once, and writes that nobody waited for are kept, too.
        put(&store, "a", 100);
        let before = all(&store);
        drop(watcher);
        drop(store);
        assert_eq!(all(&Store::open(folder.path()).unwrap()), before);
    }

    /// A task that is late to tell of its visit takes nothing back from those who wait.
    #[tokio::test(start_paused = true)]
    async fn visits_may_be_told_in_the_other_order() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let told = &store.0.persistence.as_ref().unwrap().saved;
        // Only this test visits the file.
        store.0.lock().unsaved.saving = true;
        put(&store, "a", 1);
        let backup = store.back_up();
        let first = store.0.visit().unwrap();
        store.0.lock().unsaved.saving = true;
        put(&store, "a", 2);
        let second = store.0.visit().unwrap();
        tell(told, second.saved);
        tell(told, first.saved);
        let saved = tokio::time::timeout(std::time::Duration::from_secs(1), store.saved());
        saved.await.expect("everything is in the file");
        // After a restore to an earlier revision, the visit of before says nothing of what is written afterwards.
        let late = store.0.visit().unwrap();
        store.restore(&backup);
        tell(told, late.saved);
        assert_eq!(told.borrow().revision, 1);
    }

    /// However much of the last record a kill left, everything before it is there.
    #[test]
    fn a_torn_end_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("state");
        let store = Store::open(folder.path()).unwrap();
        put(&store, "a", 1);
        let before = all(&store);
        let whole = std::fs::metadata(&file).unwrap().len();
        put(&store, "b", 2);
        drop(store);
        let bytes = std::fs::read(&file).unwrap();
        for length in usize::try_from(whole).unwrap()..bytes.len() {
            std::fs::write(&file, &bytes[..length]).unwrap();
            let store = Store::open(folder.path()).unwrap();
            assert_eq!(all(&store), before, "{length}");
            put(&store, "c", 3);
            drop(store);
            assert_eq!(all(&Store::open(folder.path()).unwrap()).len(), 2, "{length}");
        }
    }

    #[test]
    fn damage_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("state");
        let store = Store::open(folder.path()).unwrap();
        put(&store, "a", 1);
        put(&store, "b", 2);
        drop(store);
        let bytes = std::fs::read(&file).unwrap();
        let mut damaged = bytes;
        damaged[60] ^= 1;
        std::fs::write(&file, &damaged).unwrap();
        assert!(matches!(Store::open(folder.path()), Err(KeepError::Damaged { at: 22, .. })));
        std::fs::File::create(&file).unwrap().write_all(b"something else").unwrap();
        assert!(matches!(Store::open(folder.path()), Err(KeepError::Damaged { at: 0, .. })));
    }

    /// Writes to the same objects do not let the file grow without bound.
    #[test]
    fn the_file_is_written_anew() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let long = "x".repeat(100_000);
        for index in 0..1000 {
            let path = "default/long".to_owned();
            let expected = store.get(&group_resource(), &path).map(|object| object.revision);
            let object = json!({"metadata": {"name": "long"}, "data": {"n": index, "long": long}});
            store.write(vec![StoreOp::put(group_resource(), path, expected, object)]).unwrap();
        }
        let length = std::fs::metadata(folder.path().join("state")).unwrap().len();
        assert!(length < 20 << 20, "{length}");
        drop(store);
        let store = Store::open(folder.path()).unwrap();
        assert_eq!((all(&store)[0].1["data"]["n"].as_u64(), store.revision()), (Some(999), 1000));
    }
}
