//! The answer, before it is written in the form that the client accepts.

use std::collections::{BTreeSet, VecDeque};

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response, header};
use serde_json::Value;

use super::ApiError;
use super::body::Body;
use super::negotiate::{Format, Negotiated};
use super::pretty::pretty;
use super::protobuf;

/// An answer.
#[derive(Debug)]
pub struct Reply {
    /// The HTTP code.
    pub code: u16,
    /// The content.
    pub content: ReplyContent,
    /// Texts for `Warning` headers.
    pub warnings: Vec<String>,
    /// Further headers.
    pub headers: Vec<(HeaderName, String)>,
}

/// The content of an answer.
#[derive(Debug)]
pub enum ReplyContent {
    /// A value, to be written.
    Value(Value),
    /// JSON that is written already, in pieces.
    Json(VecDeque<Bytes>),
    /// Anything else, with its media type.
    Other(&'static str, Body),
}

impl Reply {
    /// Returns 200 with a value.
    #[must_use]
    pub fn value(value: Value) -> Reply {
        Reply::new(200, ReplyContent::Value(value))
    }

    /// Returns 200 with JSON that is written already.
    #[must_use]
    pub fn json(json: Bytes) -> Reply {
        Reply::new(200, ReplyContent::Json(VecDeque::from([json])))
    }

    /// Plain text.
    pub fn text(code: u16, text: impl Into<Bytes>) -> Reply {
        let reply = Reply::new(code, ReplyContent::Other("text/plain; charset=utf-8", Body::full(text.into())));
        reply.header(header::X_CONTENT_TYPE_OPTIONS, "nosniff")
    }

    /// Returns an answer.
    #[must_use]
    pub fn new(code: u16, content: ReplyContent) -> Reply {
        Reply { code, content, warnings: Vec::new(), headers: Vec::new() }
    }

    /// Returns the same with another code.
    #[must_use]
    pub fn code(self, code: u16) -> Reply {
        Reply { code, ..self }
    }

    /// Returns the same with a header.
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: impl Into<String>) -> Reply {
        self.headers.push((name, value.into()));
        self
    }

    /// Returns the same with warnings.
    #[must_use]
    pub fn warn(mut self, warnings: Vec<String>) -> Reply {
        self.warnings.extend(warnings);
        self
    }

    /// Returns the answer, or the refusal, to a body that causes warnings: both carry them.
    #[must_use]
    pub fn noticing(noticed: Vec<String>, reply: Result<Reply, ApiError>) -> Reply {
        let mut reply = reply.unwrap_or_else(Reply::from);
        reply.warnings.splice(..0, noticed);
        reply
    }

    /// Adds a warning before all others.
    pub fn warn_first(mut self, warning: Option<String>) -> Reply {
        self.warnings.splice(..0, warning);
        self
    }

    /// Returns the answer in the form that the client takes.
    #[must_use]
    pub fn write(self, how: &Negotiated) -> Response<Body> {
        let (media_type, body) = match self.content {
            ReplyContent::Other(media_type, body) => (media_type, body),
            ReplyContent::Value(value) => written(serde_json::to_vec(&value).unwrap_or_default().into(), how),
            ReplyContent::Json(pieces) if how.format == Format::Json && !how.pretty => {
                ("application/json", Body::pieces(pieces))
            }
            ReplyContent::Json(pieces) => written(pieces.iter().flatten().copied().collect(), how),
        };
        let mut response = Response::new(body);
        *response.status_mut() = http::StatusCode::from_u16(self.code).unwrap_or_default();
        let headers = response.headers_mut();
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
        for (name, value) in self.headers {
            if let Ok(value) = HeaderValue::from_str(&value) {
                headers.insert(name, value);
            }
        }
        for warning in within_bounds(self.warnings) {
            if let Ok(value) = HeaderValue::from_str(&format!("299 - {}", quoted(&warning))) {
                headers.append(header::WARNING, value);
            }
        }
        response
    }
}

/// The most characters of all warnings, and of each where all of them have more.
const WARNINGS: usize = 4_096;
const WARNING: usize = 256;

/// Each warning once. If they are too long together, each is cut, and those behind the limit are left out.
fn within_bounds(mut warnings: Vec<String>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    warnings.retain(|warning| !warning.is_empty() && seen.insert(warning.clone()));
    let length = |warning: &String| warning.chars().count();
    let mut total = 0;
    let fitting = warnings.iter().take_while(|warning| {
        total += length(warning);
        total <= WARNINGS
    });
    let fitting = fitting.count();
    if fitting == warnings.len() {
        return warnings;
    }
    let mut written = 0;
    let mut cut = Vec::new();
    for (index, warning) in warnings.iter().enumerate() {
        if index > fitting && written >= WARNINGS {
            break;
        }
        let warning: String = warning.chars().take(WARNING).collect();
        written += length(&warning);
        cut.push(warning);
    }
    cut
}

impl From<ApiError> for Reply {
    fn from(error: ApiError) -> Reply {
        let reply = Reply::value(error.to_status()).code(error.code);
        match error.retry_after_seconds {
            Some(seconds) => reply.header(header::RETRY_AFTER, seconds.to_string()),
            None => reply,
        }
    }
}

/// Writes JSON in the form that the client takes. A value without a form in protocol buffers stays JSON.
fn written(json: Bytes, how: &Negotiated) -> (&'static str, Body) {
    let value = || -> Value { serde_json::from_slice(&json).unwrap_or_default() };
    match how.format {
        Format::Protobuf => match protobuf::from_json(&value()) {
            Some(bytes) => (protobuf::MEDIA_TYPE, Body::full(bytes.into())),
            None => ("application/json", Body::full(json)),
        },
        Format::Json if how.pretty => ("application/json", Body::full(pretty(&json).into())),
        Format::Json => ("application/json", Body::full(json)),
        Format::Yaml => {
            let yaml = serde_yaml::to_string(&value()).unwrap_or_default();
            ("application/yaml", Body::full(yaml.into()))
        }
    }
}

/// Returns a warning's text as a quoted string; characters that a header can't carry are left out.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars().filter(|c| !c.is_control()) {
        if matches!(c, '"' | '\\') {
            out.push('\\');
        }
        out.push(c);
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_that_are_too_long_together_are_cut() {
        let few = vec!["a".to_owned(), String::new(), "b".to_owned(), "a".to_owned()];
        assert_eq!(within_bounds(few), ["a", "b"]);
        let fitting = vec!["x".repeat(WARNINGS)];
        assert_eq!(within_bounds(fitting.clone()), fitting);
        let long = |number: usize| format!("{number:05}{}", "\u{e4}".repeat(400));
        let cut = within_bounds((0..100_000).map(long).collect());
        assert_eq!(cut.len(), WARNINGS / WARNING);
        assert!(cut.iter().all(|warning| warning.chars().count() == WARNING));
    }
}
