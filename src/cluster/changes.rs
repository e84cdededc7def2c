//! The objects of a kind in one scope, everywhere or in a namespace: a list, then changes, and a new list whenever
//! changes were missed.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http_body_util::{BodyExt as _, Limited};
use jiff::{SignedDuration, Timestamp};
use kube::client::Body;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout, timeout_at};
use tracing::{debug, info, warn};

use super::call::{Purpose, get, refusal};
use super::credentials::without_credentials;
use super::items::{BEGINNING, ITEM_LIMIT, Item};
use super::object_text::{ObjectHead, TextRoom, WatchLine, read_value, too_large};
use super::pages::{Listing, Pages};
use super::served::escape;
use super::{Backoff, Cluster, ClusterError, LoggedTrouble, ObjectText, Served};
use belay_core::manifest::ObjectKey;

/// The observation of a watch.
#[derive(Clone, Debug, PartialEq)]
pub enum Seen {
    /// An object as it is now.
    Live(ObjectKey, ObjectText),
    /// An object that is too large to be read.
    TooLarge(ObjectKey, ClusterError),
    /// An object is gone.
    Gone(ObjectKey),
    /// All existing objects of this kind have been reported; changes follow.
    Synced(Served),
    /// A list, by its address, is slow, in these words; or, with `None`, it is not any more.
    Slow(String, Option<String>),
    /// A watch, by its address, fails and tries again; with `None`, it has recovered.
    Trouble(String, Option<ClusterError>),
    /// belay may not read this kind, and why; or, with `None`, it may.
    Denied(Served, Option<String>),
}

/// The number of objects of a page of the first list: all of a page are in memory at once.
const PAGE: usize = 100;
/// The length of one watch, as the server is asked; it ends it then, and the next one begins.
const LASTS: Duration = Duration::from_secs(290);
/// An API server that did not answer for so long may have been restored from a snapshot meanwhile. By then others may have written
/// so much that its revisions don't tell.
const RESTORE: SignedDuration = SignedDuration::from_secs(5);
/// A watch that ends sooner is waited after before the next one.
const SOON: Duration = Duration::from_secs(1);
/// A list within this time after the one before is waited for.
const SELDOM: Duration = Duration::from_mins(1);
/// The number of objects of a kind that a watch knows at most: the names of so many take some 50 MiB.
const OBJECTS: usize = 200_000;
/// The waits after a scope had too many objects: each list of so many is dear.
const TOO_MANY_WAITS: Backoff = Backoff::between(Duration::from_mins(1), Duration::from_mins(10));
/// The longest revision, in bytes; it stands in the address of the next watch.
const REVISION_BYTES: usize = 256;

/// The subject of the watch.
#[derive(Clone)]
pub(super) struct Scope {
    pub cluster: Cluster,
    pub served: Served,
    pub labels: String,
    /// Only in this namespace.
    pub namespace: Option<String>,
    /// The reported objects, of all scopes of the kind.
    pub known: Arc<Mutex<BTreeSet<ObjectKey>>>,
    /// The receiver of objects.
    pub send: mpsc::Sender<Seen>,
    /// The room for what is told there.
    pub room: TextRoom,
    /// Where it is told that all of them were.
    pub synced: mpsc::Sender<Option<String>>,
}

/// The reason for which a scope is watched no longer.
#[derive(Debug)]
pub(super) enum WatchEnd {
    /// Nobody listens.
    Closed,
    /// belay may not read there.
    Denied(ClusterError),
}

/// The end of one watch.
enum Over {
    Ended(WatchEnd),
    /// After its time; whether anything was heard, and be it a bookmark.
    InTime {
        heard: bool,
    },
    /// Before its time, without an error.
    Early,
    /// The changes since the revision can't be known any more.
    Outdated,
    Trouble(ClusterError),
    /// There are more objects than a watch may know.
    TooMany(ClusterError),
}

/// Trouble in a row: told when it begins, or becomes another, and when it is over.
#[derive(Default)]
struct WatchFault {
    backoff: Backoff,
    /// The waits for fewer objects, until a watch has lasted without too many.
    too_many: Option<Backoff>,
    logged: LoggedTrouble,
    times: u32,
    since: Option<Instant>,
}

