//! Objects that carry a source's label and that no commit of its repository named.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use belay_core::manifest::ObjectKey;
use belay_core::rollout::CommitId;

/// Objects that no commit of the mirror named, as of a head, so that they are not looked up twice.
#[derive(Debug, Default)]
pub struct Unmanaged(Mutex<(Option<CommitId>, BTreeSet<ObjectKey>)>);

impl Unmanaged {
    /// Returns those of `keys` that are not known to be strangers at this head.
    pub fn unknown(&self, head: &CommitId, keys: BTreeSet<ObjectKey>) -> BTreeSet<ObjectKey> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.0.as_ref() != Some(head) {
            *known = (Some(head.clone()), BTreeSet::new());
        }
        keys.into_iter().filter(|key| !known.1.contains(key)).collect()
    }

    pub fn add(&self, head: &CommitId, unmanaged: impl Iterator<Item = ObjectKey>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.0.as_ref() == Some(head) {
            known.1.extend(unmanaged);
        }
    }
}
