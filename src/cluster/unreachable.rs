//! A server that can't be reached.

use std::error::Error;
use std::fmt;

/// A connection that did not come about.
#[derive(Debug)]
pub(super) struct Unreachable {
    pub server: String,
    pub cause: String,
}

impl fmt::Display for Unreachable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the API server {} can't be reached: {}", self.server, self.cause)?;
        match advice(&self.cause) {
            Some(advice) => write!(f, "; {advice}"),
            None => Ok(()),
        }
    }
}

impl Error for Unreachable {}

/// Returns advice about it.
fn advice(cause: &str) -> Option<&'static str> {
    let says = |words: &[&str]| words.iter().any(|word| cause.contains(word));
    if says(&["refused"]) {
        Some("see that it runs, and that the kubeconfig has its address and port")
    } else if says(&["lookup", "dns error", "Name or service not known", "name resolution"]) {
        Some("its name is not known here: see the server in the kubeconfig, and this machine's DNS")
    } else if says(&["UnknownIssuer", "unknown issuer", "self-signed", "self signed"]) {
        Some(
            "its certificate is signed by another authority than the kubeconfig trusts: see certificate-authority-data",
        )
    } else if says(&["NotValidForName", "not valid for name", "not valid for any"]) {
        Some("its certificate has other names: see the server, or tls-server-name, in the kubeconfig")
    } else if says(&["Expired", "expired", "NotValidYet", "not valid yet"]) {
        Some("a certificate is out of its time: renew it, or see this machine's clock")
    } else if says(&["CertificateRequired", "BadCertificate", "AccessDenied", "UnknownCA"]) {
        Some("it does not accept the client certificate of the kubeconfig: renew it")
    } else if says(&["timed out", "deadline has elapsed", "unreachable", "No route"]) {
        Some("see the address in the kubeconfig, the network, and firewalls on the way")
    } else {
        None
    }
}
