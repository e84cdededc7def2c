//! Lists, page by page: read item by item, so that objects of others cost no memory, in pages that become smaller if
//! the objects are large.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::Deserialize;
use tokio::time::Instant;
use tracing::warn;

use super::call::{Purpose, get_as};
use super::items::Items;
use super::object_text::ObjectHead;
use super::served::escape;
use super::{Cluster, ClusterError, ObjectText, Served};
use belay_core::manifest::ObjectKey;

/// The largest number of objects of one page of a list.
const PAGE: usize = 500;
/// How many bytes a page may have. One that has more is given up, and asked for again with fewer objects.
const PAGE_BYTES: usize = 4 * 1024 * 1024;
/// How many objects a list has at most: a server that always names a next page would never end. A page counts for as many as
/// [`PAGE_COUNTS`] at least.
const LIST: usize = 1_000_000;
const PAGE_COUNTS: usize = 100;
/// The number of pages of a list that may be without any object: no API server sends one before the last.
const EMPTY_PAGES: usize = 50;
/// The most bytes of the objects of a list that are all kept until its end.
const LIST_BYTES: usize = 128 << 20;
/// The time from which on a list counts as slow; that is told again after twice the time.
const SLOW: Duration = Duration::from_secs(30);
/// The cost of a request besides its answer, in bytes of an answer: the saving of a list over reading one by one.
const REQUEST_COSTS: u64 = 64 * 1024;

/// The subject of a list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Listing<'a> {
    pub served: &'a Served,
    /// In this namespace, or everywhere.
    pub namespace: Option<&'a str>,
    /// A selector; empty for all.
    pub labels: &'a str,
    /// The form of the answer.
    pub accept: &'static str,
    /// The largest number of objects of the first page.
    pub limit: usize,
}

/// A page.
#[derive(Debug, Default)]
pub(super) struct Page {
    /// The objects that were kept of it, or the reason for one that is too large to be read. Its name is empty if it is not known.
    pub kept: Vec<(ObjectKey, Result<ObjectText, ClusterError>)>,
    /// Where the next one begins; empty where there is none.
    pub token: String,
    /// The revision of the list.
    pub revision: String,
    /// The number of objects behind it, if the server says so.
    pub remaining: u64,
    /// Its numbers of objects and bytes.
    pub items: usize,
    pub bytes: usize,
    /// The number of bytes of the kept objects.
    pub kept_bytes: usize,
}

/// The result of a request for a page.
pub(super) enum PageRequest {
    Page(Page),
    /// It has too many bytes, after so many objects.
    TooLarge(usize),
}

/// The metadata of a list.
#[derive(Default, Deserialize)]
struct ListMetadata {
    #[serde(default, rename = "continue")]
    token: String,
    #[serde(default, rename = "resourceVersion")]
    revision: String,
    #[serde(default, rename = "remainingItemCount")]
    remaining: Option<u64>,
}

#[derive(Default, Deserialize)]
struct ListHead {
    #[serde(default)]
    metadata: ListMetadata,
}

impl<'a> Listing<'a> {
    /// Whole objects of a kind.
    pub(super) fn of(served: &'a Served, namespace: Option<&'a str>, labels: &'a str) -> Listing<'a> {
        Listing { served, namespace, labels, accept: "application/json", limit: PAGE }
    }

    fn path(&self, limit: usize, token: &str) -> String {
        let path = self.served.path(self.namespace, "");
        format!("{path}?limit={limit}&labelSelector={}&continue={}", escape(self.labels), escape(token))
    }
}

/// A list that is being read.
pub(super) struct Pages<'a> {
    listing: Listing<'a>,
    limit: usize,
    token: String,
    over: bool,
    /// The count of the objects that have come, as [`LIST`] limits it.
    seen: usize,
    progress: ListProgress,
}

/// The progress of a list.
struct ListProgress {
    began: Instant,
    pages: usize,
    objects: usize,
    /// When it is told next that it is slow.
    told_at: Instant,
    /// The words about a list that is slow, as of the last page but the end.
    slow: Option<String>,
}

impl ListProgress {
    fn new() -> ListProgress {
        let began = Instant::now();
        ListProgress { began, pages: 0, objects: 0, told_at: began + SLOW, slow: None }
    }

