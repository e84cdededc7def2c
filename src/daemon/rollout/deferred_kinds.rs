//! Kinds of which a first plan has many objects: they are watched when those are applied, not before.
//!
//! A watch reports every change of every object, and while thousands are created each is changed several times within
//! moments: the API server would write, and belay read, many times the size of one list afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::rollout_end::InSync;
use crate::cluster::Served;
use crate::daemon::shared::requests::Requests;
use belay_core::manifest::ObjectKey;

/// The number of objects of a kind from which on it is deferred.
const CROWD: usize = 500;
/// The longest time for which a kind is not watched: its objects are judged only after that.
const LONGEST: Duration = Duration::from_secs(5);
/// The period between two checks if the planned objects are applied.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// Kinds that are not watched yet.
#[derive(Debug, Default)]
pub struct DeferredKinds {
    /// Their groups and names.
    pub kinds: BTreeSet<(String, String)>,
    /// The resources that serve them, as far as they are known.
    pub served: BTreeSet<Served>,
    /// The last known digest of finished objects, until the watch reports them.
    pub through: BTreeMap<ObjectKey, InSync>,
}

impl DeferredKinds {
    /// Returns the kinds of which a plan for these objects has many.
    pub fn of<'a>(planned: impl Iterator<Item = &'a ObjectKey>) -> DeferredKinds {
        let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        for key in planned {
            *counts.entry((&key.group, &key.kind)).or_default() += 1;
        }
        let many = counts.into_iter().filter(|(_, count)| *count >= CROWD);
        let kinds = many.map(|((group, kind), _)| (group.to_owned(), kind.to_owned())).collect();
        DeferredKinds { kinds, ..DeferredKinds::default() }
    }

    /// Returns true when a kind is one of them, and remembers it.
    pub fn takes(&mut self, served: &Served) -> bool {
        let is_one = self.has(&served.group, &served.kind);
        if is_one && !self.served.contains(served) {
            self.served.insert(served.clone());
        }
        is_one
    }

    pub fn has(&self, group: &str, kind: &str) -> bool {
        self.kinds.iter().any(|(its, name)| its == group && name == kind)
    }

    /// Returns the digest that was known of an object before the watch reported it.
    pub fn told(&mut self, key: &ObjectKey) -> Option<InSync> {
        self.through.remove(key)
    }

    /// Notes that the watch has reported all objects of a kind.
    pub fn told_all(&mut self, served: &Served) {
        self.through.retain(|key, _| key.group != served.group || key.kind != served.kind);
    }
}

/// Waits until the planned objects are applied. A longer wave of applies is watched while it goes on.
pub async fn until_applied(requests: &Requests) {
    let calm = async {
        loop {
            tokio::time::sleep(LOOK_AGAIN).await;
            if requests.is_calm() {
                return;
            }
        }
    };
    drop(tokio::time::timeout(LONGEST, calm).await);
}
