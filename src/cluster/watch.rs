//! Watching the objects of a source: one watch a kind, by label, so that objects of others cost nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument as _, info};

use super::changes::{Scope, Seen, WatchEnd};
use super::object_text::TextRoom;
use super::pages::Listing;
use super::{Backoff, Cluster, ClusterError, Served};
use belay_core::manifest::ObjectKey;

/// The number of changes that may wait to be handled; a watch that fills it is not read further until there is room.
const WAITING: usize = 64;

/// The watches of one source. Dropping it ends them.
pub struct Watched {
    cluster: Cluster,
    labels: String,
    send: mpsc::Sender<Seen>,
    room: TextRoom,
    namespaces: watch::Sender<BTreeSet<String>>,
    watches: BTreeMap<Served, tokio_util::sync::DropGuard>,
}

impl Cluster {
    /// Begins to watch objects with these labels; [`Watched::also`] names the kinds.
    #[must_use]
    pub fn watched(&self, labels: &str) -> (Watched, mpsc::Receiver<Seen>) {
        let (send, receive) = mpsc::channel(WAITING);
        let (namespaces, _) = watch::channel(BTreeSet::new());
        let (cluster, labels, room) = (self.clone(), labels.to_owned(), TextRoom::default());
        (Watched { cluster, labels, send, room, namespaces, watches: BTreeMap::new() }, receive)
    }
}

impl Watched {
    /// Watches this kind too; does nothing if it is watched already.
    pub fn also(&mut self, served: &Served) {
        if self.watches.contains_key(served) {
            return;
        }
        let stop = CancellationToken::new();
        let kind = WatchedKind {
            cluster: self.cluster.clone(),
            served: served.clone(),
            labels: self.labels.clone(),
            send: self.send.clone(),
            room: self.room.clone(),
            namespaces: self.namespaces.subscribe(),
            known: Arc::default(),
        };
        let stopped = stop.clone();
        let watch = async move {
            tokio::select! {
                biased;
                () = stopped.cancelled() => {}
                () = kind.watch() => {}
            }
        };
        tokio::spawn(watch.in_current_span());
        self.watches.insert(served.clone(), stop.drop_guard());
    }

    /// Sets the namespaces in which objects are watched if belay may not list them everywhere.
    pub fn in_namespaces(&self, namespaces: BTreeSet<String>) {
        self.namespaces.send_if_modified(|known| {
            let differs = *known != namespaces;
            *known = namespaces;
            differs
        });
    }

    /// Returns the watched resource that serves a kind, in whatever version.
    #[must_use]
    pub fn serving_group(&self, group: &str, kind: &str) -> Option<Served> {
        self.watches.keys().find(|served| served.kind == kind && served.group == group).cloned()
    }

    /// Returns the watched resource that serves a kind.
    #[must_use]
    pub fn serving(&self, api_version: &str, kind: &str) -> Option<Served> {
        self.watches.keys().find(|served| served.kind == kind && served.api_version() == api_version).cloned()
    }

    /// Returns true when this kind is watched.
    #[must_use]
    pub fn has(&self, served: &Served) -> bool {
        self.watches.contains_key(served)
    }
}

/// One kind, in whatever scopes belay may read it.
struct WatchedKind {
    cluster: Cluster,
    served: Served,
    labels: String,
    send: mpsc::Sender<Seen>,
    room: TextRoom,
    /// Where the objects are that matter.
    namespaces: watch::Receiver<BTreeSet<String>>,
    known: Arc<Mutex<BTreeSet<ObjectKey>>>,
}

impl WatchedKind {
    fn scope(&self, namespace: Option<String>) -> (Scope, mpsc::Receiver<Option<String>>) {
        let (synced, heard) = mpsc::channel(WAITING);
        (self.scope_to(namespace, synced), heard)
    }

    fn scope_to(&self, namespace: Option<String>, synced: mpsc::Sender<Option<String>>) -> Scope {
        Scope {
            cluster: self.cluster.clone(),
            served: self.served.clone(),
            labels: self.labels.clone(),
            namespace,
            known: Arc::clone(&self.known),
            send: self.send.clone(),
            room: self.room.clone(),
            synced,
        }
    }

    /// Watches everywhere, and if belay may not do that, in the namespaces that matter.
    async fn watch(mut self) {
        let mut backoff = until_rights_change();
        loop {
            let Some(error) = self.everywhere(&mut backoff).await else { return };
            let ended = if self.served.namespaced {
                self.in_namespaces(&error, &mut backoff).await
            } else {
                self.say(Some(&error)).await
            };
            if ended.is_err() {
                return;
            }
            if !self.served.namespaced {
                tokio::time::sleep(backoff.wait()).await;
            }
        }
    }

    /// Returns why it may not be watched everywhere; `None` when nobody listens any more.
    async fn everywhere(&self, backoff: &mut Backoff) -> Option<ClusterError> {
        let (scope, mut synced) = self.scope(None);
        let mut following = std::pin::pin!(scope.follow());
        loop {
            tokio::select! {
                biased;
                ended = &mut following => return match ended {
                    WatchEnd::Closed => None,
                    WatchEnd::Denied(error) => Some(error),
                },
                Some(_) = synced.recv() => {
                    *backoff = until_rights_change();
                    self.say(None).await.ok()?;
                    self.send.send(Seen::Synced(self.served.clone())).await.ok()?;
                }
            }
        }
    }

