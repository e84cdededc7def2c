//! Status, history and metrics over HTTP: `/healthz`, `/readyz`, `/metrics`, JSON under `/api/v1/`, and pages for
//! people. It only reads; a hook requests a fetch from the daemon, and nothing more.

mod analysis_curve;
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
mod metric_lines;
mod metrics;
mod openapi;
mod pages;
mod plain_text;
mod problem;
mod query;
mod revisions;
mod rollout_progress;
#[cfg(test)]
mod tests;

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
use crate::history::HistoryLocation;
use crate::telemetry::Metrics;
use history_reader::HistoryReader;
pub use hook_signature::is_proven;
pub use hooks::Hook;
pub use hosts::host_of_authority;
use hosts::{Hosts, Own};
use manifest_diff::DiffReader;
use rollout_progress::RolloutProgress;

/// Connections that may be open at once. For one more the oldest is closed: an answer takes moments, so that the
/// connection open for longest is slow or idle, and can't keep others out.
const CONNECTIONS: usize = 64;
/// The longest time until a client has sent the headers of a request.
const HEADER_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest time of one connection. Scrapers come back with another.
const LONGEST: Duration = Duration::from_mins(5);
/// Bytes that the headers of a request may have.
const HEADER_BYTES: usize = 16 * 1024;

/// The reason for which the pages can't be shown.
#[derive(Debug, thiserror::Error)]
#[error("failed to listen on {address}: {source}")]
pub struct WebError {
    /// The address asked for.
    address: SocketAddr,
    /// The message of the system.
    source: std::io::Error,
}

/// The open pages. Dropping it closes them.
#[derive(Debug)]
pub struct Web {
    address: SocketAddr,
    stop: CancellationToken,
}

impl Web {
    /// Serves the pages of a daemon at this address. Port 0 takes a free one. It answers to loopback names, to its own
    /// address, and to `allowed_hosts`.
    ///
    /// # Errors
    /// Fails when the address is taken, or not this machine's.
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

    /// Returns the address, with the port that was found.
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

/// The content of the pages.
#[derive(Clone)]
pub struct Shown {
    /// The daemon's status.
    pub status: watch::Receiver<Status>,
    /// The daemon's counters.
    pub metrics: Metrics,
    /// The state folder, with the mirrors.
    pub state: PathBuf,
    /// The place of the history.
    pub history: HistoryLocation,
    /// The facts about the sources, which change when the configuration is read again.
    pub sources: watch::Receiver<Arc<ShownSources>>,
    /// The clock.
    pub clock: Clock,
}

/// The facts about the sources that their status does not have, each by the name of the source.
#[derive(Clone, Default)]
pub struct ShownSources {
    /// The clusters: for the pods of each revision.
    pub clusters: BTreeMap<String, Cluster>,
    /// The forges' pages of commits, with `{commit}` in the place of its id.
    pub commit_urls: BTreeMap<String, String>,
    /// The hooks by which others request a fetch.
    pub hooks: BTreeMap<String, Hook>,
}

/// The data that every answer needs.
#[derive(Clone)]
struct Room {
    shown: Shown,
    history: HistoryReader,
    registry: Arc<Registry>,
    /// Room for pages that listen, and for questions to clusters.
    listeners: Arc<Semaphore>,
    asking: Arc<Semaphore>,
    progress: RolloutProgress,
    diffs: DiffReader,
}

impl Room {
    fn new(shown: Shown) -> Room {
        let registry = Arc::new(metrics::registry(shown.status.clone(), &shown.metrics));
        shown.sources().hooks.keys().for_each(|source| shown.metrics.hook(source));
        let history = HistoryReader::new(shown.history.clone());
        Room {
            history,
            registry,
            listeners: live::room(),
            asking: revisions::room(),
            progress: RolloutProgress::new(shown.clock.now()),
            diffs: DiffReader::new(shown.state.clone()),
            shown,
        }
    }
}

impl ShownSources {
    /// Returns these facts for pages that show them, and the sender of newer ones.
    #[must_use]
    pub fn shown(self) -> (watch::Sender<Arc<ShownSources>>, watch::Receiver<Arc<ShownSources>>) {
        watch::channel(Arc::new(self))
    }
}

impl Shown {
    /// Returns the facts about the sources at this moment.
    fn sources(&self) -> Arc<ShownSources> {
        Arc::clone(&self.sources.borrow())
    }

    /// Returns true when the daemon runs: it publishes until it ends.
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
    // A client that says no more after its request still reads the answer.
    server.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT).max_buf_size(HEADER_BYTES).half_close(true);
    if let Err(error) = server.serve_connection(TokioIo::new(stream), service).await {
        debug!(%error, "a connection ended badly");
    }
}