impl Scope {
    /// Follows the scope until nobody listens, or belay may not read there.
    pub(super) async fn follow(&self) -> WatchEnd {
        let mut trouble = WatchFault::default();
        let ended = self.follow_in(&mut trouble).await;
        if trouble.since.is_some() && matches!(ended, WatchEnd::Denied(_)) && self.take_back_trouble().await.is_err() {
            return WatchEnd::Closed;
        }
        ended
    }

    /// Takes back what was said of trouble.
    pub(super) async fn take_back_trouble(&self) -> Result<(), WatchEnd> {
        self.send.send(Seen::Trouble(self.name(), None)).await.map_err(|_| WatchEnd::Closed)
    }

    async fn follow_in(&self, trouble: &mut WatchFault) -> WatchEnd {
        let mut again = Backoff::default();
        loop {
            let began = Instant::now();
            let followed = match self.list().await {
                Ok(revision) => {
                    if let Err(ended) = self.is_over(trouble).await {
                        return ended;
                    }
                    let followed = self.changes_since(revision, trouble).await;
                    match &followed {
                        Ok(()) if began.elapsed() < SELDOM => tokio::time::sleep(again.wait()).await,
                        _ => again.reset(),
                    }
                    followed
                }
                Err(Over::Ended(ended)) => Err(ended),
                Err(Over::Trouble(error)) => self.wait_out(trouble, &error).await,
                Err(Over::TooMany(error)) => self.wait_for_fewer(trouble, &error).await,
                Err(Over::InTime { .. } | Over::Early | Over::Outdated) => Ok(()),
            };
            if let Err(ended) = followed {
                return ended;
            }
        }
    }

