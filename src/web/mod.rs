//! SHOW. Status, history and metrics over HTTP: `/healthz`, `/readyz`, `/metrics`, JSON under `/api/v1/`, and pages for
//! people. It only reads; a hook asks the daemon for a look at a source, which the daemon takes of its own.

mod answer;
mod api;
mod assets;
pub mod forge;
mod history_reader;
mod hook_signature;
mod hooks;
mod hosts;
mod live;
mod manifest_diff;
mod metrics;
mod openapi;
mod pages;
mod plain_text;
mod problem;
mod query;
mod revisions;
mod rollout_progress;

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use prometheus_client::registry::Registry;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::{AbortHandle, JoinSet};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;
use tracing::{debug, warn};

use crate::clock::Clock;
use crate::cluster::Cluster;
use crate::daemon::Status;
use crate::telemetry::Metrics;
use history_reader::HistoryReader;
pub use hooks::Hook;
use hosts::{Hosts, Own};
use rollout_progress::RolloutProgress;

/// Connections that may be open at once. For one more the oldest is closed: an answer takes moments, so that what has been
/// open for longest is what is slow or idle, and can't keep others out.
const CONNECTIONS: usize = 64;
/// How long a client may take to send the headers of a request.
const HEADER_TIMEOUT: Duration = Duration::from_secs(5);
/// How long one connection may last. Scrapers come back with another.
const LONGEST: Duration = Duration::from_mins(5);
/// Bytes that the headers of a request may have.
const HEADER_BYTES: usize = 16 * 1024;

/// Why the pages can't be shown.
#[derive(Debug, thiserror::Error)]
#[error("failed to listen on {address}: {source}")]
pub struct WebError {
    /// The address asked for.
    address: SocketAddr,
    /// What the system says.
    source: std::io::Error,
}

/// The open pages. Dropping it closes them.
#[derive(Debug)]
pub struct Web {
    address: SocketAddr,
    stop: CancellationToken,
}

impl Web {
    /// Shows what a daemon says of itself, at this address. Port 0 takes a free one. It answers to loopback names, to its own
    /// address, and to `allowed_hosts`.
    ///
    /// # Errors
    /// Where the address is taken, or not this machine's.
    pub async fn open(address: SocketAddr, allowed_hosts: &[String], shown: Shown) -> Result<Web, WebError> {
        let wrong = |source| WebError { address, source };
        let listener = TcpListener::bind(address).await.map_err(wrong)?;
        let address = listener.local_addr().map_err(wrong)?;
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let room = Room::new(shown);
        let progress = room.progress.clone().follow(room.shown.status.clone(), room.shown.clock.clone());
        let stopped_too = stop.clone();
        tokio::spawn(async move {
            tokio::select! {
                biased;
                () = stopped_too.cancelled() => {}
                () = progress => {}
            }
        });
        let router = answer::router(room, Hosts::new(allowed_hosts));
        tokio::spawn(async move {
            tokio::select! {
                biased;
                () = stopped.cancelled() => {}
                () = accept(listener, router) => {}
            }
        });
        Ok(Web { address, stop })
    }

    /// The address, with the port that was found.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// What is shown.
#[derive(Clone)]
pub struct Shown {
    /// What the daemon says of itself.
    pub status: watch::Receiver<Status>,
    /// What it has counted.
    pub metrics: Metrics,
    /// The folder of the history.
    pub state: PathBuf,
    /// The clusters of the sources, by their names: for the pods of each revision.
    pub clusters: BTreeMap<String, Cluster>,
    /// Where the forges of the sources show a commit, with `{commit}` in the place of its id.
    pub commit_urls: BTreeMap<String, String>,
    /// What time it is.
    pub clock: Clock,
    /// Who may ask for a look at which source.
    pub hooks: BTreeMap<String, Hook>,
}

/// What every answer needs.
#[derive(Clone)]
struct Room {
    shown: Shown,
    history: HistoryReader,
    registry: Arc<Registry>,
    /// Room for pages that listen, and for questions to clusters.
    listeners: Arc<Semaphore>,
    asking: Arc<Semaphore>,
    progress: RolloutProgress,
}

impl Room {
    fn new(shown: Shown) -> Room {
        let registry = Arc::new(metrics::registry(shown.status.clone(), &shown.metrics));
        shown.hooks.keys().for_each(|source| shown.metrics.hook(source));
        let history = HistoryReader::new(shown.state.clone());
        Room {
            history,
            registry,
            listeners: live::room(),
            asking: revisions::room(),
            progress: RolloutProgress::default(),
            shown,
        }
    }
}

impl Shown {
    /// Whether the daemon runs: it publishes until it ends.
    fn lives(&self) -> bool {
        self.status.has_changed().is_ok()
    }
}

async fn accept(listener: TcpListener, router: Router) {
    let mut open: VecDeque<AbortHandle> = VecDeque::with_capacity(CONNECTIONS);
    // They end with it: an open page hears at once that nobody is there any more.
    let mut connections = JoinSet::new();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                while connections.try_join_next().is_some() {}
                open.retain(|connection| !connection.is_finished());
                if open.len() >= CONNECTIONS
                    && let Some(oldest) = open.pop_front()
                {
                    debug!("closed the oldest connection: too many are open");
                    oldest.abort();
                }
                let router = router.clone();
                let serve = async move {
                    if tokio::time::timeout(LONGEST, serve(stream, router)).await.is_err() {
                        debug!("closed a connection that had been open for long");
                    }
                };
                open.push_back(connections.spawn(serve));
            }
            Err(error) => {
                // Most likely there are no file descriptors left: some will come back.
                warn!(%error, "failed to accept a connection");
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }
}

