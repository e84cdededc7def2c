//! A store that outlives its process.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use tokio_util::sync::CancellationToken;

use super::journal::{Entry, Journal, KeepError};
use super::stored::{Stored, Written};
use super::{Change, GroupResource, Inner, Store};

/// An object as it lies in the file.
struct StoredRecord {
    revision: u64,
    fields: Vec<String>,
    object: Vec<u8>,
}

impl Store {
    /// A store with what lies in a folder, where every write is kept from now on. All events are forgotten: whoever
    /// watched before is answered with 410 and lists anew.
    ///
    /// # Errors
    /// As [`KeepError`] says.
    pub fn open(folder: &Path) -> Result<Store, KeepError> {
        let mut revision = 0;
        let mut kept: BTreeMap<(GroupResource, String), StoredRecord> = BTreeMap::new();
        let mut journal = Journal::open(folder, |entry| {
            let at = match entry {
                Entry::Put { shelf, path, revision, fields, object } => {
                    kept.insert((shelf, path), StoredRecord { revision, fields, object });
                    revision
                }
                Entry::Delete { shelf, path, revision } => {
                    kept.remove(&(shelf, path));
                    revision
                }
                Entry::Revision(revision) => revision,
            };
            revision = revision.max(at);
        })?;
        let mut inner = Inner { revision, ..Inner::default() };
        for ((shelf, path), StoredRecord { revision: at, fields, object }) in kept {
            let Ok(object) = serde_json::from_slice(&object) else {
                return Err(KeepError::Damaged { path: folder.to_owned(), at: 0 });
            };
            let written = Written { change: Change::Added, object, path: path.into(), fields };
            inner.shelves.entry(shelf).or_default().put_back(Arc::new(Stored::new(written, at)));
        }
        inner.shelves.values_mut().for_each(|shelf| shelf.compact(revision));
        if revision > 0 {
            inner.settle(&mut journal);
        }
        inner.journal = Some(journal);
        Ok(Store(Arc::new(Mutex::new(inner))))
    }

    /// Is cancelled when a write could not be kept; never, where nothing is kept.
    #[must_use]
    pub fn failed(&self) -> CancellationToken {
        self.lock().journal.as_ref().map(Journal::failed).unwrap_or_default()
    }
}

impl Inner {
    /// Keeps the writes that were noted, and the whole anew where it is time.
    pub(super) fn keep(&mut self) {
        let Some(mut journal) = self.journal.take() else { return };
        journal.commit();
        if journal.is_due() {
            self.settle(&mut journal);
        }
        self.journal = Some(journal);
    }

    fn settle(&self, journal: &mut Journal) {
        let objects = self.shelves.iter().flat_map(|(name, shelf)| shelf.objects().map(move |object| (name, object)));
        journal.settle(self.revision, objects);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use serde_json::json;

    use super::super::{Page, Scope, Write};
    use super::*;

    fn shelf() -> GroupResource {
        GroupResource { group: "".into(), resource: "configmaps".into() }
    }

    fn put(store: &Store, name: &str, value: usize) {
        let path = format!("default/{name}");
        let expected = store.get(&shelf(), &path).map(|object| object.revision);
        let object = json!({"kind": "ConfigMap", "metadata": {"name": name, "uid": name}, "data": {"n": value}});
        let fields = vec![name.to_owned()];
        store.write(vec![Write { shelf: shelf(), path, expected, object: Some(object), fields }]).unwrap();
    }

    fn delete(store: &Store, name: &str) {
        let path = format!("default/{name}");
        let expected = store.get(&shelf(), &path).map(|object| object.revision);
        store.write(vec![Write { shelf: shelf(), path, expected, object: None, fields: Vec::new() }]).unwrap();
    }

    fn all(store: &Store) -> Vec<(u64, serde_json::Value)> {
        let snapshot = store.snapshot(&shelf(), &Scope::All, &Page::default()).unwrap();
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
            assert!(store.watch(&shelf(), &Scope::All, 1).is_err(), "older events are forgotten");
            assert!(store.watch(&shelf(), &Scope::All, revision).is_ok());
            assert_eq!(&*store.get(&shelf(), "default/c").unwrap().fields, &["c".into()]);
        }
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
            let expected = store.get(&shelf(), &path).map(|object| object.revision);
            let object = json!({"metadata": {"name": "long"}, "data": {"n": index, "long": long}});
            let write = Write { shelf: shelf(), path, expected, object: Some(object), fields: Vec::new() };
            store.write(vec![write]).unwrap();
        }
        let length = std::fs::metadata(folder.path().join("state")).unwrap().len();
        assert!(length < 20 << 20, "{length}");
        drop(store);
        let store = Store::open(folder.path()).unwrap();
        assert_eq!((all(&store)[0].1["data"]["n"].as_u64(), store.revision()), (Some(999), 1000));
    }
}
