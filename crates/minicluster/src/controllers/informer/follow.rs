//! List, then watch, for ever.

use std::time::Duration;

use futures::TryStreamExt as _;
use kube::api::{ListParams, WatchParams};
use kube::core::{Request, Status, WatchEvent};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::{CacheChange, Cached, Extent, Informer, lock};
use crate::Random;
use crate::unmanaged::Unmanaged;

/// Objects per page of a list.
const PAGE: u32 = 500;
/// The longest time of a page.
const LIST_PATIENCE: Duration = Duration::from_secs(60);
/// A watch is asked to end after this and up to as much again, so that not all end at once.
const WATCH_SECONDS: u32 = 300;
/// A server that lets a watch run past its end by this much is not there any more.
const WATCH_GRACE: Duration = Duration::from_secs(10);
/// After a failure: the first pause, doubled up to the last.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LAST_PAUSE: Duration = Duration::from_secs(30);

#[derive(Deserialize)]
#[serde(bound = "K: DeserializeOwned")]
struct ListPage<K> {
    metadata: PageMeta,
    /// Null if there is nothing, on a real server.
    items: Option<Vec<K>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PageMeta {
    #[serde(default)]
    resource_version: String,
    #[serde(default, rename = "continue")]
    next: Option<String>,
}

/// The reason for which a watch ended.
enum FollowEnd {
    /// It ran its time; go on from the last version.
    Ran,
    /// The last version is too old, or makes no sense to the server: list again.
    Expired,
    /// Something went wrong; go on from the last version after a pause.
    Failed(kube::Error),
}

/// Lists and watches for ever.
pub async fn follow<K: Cached>(informer: &Informer<K>, client: &kube::Client, random: &Random) {
    let mut pause = Pause(FIRST_PAUSE);
    loop {
        let mut version = match list(informer, client).await {
            Ok(version) => version,
            Err(error) => {
                tracing::warn!(path = informer.path(), %error, "a list failed; trying again");
                pause.take().await;
                continue;
            }
        };
        informer.0.synced.send_replace(true);
        loop {
            let before = version.clone();
            let end = watch(informer, client, random, &mut version).await;
            if version != before {
                pause.reset();
            }
            match end {
                FollowEnd::Ran => pause.reset(),
                FollowEnd::Expired => {
                    pause.take().await;
                    break;
                }
                FollowEnd::Failed(error) => {
                    tracing::debug!(path = informer.path(), %error, "a watch broke; taking it up again");
                    pause.take().await;
                }
            }
        }
    }
}

/// Reads all objects, page by page; returns the version that the watch goes on from.
async fn list<K: Cached>(informer: &Informer<K>, client: &kube::Client) -> Result<String, kube::Error> {
    let mut objects: Vec<K> = Vec::new();
    let mut params = ListParams::default().limit(PAGE);
    params.field_selector = selector(informer);
    let version = loop {
        let request = Request::new(informer.path());
        let request = match informer.0.extent {
            Extent::Whole => request.list(&params),
            Extent::Metadata => request.list_metadata(&params),
        };
        let request = request.map_err(kube::Error::BuildRequest)?;
        let answer = tokio::time::timeout(LIST_PATIENCE, client.request::<ListPage<Unmanaged<K>>>(request)).await;
        let page = match answer {
            Ok(Ok(page)) => page,
            Ok(Err(kube::Error::Api(status))) if status.code == 410 && params.continue_token.is_some() => {
                // The list took longer than the server remembers: begin again.
                objects.clear();
                params.continue_token = None;
                continue;
            }
            Ok(Err(error)) => return Err(error),
            Err(_) => return Err(kube::Error::Service("no answer to a list within a minute".into())),
        };
        objects.extend(page.items.into_iter().flatten().map(|object| trimmed(object.0)));
        match page.metadata.next.filter(|token| !token.is_empty()) {
            Some(token) => params.continue_token = Some(token),
            None => break page.metadata.resource_version,
        }
    };
    let changes = lock(&informer.0.cache).replace(objects, version.parse().unwrap_or(0));
    informer.announce(&changes);
    Ok(version)
}

/// Follows one watch to its end; `version` is kept at the last event's.
async fn watch<K: Cached>(
    informer: &Informer<K>,
    client: &kube::Client,
    random: &Random,
    version: &mut String,
) -> FollowEnd {
    let seconds = WATCH_SECONDS + u32::try_from(random.below(u64::from(WATCH_SECONDS))).unwrap_or(0);
    let limit = Duration::from_secs(u64::from(seconds)) + WATCH_GRACE;
    match tokio::time::timeout(limit, watch_for(informer, client, seconds, version)).await {
        Ok(end) => end,
        Err(_) => FollowEnd::Ran,
    }
}

async fn watch_for<K: Cached>(
    informer: &Informer<K>,
    client: &kube::Client,
    seconds: u32,
    version: &mut String,
) -> FollowEnd {
    let mut params = WatchParams::default().timeout(seconds);
    params.field_selector = selector(informer);
    let request = Request::new(informer.path());
    let request = match informer.0.extent {
        Extent::Whole => request.watch(&params, version),
        Extent::Metadata => request.watch_metadata(&params, version),
    };
    let request = match request {
        Ok(request) => request,
        Err(error) => return FollowEnd::Failed(kube::Error::BuildRequest(error)),
    };
    let events = match client.request_events::<Unmanaged<K>>(request).await {
        Ok(events) => events,
        Err(error) => return ended(error),
    };
    let mut events = std::pin::pin!(events);
    loop {
        match events.try_next().await {
            Ok(Some(WatchEvent::Error(status))) => return ended(kube::Error::Api(status)),
            Ok(Some(WatchEvent::Bookmark(bookmark))) => {
                *version = bookmark.metadata.resource_version;
                lock(&informer.0.cache).reached(version.parse().unwrap_or(0));
            }
            Ok(Some(event)) => take(informer, event, version),
            Ok(None) => return FollowEnd::Ran,
            Err(error) => return ended(error),
        }
    }
}

fn take<K: Cached>(informer: &Informer<K>, event: WatchEvent<Unmanaged<K>>, version: &mut String) {
    let mut changes: Vec<CacheChange<K>> = Vec::with_capacity(1);
    match event {
        WatchEvent::Added(Unmanaged(object)) | WatchEvent::Modified(Unmanaged(object)) => {
            let object = trimmed(object);
            note(version, &object);
            lock(&informer.0.cache).put(object, &mut changes);
        }
        WatchEvent::Deleted(Unmanaged(object)) => {
            note(version, &object);
            lock(&informer.0.cache).remove(&object, &mut changes);
        }
        WatchEvent::Bookmark(_) | WatchEvent::Error(_) => {}
    }
    informer.announce(&changes);
}

fn selector<K: Cached>(informer: &Informer<K>) -> Option<String> {
    (!informer.0.fields.is_empty()).then(|| informer.0.fields.to_owned())
}

fn note<K: Cached>(version: &mut String, object: &K) {
    if let Some(of_object) = &object.metadata().resource_version {
        version.clone_from(of_object);
    }
}

fn ended(error: kube::Error) -> FollowEnd {
    match error {
        kube::Error::Api(status) if is_expired(&status) => FollowEnd::Expired,
        error => FollowEnd::Failed(error),
    }
}

fn is_expired(status: &Status) -> bool {
    matches!(status.code, 400 | 410 | 504) || status.reason == "Expired" || status.reason == "Gone"
}

fn trimmed<K: Cached>(mut object: K) -> K {
    object.trim();
    object
}

struct Pause(Duration);

impl Pause {
    async fn take(&mut self) {
        tokio::time::sleep(self.0).await;
        self.0 = (self.0 * 2).min(LAST_PAUSE);
    }

    fn reset(&mut self) {
        self.0 = FIRST_PAUSE;
    }
}
