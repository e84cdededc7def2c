//! Prometheus over HTTP: no redirects are followed, and size and time of an answer have limits.

use std::fmt;
use std::sync::OnceLock;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use belay_core::rollout::analysis::Sample;
use bytes::Bytes;
use http::{HeaderValue, Request, header};
use http_body_util::Full;
use jiff::Timestamp;
use rustls::RootCertStore;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::answer::samples;
use super::{Answer, InstantQuery, PrometheusError};
use crate::blocking::blocking;
use crate::config::{AnalysisConfig, read_secret};
use crate::http_client::{ExchangeError, HttpClient, authorization as header_value, bearer, client_of, exchange};
use crate::plain_line::plain_line;
use crate::secrets::Secrets;
use crate::tls::{machine_roots, with_authorities};
use crate::user_agent::AGENT;

/// The longest time of one query, from the connection to the last byte of the answer.
pub const QUERY_TIMEOUT: Duration = Duration::from_secs(10);
/// The number of queries that are asked at once.
pub const QUERIES_AT_ONCE: usize = 8;
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
        let answer = exchange(&client, request, LARGEST_ANSWER).await.map_err(|error| match error {
            ExchangeError::Unreachable(why) => hidden(&format!("Prometheus can't be reached: {why}")),
            error => hidden(&error.to_string()),
        })?;
        samples(answer.status().as_u16(), answer.body()).map_err(|PrometheusError(why)| hidden(&why))
    }

    /// Returns the client of an analysis. One with an authority of its own reads it for each query.
    fn client(&self, analysis: &AnalysisConfig) -> Result<HttpClient, PrometheusError> {
        let roots = || self.roots.get_or_init(machine_roots).clone();
        let Some(file) = &analysis.ca_file else {
            return Ok(self.client.get_or_init(|| client_of(roots(), QUERIES_AT_ONCE)).clone());
        };
        let failed = |why: String| PrometheusError(format!("ca_file {}: {why}", file.display()));
        Ok(client_of(with_authorities(roots(), file).map_err(failed)?, QUERIES_AT_ONCE))
    }
}

/// Returns the credentials of an analysis, and the texts that are shown to nobody.
fn authorization(analysis: &AnalysisConfig) -> Result<(Option<HeaderValue>, Secrets), PrometheusError> {
    let mut secrets = Secrets::default();
    let value = match (&analysis.token_file, &analysis.username, &analysis.password_file) {
        (Some(file), ..) => {
            let token = read_secret(file).map_err(PrometheusError)?;
            secrets.add(&token);
            bearer(&token)
        }
        (None, Some(user), Some(file)) => {
            let password = read_secret(file).map_err(PrometheusError)?;
            let password = password.trim_end_matches(['\r', '\n']);
            secrets.add_password(user, password);
            header_value(&format!("Basic {}", STANDARD.encode(format!("{user}:{password}"))))
        }
        _ => return Ok((None, secrets)),
    };
    let unusable = || PrometheusError("the credentials can't be written into a request".to_owned());
    Ok((Some(value.ok_or_else(unusable)?), secrets))
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
