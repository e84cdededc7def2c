//! The address of a receiver, and the addresses that belong to this network only.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use http::Uri;

/// An address to send to. It may hold a secret: only its host is ever shown.
#[derive(Clone)]
pub(super) struct Destination {
    uri: Uri,
}

impl fmt::Debug for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.host())
    }
}

impl Destination {
    /// Reads an address over HTTP; the error does not repeat it.
    pub(super) fn parse(text: &str) -> Result<Destination, String> {
        Destination::of_schemes(text, ["https", "http"])
    }

    /// Reads the address of a mail server; the error does not repeat it.
    pub(super) fn of_mail_server(text: &str) -> Result<Destination, String> {
        Destination::of_schemes(text, ["smtps", "smtp"])
    }

    fn of_schemes(text: &str, schemes: [&str; 2]) -> Result<Destination, String> {
        let uri: Uri = text.trim().parse().map_err(|_| "the address is none".to_owned())?;
        if !uri.scheme_str().is_some_and(|scheme| schemes.contains(&scheme)) {
            return Err(format!("the address does not begin with {}://", schemes[0]));
        }
        if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Err("the address holds a user, which is not sent: leave it out".to_owned());
        }
        match uri.host() {
            Some(host) if !host.is_empty() => Ok(Destination { uri }),
            _ => Err("the address names no host".to_owned()),
        }
    }

    pub(super) fn is_encrypted(&self) -> bool {
        matches!(self.uri.scheme_str(), Some("https" | "smtps"))
    }

    /// Returns the host without the brackets of an IPv6 address.
    pub(super) fn host(&self) -> &str {
        self.uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']')
    }

    pub(super) fn port(&self) -> u16 {
        self.uri.port_u16().unwrap_or(match self.uri.scheme_str() {
            Some("https") => 443,
            Some("smtps") => 465,
            Some("smtp") => 587,
            _ => 80,
        })
    }

    /// Returns the value of `Host`.
    pub(super) fn authority(&self) -> &str {
        self.uri.authority().map(http::uri::Authority::as_str).unwrap_or_default()
    }

    /// Returns the requested path: the part that may be a secret.
    pub(super) fn path(&self) -> &str {
        self.uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str)
    }
}

/// Returns the host of a receiver's address, with the port: all that is ever shown of it.
///
/// # Errors
/// Says why it is none, without repeating it.
pub fn shown_host(text: &str) -> Result<(String, u16), String> {
    let destination = Destination::parse(text).or_else(|_| Destination::of_mail_server(text))?;
    Ok((destination.host().to_owned(), destination.port()))
}

/// Returns true when an address is one of the internet's, and not this machine's, its network's, or one with a meaning
/// of its own.
#[must_use]
pub fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let special = address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_documentation()
        // This network, shared address space (RFC 6598), the protocols' own (RFC 6890), benchmarks (RFC 2544), reserved.
        || a == 0
        || a == 100 && (64..128).contains(&b)
        || a == 192 && b == 0 && c == 0
        || a == 198 && (b == 18 || b == 19)
        || a >= 240;
    !special
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    let low = |from: usize| {
        let [a, b] = segments[from].to_be_bytes();
        let [c, d] = segments[from + 1].to_be_bytes();
        Ipv4Addr::new(a, b, c, d)
    };
    match segments {
        // An IPv4 address in it is the address that is reached in the end: NAT64 (RFC 6052), 6to4 (RFC 3056).
        [0x64, 0xff9b, 0, 0, 0, 0, ..] => is_public_v4(low(6)),
        [0x2002, ..] => is_public_v4(low(1)),
        // Documentation, Teredo and other protocols' own.
        [0x2001, 0xdb8, ..] => false,
        [0x2001, second, ..] if second < 0x200 => false,
        // Only these addresses are given out (RFC 4291): everything else is loopback, link-local, local, multicast or
        // nothing.
        [first, ..] => first & 0xe000 == 0x2000,
    }
}
