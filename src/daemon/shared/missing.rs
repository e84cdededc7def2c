//! Namespaces and definitions that are not there: what rollouts tell of them to the loop, which watches for them (`missing_watch`).

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use tokio::sync::{Notify, mpsc, watch};

use crate::cluster::{Backoff, Cluster, Seen, Served, Watched};
use belay_core::manifest::ObjectKey;

/// The kinds of what may be missing.
const KINDS: [(&str, &str); 2] = [("v1", "Namespace"), ("apiextensions.k8s.io/v1", "CustomResourceDefinition")];

/// The news between rollouts that wait for something missing, and the loop that watches for it.
#[derive(Debug, Default)]
pub struct MissingNews {
    /// The objects of which the loop has not heard yet.
    told: Mutex<BTreeSet<ObjectKey>>,
    news: Notify,
    /// Counts how often something that was missing may have come.
    pub came: watch::Sender<u64>,
}

impl MissingNews {
    /// Says that an object waits for something that is missing. Returns what tells when that may be there.
    pub fn tell(&self, key: &ObjectKey) -> watch::Receiver<u64> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone());
        self.news.notify_one();
        self.came.subscribe()
    }

    /// Waits for objects that wait for something missing, and returns them.
    pub async fn news(&self) -> BTreeSet<ObjectKey> {
        self.news.notified().await;
        std::mem::take(&mut *self.told.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Returns when something that an object waits for may be there; never, for one that waits for nothing that is missing.
pub async fn comes(missing: Option<&mut watch::Receiver<u64>>) {
    if let Some(missing) = missing
        && missing.changed().await.is_ok()
    {
        return;
    }
    std::future::pending().await
}

/// The watch for what is missing.
#[derive(Default)]
pub struct MissingWatch {
    /// The objects that need something that is missing.
    pub objects: BTreeSet<ObjectKey>,
    pub watch: Option<(Watched, mpsc::Receiver<Seen>)>,
}

impl MissingWatch {
    /// Returns what the watch sees next; never while nothing is missing.
    pub async fn seen(&mut self) -> Seen {
        if let Some((_, seen)) = &mut self.watch
            && let Some(seen) = seen.recv().await
        {
            return seen;
        }
        std::future::pending().await
    }

    /// Watches these kinds of what is missing, too.
    pub fn also(&mut self, kinds: &[Served]) {
        if let Some((watched, _)) = &mut self.watch {
            kinds.iter().for_each(|served| watched.also(served));
        }
    }

    /// Ends the watch when nothing is missed any more; `is_open` tells whether an object still waits, or is tried again.
    pub fn end_when_over(&mut self, is_open: impl Fn(&ObjectKey) -> bool) {
        while let Some(first) = self.objects.first() {
            if is_open(first) {
                return;
            }
            self.objects.pop_first();
        }
        self.watch = None;
    }
}

/// Returns the resources that serve the kinds of what may be missing. Without a watch for one of them, objects are tried again
/// by their waits alone.
pub async fn served_kinds(cluster: &Cluster) -> Vec<Served> {
    let mut found = Vec::new();
    for (api_version, kind) in KINDS {
        found.extend(Backoff::until_answered(|_| {}, || cluster.served(api_version, kind)).await);
    }
    found
}
