//! A message on its way, and its answer.

use std::fmt;
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::time::Duration;

use http::{Method, StatusCode};
use lettre::address::Envelope;
use lettre::transport::smtp::authentication::Credentials;
use rustls::pki_types::CertificateDer;

use super::address::Destination;
use crate::secrets::Secrets;
use crate::tls::read_authorities;

/// A message on its way.
#[derive(Clone)]
pub struct Delivery {
    pub(super) target: Destination,
    pub(super) allow_private: bool,
    /// Its headers, beside those that every message has.
    pub headers: Vec<(&'static str, String)>,
    /// `POST`, or `GET` for the check of a repository.
    pub method: Method,
    /// Authorities that are trusted beside those that the machine trusts.
    pub(super) authorities: Vec<CertificateDer<'static>>,
    /// The route of a mail; HTTP if it is none.
    pub(super) mail: Option<MailRoute>,
    /// The texts that are never shown of an answer.
    pub(super) secrets: Secrets,
    /// The body.
    pub body: Vec<u8>,
}

impl fmt::Debug for Delivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Delivery").field("to", &self.target).finish_non_exhaustive()
    }
}

impl Delivery {
    /// Returns the requested path.
    #[must_use]
    pub fn path(&self) -> &str {
        self.target.path()
    }

    /// Returns the host that it goes to.
    #[must_use]
    pub fn host(&self) -> &str {
        self.target.host()
    }
}

/// The answer of a receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpAnswer {
    /// The status.
    pub status: u16,
    /// The time after which it wants to be asked again.
    pub retry_after: Option<Duration>,
    /// The beginning of its answer, without characters that could steer a terminal, and without secrets.
    pub text: String,
}

/// The meaning of an answer for the message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum AnswerVerdict {
    /// It was taken.
    Taken,
    /// It will never be taken.
    Refused,
    /// It is to be sent again; with advice, where there is some.
    Again(Option<String>),
}

/// The reason for which there was no answer. Never says the address but for its host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SendError(pub String);

/// Returns the certificates of a `ca_file`.
pub(super) fn authorities(ca_file: Option<&Path>) -> Result<Vec<CertificateDer<'static>>, SendError> {
    let Some(file) = ca_file else { return Ok(Vec::new()) };
    read_authorities(file).map_err(|why| SendError(format!("ca_file {}: {why}", file.display())))
}

/// The transport of messages to receivers.
pub trait Post: Send + Sync + 'static {
    /// Sends one, and returns the answer.
    fn post(&self, delivery: Delivery) -> Pin<Box<dyn Future<Output = Result<HttpAnswer, SendError>> + Send + '_>>;
}

/// The route of a mail.
#[derive(Clone)]
pub(super) struct MailRoute {
    /// The sender and the recipients.
    pub(super) envelope: Envelope,
    /// The name and password by which the server knows belay.
    pub(super) credentials: Option<Credentials>,
}

impl HttpAnswer {
    /// Returns true when the message was taken.
    #[must_use]
    pub fn is_taken(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// Returns true when the same message will never be taken, whatever is done about the receiver.
    pub(super) fn is_refusal(&self) -> bool {
        matches!(self.status, 400 | 413 | 422)
    }
}

impl fmt::Display for HttpAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = StatusCode::from_u16(self.status).ok().and_then(|status| status.canonical_reason());
        write!(f, "{}", self.status)?;
        if let Some(reason) = reason {
            write!(f, " {reason}")?;
        }
        if (300..400).contains(&self.status) {
            f.write_str(" (redirects are not followed)")?;
        }
        if !self.text.is_empty() {
            write!(f, ": {}", self.text)?;
        }
        Ok(())
    }
}
