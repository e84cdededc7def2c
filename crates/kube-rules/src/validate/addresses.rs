//! Addresses, as fields old and new have them.

use std::net::IpAddr;

use super::errors::{Errors, Path};

/// The complaint about a text that is no address.
const NOT_AN_ADDRESS: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";

/// Checks an address; numbers with zeros in front, which older clients wrote, are distinguished from texts that are no
/// address at all.
pub fn legacy_address(text: &str, at: &Path<'_>, errors: &mut Errors) {
    match (parse_legacy(text), text.parse::<IpAddr>()) {
        (None, _) => errors.invalid(at, text, NOT_AN_ADDRESS),
        (_, Err(_)) => errors.invalid(at, text, "must not have leading 0s"),
        (Some(IpAddr::V4(_)), Ok(IpAddr::V6(_))) => {
            errors.invalid(at, text, "must not be an IPv4-mapped IPv6 address");
        }
        _ => {}
    }
}

/// Returns an address; numbers may have zeros in front, as they had long ago, and the older family may stand in the
/// newer one.
pub fn parse_legacy(text: &str) -> Option<IpAddr> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(address.to_canonical());
    }
    let parts: Vec<&str> = text.split('.').collect();
    let number = |part: &&str| {
        let fits = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        fits.then(|| part.trim_start_matches('0'))
            .and_then(|part| if part.is_empty() { Some(0) } else { part.parse().ok() })
    };
    let numbers: Option<Vec<u8>> = parts.iter().map(number).collect();
    let numbers: [u8; 4] = numbers?.try_into().ok()?;
    Some(IpAddr::from(numbers))
}

/// Addresses that no other machine can reach are no endpoints.
pub fn reachable(text: &str, at: &Path<'_>, errors: &mut Errors) {
    let Some(address) = parse_legacy(text) else {
        errors.invalid(at, text, "must be a valid IP address");
        return;
    };
    let (unspecified, loopback, local, multicast) = match address {
        IpAddr::V4(v4) => ("0.0.0.0", v4.is_loopback(), v4.is_link_local(), v4.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(v6) => ("::", v6.is_loopback(), v6.is_unicast_link_local(), v6.segments()[0] & 0xff0f == 0xff02),
    };
    if address.is_unspecified() {
        errors.invalid(at, text, &format!("may not be unspecified ({unspecified})"));
    }
    if loopback {
        errors.invalid(at, text, "may not be in the loopback range (127.0.0.0/8, ::1/128)");
    }
    if local {
        errors.invalid(at, text, "may not be in the link-local range (169.254.0.0/16, fe80::/10)");
    }
    if multicast {
        errors.invalid(at, text, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)");
    }
}
