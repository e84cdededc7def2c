//! One request to a daemon: bounded, to the named host only.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{anyhow, bail};
use bytes::Bytes;
use http::{HeaderValue, Request, StatusCode, header};
use http_body_util::Full;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::refusal::{AskedQuestion, ServerError, meaning};
use super::{ServerArgs, ServerUrl};
use crate::cli::Globals;
use crate::config::read_secret;
use crate::http_client::{ExchangeError, HttpClient, bearer, client_of, exchange};
use crate::plain_line::plain_line;
use crate::secrets::Secrets;
use crate::tls::{machine_roots, with_authorities};
use crate::user_agent::AGENT;

/// The longest time of one request, unless `--request-timeout` says another.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// The largest answer, in bytes.
const LARGEST_ANSWER: usize = 64 << 20;
/// The number of idle connections that are kept.
const CONNECTIONS: usize = 4;
/// The most characters that are shown of an error.
const SHOWN: usize = 300;

/// A daemon that is asked over HTTP.
pub(in crate::cli) struct ServerApi {
    url: ServerUrl,
    client: HttpClient,
    authorization: Option<HeaderValue>,
    token_file: Option<PathBuf>,
    secrets: Secrets,
    limit: Duration,
}

impl ServerArgs {
    /// Returns the named daemon; `None` if none is. Nothing is asked yet.
    pub(in crate::cli) fn api(&self, globals: &Globals) -> anyhow::Result<Option<ServerApi>> {
        let ServerArgs { server, token_file, ca_file } = self.clone();
        let Some(url) = server else { return Ok(None) };
        let (mut secrets, mut authorization) = (Secrets::default(), None);
        if let Some(file) = &token_file {
            if !url.is_private() {
                bail!("--token-file: everybody on the way to {url} could read the token: use https://");
            }
            let token = read_secret(file).map_err(|why| anyhow!("--token-file: {why}"))?;
            secrets.add(&token);
            let unusable = || anyhow!("--token-file: {} holds no token: a token is one line", file.display());
            authorization = Some(bearer(&token).ok_or_else(unusable)?);
        }
        let roots = machine_roots();
        let roots = match &ca_file {
            Some(file) => {
                let failed = |why| anyhow!("--ca-file {}: {why}", file.display());
                with_authorities(roots, file).map_err(failed)?
            }
            None => roots,
        };
        let limit = globals.request_timeout.unwrap_or(REQUEST_TIMEOUT);
        let client = client_of(roots, CONNECTIONS);
        Ok(Some(ServerApi { url, client, authorization, token_file, secrets, limit }))
    }
}

impl ServerApi {
    /// Returns the URL of the daemon's pages.
    pub(in crate::cli) fn url(&self) -> &ServerUrl {
        &self.url
    }

    /// Asks a question, and returns the answer.
    pub(super) async fn ask<T: DeserializeOwned>(&self, path_and_query: &str) -> Result<T, ServerError> {
        let address = self.url.at(path_and_query);
        let (status, body) = self.exchange(&address).await?;
        if status != StatusCode::OK {
            let token_file = self.token_file.as_ref().map(|file| file.display().to_string());
            let asked = AskedQuestion { address: &address, host: self.url.host(), token_file: token_file.as_deref() };
            return Err(self.hidden(meaning(&asked, status, &body)));
        }
        serde_json::from_slice(&body).map_err(|error| {
            let why = format!(
                "{address}: the answer is not one of belay {}: {error}; is it a page of login, or of another version?",
                env!("CARGO_PKG_VERSION")
            );
            self.hidden(ServerError::Refused(why))
        })
    }

    async fn exchange(&self, address: &str) -> Result<(StatusCode, Bytes), ServerError> {
        let mut request =
            Request::get(address).header(header::USER_AGENT, AGENT).header(header::ACCEPT, "application/json");
        if let Some(authorization) = &self.authorization {
            request = request.header(header::AUTHORIZATION, authorization);
        }
        let request = request.body(Full::new(Bytes::new()));
        let request = request.map_err(|error| ServerError::Refused(format!("{address}: {error}")))?;
        let Ok(answer) = timeout(self.limit, exchange(&self.client, request, LARGEST_ANSWER)).await else {
            let limit = crate::config::Span(self.limit);
            return Err(ServerError::Away(format!("{address} did not answer within {limit} (--request-timeout)")));
        };
        let answer = answer.map_err(|error| self.hidden(unanswered(address, &error)))?;
        Ok((answer.status(), answer.into_body()))
    }

    fn hidden(&self, error: ServerError) -> ServerError {
        let hide = |text: String| plain_line(&self.secrets.hide(&text), SHOWN * 2);
        match error {
            ServerError::Away(text) => ServerError::Away(hide(text)),
            ServerError::Nothing(text) => ServerError::Nothing(hide(text)),
            ServerError::Refused(text) => ServerError::Refused(hide(text)),
        }
    }
}

/// Returns the meaning of a missing answer.
fn unanswered(address: &str, error: &ExchangeError) -> ServerError {
    let shown = |text: &str| plain_line(text, SHOWN);
    match error {
        ExchangeError::Unreachable(why) if why.contains("UnknownIssuer") => ServerError::Refused(format!(
            "{address} can't be reached: {}; if its authority is your own, name it with --ca-file",
            shown(why)
        )),
        ExchangeError::Unreachable(why) if why.contains("certificate") => {
            ServerError::Refused(format!("{address} can't be reached: {}", shown(why)))
        }
        ExchangeError::Unreachable(why) => ServerError::Away(format!("{address} can't be reached: {}", shown(why))),
        error @ ExchangeError::BrokenOff { .. } => ServerError::Away(format!(
            "{address}: {}; a smaller --limit has a smaller answer",
            shown(&error.to_string())
        )),
    }
}
