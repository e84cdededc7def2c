//! Git over HTTP: one request for the references, and one for each step after that.

use std::io::{self, Read, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use git2::transport::{Service, SmartSubtransport, SmartSubtransportStream};
use http::header::{
    ACCEPT, AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HeaderName, HeaderValue, LOCATION, USER_AGENT,
};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;

use super::http_client::{self, SendRequest};
use super::redirect::redirected;
use super::session::{ServerSession, SessionRuntime, innermost, shown};
use crate::git::error::GitError;
use crate::interim_answers::with_few_interim_answers;
use crate::user_agent::AGENT;

/// The most redirects, and questions for credentials, before a server answers.
const ANSWERS: usize = 8;
/// The most bytes that are pushed at once.
const PUSH: usize = 64 << 20;
/// The product before belay's own: forges tell Git's programs from browsers by it.
const GIT: &str = "git/2.0";

/// Speaks with one server.
pub(super) struct HttpTransport {
    session: Arc<ServerSession>,
    connection: Arc<Mutex<Option<HttpConnection>>>,
}

/// The connection with the server, and what was learned over it.
struct HttpConnection {
    session: Arc<ServerSession>,
    send: SendRequest,
    /// The address of the repository, after redirects.
    address: String,
    /// The credentials, once the server has asked for them.
    authorization: Option<HeaderValue>,
    runtime: SessionRuntime,
}

/// One request and its answer.
struct HttpStream {
    session: Arc<ServerSession>,
    connection: Arc<Mutex<Option<HttpConnection>>>,
    service: Service,
    request: Vec<u8>,
    answer: Option<Incoming>,
    chunk: Bytes,
}

impl HttpTransport {
    pub(super) fn new(session: Arc<ServerSession>) -> HttpTransport {
        HttpTransport { session, connection: Arc::default() }
    }
}

impl SmartSubtransport for HttpTransport {
    fn action(&self, _: &str, service: Service) -> Result<Box<dyn SmartSubtransportStream>, git2::Error> {
        let mut connection = locked(&self.connection);
        if connection.is_none() {
            let begun = HttpConnection::begin(&self.session).map_err(|error| self.session.refuse(error))?;
            *connection = Some(begun);
        }
        Ok(Box::new(HttpStream {
            session: Arc::clone(&self.session),
            connection: Arc::clone(&self.connection),
            service,
            request: Vec::new(),
            answer: None,
            chunk: Bytes::new(),
        }))
    }

    fn close(&self) -> Result<(), git2::Error> {
        *locked(&self.connection) = None;
        Ok(())
    }
}

fn locked(connection: &Mutex<Option<HttpConnection>>) -> MutexGuard<'_, Option<HttpConnection>> {
    connection.lock().unwrap_or_else(PoisonError::into_inner)
}

impl HttpConnection {
    fn begin(session: &Arc<ServerSession>) -> Result<HttpConnection, GitError> {
        let send = http_client::connect(session)?;
        Ok(HttpConnection {
            send,
            address: session.location.to_string(),
            authorization: None,
            runtime: SessionRuntime::new(session)?,
            session: Arc::clone(session),
        })
    }

    /// Sends a request until the server answers it.
    fn exchange(&mut self, service: Service, body: &Bytes) -> Result<Incoming, GitError> {
        for _ in 0..ANSWERS {
            let request = self.request(service, body.clone())?;
            let answer = self.session.wait(&self.runtime, async {
                match with_few_interim_answers(request, &self.send).await {
                    Ok(sent) => sent.map_err(|error| http_client::explain(&self.session, &error)),
                    Err(error) => Err(self.session.unreachable(error.to_string())),
                }
            })?;
            if let Some(body) = self.judge(service, answer)? {
                return Ok(body);
            }
        }
        Err(self.session.refused("it redirects, or asks for credentials, again and again"))
    }

