//! The requests of a controller that it has not seen fulfilled yet: until then, it does not ask again.
//!
//! A cache lags behind the server. Without this, a controller that has just made three pods would see none of them and
//! make three more.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::informer::{Cached, Informer};
use super::key::{Key, is_terminating};

/// After this time, an expectation is given up: it will not come.
const EXPIRY: Duration = Duration::from_secs(300);

/// The open expectations, by owner.
#[derive(Debug, Default)]
pub struct Expectations(Mutex<BTreeMap<Key, Pending>>);

#[derive(Debug)]
struct Pending {
    since: Instant,
    /// The highest `resourceVersion` of a write of ours to the owner itself.
    own: u64,
    /// The highest `resourceVersion` of a write of ours to its objects.
    owned: u64,
    /// The uids of objects that we have deleted.
    deleted: BTreeMap<Key, String>,
    /// The uids of objects that are gone by a write of ours.
    gone: BTreeMap<Key, String>,
}

impl Expectations {
    /// Notes that the owner itself was changed; the server stored it as `version`.
    pub fn wrote_owner(&self, owner: &Key, version: u64) {
        let mut all = self.lock();
        let pending = pending(&mut all, owner);
        pending.own = pending.own.max(version);
    }

    /// Notes that an object of the owner's was made or changed; the server stored it as `version`.
    pub fn wrote(&self, owner: &Key, version: u64) {
        let mut all = self.lock();
        let pending = pending(&mut all, owner);
        pending.owned = pending.owned.max(version);
    }

    /// Notes that the owner has deleted the object `key` with this uid.
    pub fn deleted(&self, owner: &Key, key: Key, uid: &str) {
        pending(&mut self.lock(), owner).deleted.insert(key, uid.to_owned());
    }

    /// Notes that a write of the owner took the last finalizer off the object `key` with this uid, which was being
    /// deleted. The server answers with the version before the removal, so that the version does not say when it is
    /// seen.
    pub fn removed(&self, owner: &Key, key: Key, uid: &str) {
        pending(&mut self.lock(), owner).gone.insert(key, uid.to_owned());
    }

    /// Returns true when the owner is cached as we last wrote it. If not, its change is on the way and will bring it
    /// back.
    pub fn is_owner_seen<O: Cached>(&self, owner: &Key, owners: &Informer<O>) -> bool {
        let all = self.lock();
        all.get(owner).is_none_or(|pending| pending.own <= owners.version() || pending.since.elapsed() > EXPIRY)
    }

    /// Returns true when everything that the owner asked for shows in the cache, or never will.
    pub fn are_met<K: Cached>(&self, owner: &Key, seen: &Informer<K>) -> bool {
        let mut all = self.lock();
        let Some(pending) = all.get_mut(owner) else { return true };
        pending.deleted.retain(|key, uid| {
            seen.get(key)
                .is_some_and(|object| object.metadata().uid.as_ref() == Some(uid) && !is_terminating(object.metadata()))
        });
        pending.gone.retain(|key, uid| seen.get(key).is_some_and(|object| object.metadata().uid.as_ref() == Some(uid)));
        let met = pending.deleted.is_empty() && pending.gone.is_empty() && pending.owned <= seen.version();
        if met || pending.since.elapsed() > EXPIRY {
            all.remove(owner);
            return true;
        }
        false
    }

    /// Notes that the owner is gone.
    pub fn forget(&self, owner: &Key) {
        self.lock().remove(owner);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Key, Pending>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn pending<'a>(all: &'a mut BTreeMap<Key, Pending>, owner: &Key) -> &'a mut Pending {
    let fresh = || Pending { since: Instant::now(), own: 0, owned: 0, deleted: BTreeMap::new(), gone: BTreeMap::new() };
    let pending = all.entry(owner.clone()).or_insert_with(fresh);
    pending.since = Instant::now();
    pending
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::{Value, json};
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::controllers::informer::Extent;
    use crate::controllers::key::uid_of;
    use crate::controllers::pod::Pod;
    use crate::controllers::test_request::request;
    use crate::{Clock, MiniCluster, Part, Random};

    async fn ask(cluster: &MiniCluster, method: &str, path: &str, body: Value) -> Value {
        let answer = request(cluster, method, path, body).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        answer
    }

    #[tokio::test(start_paused = true)]
    async fn what_lost_its_last_finalizer_is_waited_for() {
        const PODS: &str = "/api/v1/namespaces/default/pods";
        let clock = Clock::tokio(Timestamp::UNIX_EPOCH);
        let cluster = MiniCluster::builder().clock(clock).without(Part::Kubelet).start().await.unwrap();
        let pod = json!({
            "metadata": { "name": "one", "finalizers": ["example.com/held"] },
            "spec": { "containers": [{ "name": "app", "image": "app:1" }] },
        });
        ask(&cluster, "POST", PODS, pod).await;
        ask(&cluster, "DELETE", &format!("{PODS}/one?gracePeriodSeconds=0"), Value::Null).await;

        // This cache is behind: it ended before the pod went.
        let stop = CancellationToken::new();
        let (behind, current): (Informer<Pod>, Informer<Pod>) =
            (Informer::new(PODS, Extent::Whole), Informer::new(PODS, Extent::Whole));
        let following = tokio::spawn({
            let (behind, stop, client) = (behind.clone(), stop.clone(), cluster.client());
            async move { behind.run(client, Random::new(1), stop).await }
        });
        behind.synced().await;
        stop.cancel();
        following.await.unwrap();
        let (owner, key) = (Key::new("default", "job"), Key::new("default", "one"));
        let held = behind.get(&key).unwrap();

        let freed = json!({ "metadata": { "finalizers": null } });
        let written = ask(&cluster, "PATCH", &format!("{PODS}/one"), freed).await;
        let version: u64 = written["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
        assert!(version <= behind.version(), "the answer's version tells of the removal: {written}");
        let expectations = Expectations::default();
        expectations.removed(&owner, key.clone(), uid_of(&held.metadata));
        assert!(!expectations.are_met(&owner, &behind));

        let stop = CancellationToken::new();
        let _stops = stop.clone().drop_guard();
        tokio::spawn({
            let (current, client) = (current.clone(), cluster.client());
            async move { current.run(client, Random::new(1), stop).await }
        });
        current.synced().await;
        assert!(expectations.are_met(&owner, &current));
    }
}