    /// Watches each namespace that matters, until it may be watched everywhere.
    async fn in_namespaces(&mut self, everywhere: &ClusterError, backoff: &mut Backoff) -> Result<(), Closed> {
        info!(kind = self.served.kind, error = %everywhere, "may not be listed everywhere: listed in its namespaces");
        let (told, mut heard) = mpsc::channel(WAITING);
        let mut again = Instant::now() + backoff.wait();
        let mut spaces = Spaces { denied: BTreeMap::new(), synced: BTreeSet::new(), tasks: BTreeMap::new() };
        loop {
            let wanted = self.namespaces.borrow_and_update().clone();
            self.give_up(&mut spaces, &wanted).await?;
            spaces.begin(&wanted, |namespace| {
                let (told, (scope, synced)) = (told.clone(), self.scope(Some(namespace.to_owned())));
                tokio::spawn(in_namespace(scope, synced, told).in_current_span())
            });
            if wanted.is_empty() {
                self.say(Some(everywhere)).await?;
            }
            tokio::select! {
                biased;
                Some((namespace, error)) = heard.recv() => self.heard(&mut spaces, &wanted, namespace, error).await?,
                changed = self.namespaces.changed() => changed.map_err(|_| Closed)?,
                () = tokio::time::sleep_until(again) => {
                    again = Instant::now() + backoff.wait();
                    let labels = &self.labels;
                    let (served, accept) = (&self.served, "application/json");
                    let listing = Listing { served, namespace: None, labels, accept, limit: 1 };
                    if self.cluster.newest_revision(&listing).await.is_ok() {
                        return self.give_up(&mut spaces, &BTreeSet::new()).await;
                    }
                }
            }
        }
    }

    /// Watches no other namespaces than these any more, and takes back what was said of those.
    async fn give_up(&self, spaces: &mut Spaces, wanted: &BTreeSet<String>) -> Result<(), Closed> {
        for namespace in spaces.end_others(wanted).await {
            let (scope, _) = self.scope(Some(namespace));
            scope.take_back_trouble().await.map_err(|_| Closed)?;
        }
        Ok(())
    }

    /// Waits until a namespace is reported, or may not be read.
    async fn heard(
        &self,
        spaces: &mut Spaces,
        wanted: &BTreeSet<String>,
        namespace: String,
        error: Option<ClusterError>,
    ) -> Result<(), Closed> {
        spaces.synced.insert(namespace.clone());
        match error {
            None => drop(spaces.denied.remove(&namespace)),
            Some(error) => drop(spaces.denied.insert(namespace, error)),
        }
        if wanted.iter().all(|namespace| spaces.synced.contains(namespace)) {
            self.say(spaces.denied.values().next()).await?;
            self.send.send(Seen::Synced(self.served.clone())).await.map_err(|_| Closed)?;
        }
        Ok(())
    }

    /// Says that belay may not read the kind, or that it may.
    async fn say(&self, denied: Option<&ClusterError>) -> Result<(), Closed> {
        let denied = denied.map(|error| format!("{error}; belay asks again when its rights may have changed"));
        self.send.send(Seen::Denied(self.served.clone(), denied)).await.map_err(|_| Closed)
    }
}

/// Nobody listens any more.
struct Closed;

/// The namespaces in which a kind is watched.
struct Spaces {
    /// Those that may not be read.
    denied: BTreeMap<String, ClusterError>,
    /// The kinds that are listed completely, or may not be read.
    synced: BTreeSet<String>,
    tasks: BTreeMap<String, Aborted>,
}

impl Spaces {
    /// Ends the watches of other namespaces than these, and returns the namespaces of those.
    async fn end_others(&mut self, wanted: &BTreeSet<String>) -> Vec<String> {
        self.synced.retain(|namespace| wanted.contains(namespace));
        self.denied.retain(|namespace, _| wanted.contains(namespace));
        let others: Vec<String> = self.tasks.keys().filter(|namespace| !wanted.contains(*namespace)).cloned().collect();
        for namespace in &others {
            if let Some(mut task) = self.tasks.remove(namespace) {
                task.0.abort();
                // It may be about to say something.
                drop((&mut task.0).await);
            }
        }
        others
    }

    fn begin(&mut self, wanted: &BTreeSet<String>, begin: impl Fn(&str) -> JoinHandle<()>) {
        for namespace in wanted {
            self.tasks.entry(namespace.clone()).or_insert_with(|| Aborted(begin(namespace)));
        }
    }
}

/// A task that ends when this is dropped.
struct Aborted(JoinHandle<()>);

impl Drop for Aborted {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Watches one namespace, also when it may not be read for a while.
async fn in_namespace(
    scope: Scope,
    mut synced: mpsc::Receiver<Option<String>>,
    told: mpsc::Sender<(String, Option<ClusterError>)>,
) {
    let namespace = scope.namespace.clone().unwrap_or_default();
    let mut backoff = until_rights_change();
    loop {
        let error = {
            let mut following = std::pin::pin!(scope.follow());
            loop {
                tokio::select! {
                    biased;
                    ended = &mut following => match ended {
                        WatchEnd::Closed => return,
                        WatchEnd::Denied(error) => break error,
                    },
                    Some(_) = synced.recv() => {
                        backoff = until_rights_change();
                        if told.send((namespace.clone(), None)).await.is_err() {
                            return;
                        }
                    }
                }
            }
        };
        if told.send((namespace.clone(), Some(error))).await.is_err() {
            return;
        }
        tokio::time::sleep(backoff.wait()).await;
    }
}

/// Returns the periods between checks of rights: from 5 s on, doubling to a minute.
fn until_rights_change() -> Backoff {
    Backoff::between(Duration::from_secs(5), Duration::from_mins(1))
}
