//! Watching the objects of a source: one watch a kind, by label, so that what others own costs nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::StreamExt as _;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use kube::api::ApiResource;
use kube::client::Body;
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt as _, watcher as watch_objects};
use kube::{Api, Client, Resource as _};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tower::BoxError;
use tracing::warn;

use super::credentials::without_credentials;
use super::read::named;
use super::whole::Whole;
use super::{Cluster, Served};
use belay_core::manifest::ObjectKey;

/// How many changes may wait to be looked at; a watch that fills it is not read further until there is room.
const WAITING: usize = 64;

/// How many objects a page of a watch's first list has: all of a page are in memory at once.
const PAGE: u32 = 100;

/// What a watch has seen.
#[derive(Clone, Debug, PartialEq)]
pub enum Seen {
    /// An object as it is now.
    Live(ObjectKey, Box<Value>),
    /// An object is gone.
    Gone(ObjectKey),
    /// All objects of this kind that there are have been told; from now on, changes.
    Synced(Served),
    /// The watch is in trouble, and tries again.
    Trouble(String),
}

/// The watches of one source. Dropping it ends them.
pub struct Watched {
    cluster: Cluster,
    labels: String,
    send: mpsc::Sender<Seen>,
    watches: BTreeMap<Served, tokio_util::sync::DropGuard>,
}

impl Cluster {
    /// Begins to watch objects with these labels; [`Watched::also`] names the kinds.
    #[must_use]
    pub fn watched(&self, labels: &str) -> (Watched, mpsc::Receiver<Seen>) {
        let (send, receive) = mpsc::channel(WAITING);
        (Watched { cluster: self.clone(), labels: labels.to_owned(), send, watches: BTreeMap::new() }, receive)
    }
}

impl Watched {
    /// Watches this kind too; does nothing where it is watched already.
    pub fn also(&mut self, served: &Served) {
        if self.watches.contains_key(served) {
            return;
        }
        let stop = CancellationToken::new();
        let watch = watch(self.cluster.clone(), served.clone(), self.labels.clone(), self.send.clone());
        let stopped = stop.clone();
        tokio::spawn(async move {
            tokio::select! {
                biased;
                () = stopped.cancelled() => {}
                () = watch => {}
            }
        });
        self.watches.insert(served.clone(), stop.drop_guard());
    }

    /// The watched resource that serves a kind, in whatever version.
    #[must_use]
    pub fn serving_group(&self, group: &str, kind: &str) -> Option<Served> {
        self.watches.keys().find(|served| served.kind == kind && served.group == group).cloned()
    }

    /// The watched resource that serves a kind.
    #[must_use]
    pub fn serving(&self, api_version: &str, kind: &str) -> Option<Served> {
        self.watches.keys().find(|served| served.kind == kind && served.api_version() == api_version).cloned()
    }

    /// Whether this kind is watched.
    #[must_use]
    pub fn has(&self, served: &Served) -> bool {
        self.watches.contains_key(served)
    }
}

async fn watch(cluster: Cluster, served: Served, labels: String, send: mpsc::Sender<Seen>) {
    let resource = ApiResource {
        group: served.group.clone(),
        version: served.version.clone(),
        api_version: served.api_version(),
        kind: served.kind.clone(),
        plural: served.resource.clone(),
    };
    let client = impatient(cluster.client.clone(), cluster.request_timeout);
    let api: Api<Whole> = Api::all_with(client, &resource);
    let config = watcher::Config::default().labels(&labels).page_size(PAGE);
    let mut events = watch_objects(api, config).backoff(Doubling::default()).boxed();
    let mut known: BTreeMap<ObjectKey, ()> = BTreeMap::new();
    let mut present: BTreeMap<ObjectKey, ()> = BTreeMap::new();
    while let Some(event) = events.next().await {
        cluster.note(event.as_ref().err().is_none_or(is_answer), cluster.clock.now());
        let told = match event {
            Ok(Event::Init) => {
                present.clear();
                Vec::new()
            }
            Ok(Event::InitApply(object)) => {
                let (key, value) = told(&served, object);
                present.insert(key.clone(), ());
                vec![Seen::Live(key, Box::new(value))]
            }
            Ok(Event::InitDone) => {
                let gone = known.keys().filter(|key| !present.contains_key(key)).cloned().map(Seen::Gone);
                let told = gone.chain([Seen::Synced(served.clone())]).collect();
                known = std::mem::take(&mut present);
                told
            }
            Ok(Event::Apply(object)) => {
                let (key, value) = told(&served, object);
                known.insert(key.clone(), ());
                vec![Seen::Live(key, Box::new(value))]
            }
            Ok(Event::Delete(object)) => {
                let (key, _) = told(&served, object);
                known.remove(&key);
                vec![Seen::Gone(key)]
            }
            Err(error) => {
                let error = without_credentials(&error);
                warn!(kind = served.kind, error, "watch in trouble");
                vec![Seen::Trouble(format!("watch {}: {error}", served.resource))]
            }
        };
        for seen in told {
            if send.send(seen).await.is_err() {
                return;
            }
        }
    }
}

/// Whether what a watch failed of is the word of a server that is there.
fn is_answer(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => matches!(error, kube::Error::Api(status) if status.code < 500),
        watcher::Error::WatchError(_) | watcher::Error::NoResourceVersion => true,
    }
}

/// A client whose requests end: a list that is not answered in time is given up, and so is a watch that does not begin.
/// Then the watch tries again, as after any other trouble.
pub(super) fn impatient(client: Client, limit: Duration) -> Client {
    let namespace = client.default_namespace().to_owned();
    let service = tower::service_fn(move |request: Request<Body>| {
        let client = client.clone();
        async move {
            let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
            let answer = async {
                let response = client.send(request).await?;
                if is_watch {
                    return Ok(response);
                }
                let (parts, body) = response.into_parts();
                let whole = body.collect().await?.to_bytes();
                Ok::<_, BoxError>(Response::from_parts(parts, Body::from(whole)))
            };
            let late = |_| BoxError::from(format!("no answer within {limit:?}"));
            tokio::time::timeout(limit, answer).await.map_err(late)?
        }
    });
    Client::new(service, namespace)
}

fn told(served: &Served, object: Whole) -> (ObjectKey, Value) {
    let key = ObjectKey {
        group: served.group.clone(),
        kind: served.kind.clone(),
        namespace: object.meta().namespace.clone().filter(|_| served.namespaced),
        name: object.meta().name.clone().unwrap_or_default(),
    };
    (key, named(object.value, served))
}

/// Waits that double from half a second to 30 s: without chance, so that a simulated run repeats.
#[derive(Clone, Debug)]
pub(super) struct Doubling(Duration);

impl Default for Doubling {
    fn default() -> Doubling {
        Doubling(Duration::from_millis(500))
    }
}

impl Iterator for Doubling {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let wait = self.0;
        self.0 = (self.0 * 2).min(Duration::from_secs(30));
        Some(wait)
    }
}

impl kube::runtime::utils::Backoff for Doubling {
    fn reset(&mut self) {
        *self = Doubling::default();
    }
}