    /// Notes a page, and says so where the list is slow.
    fn note(&mut self, listing: &Listing<'_>, page: &Page) {
        (self.pages, self.objects) = (self.pages + 1, self.objects + page.items);
        let took = self.began.elapsed();
        if took < SLOW || page.token.is_empty() {
            return;
        }
        let (pages, objects, seconds) = (self.pages, self.objects, took.as_secs());
        let behind =
            if page.remaining > 0 { format!(" of {}", objects as u64 + page.remaining) } else { String::new() };
        let place = listing.served.path(listing.namespace, "");
        let message = format!(
            "the API server is slow to list {place}: {pages} pages with {objects}{behind} objects within {seconds} s; belay goes on"
        );
        if Instant::now() >= self.told_at {
            self.told_at = self.began + 2 * took;
            warn!(kind = listing.served.kind, message, "a list is slow");
        }
        self.slow = Some(message);
    }
}

/// Says that a list is slow, and takes it back when the list ends, however it ends.
struct SlowList<F: Fn(Option<&str>)> {
    say: F,
    is_said: bool,
}

impl<F: Fn(Option<&str>)> SlowList<F> {
    fn note(&mut self, slow: Option<&str>) {
        if slow.is_some() {
            self.is_said = true;
            (self.say)(slow);
        }
    }
}

impl<F: Fn(Option<&str>)> Drop for SlowList<F> {
    fn drop(&mut self) {
        if self.is_said {
            (self.say)(None);
        }
    }
}

impl<'a> Pages<'a> {
    pub(super) fn new(listing: Listing<'a>) -> Pages<'a> {
        Pages {
            limit: listing.limit,
            listing,
            token: String::new(),
            over: false,
            seen: 0,
            progress: ListProgress::new(),
        }
    }

    /// Returns the words about a list that is slow, or was until its end; `None` of any other.
    pub(super) fn slow(&self) -> Option<&str> {
        self.progress.slow.as_deref()
    }

    /// Returns the next page, with those of its objects that `keep` wants; `None` behind the last.
    ///
    /// # Errors
    /// Fails when the API server does not answer, or does not allow it.
    pub(super) async fn next(
        &mut self,
        cluster: &Cluster,
        keep: impl Fn(&ObjectKey) -> bool + Send + Sync,
    ) -> Result<Option<Page>, ClusterError> {
        while !self.over {
            match cluster.page(&self.listing, self.limit, &self.token, &keep).await? {
                PageRequest::TooLarge(items) => self.limit = (self.limit / 2).min(items / 2).max(1),
                PageRequest::Page(page) => {
                    // The next is like this one, as far as anybody knows.
                    let full = page.bytes.saturating_mul(self.limit) / page.items.max(1);
                    if full > PAGE_BYTES {
                        self.limit = (self.limit * (PAGE_BYTES / 2) / full).max(1);
                    } else if full < PAGE_BYTES / 4 {
                        self.limit = (self.limit * 2).min(self.listing.limit);
                    }
                    self.token.clone_from(&page.token);
                    self.over = page.token.is_empty();
                    self.seen += if page.items == 0 { LIST / EMPTY_PAGES } else { page.items.max(PAGE_COUNTS) };
                    if self.seen > LIST && !self.over {
                        let what = format!("list {}", self.listing.served.path(self.listing.namespace, ""));
                        let error = ClusterError::away(what, format!("it has no end: more than {LIST} objects"));
                        return Err(cluster.blame(error).await);
                    }
                    self.progress.note(&self.listing, &page);
                    return Ok(Some(page));
                }
            }
        }
        Ok(None)
    }
}

impl Cluster {
    /// A list, page by page, in the form that is asked for. The result of `make` is kept of each object; an object that is
    /// too large to be read, or that has no name, is left out.
    pub(super) async fn pages<T>(
        &self,
        listing: Listing<'_>,
        make: impl Fn(ObjectKey, ObjectText) -> T,
    ) -> Result<Vec<T>, ClusterError> {
        let mut pages = Pages::new(listing);
        let (mut found, mut bytes) = (Vec::new(), 0_usize);
        while let Some(page) = pages.next(self, |_| true).await? {
            bytes += page.kept_bytes;
            if bytes > LIST_BYTES {
                let what = format!("list {}", listing.served.path(listing.namespace, ""));
                let error = ClusterError::away(what, format!("its objects have more than {} MiB", LIST_BYTES >> 20));
                return Err(self.blame(error).await);
            }
            for (key, object) in page.kept {
                match object {
                    // Its path would be that of all objects of its kind.
                    Ok(_) if key.name.is_empty() => {
                        warn!(kind = key.kind, "an object without a name is left out of a list")
                    }
                    Ok(object) => found.push(make(key, object)),
                    Err(error) => warn!(object = %key, %error, "left out of a list"),
                }
            }
        }
        Ok(found)
    }

