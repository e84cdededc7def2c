//! A leaf: requests to other servers over HTTP and HTTPS. No redirect is followed, so that credentials go to no other host,
//! and an answer is read up to a limit. The limit of time is the caller's.

use std::error::Error as _;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request, Response};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{Client, Error};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::RootCertStore;

use crate::tls::client_config;

/// The time for which an idle connection is kept.
const IDLE: Duration = Duration::from_secs(20);

/// A client that keeps connections open.
pub type HttpClient = Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// The reason for which there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExchangeError {
    /// There is no connection, or it broke before the answer.
    #[error("{0}")]
    Unreachable(String),
    /// The answer did not come to its end.
    #[error("the answer broke off, or is larger than {limit} MiB: {cause}")]
    BrokenOff {
        /// The limit, in MiB.
        limit: usize,
        /// The message of the connection.
        cause: String,
    },
}

/// Returns a client that trusts these authorities, and keeps at most so many idle connections to a host.
#[must_use]
pub fn client_of(roots: RootCertStore, idle_connections: usize) -> HttpClient {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    let connector = HttpsConnector::from((tcp, client_config(roots)));
    let mut builder = Client::builder(TokioExecutor::new());
    builder.pool_timer(TokioTimer::new()).pool_idle_timeout(IDLE).pool_max_idle_per_host(idle_connections);
    builder.build(connector)
}

/// Sends a request, and returns the answer, of at most so many bytes.
///
/// # Errors
/// Fails when there is no answer, or it does not come to its end.
pub async fn exchange(
    client: &HttpClient,
    request: Request<Full<Bytes>>,
    largest: usize,
) -> Result<Response<Bytes>, ExchangeError> {
    let answer = client.request(request).await.map_err(|error| ExchangeError::Unreachable(innermost(&error)))?;
    let (head, body) = answer.into_parts();
    let body = Limited::new(body, largest).collect().await;
    let body =
        body.map_err(|cause| ExchangeError::BrokenOff { limit: largest >> 20, cause: cause.to_string() })?.to_bytes();
    Ok(Response::from_parts(head, body))
}

/// Returns the value of `Authorization` for a token; `None` if it can't be written into a request.
#[must_use]
pub fn bearer(token: &str) -> Option<HeaderValue> {
    authorization(&format!("Bearer {}", token.trim()))
}

/// Returns a value of `Authorization` that no log shows; `None` if it can't be written into a request.
#[must_use]
pub fn authorization(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

fn innermost(error: &Error) -> String {
    let (mut text, mut cause) = (error.to_string(), error.source());
    while let Some(error) = cause {
        text = error.to_string();
        cause = error.source();
    }
    text
}
