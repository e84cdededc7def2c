//! Prometheus over HTTP: no redirects are followed, and size and time of an answer have limits.

use std::error::Error as _;
use std::fmt;
use std::sync::OnceLock;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use belay_core::rollout::analysis::Sample;
use bytes::Bytes;
use http::{HeaderValue, Request, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use jiff::Timestamp;
use rustls::RootCertStore;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::answer::samples;
use super::{Answer, InstantQuery, PrometheusError};
use crate::blocking::blocking;
use crate::config::{AnalysisConfig, read_secret};
use crate::plain_line::plain_line;
use crate::secrets::Secrets;
use crate::tls::{client_config, machine_roots, read_authorities};
use crate::user_agent::AGENT;

/// The longest time of one query, from the connection to the last byte of the answer.
pub const QUERY_TIMEOUT: Duration = Duration::from_secs(10);
/// The number of queries that are asked at once.
pub const QUERIES_AT_ONCE: usize = 8;
/// The time for which an idle connection is kept.
const IDLE: Duration = Duration::from_secs(20);
/// The largest answer, in bytes.
pub const LARGEST_ANSWER: usize = 4 << 20;
/// The most characters that are shown of an error.
const SHOWN: usize = 300;

/// Prometheus over HTTP or HTTPS.
pub struct PrometheusClient {
    /// The authorities that this machine trusts.
    roots: OnceLock<RootCertStore>,
    /// The client of addresses without an authority of their own. It keeps connections open.
    client: OnceLock<HttpClient>,
    /// The queries that may be asked at once: thousands of workloads may bake together, and Prometheus answers some 20 at a time.
    queries: Semaphore,
}

type HttpClient = Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

impl Default for PrometheusClient {
    fn default() -> PrometheusClient {
        PrometheusClient { roots: OnceLock::new(), client: OnceLock::new(), queries: Semaphore::new(QUERIES_AT_ONCE) }
    }
}

impl fmt::Debug for PrometheusClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PrometheusClient")
    }
}

impl InstantQuery for PrometheusClient {
    fn query<'a>(&'a self, analysis: &'a AnalysisConfig, query: String, at: Option<Timestamp>) -> Answer<'a> {
        Box::pin(async move {
            let _room = self.queries.acquire().await;
            match timeout(QUERY_TIMEOUT, self.ask(analysis, &query, at)).await {
                Ok(answer) => answer,
                Err(_) => {
                    Err(PrometheusError(format!("Prometheus did not answer within {} s", QUERY_TIMEOUT.as_secs())))
                }
            }
        })
    }
}

impl PrometheusClient {
    async fn ask(
        &self,
        analysis: &AnalysisConfig,
        query: &str,
        at: Option<Timestamp>,
    ) -> Result<Vec<Sample>, PrometheusError> {
        let (authorization, secrets) = blocking(|| authorization(analysis))?;
        let hidden = |text: &str| PrometheusError(plain_line(&secrets.hide(text), SHOWN));
        let mut request = Request::post(format!("{}/api/v1/query", analysis.prometheus.trim_end_matches('/')))
            .header(header::USER_AGENT, AGENT)
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
        if let Some(authorization) = authorization {
            request = request.header(header::AUTHORIZATION, authorization);
        }
        let body = form(query, at);
        let request = request.body(Full::new(Bytes::from(body))).map_err(|error| hidden(&error.to_string()))?;
        let client = blocking(|| self.client(analysis))?;
        let response = client.request(request).await.map_err(|error| hidden(&unreachable(&error)))?;
        let status = response.status().as_u16();
        let body = Limited::new(response.into_body(), LARGEST_ANSWER).collect().await.map_err(|error| {
            let limit = LARGEST_ANSWER >> 20;
            hidden(&format!("the answer broke off, or is larger than {limit} MiB: {error}"))
        })?;
        samples(status, &body.to_bytes()).map_err(|PrometheusError(why)| hidden(&why))
    }

    /// Returns the client of an analysis. One with an authority of its own reads it for each query.
    fn client(&self, analysis: &AnalysisConfig) -> Result<HttpClient, PrometheusError> {
        let roots = || self.roots.get_or_init(machine_roots).clone();
        let Some(file) = &analysis.ca_file else {
            return Ok(self.client.get_or_init(|| client_of(roots())).clone());
        };
        let failed = |why: String| PrometheusError(format!("ca_file {}: {why}", file.display()));
        let mut roots = roots();
        for authority in read_authorities(file).map_err(failed)? {
            roots.add(authority).map_err(|error| failed(error.to_string()))?;
        }
        Ok(client_of(roots))
    }
}

fn client_of(roots: RootCertStore) -> HttpClient {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    let connector = HttpsConnector::from((tcp, client_config(roots)));
    let mut builder = Client::builder(TokioExecutor::new());
    builder.pool_timer(TokioTimer::new()).pool_idle_timeout(IDLE).pool_max_idle_per_host(QUERIES_AT_ONCE);
    builder.build(connector)
}

/// Returns the credentials of an analysis, and the texts that are shown to nobody.
fn authorization(analysis: &AnalysisConfig) -> Result<(Option<HeaderValue>, Secrets), PrometheusError> {
    let mut secrets = Secrets::default();
    let text = match (&analysis.token_file, &analysis.username, &analysis.password_file) {
        (Some(file), ..) => {
            let token = read_secret(file).map_err(PrometheusError)?;
            secrets.add(&token);
            format!("Bearer {}", token.trim())
        }
        (None, Some(user), Some(file)) => {
            let password = read_secret(file).map_err(PrometheusError)?;
            let password = password.trim_end_matches(['\r', '\n']);
            secrets.add_password(user, password);
            format!("Basic {}", STANDARD.encode(format!("{user}:{password}")))
        }
        _ => return Ok((None, secrets)),
    };
    let mut value = HeaderValue::from_str(&text)
        .map_err(|_| PrometheusError("the credentials can't be written into a request".to_owned()))?;
    value.set_sensitive(true);
    Ok((Some(value), secrets))
}

/// Returns the body of a query.
fn form(query: &str, at: Option<Timestamp>) -> String {
    let mut form = form_urlencoded::Serializer::new(String::new());
    form.append_pair("query", query);
    if let Some(at) = at {
        form.append_pair("time", &at.to_string());
    }
    form.finish()
}

fn unreachable(error: &hyper_util::client::legacy::Error) -> String {
    let (mut text, mut cause) = (error.to_string(), error.source());
    while let Some(error) = cause {
        text = error.to_string();
        cause = error.source();
    }
    format!("Prometheus can't be reached: {text}")
}
