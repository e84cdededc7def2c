//! The nodes' own HTTPS port, at which a real API server asks for logs: `/containerLogs/{namespace}/{pod}/{container}`.

mod answer;
mod query;

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;

use super::directory::Directory;
use super::nodes::SpecPlace;
use crate::Clock;
use crate::PodLogs;

/// Connections to all nodes at a time; more wait.
const CONNECTIONS: usize = 256;
/// The time that a client has to greet, and to send its request.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// The reason for which the port could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No certificate could be made.
    #[error("failed to make a certificate for the nodes: {0}")]
    Certificate(#[from] rcgen::Error),
    /// The certificate can't be used.
    #[error("failed to set up TLS for the nodes: {0}")]
    Tls(#[from] rustls::Error),
    /// The port could not be opened.
    #[error("failed to listen at {0}: {1}")]
    Listen(IpAddr, #[source] std::io::Error),
}

/// The sources of answers.
#[derive(Clone, Debug)]
pub struct Archive {
    /// The output of containers.
    pub logs: PodLogs,
    /// The pods.
    pub directory: Directory,
    /// Tells the time.
    pub clock: Clock,
}

/// Opens a port for each node, at its own address or, if the machine has no such, at 127.0.0.1; the places are
/// corrected to the opened ones. Every client is answered: the port is on loopback, and pods here have no secrets.
///
/// # Errors
/// Fails with the reason for which a port could not be opened.
pub async fn open(places: &mut [SpecPlace], archive: Archive) -> Result<BoxFuture<'static, ()>, Error> {
    let tls = TlsAcceptor::from(Arc::new(certificate()?));
    let connections = Arc::new(Semaphore::new(CONNECTIONS));
    let mut accepting = Vec::new();
    for place in places {
        let listener = match TcpListener::bind((place.address, 0)).await {
            Ok(listener) => listener,
            Err(_) => {
                place.address = IpAddr::from([127, 0, 0, 1]);
                let at = place.address;
                TcpListener::bind((at, 0)).await.map_err(|error| Error::Listen(at, error))?
            }
        };
        place.port = listener.local_addr().map_err(|error| Error::Listen(place.address, error))?.port();
        accepting.push(accept(listener, tls.clone(), connections.clone(), archive.clone()));
    }
    Ok(futures::future::join_all(accepting).map(drop).boxed())
}

async fn accept(listener: TcpListener, tls: TlsAcceptor, connections: Arc<Semaphore>, archive: Archive) {
    // The connections end with this set.
    let mut serving = tokio::task::JoinSet::new();
    loop {
        while serving.try_join_next().is_some() {}
        let Ok(permit) = connections.clone().acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let (tls, archive) = (tls.clone(), archive.clone());
                serving.spawn(async move {
                    serve(stream, tls, archive).await;
                    drop(permit);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "a node failed to accept a connection; trying again");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn serve(stream: TcpStream, tls: TlsAcceptor, archive: Archive) {
    let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE_TIMEOUT, tls.accept(stream)).await else { return };
    let answer = service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
        let answer = answer::answer(request.method(), request.uri(), &archive);
        async move { Ok::<_, Infallible>(answer) }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HANDSHAKE_TIMEOUT);
    if let Err(error) = http.serve_connection(TokioIo::new(stream), answer).await {
        tracing::debug!(%error, "a connection to a node broke");
    }
}

fn certificate() -> Result<ServerConfig, Error> {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()])?;
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(config.with_no_client_auth().with_single_cert(vec![made.cert.der().clone()], key)?)
}