    /// Returns a list of everywhere, or, if belay may not list that, of those of `namespaces` that it may list.
    ///
    /// # Errors
    /// Fails when the API server does not answer, or does not allow any of it.
    pub(super) async fn pages_where_allowed<T>(
        &self,
        everywhere: Listing<'_>,
        namespaces: &BTreeSet<String>,
        make: impl Fn(ObjectKey, ObjectText) -> T,
    ) -> Result<Vec<T>, ClusterError> {
        let denied = match self.pages(everywhere, &make).await {
            Err(denied @ ClusterError::Denied { .. }) if everywhere.served.namespaced => denied,
            answer => return answer,
        };
        let (mut found, mut allowed) = (Vec::new(), false);
        for namespace in namespaces {
            match self.pages(Listing { namespace: Some(namespace), ..everywhere }, &make).await {
                Ok(objects) => {
                    allowed = true;
                    found.extend(objects);
                }
                Err(ClusterError::Denied { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        if allowed { Ok(found) } else { Err(denied) }
    }

    /// Returns the live objects among `wanted`, as far as listing their kind is cheaper than reading them one by one;
    /// the second value has those of them that were not found. `say` hears after each page of a slow list how far it is, and
    /// `None` when that list ends, or is given up.
    ///
    /// # Errors
    /// Fails when the API server does not answer, or does not allow it.
    pub async fn list_wanted(
        &self,
        served: &Served,
        namespace: Option<&str>,
        wanted: &BTreeSet<ObjectKey>,
        say: impl Fn(Option<&str>),
    ) -> Result<(Vec<(ObjectKey, Result<ObjectText, ClusterError>)>, Vec<ObjectKey>), ClusterError> {
        let mut pages = Pages::new(Listing::of(served, namespace, ""));
        let mut slow = SlowList { say, is_said: false };
        let mut missing = wanted.clone();
        let mut found = Vec::new();
        let (mut items, mut bytes, mut kept_bytes) = (0_u64, 0_u64, 0_u64);
        while let Some(page) = pages.next(self, |key| wanted.contains(key)).await? {
            slow.note(pages.slow());
            (items, bytes) = (items + page.items as u64, bytes + page.bytes as u64);
            kept_bytes += page.kept_bytes as u64;
            missing.retain(|key| page.kept.iter().all(|(kept, _)| kept != key));
            found.extend(page.kept);
            let to_list = page.remaining.saturating_mul(bytes / items.max(1));
            let one = kept_bytes / (found.len() as u64).max(1) + REQUEST_COSTS;
            if missing.is_empty() || !page.token.is_empty() && to_list > one.saturating_mul(missing.len() as u64) {
                let one_by_one = if page.token.is_empty() { Vec::new() } else { missing.into_iter().collect() };
                return Ok((found, one_by_one));
            }
        }
        Ok((found, Vec::new()))
    }

    /// Returns one page of a list, with those of its objects that `keep` wants.
    async fn page(
        &self,
        listing: &Listing<'_>,
        limit: usize,
        token: &str,
        keep: impl Fn(&ObjectKey) -> bool + Send + Sync,
    ) -> Result<PageRequest, ClusterError> {
        let what = format!("list {}", listing.served.resource);
        let purpose = Purpose { what: &what, secret: listing.served.kind == "Secret" };
        let (mut items, mut page) = (Items::default(), Page::default());
        let mut broken = None;
        let mut take = |bytes: &[u8]| {
            page.bytes += bytes.len();
            items.push(bytes, |item| {
                page.items += 1;
                let key = ObjectHead::of(item.text()).key(listing.served);
                if !key.name.is_empty() && !keep(&key) {
                    return;
                }
                match ObjectText::of_item(item, listing.served, &key) {
                    Ok(object) => {
                        page.kept_bytes += item.text().len();
                        page.kept.push((key, object));
                    }
                    Err(error) => broken = Some(error),
                }
            })?;
            Ok(page.bytes <= PAGE_BYTES || limit == 1)
        };
        let whole = self.stream(purpose, get_as(&listing.path(limit, token), listing.accept), &mut take).await;
        let whole = match whole {
            // It is on its way, and too long for one request.
            Err(ClusterError::Away { .. }) if page.items > 1 && limit > 1 => false,
            whole => whole?,
        };
        if !whole {
            return Ok(PageRequest::TooLarge(page.items));
        }
        let unreadable =
            |error: serde_json::Error| ClusterError::away(&what, format!("the answer is no list: {error}"));
        let head = match broken {
            Some(error) => Err(error),
            None => serde_json::from_slice::<ListHead>(items.rest()),
        };
        let ListHead { metadata } = match head {
            Ok(head) => head,
            Err(error) => return Err(self.blame(unreadable(error)).await),
        };
        let ListMetadata { token, revision, remaining } = metadata;
        Ok(PageRequest::Page(Page { token, revision, remaining: remaining.unwrap_or_default(), ..page }))
    }

    /// Returns the revision of the newest write that the API server knows of, as a list of nothing but metadata says
    /// it.
    ///
    /// # Errors
    /// Fails when the API server does not answer, or does not allow it.
    pub(super) async fn newest_revision(&self, listing: &Listing<'_>) -> Result<String, ClusterError> {
        match self.page(listing, 1, "", |_| false).await? {
            PageRequest::Page(page) => Ok(page.revision),
            PageRequest::TooLarge(_) => Ok(String::new()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use crate::clock::Clock;
    use http::{Request, Response};
    use kube::client::Body;

    /// Returns an API server whose lists always go on, and how often it was asked.
    fn endless(items: &str) -> (Cluster, Arc<AtomicUsize>) {
        that_lists(&format!("{{\"metadata\":{{\"continue\":\"more\",\"resourceVersion\":\"1\"}},\"items\":[{items}]}}"))
    }

    fn that_lists(answer: &str) -> (Cluster, Arc<AtomicUsize>) {
        let body = answer.to_owned();
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&asked);
        let service = tower::service_fn(move |_: Request<Body>| {
            counted.fetch_add(1, Ordering::Relaxed);
            let body = body.clone().into_bytes();
            async move { Ok::<_, Infallible>(Response::new(Body::from(body))) }
        });
        let client = kube::Client::new(service, "default");
        (Cluster::new(client, Clock::tokio(jiff::Timestamp::UNIX_EPOCH)), asked)
    }

    fn config_maps() -> Served {
        let word = str::to_owned;
        let (kind, resource) = (word("ConfigMap"), word("configmaps"));
        Served { group: String::new(), version: word("v1"), kind, resource, namespaced: true }
    }

    #[tokio::test(start_paused = true)]
    async fn one_object_that_is_too_large_leaves_the_others_readable() {
        let object = |name: &str, data: &str| {
            format!("{{\"metadata\":{{\"name\":\"{name}\",\"namespace\":\"b\"}},\"data\":[{data}]}}")
        };
        let long = format!("\"{}\"", "x".repeat(super::super::items::ITEM_LIMIT));
        let items = [
            object("a", "1"),
            object("many", &vec!["{\"a\":1}"; 100_000].join(",")),
            object("long", &long),
            object("z", "2"),
        ];
        let (cluster, _) = endless(&items.join(","));
        let served = config_maps();
        let listing = Listing { served: &served, namespace: None, labels: "", accept: "application/json", limit: 1 };
        let page = Pages::new(listing).next(&cluster, |_| true).await.unwrap().unwrap();
        let told: Vec<(String, String)> = page
            .kept
            .into_iter()
            .map(|(key, object)| {
                (key.name, object.map_or_else(|error| error.to_string(), |object| object.read()["data"].to_string()))
            })
            .collect();
        let names: Vec<&str> = told.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["a", "many", "long", "z"]);
        assert_eq!((told[0].1.as_str(), told[3].1.as_str()), ("[1]", "[2]"));
        for (name, said) in &told[1..3] {
            assert!(said.contains(&format!("read ConfigMap b/{name}")) && said.contains("make it smaller"), "{said}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_object_without_a_name_is_left_out() {
        let items = ["{}", "{\"metadata\":{\"name\":\"\",\"uid\":\"u\"}}", "{\"metadata\":{\"name\":7}}"].join(",");
        let (cluster, _) = that_lists(&format!("{{\"items\":[{items},{{\"metadata\":{{\"name\":\"a\"}}}}]}}"));
        let listed = cluster.list(&config_maps(), None, "").await.unwrap();
        assert_eq!(listed.iter().map(|object| object["metadata"]["name"].as_str()).collect::<Vec<_>>(), [Some("a")]);
    }

    #[tokio::test(start_paused = true)]
    async fn of_a_list_that_never_ends_few_bytes_are_kept() {
        let item = format!("{{\"metadata\":{{\"name\":\"a\",\"annotations\":{{\"a\":\"{}\"}}}}}}", "x".repeat(3 << 20));
        let (cluster, asked) = endless(&item);
        let error = cluster.list(&config_maps(), None, "").await.unwrap_err();
        assert!(error.is_own() && error.to_string().contains("more than 128 MiB"), "{error}");
        // The last request asks whether the server is ready.
        assert!(asked.load(Ordering::Relaxed) < LIST_BYTES / (3 << 20) + 10);
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_that_never_ends_is_given_up() {
        let served = config_maps();
        let item = "{\"metadata\":{\"name\":\"a\",\"namespace\":\"b\"}}";
        for (items, most) in [
            (String::new(), EMPTY_PAGES),
            (item.to_owned(), LIST / PAGE_COUNTS),
            (vec![item; PAGE].join(","), LIST / PAGE),
        ] {
            let (cluster, asked) = endless(&items);
            let mut pages = Pages::new(Listing {
                served: &served,
                namespace: None,
                labels: "",
                accept: "application/json",
                limit: PAGE,
            });
            let error = loop {
                match pages.next(&cluster, |_| false).await {
                    Ok(page) => assert!(page.is_some()),
                    Err(error) => break error,
                }
            };
            assert!(error.is_own() && error.to_string().contains("no end"), "{error}");
            // The last one asks whether the server is ready.
            assert_eq!(asked.load(Ordering::Relaxed), most + 2);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_list_says_within_a_minute_how_far_it_is() {
        let object = "{\"metadata\":{\"name\":\"a\",\"namespace\":\"b\"}}";
        let body = format!(
            "{{\"metadata\":{{\"continue\":\"more\",\"remainingItemCount\":70,\"resourceVersion\":\"1\"}},\"items\":[{object}]}}"
        );
        let service = tower::service_fn(move |_: Request<Body>| {
            let body = body.clone().into_bytes();
            async move {
                tokio::time::sleep(Duration::from_secs(25)).await;
                Ok::<_, Infallible>(Response::new(Body::from(body)))
            }
        });
        let client = kube::Client::new(service, "default");
        let cluster = Cluster::new(client, Clock::tokio(jiff::Timestamp::UNIX_EPOCH));
        let served = config_maps();
        let mut pages = Pages::new(Listing::of(&served, None, ""));
        let mut said = Vec::new();
        for _ in 0..3 {
            assert!(pages.next(&cluster, |_| true).await.unwrap().is_some());
            said.push(pages.slow().map(str::to_owned));
        }
        assert_eq!(said[0], None);
        assert_eq!(
            said[1].as_deref(),
            Some(
                "the API server is slow to list /api/v1/configmaps: 2 pages with 2 of 72 objects within 50 s; belay goes on"
            )
        );
        assert!(said[2].as_ref().is_some_and(|said| said.contains("3 pages with 3 of 73 objects within 75 s")));
    }
}
