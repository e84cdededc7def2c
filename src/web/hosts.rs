//! The names by which this server may be asked. A foreign web site can let its own name lead here and then read the
//! answers in a visitor's browser (DNS rebinding): but a browser sends the name in its request.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::{StatusCode, header};

use super::plain_text::text;

/// The address of this machine that a connection has reached.
#[derive(Clone, Copy, Debug)]
pub(super) struct Own(pub Option<IpAddr>);

/// Answers only who asks by a name that is this server's.
pub(super) async fn known_host(State(hosts): State<Arc<Hosts>>, request: Request, next: Next) -> Response {
    let own = request.extensions().get::<Own>().and_then(|own| own.0);
    match requested_host(&request) {
        RequestedHost::Named(name) if hosts.knows(&name, own) => next.run(request).await,
        RequestedHost::Named(_) => text(
            StatusCode::MISDIRECTED_REQUEST,
            "this server is not known by that name: add it to allowed_hosts under [web]\n",
        ),
        RequestedHost::Malformed => text(
            StatusCode::BAD_REQUEST,
            "the Host header must stand once and be a name or an address, with or without a port\n",
        ),
    }
}

/// The name that a request is addressed to.
#[derive(Debug, PartialEq, Eq)]
enum RequestedHost {
    /// This name, in lower case, without port and brackets.
    Named(String),
    /// The name is missing, stands twice, or is none.
    Malformed,
}

/// Returns the name that a request is addressed to. A name in the request line stands above the header, as RFC 9112 wants
/// it; the header must be well formed all the same.
fn requested_host(request: &Request) -> RequestedHost {
    let mut headers = request.headers().get_all(header::HOST).iter();
    let header = match (headers.next(), headers.next()) {
        (Some(header), None) => header.to_str().ok().and_then(host_of_authority),
        _ => None,
    };
    // HTTP/1.0 needs none. A browser always sends one, but a proxy that asks in HTTP/1.0 may have left it out.
    let Some(header) = header else { return RequestedHost::Malformed };
    match request.uri().authority().map(|authority| host_of_authority(authority.as_str())) {
        Some(Some(name)) => RequestedHost::Named(name),
        Some(None) => RequestedHost::Malformed,
        None => RequestedHost::Named(header),
    }
}

/// Returns the host of `HOST`, `HOST:PORT` or `[ADDRESS]:PORT`, in lower case. `None` for anything else.
pub fn host_of_authority(text: &str) -> Option<String> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (address, after) = rest.split_once(']')?;
            address.parse::<Ipv6Addr>().ok()?;
            (address, if after.is_empty() { None } else { Some(after.strip_prefix(':')?) })
        }
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    let is_port = |port: &str| {
        port.bytes().all(|digit| digit.is_ascii_digit()) && (port.is_empty() || port.parse::<u16>().is_ok())
    };
    let is_name = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    let is_host = text.starts_with('[') || !host.is_empty() && host.chars().all(is_name);
    (is_host && port.is_none_or(is_port)).then(|| name_of(host)).filter(|name| !name.is_empty())
}

/// The names that are answered to.
#[derive(Debug)]
pub(super) struct Hosts(BTreeSet<String>);

impl Hosts {
    /// Returns those of the configuration, beside the machine's own.
    pub(super) fn new(allowed: &[String]) -> Hosts {
        Hosts(allowed.iter().map(|host| name_of(host)).collect())
    }

    /// Returns true when a name is this server's; `own` is the address that was reached.
    fn knows(&self, name: &str, own: Option<IpAddr>) -> bool {
        let is_own = |address: IpAddr| address.is_loopback() || own.is_some_and(|own| own.to_canonical() == address);
        name == "localhost" || name.parse().is_ok_and(is_own) || self.0.contains(name)
    }
}

/// Returns the name that the configuration means, without a port and brackets, in lower case.
fn name_of(host: &str) -> String {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None if host.matches(':').count() == 1 => host.split(':').next().unwrap_or_default(),
        None => host,
    };
    name.trim_end_matches('.').to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Version;

    #[test]
    fn a_name_is_known_without_its_port() {
        let names = ["a.example", "A.Example:80", "a.example.", "[::1]:9750", "[::1]", "::1", "127.0.0.1:1", ""];
        let known = ["a.example", "a.example", "a.example", "::1", "::1", "::1", "127.0.0.1", ""];
        assert_eq!(names.map(name_of), known);
    }

    #[test]
    fn a_host_header_is_a_name_or_an_address_and_nothing_else() {
        for (text, host) in [
            ("a.example", "a.example"),
            ("A.Example.:80", "a.example"),
            ("under_score:", "under_score"),
            ("127.0.0.1:65535", "127.0.0.1"),
            ("[::1]", "::1"),
            ("[::1]:9750", "::1"),
        ] {
            assert_eq!(host_of_authority(text).as_deref(), Some(host), "{text}");
        }
        for text in [
            "",
            "...",
            ":80",
            "[::1",
            "[::1]evil.example",
            "[::1]:80:81",
            "[::1]:80@evil.example",
            "[localhost]",
            "[]",
            "::1",
            "localhost:80:80",
            "localhost:65536",
            "localhost:8a",
            "localhost:+80",
            "localhost@evil.example",
            "localhost/",
            "localhost#",
            "local host",
            "localhost,evil.example",
            "löcalhost",
            "localhost\u{7f}",
            "%6cocalhost",
        ] {
            assert_eq!(host_of_authority(text), None, "{text}");
        }
    }

    #[test]
    fn a_host_header_stands_once() {
        let asked = |uri: &str, version, hosts: &[&[u8]]| {
            let mut request = http::Request::builder().uri(uri).version(version);
            for host in hosts {
                request = request.header(header::HOST, http::HeaderValue::from_bytes(host).unwrap());
            }
            requested_host(&request.body(axum::body::Body::empty()).unwrap())
        };
        let named = |name: &str| RequestedHost::Named(name.to_owned());
        let (one, zero) = (Version::HTTP_11, Version::HTTP_10);
        assert_eq!(asked("/", one, &[b"LocalHost:80"]), named("localhost"));
        assert_eq!(asked("/", zero, &[b"localhost"]), named("localhost"));
        assert_eq!(asked("http://a.example/", one, &[b"localhost"]), named("a.example"));
        for (uri, version, hosts) in [
            ("/", one, &[][..]),
            ("/", zero, &[]),
            ("http://localhost/", zero, &[]),
            ("/", one, &[&b"localhost"[..], b"localhost"]),
            ("/", zero, &[&b"localhost"[..], b"evil.example"]),
            ("/", one, &[&b"localhost\xff"[..]]),
            ("/", one, &[&b"[::1]evil.example"[..]]),
            ("/", one, &[&b""[..]]),
            ("http://localhost/", one, &[]),
            ("http://user@localhost/", one, &[b"localhost"]),
        ] {
            assert_eq!(asked(uri, version, hosts), RequestedHost::Malformed, "{uri} {hosts:?}");
        }
    }

    #[test]
    fn the_address_that_was_reached_is_a_name_too() {
        let hosts = Hosts::new(&[]);
        let reached = Some("::ffff:10.1.2.3".parse().unwrap());
        assert!(hosts.knows("10.1.2.3", reached), "a probe of the kubelet asks the pod by its address");
        assert!(!hosts.knows("10.1.2.4", reached));
        assert!(hosts.knows("127.9.9.9", None) && hosts.knows("::1", None) && !hosts.knows("10.1.2.3", None));
    }
}
