//! The body of an answer while it arrives. Few large ones are in memory at once, and none keeps the others waiting for long.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use kube::client::Body;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

/// The most bytes that an answer may have which is kept whole: several times what etcd stores in one object. Lists are read
/// item by item.
pub(super) const ANSWER_LIMIT: usize = 32 * 1024 * 1024;
/// From how many bytes on an answer is large.
pub(super) const LARGE_ANSWER: usize = 1 << 20;
/// The number of large answers that the whole program reads at once.
pub(super) const LARGE_AT_ONCE: usize = 2;
/// The longest time in which a large answer comes to its end. The server of one API group may never end its answers.
pub(super) const LARGE_WITHIN: Duration = Duration::from_secs(10);
/// The number of lines in which API groups wait. Groups that share one wait for each other.
const LINES: usize = 64;

/// The room of all large answers of the program.
static LARGE: LazyLock<LargeAnswers> = LazyLock::new(LargeAnswers::new);

/// The room for large answers. A group of another server than the API server itself has one at a time, so that none takes
/// all of it.
#[derive(Clone)]
pub(super) struct LargeAnswers {
    all: Arc<Semaphore>,
    groups: Arc<[Arc<Semaphore>]>,
}

impl Default for LargeAnswers {
    fn default() -> LargeAnswers {
        LARGE.clone()
    }
}

impl LargeAnswers {
    /// Returns room of its own.
    pub(super) fn new() -> LargeAnswers {
        let line = |number| Arc::new(Semaphore::new(if number == 0 { LARGE_AT_ONCE } else { 1 }));
        LargeAnswers { all: Arc::new(Semaphore::new(LARGE_AT_ONCE)), groups: (0..LINES).map(line).collect() }
    }

    /// Returns an answer to a request for this path, of which nothing has come yet.
    pub(super) fn answer_to(&self, path: &str) -> Arriving {
        Arriving { rooms: self.clone(), line: line_of(path), received: 0, room: None }
    }
}

/// Returns the line of the API group of a path. The groups that the API server serves itself are in the first.
fn line_of(path: &str) -> usize {
    let group = path.strip_prefix("/apis/").and_then(|rest| rest.split('/').next()).unwrap_or_default();
    if !group.contains('.') || group.ends_with(".k8s.io") {
        return 0;
    }
    let mut hasher = DefaultHasher::new();
    group.hash(&mut hasher);
    // The remainder is less than the number of lines.
    1 + usize::try_from(hasher.finish() % (LINES as u64 - 1)).unwrap_or_default()
}

/// An answer that arrives. A large one has room, which is given back when this is dropped.
pub(super) struct Arriving {
    rooms: LargeAnswers,
    line: usize,
    received: usize,
    room: Option<LargeRoom>,
}

/// The room of a large answer, and until when it has to end.
struct LargeRoom {
    end: Instant,
    _line: OwnedSemaphorePermit,
    _all: OwnedSemaphorePermit,
}

impl Arriving {
    /// Returns the next bytes of a body; `None` at its end. Waits for room where many have come.
    ///
    /// # Errors
    /// Fails when the answer breaks off, or is large and takes too long.
    pub(super) async fn next(&mut self, body: &mut Body) -> Result<Option<Bytes>, String> {
        loop {
            let frame = match &self.room {
                None => body.frame().await,
                Some(room) => timeout_at(room.end, body.frame()).await.map_err(|_| too_slow())?,
            };
            let Some(frame) = frame.transpose().map_err(broke_off)? else { return Ok(None) };
            let Ok(bytes) = frame.into_data() else { continue };
            self.received += bytes.len();
            match &self.room {
                None if self.received > LARGE_ANSWER => self.room = self.take_room().await,
                // One that always has some more at hand is over in time, too.
                Some(room) if Instant::now() >= room.end => return Err(too_slow()),
                _ => {}
            }
            return Ok(Some(bytes));
        }
    }

    /// Waits until one more large answer may be read.
    async fn take_room(&self) -> Option<LargeRoom> {
        // They are never closed. In this order everywhere: whoever waits for the second has the turn of its group.
        let _line = Arc::clone(&self.rooms.groups[self.line]).acquire_owned().await.ok()?;
        let _all = Arc::clone(&self.rooms.all).acquire_owned().await.ok()?;
        Some(LargeRoom { end: Instant::now() + LARGE_WITHIN, _line, _all })
    }
}

fn too_slow() -> String {
    let seconds = LARGE_WITHIN.as_secs();
    format!("an answer of more than {} MiB did not end within {seconds} s", LARGE_ANSWER >> 20)
}

/// The body of an answer that is kept whole. Few large ones are in memory at once: the room for one is given back with this.
pub(super) struct ResponseBody {
    pub text: Vec<u8>,
    _arriving: Arriving,
}

