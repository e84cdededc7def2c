//! What a controller has asked for and not yet seen: until it has, it does not ask again.
//!
//! A cache lags behind the server. Without this, a controller that has just made three pods would see none of them and
//! make three more.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::informer::{Cached, Informer};
use super::key::{Key, is_terminating};

/// After this time, what was expected is given up: it will not come.
const EXPIRY: Duration = Duration::from_secs(300);

/// What is still expected, by owner.
#[derive(Debug, Default)]
pub struct Expectations(Mutex<BTreeMap<Key, Pending>>);

#[derive(Debug)]
struct Pending {
    since: Instant,
    /// The highest `resourceVersion` of a write of ours to the owner itself.
    own: u64,
    /// The highest `resourceVersion` of a write of ours to what it owns.
    owned: u64,
    /// The uids of what we have deleted.
    deleted: BTreeMap<Key, String>,
}

impl Expectations {
    /// The owner itself was changed; the server stored it as `version`.
    pub fn wrote_owner(&self, owner: &Key, version: u64) {
        let mut all = self.lock();
        let pending = pending(&mut all, owner);
        pending.own = pending.own.max(version);
    }

    /// Something that the owner owns was made or changed; the server stored it as `version`.
    pub fn wrote(&self, owner: &Key, version: u64) {
        let mut all = self.lock();
        let pending = pending(&mut all, owner);
        pending.owned = pending.owned.max(version);
    }

    /// The owner has deleted the object `key` with this uid.
    pub fn deleted(&self, owner: &Key, key: Key, uid: &str) {
        pending(&mut self.lock(), owner).deleted.insert(key, uid.to_owned());
    }

    /// Whether the owner is cached as we last wrote it. If not, its change is on the way and will bring it back.
    pub fn is_owner_seen<O: Cached>(&self, owner: &Key, owners: &Informer<O>) -> bool {
        let all = self.lock();
        all.get(owner).is_none_or(|pending| pending.own <= owners.version() || pending.since.elapsed() > EXPIRY)
    }

    /// Whether everything that the owner asked for shows in the cache, or never will.
    pub fn are_met<K: Cached>(&self, owner: &Key, seen: &Informer<K>) -> bool {
        let mut all = self.lock();
        let Some(pending) = all.get_mut(owner) else { return true };
        pending.deleted.retain(|key, uid| {
            seen.get(key)
                .is_some_and(|object| object.metadata().uid.as_ref() == Some(uid) && !is_terminating(object.metadata()))
        });
        let met = pending.deleted.is_empty() && pending.owned <= seen.version();
        if met || pending.since.elapsed() > EXPIRY {
            all.remove(owner);
            return true;
        }
        false
    }

    /// The owner is gone.
    pub fn forget(&self, owner: &Key) {
        self.lock().remove(owner);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Key, Pending>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn pending<'a>(all: &'a mut BTreeMap<Key, Pending>, owner: &Key) -> &'a mut Pending {
    let fresh = || Pending { since: Instant::now(), own: 0, owned: 0, deleted: BTreeMap::new() };
    let pending = all.entry(owner.clone()).or_insert_with(fresh);
    pending.since = Instant::now();
    pending
}
