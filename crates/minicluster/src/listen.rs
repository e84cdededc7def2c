//! The server for clients outside of the process: HTTP/1.1 over TCP, plain or with TLS.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_io_timeout::TimeoutWriter;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

use super::api::{ApiServer, Peer};
use super::tls::Authority;

/// The time that a client may take to shake hands.
const HANDSHAKE: Duration = Duration::from_secs(30);

/// The time that a client may take to send the headers of its next request. Longer than clients keep idle connections,
/// so that it is they who close them.
const HEADER_TIMEOUT: Duration = Duration::from_secs(180);

/// The time for which a client may take nothing of an answer that is there for it.
const UNREAD: Duration = Duration::from_secs(60);

/// Headers that a request may have.
const HEADERS: usize = 100;

/// Bytes that the headers of a request may have, together with its first line.
const HEADER_BYTES: usize = 64 * 1024;

/// Connections that may be open at once; more wait to be accepted.
const CONNECTIONS: usize = 10_000;

/// The time for which connections may go on after the end was asked for.
const FAREWELL: Duration = Duration::from_secs(2);

/// The transport of clients.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Transport {
    /// Plain HTTP. Every client has the permissions of an administrator, unless access is restricted.
    Plain,
    /// HTTPS with a certificate of the cluster's own authority. Clients may show certificates of it.
    Tls(Authority),
}

/// The reason for which the server could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// The address is taken, or not this machine's.
    #[error("failed to listen on {address}: {source}")]
    Bind {
        /// The address asked for.
        address: SocketAddr,
        /// The message of the system.
        source: std::io::Error,
    },
    /// The certificate can't be made.
    #[error("failed to make a certificate for {address}: {reason}")]
    Certificate {
        /// The address asked for.
        address: SocketAddr,
        /// The fault.
        reason: String,
    },
}

/// An open server. Dropping it closes it at once; [`Listening::close`] lets requests end that are under way.
#[derive(Debug)]
pub struct Listening {
    address: SocketAddr,
    name: String,
    server: Transport,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Listening {
    /// Returns the address with the port that was found.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the address as clients write it, `https://127.0.0.1:6443`.
    #[must_use]
    pub fn url(&self) -> String {
        let scheme = if matches!(self.server, Transport::Plain) { "http" } else { "https" };
        format!("{scheme}://{}", self.address)
    }

    /// Returns a kubeconfig for clients, with a bearer token where one is given.
    #[must_use]
    pub fn kubeconfig(&self, token: Option<&str>) -> String {
        let cluster = match &self.server {
            Transport::Plain => format!("server: {:?}", self.url()),
            Transport::Tls(authority) => {
                format!("server: {:?}, certificate-authority-data: {}", self.url(), authority.certificate_base64())
            }
        };
        let user = token.map_or_else(String::new, |token| format!("token: {token:?}"));
        let name = serde_json::Value::from(self.name.as_str());
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: {name}\nclusters:\n- name: {name}\n  cluster: {{{cluster}}}\n\
             users:\n- name: {name}\n  user: {{{user}}}\ncontexts:\n- name: {name}\n  context: {{cluster: {name}, user: {name}}}\n"
        )
    }

    /// Closes the server: no new connections; open ones end after the answers under way, or after two seconds.
    pub async fn close(self) {
        self.stop.cancel();
        self.tasks.close();
        // Watches do not end by themselves.
        drop(tokio::time::timeout(FAREWELL, self.tasks.wait()).await);
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Opens a server for the API.
pub(super) async fn listen(api: &ApiServer, address: SocketAddr, server: Transport) -> Result<Listening, ListenError> {
    let listener = TcpListener::bind(address).await.map_err(|source| ListenError::Bind { address, source })?;
    let address = listener.local_addr().map_err(|source| ListenError::Bind { address, source })?;
    let acceptor = match &server {
        Transport::Plain => None,
        Transport::Tls(authority) => {
            let config = authority.server_config(address.ip());
            Some(TlsAcceptor::from(config.map_err(|reason| ListenError::Certificate { address, reason })?))
        }
    };
    let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let task = accept(listener, places, api.clone(), acceptor, stop.clone(), tasks.clone());
    tasks.spawn(task);
    Ok(Listening { address, name: api.own_name().to_owned(), server, stop, tasks })
}

async fn accept(
    listener: TcpListener,
    places: Arc<Semaphore>,
    api: ApiServer,
    acceptor: Option<TlsAcceptor>,
    stop: CancellationToken,
    tasks: TaskTracker,
) {
    loop {
        let place = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            place = Arc::clone(&places).acquire_owned() => place,
        };
        let Ok(place) = place else { return };
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Too many open files, or a client that was gone again: neither lasts.
                tracing::warn!(%error, "failed to accept a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let (api, acceptor, stop) = (api.clone(), acceptor.clone(), stop.clone());
        tasks.spawn(async move {
            serve_connection(stream, api, acceptor, stop).await;
            drop(place);
        });
    }
}

async fn serve_connection(stream: TcpStream, api: ApiServer, acceptor: Option<TlsAcceptor>, stop: CancellationToken) {
    // Small answers go out at once; a failure to ask for that changes nothing else.
    drop(stream.set_nodelay(true));
    match acceptor {
        None => serve(stream, api, Peer::default(), stop).await,
        Some(acceptor) => {
            let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await else { return };
            let shown = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
            let peer = Peer { certificate: shown.map(|certificate| certificate.as_ref().to_vec()) };
            serve(stream, api, peer, stop).await;
        }
    }
}

async fn serve<S>(stream: S, api: ApiServer, peer: Peer, stop: CancellationToken)
where
    S: AsyncRead + AsyncWrite + Send,
{
    let mut stream = TimeoutWriter::new(stream);
    stream.set_timeout(Some(UNREAD));
    let stream = std::pin::pin!(stream);
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(peer.clone());
        let api = api.clone();
        async move {
            let answer: Result<_, Infallible> = api.oneshot(request).await;
            answer
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_headers(HEADERS)
        .max_buf_size(HEADER_BYTES)
        .keep_alive(true)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        biased;
        ended = connection.as_mut() => ended,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            match tokio::time::timeout(FAREWELL, connection).await {
                Ok(ended) => ended,
                Err(_) => return,
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection broke off");
    }
}

#[cfg(test)]
mod tests;
