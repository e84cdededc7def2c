//! By which names this server may be asked. A web site of somebody else's can let its own name lead here and then read, in
//! a visitor's browser, what is answered to it (DNS rebinding): but a browser says by which name it asks.

use std::collections::BTreeSet;
use std::net::IpAddr;
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
    match hosts.allow(&request, own) {
        true => next.run(request).await,
        false => text(
            StatusCode::MISDIRECTED_REQUEST,
            "this server is not known by that name: add it to allowed_hosts under [web]\n",
        ),
    }
}

/// The names that are answered to.
#[derive(Debug)]
pub(super) struct Hosts(BTreeSet<String>);

impl Hosts {
    /// Those of the configuration, beside the machine's own.
    pub(super) fn new(allowed: &[String]) -> Hosts {
        Hosts(allowed.iter().map(|host| name_of(host)).collect())
    }

    /// Whether a request is by a name of this server's; `own` is the address that was reached.
    fn allow(&self, request: &Request, own: Option<IpAddr>) -> bool {
        let header = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
        let host = request.uri().authority().map(|authority| authority.as_str()).or(header);
        // What asks without a name (HTTP 1.0) is no browser.
        host.is_none_or(|host| self.knows(&name_of(host), own))
    }

    fn knows(&self, name: &str, own: Option<IpAddr>) -> bool {
        let is_own = |address: IpAddr| address.is_loopback() || own.is_some_and(|own| own.to_canonical() == address);
        name == "localhost" || name.parse().is_ok_and(is_own) || self.0.contains(name)
    }
}

/// The name in `Host`, without its port and brackets, in lower case.
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

    #[test]
    fn a_name_is_known_without_its_port() {
        let names = ["a.example", "A.Example:80", "a.example.", "[::1]:9750", "[::1]", "::1", "127.0.0.1:1", ""];
        let known = ["a.example", "a.example", "a.example", "::1", "::1", "::1", "127.0.0.1", ""];
        assert_eq!(names.map(name_of), known);
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
