//! Going back to what was stored before, as after `etcdctl snapshot restore`.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

use super::Store;
use super::persistence::tell;
use super::storage_key::GroupResource;
use super::stored::Stored;

/// Everything that was stored at a revision.
#[derive(Clone, Debug)]
pub struct Backup {
    revision: u64,
    objects: BTreeMap<GroupResource, Vec<Arc<Stored>>>,
}

impl Store {
    /// Returns everything that is stored now.
    #[must_use]
    pub fn back_up(&self) -> Backup {
        let inner = self.lock();
        let all = inner.stores.iter().map(|(name, store)| (name.clone(), store.objects().cloned().collect()));
        Backup { revision: inner.revision, objects: all.collect() }
    }

    /// Puts back what was stored at the revision of a backup. Revisions count on from there, every watch ends, and all
    /// events are forgotten.
    pub fn restore(&self, backup: &Backup) {
        let revision = backup.revision;
        // Nobody writes the file meanwhile: it is locked before the store, as everywhere.
        let persistence = self.0.persistence.as_ref();
        let mut journal = persistence.map(|kept| kept.journal.lock().unwrap_or_else(PoisonError::into_inner));
        let mut inner = self.lock();
        for (name, store) in &mut inner.stores {
            let objects = backup.objects.get(name).map(Vec::as_slice).unwrap_or_default();
            store.replace(objects, revision);
        }
        for (name, objects) in &backup.objects {
            inner.stores.entry(name.clone()).or_default().replace(objects, revision);
        }
        (inner.revision, inner.told) = (revision, revision);
        inner.unsaved.writes.clear();
        inner.unsaved.events.clear();
        if let Some(journal) = &mut journal {
            journal.settle(revision, &inner.everything());
        }
        if let Some(persistence) = persistence {
            tell(&persistence.saved, inner.unsaved.visited(revision));
        }
    }
}