    fn request(&self, service: Service, body: Bytes) -> Result<Request<Full<Bytes>>, GitError> {
        let mut request = Request::builder().header(USER_AGENT, format!("{GIT} {AGENT}"));
        let path = path_of(service);
        request = match is_get(service) {
            true => request.method(Method::GET).header(ACCEPT, "*/*"),
            false => request
                .method(Method::POST)
                .header(CONTENT_TYPE, media_type(service, "request"))
                .header(ACCEPT, media_type(service, "result")),
        };
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization.clone());
        }
        let address = format!("{}{path}", self.address.trim_end_matches('/'));
        request.uri(address).body(Full::new(body)).map_err(|error| self.session.unreachable(error.to_string()))
    }

    /// Returns what the server sends; nothing where the request is to be sent once more, otherwise than before.
    fn judge(&mut self, service: Service, answer: Response<Incoming>) -> Result<Option<Incoming>, GitError> {
        match answer.status() {
            StatusCode::OK => {
                check_form(&self.session, service, &answer)?;
                Ok(Some(answer.into_body()))
            }
            StatusCode::UNAUTHORIZED if self.authorization.is_some() => {
                Err(self.session.refused("it does not take the token that is configured"))
            }
            StatusCode::UNAUTHORIZED => match self.session.credentials.authorization(&self.session.location)? {
                Some(authorization) => {
                    self.authorization = Some(authorization);
                    Ok(None)
                }
                None => Err(self.session.refused("it wants credentials, and none are configured for it")),
            },
            StatusCode::FORBIDDEN if matches!(service, Service::ReceivePackLs | Service::ReceivePack) => {
                Err(self.session.refused("these credentials may not push to it"))
            }
            StatusCode::FORBIDDEN => Err(self.session.refused("these credentials may not read it")),
            StatusCode::NOT_FOUND => {
                Err(self.session.refused("it knows no such repository, or none that these credentials may read"))
            }
            status if status.is_redirection() => {
                self.address = self.redirected(service, header(&answer, LOCATION))?;
                Ok(None)
            }
            status => Err(self.session.unreachable(format!("it answers HTTP {}", status.as_u16()))),
        }
    }

    /// Returns the address of the repository after a redirect.
    fn redirected(&self, service: Service, to: &str) -> Result<String, GitError> {
        let new_address =
            |why: String| self.session.refused(format!("{why}; write the new address into the configuration"));
        if !is_get(service) {
            return Err(new_address("it redirects in the middle of a session".to_owned()));
        }
        redirected(self.session.location.origin(), to, path_of(service)).map_err(new_address)
    }
}

/// Checks that the answer is one of Git, and not packed otherwise.
fn check_form(session: &ServerSession, service: Service, answer: &Response<Incoming>) -> Result<(), GitError> {
    let wanted = media_type(service, if is_get(service) { "advertisement" } else { "result" });
    let given = header(answer, CONTENT_TYPE);
    if given.split(';').next().unwrap_or_default().trim() != wanted {
        let message = format!("there is no Git repository: it answers with the content type {:?}", shown(given));
        return Err(session.unreachable(message));
    }
    match header(answer, CONTENT_ENCODING) {
        "" | "identity" => Ok(()),
        other => {
            Err(session.unreachable(format!("it answers in an encoding that was not asked for: {:?}", shown(other))))
        }
    }
}

fn header(answer: &Response<Incoming>, name: HeaderName) -> &str {
    answer.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

fn is_get(service: Service) -> bool {
    matches!(service, Service::UploadPackLs | Service::ReceivePackLs)
}

fn path_of(service: Service) -> &'static str {
    match service {
        Service::UploadPackLs => "/info/refs?service=git-upload-pack",
        Service::ReceivePackLs => "/info/refs?service=git-receive-pack",
        Service::UploadPack => "/git-upload-pack",
        Service::ReceivePack => "/git-receive-pack",
    }
}

fn media_type(service: Service, part: &str) -> String {
    let program = match service {
        Service::UploadPackLs | Service::UploadPack => "upload",
        Service::ReceivePackLs | Service::ReceivePack => "receive",
    };
    format!("application/x-git-{program}-pack-{part}")
}

impl HttpStream {
    /// Returns the next bytes of the answer; none at its end.
    fn next(&mut self) -> Result<Bytes, GitError> {
        let mut connection = locked(&self.connection);
        let connection = connection.as_mut().ok_or(GitError::Cancelled)?;
        if self.answer.is_none() {
            let request = Bytes::from(std::mem::take(&mut self.request));
            self.answer = Some(connection.exchange(self.service, &request)?);
        }
        let Some(answer) = &mut self.answer else { return Ok(Bytes::new()) };
        loop {
            match self.session.wait(&connection.runtime, async { Ok(answer.frame().await) })? {
                None => return Ok(Bytes::new()),
                Some(Err(error)) => return Err(self.session.unreachable(innermost(&error))),
                Some(Ok(frame)) => {
                    let data = frame.into_data().unwrap_or_default();
                    self.session.received(data.len());
                    if !data.is_empty() {
                        return Ok(data);
                    }
                }
            }
        }
    }
}

impl Read for HttpStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.chunk.is_empty() {
            self.chunk = self.next().map_err(|error| self.session.fail(error))?;
        }
        let given = self.chunk.split_to(self.chunk.len().min(buffer.len()));
        buffer[..given.len()].copy_from_slice(&given);
        Ok(given.len())
    }
}

impl Write for HttpStream {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        if self.request.len() + buffer.len() > PUSH {
            let what = "the commits to push".to_owned();
            let size = u64::try_from(self.request.len() + buffer.len()).unwrap_or(u64::MAX);
            return Err(self.session.fail(GitError::TooLarge { what, size, limit: PUSH as u64 }));
        }
        self.request.extend_from_slice(buffer);
        Ok(buffer.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
