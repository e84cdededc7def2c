//! One message over HTTP: to the checked address, with no redirects, and with an end to every wait.

use std::error::Error as _;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::TlsConnector;

use super::address::Destination;
use super::bounded_stream::BoundedStream;
use super::delivery::{Delivery, HttpAnswer, Post, SendError};
use super::encryption::encrypted;
use super::lookup::allowed_addresses;
use super::mail;
use crate::clock::Clock;
use crate::plain_line::plain_line;
use crate::secrets::Secrets;
use crate::tls::{client_config, machine_roots};
use crate::user_agent::AGENT;

/// The longest time for one message, from the first question for the address to the last byte of the answer.
const SEND_TIMEOUT: Duration = Duration::from_secs(20);
/// The number of bytes of an answer that are read.
const ANSWER: usize = 4096;
/// The time for which the body of an answer is read. Its status has said by then if the message was taken.
const LISTENS: Duration = Duration::from_secs(2);
/// The most bytes of the first line and the headers of an answer.
const HEADERS: usize = 64 << 10;
/// The number of characters of it that are shown.
const SHOWN: usize = 200;

/// Over HTTP, or HTTPS with the certificates that this machine trusts.
pub struct Http {
    roots: RootCertStore,
    tls: TlsConnector,
}

impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Http")
    }
}

impl Http {
    /// Returns a client with the certificates that this machine trusts, or those in `SSL_CERT_FILE`.
    #[must_use]
    pub fn new() -> Http {
        Http::trusting(machine_roots())
    }

    pub(super) fn trusting(roots: RootCertStore) -> Http {
        Http { tls: connector(roots.clone()), roots }
    }

    /// Returns the connector to a receiver with authorities of its own.
    pub(super) fn connector(&self, authorities: &[CertificateDer<'static>]) -> Result<TlsConnector, SendError> {
        if authorities.is_empty() {
            return Ok(self.tls.clone());
        }
        let mut roots = self.roots.clone();
        for authority in authorities {
            let added = roots.add(authority.clone());
            added.map_err(|error| SendError(format!("ca_file has a certificate that can't be used: {error}")))?;
        }
        Ok(connector(roots))
    }
}

fn connector(roots: RootCertStore) -> TlsConnector {
    TlsConnector::from(client_config(roots))
}

impl Default for Http {
    fn default() -> Http {
        Http::new()
    }
}

impl Post for Http {
    fn post(&self, delivery: Delivery) -> Pin<Box<dyn Future<Output = Result<HttpAnswer, SendError>> + Send + '_>> {
        Box::pin(async move {
            let host = delivery.target.host().to_owned();
            let sent = async {
                match &delivery.mail {
                    Some(route) => mail::send(&delivery, route, &self.connector(&delivery.authorities)?).await,
                    None => self.exchange(delivery).await,
                }
            };
            match timeout(SEND_TIMEOUT, sent).await {
                Ok(answer) => answer,
                Err(_) => Err(SendError(format!("{host} did not answer within {} s", SEND_TIMEOUT.as_secs()))),
            }
        })
    }
}

impl Http {
    async fn exchange(&self, delivery: Delivery) -> Result<HttpAnswer, SendError> {
        let target = delivery.target.clone();
        if !target.is_encrypted() && !delivery.allow_private {
            return Err(SendError(
                "the address does not begin with https:// (http:// needs allow_private = true)".into(),
            ));
        }
        let tls = self.connector(&delivery.authorities)?;
        let stream = BoundedStream::new(connect(&target, delivery.allow_private).await?);
        if !target.is_encrypted() {
            return speak(stream, delivery).await;
        }
        speak(encrypted(&tls, &target, stream).await?, delivery).await
    }
}

/// Returns a connection to an address that may be connected to: the one that is checked is the one that is used.
async fn connect(target: &Destination, allow_private: bool) -> Result<TcpStream, SendError> {
    let host = target.host();
    let mut last = SendError(format!("{host} has no address"));
    for address in allowed_addresses(target, allow_private).await? {
        match TcpStream::connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(error) => last = SendError(format!("failed to connect to {host} ({address}): {error}")),
        }
    }
    Err(last)
}

/// Sends the message over a connection of its own, and reads the answer.
pub(super) async fn speak<S>(stream: S, delivery: Delivery) -> Result<HttpAnswer, SendError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let Delivery { target, headers, body, method, secrets, .. } = delivery;
    let failed = |error: hyper::Error| {
        let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
        SendError(plain_line(&secrets.hide(&format!("{}: {error}{cause}", target.host())), SHOWN))
    };
    let handshake = http1::Builder::new().max_buf_size(HEADERS).handshake(TokioIo::new(stream));
    let (mut sender, connection) = handshake.await.map_err(failed)?;
    let mut request = Request::builder()
        .method(method)
        .uri(target.path())
        .header(header::HOST, target.authority())
        .header(header::USER_AGENT, AGENT)
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::CONNECTION, "close");
    for (name, value) in headers {
        request = request.header(name, value);
    }
    let request = request.body(Full::new(Bytes::from(body)));
    let request =
        request.map_err(|_| SendError("the address, or the token, can't be written into a request".to_owned()))?;
    let exchange = async {
        let response = sender.send_request(request).await.map_err(failed)?;
        Ok(read(response, &secrets).await)
    };
    // The connection moves while the answer is waited for. If it breaks, the exchange reports it.
    let moves = async {
        drop(connection.await);
        std::future::pending::<()>().await;
    };
    tokio::select! {
        biased;
        answer = exchange => answer,
        () = moves => Err(SendError(format!("{} closed the connection", target.host()))),
    }
}

async fn read(response: Response<Incoming>, secrets: &Secrets) -> HttpAnswer {
    let status = response.status();
    let retry_after = retry_after(status, response.headers());
    let mut text = Vec::new();
    let mut body = response.into_body();
    let until = Instant::now() + LISTENS;
    // The part that came until it broke off, or took too long, is shown.
    while let Ok(Some(Ok(frame))) = timeout_at(until, body.frame()).await {
        text.extend_from_slice(frame.data_ref().map_or(&[][..], |data| &data[..]));
        if text.len() >= ANSWER {
            break;
        }
    }
    let text = plain_line(&secrets.hide(&String::from_utf8_lossy(&text)), SHOWN);
    HttpAnswer { status: status.as_u16(), retry_after, text }
}

/// Returns the time after which a receiver wants to be asked again: `Retry-After` in seconds or as a date, and the
/// limits of forges. Dates are compared with the receiver's own clock, if its answer has one.
pub(super) fn retry_after(status: StatusCode, headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let date = |text: &str| DateTimeParser::new().parse_timestamp(text).ok();
    let now = || text("date").and_then(date).unwrap_or_else(|| Clock::system().now());
    let until = |at: Timestamp| Duration::try_from(at.duration_since(now())).unwrap_or_default();
    if let Some(after) = text("retry-after") {
        return after.parse().ok().map(Duration::from_secs).or_else(|| date(after).map(until));
    }
    let limited = matches!(status, StatusCode::FORBIDDEN | StatusCode::TOO_MANY_REQUESTS);
    let spent = |left: &str| text(left) == Some("0");
    let reset = |at: &str| text(at)?.parse().ok().and_then(|second| Timestamp::from_second(second).ok()).map(until);
    [("x-ratelimit-remaining", "x-ratelimit-reset"), ("ratelimit-remaining", "ratelimit-reset")]
        .into_iter()
        .filter(|(left, _)| limited && spent(left))
        .find_map(|(_, at)| reset(at))
}