impl ResponseBody {
    pub(super) async fn from(mut body: Body, mut arriving: Arriving) -> Result<ResponseBody, String> {
        let mut text = Vec::new();
        while let Some(bytes) = arriving.next(&mut body).await? {
            if text.len() + bytes.len() > ANSWER_LIMIT {
                return Err(format!("the answer has more than {} MiB", ANSWER_LIMIT >> 20));
            }
            text.extend_from_slice(&bytes);
        }
        Ok(ResponseBody { text, _arriving: arriving })
    }
}

pub(super) fn broke_off(error: impl std::fmt::Display) -> String {
    format!("the answer broke off: {error}")
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures::{StreamExt as _, stream};
    use http::{Request, Response};
    use http_body_util::StreamBody;
    use hyper::body::Frame;

    use super::*;
    use crate::clock::Clock;
    use crate::cluster::call::{Purpose, get};
    use crate::cluster::{Cluster, Served};

    const PURPOSE: Purpose<'static> = Purpose { what: "read it", secret: false };

    /// Returns an API server. Answers of other groups than its own are large, and go on so without an end.
    fn server(goes_on: Duration) -> Cluster {
        let service = tower::service_fn(move |request: Request<Body>| async move {
            let large = |begins: &str| [begins.as_bytes(), &[b' '; LARGE_ANSWER + 1]].concat().into();
            let parts = match request.uri().path() {
                path if path.starts_with("/apis/hostile") => {
                    let more = stream::repeat(()).then(move |()| async move {
                        tokio::time::sleep(goes_on).await;
                        Bytes::from_static(b" ")
                    });
                    stream::iter([large("{\"items\": [{\"a\": \"")]).chain(more).boxed()
                }
                _ => stream::iter([large(""), Bytes::from_static(b"{\"metadata\": {\"name\": \"web\"}}")]).boxed(),
            };
            let frames = parts.map(|part| Ok::<_, Infallible>(Frame::data(part)));
            Ok::<_, Infallible>(Response::new(StreamBody::new(frames)))
        });
        let cluster = Cluster::new(kube::Client::new(service, "default"), Clock::tokio(jiff::Timestamp::UNIX_EPOCH));
        Cluster { large: LargeAnswers::new(), ..cluster }
    }

    async fn reads(cluster: &Cluster, path: &str) -> Result<(), String> {
        cluster.call(PURPOSE, get(path)).await.map(drop).map_err(|error| error.to_string())
    }

    #[tokio::test(start_paused = true)]
    async fn a_group_whose_answers_never_end_keeps_no_other_waiting() {
        for goes_on in [Duration::from_millis(100), Duration::from_hours(1)] {
            let cluster = server(goes_on);
            let hostile: Vec<_> = (0..40)
                .map(|number| {
                    let cluster = cluster.clone();
                    tokio::spawn(
                        async move { reads(&cluster, &format!("/apis/hostile.example.com/v1/a/{number}")).await },
                    )
                })
                .collect();
            tokio::time::sleep(Duration::from_secs(1)).await;
            let began = Instant::now();
            reads(&cluster, "/api/v1/namespaces/shop/configmaps/web").await.unwrap();
            reads(&cluster, "/apis/apps/v1/namespaces/shop/deployments/web").await.unwrap();
            reads(&cluster, "/apis/other.example.com/v1/web").await.unwrap();
            assert_eq!(began.elapsed(), Duration::ZERO, "they wait for nobody");
            for one in hostile {
                let error = one.await.unwrap().unwrap_err();
                assert!(error.contains("did not end within 10 s") || error.contains("no answer within 30s"), "{error}");
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_room_of_an_answer_that_never_ends_is_given_back() {
        let cluster = server(Duration::from_millis(100));
        let hostile = ["hostile1.example.com", "hostile2.example.com", "hostile3.example.com"].map(|group| {
            let cluster = cluster.clone();
            tokio::spawn(async move { reads(&cluster, &format!("/apis/{group}/v1/a")).await })
        });
        tokio::time::sleep(Duration::from_secs(1)).await;
        let began = Instant::now();
        reads(&cluster, "/api/v1/namespaces/shop/configmaps/web").await.unwrap();
        assert!(began.elapsed() <= LARGE_WITHIN, "{:?}", began.elapsed());
        let served = Served {
            group: "hostile4.example.com".to_owned(),
            version: "v1".to_owned(),
            kind: "A".to_owned(),
            resource: "a".to_owned(),
            namespaced: false,
        };
        let error = cluster.list(&served, None, "").await.unwrap_err().to_string();
        assert!(error.contains("did not end within 10 s"), "a list, too: {error}");
        for one in hostile {
            one.await.unwrap().unwrap_err();
        }
    }

    #[test]
    fn groups_of_the_api_server_itself_wait_in_one_line() {
        for path in
            ["/api/v1/pods", "/apis", "/version", "/apis/apps/v1/x", "/apis/storage.k8s.io/v1/x", "/apis/batch/v1"]
        {
            assert_eq!(line_of(path), 0, "{path}");
        }
        for group in ["example.com", "metrics.example.com", "a.b", "evil-k8s.io"] {
            let line = line_of(&format!("/apis/{group}/v1/x"));
            assert!((1..LINES).contains(&line), "{group}: {line}");
        }
    }
}
