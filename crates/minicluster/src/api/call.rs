//! One request, parsed: its user, target and options.

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Method, header};
use http_body_util::BodyExt;
use serde_json::Value;

use super::ApiError;
use super::protobuf;
use super::query::Query;
use kube_rules::BodyFormat;

/// The largest body that is read, in bytes.
const BODY_LIMIT: usize = 3 * 1024 * 1024;

/// The most letters that a field manager's name may have.
const MANAGER_LIMIT: usize = 128;

/// A request.
#[derive(Clone, Debug)]
pub struct Call {
    /// The method.
    pub method: Method,
    /// The path, as sent.
    pub path: String,
    /// The parameters.
    pub query: Query,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
    /// The user.
    pub user: User,
}

/// The user of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// The name, `system:admin`.
    pub name: String,
    /// The uid, if there is one.
    pub uid: String,
    /// The groups.
    pub groups: Vec<String>,
    /// Whatever else is known.
    pub extra: Vec<(String, Vec<String>)>,
}

impl User {
    /// Returns one who may do everything.
    #[must_use]
    pub fn admin() -> User {
        User {
            name: "admin".to_owned(),
            uid: "admin".to_owned(),
            groups: vec!["system:masters".to_owned(), "system:authenticated".to_owned()],
            extra: Vec::new(),
        }
    }
}

impl Call {
    /// Returns a header's first value, if it is text.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Returns the first part of the client's name for itself, which names it as a field manager where it names no
    /// other.
    #[must_use]
    pub fn agent(&self) -> String {
        let agent = self.header("user-agent").unwrap_or_default();
        let first = agent.split('/').next().unwrap_or_default();
        let printable: String = first.chars().filter(|c| !c.is_control()).collect();
        let mut end = printable.len().min(MANAGER_LIMIT);
        while !printable.is_char_boundary(end) {
            end -= 1;
        }
        printable[..end].to_owned()
    }

    /// Returns the field manager: named by the request, or the client's name for itself.
    #[must_use]
    pub fn manager(&self) -> String {
        self.query.text("fieldManager").map_or_else(|| self.agent(), str::to_owned)
    }

    /// Returns the media type of the body, without parameters, in lower case.
    #[must_use]
    pub fn content_type(&self) -> String {
        let sent = self.header("content-type").unwrap_or_default();
        sent.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
    }

    /// Takes a body in. One in protocol buffers becomes JSON, which everything that comes after reads.
    ///
    /// # Errors
    /// 400 for protocol buffers that can't be read.
    pub fn read(&mut self, body: Bytes) -> Result<(), ApiError> {
        self.body = body;
        if self.content_type() != protobuf::MEDIA_TYPE || self.body.is_empty() {
            return Ok(());
        }
        let value = protobuf::to_json(&self.body)
            .map_err(|error| ApiError::bad_request(format!("the object provided is unrecognized: {error}")))?;
        self.body = value.to_string().into();
        self.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Ok(())
    }

    /// Returns the format of the body.
    ///
    /// # Errors
    /// 415 for media types that are not read.
    pub fn body_format(&self) -> Result<BodyFormat, ApiError> {
        match self.content_type().as_str() {
            "" | "application/json" => Ok(BodyFormat::Json),
            "application/yaml" => Ok(BodyFormat::Yaml),
            _ => Err(ApiError::new(
                415,
                "UnsupportedMediaType",
                "the body of the request was in an unknown format - accepted media types include: application/json, \
                 application/yaml, application/vnd.kubernetes.protobuf",
            )),
        }
    }

    /// Returns the body as a value of no particular kind; `None` if there is no body.
    ///
    /// # Errors
    /// 400 for a body that can't be read, 415 for a media type that is not read.
    pub fn options(&self) -> Result<Option<Value>, ApiError> {
        if self.body.is_empty() {
            return Ok(None);
        }
        let value: Result<Value, String> = match self.body_format()? {
            BodyFormat::Json => serde_json::from_slice(&self.body).map_err(|error| {
                if error.is_eof() { "unexpected end of JSON input".to_owned() } else { error.to_string() }
            }),
            BodyFormat::Yaml => serde_yaml::from_slice(&self.body).map_err(|error| error.to_string()),
        };
        value
            .map(Some)
            .map_err(|error| ApiError::bad_request(format!("couldn't get version/kind; json parse error: {error}")))
    }
}

/// Reads a body to its end.
///
/// # Errors
/// 413 for one that is too large, 400 for one that breaks off.
pub async fn read_body<B>(body: B) -> Result<Bytes, ApiError>
where
    B: http_body::Body,
    B::Data: bytes::Buf,
{
    let mut body = std::pin::pin!(body);
    let mut read = BytesMut::new();
    while let Some(frame) = body.as_mut().frame().await {
        let Ok(frame) = frame else { return Err(ApiError::bad_request("the body of the request broke off")) };
        let Ok(mut data) = frame.into_data() else { continue };
        while bytes::Buf::has_remaining(&data) {
            let chunk = bytes::Buf::chunk(&data);
            if read.len() + chunk.len() > BODY_LIMIT {
                let message = format!("Request entity too large: limit is {BODY_LIMIT}");
                return Err(ApiError::new(413, "RequestEntityTooLarge", message));
            }
            let length = chunk.len();
            read.extend_from_slice(chunk);
            bytes::Buf::advance(&mut data, length);
        }
    }
    Ok(read.freeze())
}
