//! The client of a session over HTTP: which proxy it goes through, and which certificates it trusts.

use std::error::Error as _;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Uri};
use http_body_util::Full;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::legacy::connect::{Connect, HttpConnector};
use hyper_util::client::legacy::{Client, Error, ResponseFuture};
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use hyper_util::rt::TokioExecutor;
use rustls::ClientConfig;

use super::location::Scheme;
use super::session::{ServerSession, innermost};
use crate::git::error::GitError;
use crate::tls::{client_config, machine_roots};

/// The longest time in which a connection comes about.
const CONNECT: Duration = Duration::from_secs(15);

/// Sends a request.
pub(super) type SendRequest = Box<dyn Fn(Request<Full<Bytes>>) -> ResponseFuture + Send>;

/// Makes the client of a session. It connects with the first request.
pub(super) fn connect(session: &ServerSession) -> Result<SendRequest, GitError> {
    if session.location.origin().is_some_and(|origin| origin.scheme == Scheme::Http) {
        // That is a server on this machine.
        return Ok(sender(tcp()));
    }
    let address = session.location.to_string();
    let target: Uri = address.parse().map_err(|error: http::uri::InvalidUri| session.unreachable(error.to_string()))?;
    let tls = tls(session)?;
    let Some(proxy) = proxy(&target, session.settings.proxy.as_deref()) else {
        return Ok(sender(HttpsConnector::from((tcp(), tls))));
    };
    if !matches!(proxy.uri().scheme_str(), Some("http" | "https")) {
        let message = format!("belay goes through http and https proxies, and not through {}", proxy.uri());
        return Err(session.unreachable(message));
    }
    tracing::debug!(proxy = %proxy.uri(), "going through a proxy");
    let mut tunnel = Tunnel::new(proxy.uri().clone(), HttpsConnector::from((tcp(), Arc::clone(&tls))));
    if let Some(authorization) = proxy.basic_auth() {
        tunnel = tunnel.with_auth(authorization.clone());
    }
    Ok(sender(HttpsConnector::from((tunnel, tls))))
}

fn tcp() -> HttpConnector {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(CONNECT));
    tcp
}

fn sender<C: Connect + Clone + Send + Sync + 'static>(connector: C) -> SendRequest {
    let client = Client::builder(TokioExecutor::new()).build::<_, Full<Bytes>>(connector);
    Box::new(move |request| client.request(request))
}

/// Returns the proxy that leads to a server: Git's `http.proxy`, else that of `https_proxy` or `all_proxy`; none for what
/// `no_proxy` names.
fn proxy(target: &Uri, configured: Option<&str>) -> Option<Intercept> {
    let Some(configured) = configured else { return Matcher::from_env().intercept(target) };
    let except = ["no_proxy", "NO_PROXY"].into_iter().find_map(|name| std::env::var(name).ok());
    Matcher::builder().all(configured).no(except.unwrap_or_default()).build().intercept(target)
}

/// Returns what the session trusts: the machine's authorities, and those of `ca_file`.
fn tls(session: &ServerSession) -> Result<Arc<ClientConfig>, GitError> {
    let mut roots = machine_roots();
    session.credentials.add_authorities(&mut roots)?;
    Ok(client_config(roots))
}

/// Returns what an error of the client means.
pub(super) fn explain(session: &ServerSession, error: &Error) -> GitError {
    let mut cause = error.source();
    while let Some(error) = cause {
        if let Some(problem @ rustls::Error::InvalidCertificate(why)) = error.downcast_ref() {
            let hint = match why {
                rustls::CertificateError::UnknownIssuer => "; where its authority is your own, name it with ca_file",
                rustls::CertificateError::Other(other) if other.to_string().contains("CaUsedAsEndEntity") => {
                    "; the server shows the certificate of an authority: give it one that this authority has signed"
                }
                _ => "",
            };
            return session.untrusted(format!("{problem}{hint}"));
        }
        // An error of the system passes over the one that it holds.
        let held = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        cause = held.map(|held| held as _).or_else(|| error.source());
    }
    session.unreachable(innermost(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn through(target: &str, configured: Option<&str>) -> Option<String> {
        proxy(&target.parse().unwrap(), configured).map(|proxy| proxy.uri().to_string())
    }

    #[test]
    fn gits_own_proxy_comes_first_and_an_empty_one_is_none() {
        let server = "https://git.example.com/shop.git";
        assert_eq!(through(server, Some("http://proxy.example.com:3128")).unwrap(), "http://proxy.example.com:3128/");
        assert_eq!(through(server, Some("proxy.example.com:3128")).unwrap(), "http://proxy.example.com:3128/");
        assert_eq!(through(server, Some("")), None);
        let secret = proxy(&server.parse().unwrap(), Some("http://ada:hunter2@proxy.example.com")).unwrap();
        assert!(!secret.uri().to_string().contains("hunter2") && secret.basic_auth().unwrap().is_sensitive());
    }
}