    fn listing(&self) -> Listing<'_> {
        let (served, namespace) = (&self.served, self.namespace.as_deref());
        Listing { served, namespace, labels: &self.labels, accept: "application/json", limit: PAGE }
    }

    /// Tells of all objects that there are, and of those that are gone. The revision as of which that is so.
    async fn list(&self) -> Result<String, Over> {
        let mut pages = Pages::new(self.listing());
        let listed = self.list_pages(&mut pages).await;
        if pages.slow().is_some() {
            self.tell(Seen::Slow(self.name(), None)).await?;
        }
        listed
    }

    async fn list_pages(&self, pages: &mut Pages<'_>) -> Result<String, Over> {
        let (mut present, elsewhere) = (BTreeSet::new(), self.count_elsewhere());
        let mut revision = String::new();
        let what = format!("list {}", self.served.resource);
        while let Some(page) = pages.next(&self.cluster, |_| true).await.map_err(sorted)? {
            for (key, object) in page.kept {
                let key = self.in_scope(key);
                present.insert(key.clone());
                self.check_number(&what, present.len() + elsewhere)?;
                self.tell_object(key, object).await?;
            }
            revision = page.revision;
            if let Some(slow) = pages.slow() {
                self.tell(Seen::Slow(self.name(), Some(slow.to_owned()))).await?;
            }
        }
        check_revision(&what, &revision)?;
        let gone = self.gone(&what, present)?;
        for key in gone {
            self.tell(Seen::Gone(key)).await?;
        }
        self.synced.send(self.namespace.clone()).await.map_err(|_| Over::Ended(WatchEnd::Closed))?;
        Ok(revision)
    }

    /// Notes what is present, and returns what was known and is not. Another namespace may have been listed meanwhile, and both
    /// have too many.
    fn gone(&self, what: &str, mut present: BTreeSet<ObjectKey>) -> Result<Vec<ObjectKey>, Over> {
        let before = present.len();
        present.retain(|key| !key.name.is_empty());
        let mut known = self.known();
        self.check_number(what, before + self.count_elsewhere_of(&known))?;
        if present.len() < before {
            // An object whose name was not read may be any of those that are known, as far as there is room for them.
            if known.len() + present.len() > OBJECTS {
                known.clear();
            }
            known.append(&mut present);
            return Ok(Vec::new());
        }
        let here = |key: &&ObjectKey| self.namespace.is_none() || key.namespace == self.namespace;
        let gone = known.iter().filter(here).filter(|key| !present.contains(key)).cloned().collect();
        let elsewhere = |key: &ObjectKey| self.namespace.is_some() && key.namespace != self.namespace;
        known.retain(|key| elsewhere(key) || present.contains(key));
        known.append(&mut present);
        Ok(gone)
    }

    /// Tells of what changes from a revision on, until it has to be listed again.
    async fn changes_since(&self, mut revision: String, trouble: &mut WatchFault) -> Result<(), WatchEnd> {
        loop {
            let (began, from) = (Instant::now(), self.cluster.clock.steady());
            match self.watch(&mut revision, trouble).await {
                Over::Ended(ended) => return Err(ended),
                Over::Outdated => return Ok(()),
                Over::TooMany(error) => return self.wait_for_fewer(trouble, &error).await,
                Over::InTime { heard } => {
                    trouble.too_many = None;
                    if heard {
                        continue;
                    }
                }
                Over::Early if began.elapsed() < SOON => tokio::time::sleep(trouble.backoff.wait()).await,
                Over::Early => {}
                Over::Trouble(error) => self.wait_out(trouble, &error).await?,
            }
            if !self.may_go_on(&revision, from, trouble).await? {
                return Ok(());
            }
        }
    }

    /// Returns true if a watch may go on from a revision, as soon as the API server says so. A server whose etcd was restored knows
    /// older revisions only, lets a watch wait for newer ones, and has other objects at the revisions that are known here.
    async fn may_go_on(&self, revision: &str, from: Timestamp, trouble: &mut WatchFault) -> Result<bool, WatchEnd> {
        loop {
            if self.cluster.outages().within(from, self.cluster.clock.steady()) >= RESTORE {
                return Ok(false);
            }
            match self.cluster.newest_revision(&self.listing()).await.map_err(sorted) {
                Ok(newest) if is_older(&newest, revision) => {
                    info!(
                        kind = self.served.kind,
                        revision, newest, "the API server's revisions went back, as after a restore: listing again"
                    );
                    return Ok(false);
                }
                Ok(_) => return Ok(true),
                Err(Over::Ended(ended)) => return Err(ended),
                Err(Over::Trouble(error)) => self.wait_out(trouble, &error).await?,
                Err(_) => return Ok(false),
            }
        }
    }

    /// Returns one watch from a revision on; that of its newest event is the revision then.
    async fn watch(&self, revision: &mut String, trouble: &mut WatchFault) -> Over {
        let what = format!("watch {}", self.served.resource);
        let purpose = Purpose { what: &what, secret: self.served.kind == "Secret" };
        let away = |message: String| Over::Trouble(ClusterError::silence(&what, message));
        let began = Instant::now();
        let mut body = match self.begin(purpose, revision).await {
            Ok(body) => body,
            Err(over) => return over,
        };
        let end = began + LASTS + self.cluster.request_timeout;
        let (mut buffer, mut heard, mut is_too_long) = (Vec::new(), false, false);
        loop {
            let frame = match timeout_at(end, body.frame()).await {
                Err(_) => return away("the connection is dead".to_owned()),
                Ok(None) if began.elapsed() + SOON * 5 < LASTS => return Over::Early,
                Ok(None) => return Over::InTime { heard },
                Ok(Some(Err(error))) => return away(format!("it broke off: {}", without_credentials(&error))),
                Ok(Some(Ok(frame))) => frame,
            };
            // A watch that never pauses is over in time, too.
            if Instant::now() >= end {
                return Over::InTime { heard };
            }
            let Some(bytes) = frame.data_ref() else { continue };
            for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
                is_too_long |= buffer.len() + piece.len() > ITEM_LIMIT;
                if is_too_long {
                    buffer.truncate(BEGINNING);
                    buffer.shrink_to_fit();
                } else {
                    buffer.extend_from_slice(piece);
                }
                if !piece.ends_with(b"\n") {
                    continue;
                }
                let heard_it = if std::mem::take(&mut is_too_long) {
                    self.hear_too_long(&buffer).await
                } else {
                    self.hear(purpose, &buffer, revision).await
                };
                if let Err(over) = heard_it {
                    return over;
                }
                if let Err(ended) = self.is_over(trouble).await {
                    return Over::Ended(ended);
                }
                heard = true;
                buffer.clear();
                buffer.shrink_to(64 * 1024);
            }
        }
    }

    async fn begin(&self, purpose: Purpose<'_>, revision: &str) -> Result<Body, Over> {
        let path = format!(
            "{}?watch=true&labelSelector={}&resourceVersion={}&allowWatchBookmarks=true&timeoutSeconds={}",
            self.served.path(self.namespace.as_deref(), ""),
            escape(&self.labels),
            escape(revision),
            LASTS.as_secs()
        );
        let request = get(&path).build(purpose).map_err(Over::Trouble)?;
        let exchange = async {
            let answer = self.cluster.send(request).await?;
            Ok((answer.status().as_u16(), answer.into_body()))
        };
        let (code, body) = self.cluster.in_time(purpose, exchange).await.map_err(Over::Trouble)?;
        match code {
            200..300 => Ok(body),
            410 => Err(Over::Outdated),
            _ => {
                let body = timeout(self.cluster.request_timeout, Limited::new(body, 64 * 1024).collect()).await;
                let body = body.ok().and_then(Result::ok).map(|body| body.to_bytes()).unwrap_or_default();
                Err(sorted(self.cluster.blame(refusal(purpose, code, &body)).await))
            }
        }
    }

    /// Takes one line of a watch.
    async fn hear(&self, purpose: Purpose<'_>, line: &[u8], revision: &mut String) -> Result<(), Over> {
        let no_json = |_| Over::Trouble(ClusterError::away(purpose.what, "a line of it is not JSON"));
        let WatchLine { kind, object } = serde_json::from_slice(line).map_err(no_json)?;
        let text = object.get().as_bytes();
        if kind == "ERROR" {
            return Err(self.ended_by(purpose, text).await);
        }
        let head = ObjectHead::of(text);
        check_revision(purpose.what, &head.revision)?;
        if is_older(&head.revision, revision) {
            return Err(Over::Outdated);
        }
        let key = self.in_scope(head.key(&self.served));
        match kind.as_str() {
            "ADDED" | "MODIFIED" => {
                let object = ObjectText::of_item(Item::Whole(text), &self.served, &key).map_err(no_json)?;
                self.add_known(purpose.what, &key)?;
                self.tell_object(key, object).await?;
            }
            "DELETED" => {
                self.known().remove(&key);
                self.tell(Seen::Gone(key)).await?;
            }
            _ => {}
        }
        if !head.revision.is_empty() {
            *revision = head.revision;
        }
        Ok(())
    }

    /// Takes the beginning of a line that is too long. The object is still there.
    async fn hear_too_long(&self, line: &[u8]) -> Result<(), Over> {
        let key = self.in_scope(ObjectHead::of_line(line).key(&self.served));
        let error = too_large(format!("read {key}"), "its text is too long");
        self.tell(Seen::TooLarge(key, error)).await
    }

    /// Returns how a watch is over that the API server ends with this status.
    async fn ended_by(&self, purpose: Purpose<'_>, status: &[u8]) -> Over {
        let code = read_value(status).unwrap_or_default()["code"].as_u64();
        let code = code.and_then(|code| code.try_into().ok()).unwrap_or(500);
        debug!(kind = self.served.kind, code, "the watch ends");
        match code {
            410 => Over::Outdated,
            code => sorted(self.cluster.blame(refusal(purpose, code, status)).await),
        }
    }

    async fn tell_object(&self, key: ObjectKey, object: Result<ObjectText, ClusterError>) -> Result<(), Over> {
        self.tell(match object {
            Ok(object) => Seen::Live(key, object.in_room(&self.room).await),
            Err(error) => Seen::TooLarge(key, error),
        })
        .await
    }

    async fn tell(&self, seen: Seen) -> Result<(), Over> {
        self.send.send(seen).await.map_err(|_| Over::Ended(WatchEnd::Closed))
    }

    fn in_scope(&self, key: ObjectKey) -> ObjectKey {
        ObjectKey { namespace: key.namespace.filter(|_| self.served.namespaced), ..key }
    }

    fn known(&self) -> MutexGuard<'_, BTreeSet<ObjectKey>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an object to those that are known, if there is room for it.
    fn add_known(&self, what: &str, key: &ObjectKey) -> Result<(), Over> {
        let mut known = self.known();
        if !known.contains(key) {
            self.check_number(what, known.len() + 1)?;
            known.insert(key.clone());
        }
        Ok(())
    }

    /// Returns how many objects are known of other scopes than this one.
    fn count_elsewhere(&self) -> usize {
        self.count_elsewhere_of(&self.known())
    }

    fn count_elsewhere_of(&self, known: &BTreeSet<ObjectKey>) -> usize {
        known.iter().filter(|key| self.namespace.is_some() && key.namespace != self.namespace).count()
    }

    /// Refuses more objects than may be known, of all scopes of the kind together.
    fn check_number(&self, what: &str, objects: usize) -> Result<(), Over> {
        let of = if self.namespace.is_some() { "its namespaces have" } else { "it has" };
        match objects {
            ..=OBJECTS => Ok(()),
            _ => {
                let error = ClusterError::away(what, format!("{of} more than {OBJECTS} objects"));
                Err(Over::TooMany(error.of_ready_server()))
            }
        }
    }

    /// Tells of trouble where it is news, and waits.
    async fn wait_out(&self, trouble: &mut WatchFault, error: &ClusterError) -> Result<(), WatchEnd> {
        self.tell_trouble(trouble, error).await?;
        tokio::time::sleep(trouble.backoff.wait()).await;
        Ok(())
    }

    /// Tells of too many objects where it is news, and waits for fewer.
    async fn wait_for_fewer(&self, trouble: &mut WatchFault, error: &ClusterError) -> Result<(), WatchEnd> {
        self.tell_trouble(trouble, error).await?;
        let wait = trouble.too_many.get_or_insert(TOO_MANY_WAITS).wait();
        tokio::time::sleep(wait).await;
        Ok(())
    }

    async fn tell_trouble(&self, trouble: &mut WatchFault, error: &ClusterError) -> Result<(), WatchEnd> {
        trouble.since.get_or_insert_with(Instant::now);
        trouble.times = trouble.times.saturating_add(1);
        if trouble.logged.is_news(error) {
            warn!(kind = self.served.kind, address = self.name(), message = %error, "watch in trouble, trying again");
        } else {
            debug!(kind = self.served.kind, message = %error, "watch in trouble");
        }
        self.send.send(Seen::Trouble(self.name(), Some(error.clone()))).await.map_err(|_| WatchEnd::Closed)
    }

    async fn is_over(&self, trouble: &mut WatchFault) -> Result<(), WatchEnd> {
        if let Some(since) = trouble.since.filter(|_| trouble.too_many.is_none()) {
            let (kind, seconds) = (&self.served.kind, since.elapsed().as_secs());
            info!(kind, failures = trouble.times, seconds, "watched again");
            *trouble = WatchFault::default();
            self.take_back_trouble().await?;
        }
        trouble.backoff.reset();
        Ok(())
    }

    /// Returns the name of the watch's subject, which no other watch of the source has.
    fn name(&self) -> String {
        self.served.path(self.namespace.as_deref(), "")
    }
}

fn sorted(error: ClusterError) -> Over {
    match error {
        ClusterError::Denied { .. } => Over::Ended(WatchEnd::Denied(error)),
        error => Over::Trouble(error),
    }
}

/// Refuses a revision that no request could name.
fn check_revision(what: &str, revision: &str) -> Result<(), Over> {
    match revision.len() {
        ..=REVISION_BYTES => Ok(()),
        bytes => Err(Over::Trouble(ClusterError::away(what, format!("the answer names a revision of {bytes} bytes")))),
    }
}

/// Whether a revision is before another one. Those that are no numbers tell nothing.
fn is_older(one: &str, other: &str) -> bool {
    match (one.parse::<u64>(), other.parse::<u64>()) {
        (Ok(one), Ok(other)) => one < other,
        _ => false,
    }
}

#[cfg(test)]
mod tests;
