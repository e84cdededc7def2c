//! SHOW. Status and metrics over HTTP: `/healthz`, `/readyz`, `/metrics` and a page for people. It only reads.

mod answer;
mod metrics;
mod page;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use crate::clock::Clock;
use crate::daemon::Status;
use answer::answer;

/// Connections that may be open at once; more wait to be accepted.
const CONNECTIONS: usize = 64;
/// How long a client may take to send the headers of a request.
const PATIENCE: Duration = Duration::from_secs(10);
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
    /// Shows what a daemon says of itself, at this address. Port 0 takes a free one.
    ///
    /// # Errors
    /// Where the address is taken, or not this machine's.
    pub async fn open(address: SocketAddr, status: watch::Receiver<Status>, clock: Clock) -> Result<Web, WebError> {
        let wrong = |source| WebError { address, source };
        let listener = TcpListener::bind(address).await.map_err(wrong)?;
        let address = listener.local_addr().map_err(wrong)?;
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        tokio::spawn(async move {
            tokio::select! {
                biased;
                () = stopped.cancelled() => {}
                () = accept(listener, status, clock) => {}
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

async fn accept(listener: TcpListener, status: watch::Receiver<Status>, clock: Clock) {
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let place = Arc::clone(&room).acquire_owned().await;
        match listener.accept().await {
            Ok((stream, _)) => {
                let (status, clock) = (status.clone(), clock.clone());
                tokio::spawn(async move {
                    if tokio::time::timeout(LONGEST, serve(stream, status, clock)).await.is_err() {
                        debug!("closed a connection that had been open for long");
                    }
                    drop(place);
                });
            }
            Err(error) => {
                // Most likely there are no file descriptors left: some will come back.
                warn!(%error, "failed to accept a connection");
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }
}

async fn serve(stream: TcpStream, status: watch::Receiver<Status>, clock: Clock) {
    let service = service_fn(move |request: Request<Incoming>| {
        // The daemon publishes until it ends.
        let lives = status.has_changed().is_ok();
        let response = answer(request.method(), request.uri().path(), &status.borrow(), lives, clock.now());
        async move { Ok::<_, Infallible>(response) }
    });
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(PATIENCE).max_buf_size(HEADER_BYTES);
    if let Err(error) = server.serve_connection(TokioIo::new(stream), service).await {
        debug!(%error, "a connection ended badly");
    }
}