async fn serve(stream: TcpStream, router: Router) {
    let own = Own(stream.local_addr().ok().map(|address| address.ip()));
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(own);
        router.clone().oneshot(request.map(Body::new))
    });
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT).max_buf_size(HEADER_BYTES);
    if let Err(error) = server.serve_connection(TokioIo::new(stream), service).await {
        debug!(%error, "a connection ended badly");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    async fn open(allowed: &[&str]) -> (Web, watch::Sender<Status>) {
        let (sender, status) = watch::channel(Status::default());
        let allowed: Vec<String> = allowed.iter().map(|&host| host.to_owned()).collect();
        let clock = Clock::tokio(jiff::Timestamp::UNIX_EPOCH);
        let shown = Shown {
            status,
            metrics: Metrics::default(),
            state: PathBuf::new(),
            clusters: BTreeMap::new(),
            commit_urls: BTreeMap::new(),
            clock,
            hooks: BTreeMap::new(),
        };
        (Web::open("127.0.0.1:0".parse().unwrap(), &allowed, shown).await.unwrap(), sender)
    }

    async fn first_line(web: &Web, path: &str, host: &str) -> String {
        let mut stream = TcpStream::connect(web.address()).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer.lines().next().unwrap_or_default().to_owned()
    }

    #[tokio::test]
    async fn slow_clients_keep_nobody_out() {
        let (web, _daemon) = open(&[]).await;
        let mut slow = Vec::new();
        for _ in 0..3 * CONNECTIONS {
            let mut stream = TcpStream::connect(web.address()).await.unwrap();
            stream.write_all(b"GET / HTTP/1.1\r\nHost: ").await.unwrap();
            slow.push(stream);
        }
        let asked = tokio::time::timeout(HEADER_TIMEOUT / 2, first_line(&web, "/healthz", "localhost")).await;
        assert_eq!(asked.unwrap(), "HTTP/1.1 200 OK");
    }

    #[tokio::test]
    async fn who_listens_hears_that_nobody_is_there_any_more() {
        let (web, _daemon) = open(&[]).await;
        let mut stream = TcpStream::connect(web.address()).await.unwrap();
        stream.write_all(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
        let mut answer = [0; 1024];
        assert!(stream.read(&mut answer).await.unwrap() > 0);
        drop(web);
        let rest = async { while stream.read(&mut answer).await.is_ok_and(|length| length > 0) {} };
        tokio::time::timeout(HEADER_TIMEOUT, rest).await.expect("the connection is closed");
    }

    #[tokio::test]
    async fn pages_that_listen_keep_nobody_out() {
        let (web, _daemon) = open(&[]).await;
        let mut listening = Vec::new();
        for _ in 0..2 * CONNECTIONS {
            let mut stream = TcpStream::connect(web.address()).await.unwrap();
            stream.write_all(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
            let mut line = [0; 12];
            stream.read_exact(&mut line).await.unwrap();
            listening.push((stream, String::from_utf8_lossy(&line).into_owned()));
        }
        let refused = listening.iter().filter(|(_, line)| line == "HTTP/1.1 503").count();
        assert!(refused > 0 && listening[0].1 == "HTTP/1.1 200", "{refused} were refused");
        assert_eq!(first_line(&web, "/healthz", "localhost").await, "HTTP/1.1 200 OK");
    }

    /// What is answered to this, until the connection is closed, and after how long that is.
    async fn until_closed(web: &Web, sent: &[u8]) -> (String, Duration) {
        let began = tokio::time::Instant::now();
        let mut stream = TcpStream::connect(web.address()).await.unwrap();
        stream.write_all(sent).await.unwrap();
        let mut answer = Vec::new();
        // That it is cut off while something is sent is an end, too.
        let _ = stream.read_to_end(&mut answer).await;
        (String::from_utf8_lossy(&answer).into_owned(), began.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn headers_that_do_not_end_close_the_connection() {
        let (web, _daemon) = open(&[]).await;
        let (_, took) = until_closed(&web, b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: ").await;
        assert!(took >= HEADER_TIMEOUT && took < 2 * HEADER_TIMEOUT, "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn no_connection_lasts_for_longer_than_five_minutes() {
        let (web, _daemon) = open(&[]).await;
        let (told, took) = until_closed(&web, b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
        assert!(
            told.contains("event: hello") && took >= LONGEST && took < LONGEST + HEADER_TIMEOUT,
            "{took:?}: {told}"
        );
        // Nor one on which nothing is asked any more.
        let (told, took) = until_closed(&web, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
        assert!(told.starts_with("HTTP/1.1 200") && took <= LONGEST, "{took:?}: {told}");
    }

    #[tokio::test]
    async fn headers_that_are_too_large_are_refused() {
        let (web, _daemon) = open(&[]).await;
        let get = |bytes: usize| {
            format!(
                "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX-Large: {}\r\n\r\n",
                "x".repeat(bytes)
            )
        };
        let (answer, _) = until_closed(&web, get(HEADER_BYTES / 2).as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        let (answer, _) = until_closed(&web, get(2 * HEADER_BYTES).as_bytes()).await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431 "), "{answer}");
    }

    #[tokio::test]
    async fn it_answers_to_its_own_names() {
        let (web, _daemon) = open(&["Belay.example.com"]).await;
        let own = web.address().to_string();
        for host in ["localhost", "localhost:9750", &own, "[::1]:80", "belay.example.com:443"] {
            assert_eq!(first_line(&web, "/healthz", host).await, "HTTP/1.1 200 OK", "{host}");
        }
        for host in ["attacker.example", "attacker.example:80", "127.0.0.1.attacker.example", "10.1.2.3", ""] {
            assert_eq!(first_line(&web, "/healthz", host).await, "HTTP/1.1 421 Misdirected Request", "{host}");
        }
    }
}
