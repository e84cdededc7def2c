//! Ranges of addresses, as fields old and new have them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::addresses::parse_legacy;
use super::errors::{Errors, Path};

/// The complaint about a text that is no range of addresses.
pub const NOT_A_RANGE: &str = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";

/// Checks a range of addresses, as older fields have them.
pub fn legacy_range(text: &str, at: &Path<'_>, errors: &mut Errors) {
    if parse_legacy_range(text).is_none() {
        return errors.invalid(at, text, NOT_A_RANGE);
    }
    let address = text.split('/').next().and_then(|address| address.parse::<IpAddr>().ok());
    match (address, range(text)) {
        (Some(IpAddr::V6(address)), _) if address.to_ipv4_mapped().is_some() => {
            errors.invalid(at, text, "must not have an IPv4-mapped IPv6 address");
        }
        (Some(address), Some((first, _, _))) => {
            let whole = match address {
                IpAddr::V4(address) => u128::from(address.to_bits()) << 96,
                IpAddr::V6(address) => address.to_bits(),
            };
            if whole != first {
                errors.invalid(at, text, "must not have bits set beyond the prefix length");
            }
        }
        _ => errors.invalid(at, text, "must not have leading 0s in IP or prefix length"),
    }
}

/// Returns a range of addresses; numbers may have zeros in front, as they had long ago.
pub fn parse_legacy_range(text: &str) -> Option<(u128, u32, u32)> {
    let (address, bits) = text.split_once('/')?;
    let plain = match bits.trim_start_matches('0') {
        "" if bits.is_empty() => return None,
        "" => "0",
        plain => plain,
    };
    let address = if address.contains(':') { address.to_owned() } else { parse_legacy(address)?.to_string() };
    range(&format!("{address}/{plain}"))
}

/// Checks a range of addresses in its own form.
pub fn cidr(text: &str, at: &Path<'_>, errors: &mut Errors) {
    match range(text) {
        None => errors.invalid(at, text, NOT_A_RANGE),
        Some((first, bits, all)) => {
            let address = if all == 32 {
                IpAddr::V4(Ipv4Addr::from_bits(u32::try_from(first >> 96).unwrap_or_default()))
            } else {
                IpAddr::V6(Ipv6Addr::from_bits(first))
            };
            let canonical = format!("{address}/{bits}");
            if canonical != text {
                let detail = format!("must be in canonical form (\"{canonical}\")");
                errors.invalid(at, text, &detail);
            }
        }
    }
}

/// Returns an address range: its first address as a number of 128 bits, how many bits are fixed, and how many there
/// are.
pub fn range(text: &str) -> Option<(u128, u32, u32)> {
    let (address, bits) = text.split_once('/')?;
    if !bits.bytes().all(|byte| byte.is_ascii_digit()) || (bits.len() > 1 && bits.starts_with('0')) {
        return None;
    }
    let bits: u32 = bits.parse().ok()?;
    let (number, all) = match address.parse::<IpAddr>().ok()? {
        IpAddr::V4(address) => (u128::from(address.to_bits()) << 96, 32),
        IpAddr::V6(address) => (address.to_bits(), 128),
    };
    (bits <= all).then(|| (number & u128::MAX.checked_shl(128 - bits).unwrap_or_default(), bits, all))
}

/// Returns true when a range lies within another, and is smaller; `None` if one of them is none.
pub fn is_within(inner: &str, outer: &str) -> Option<bool> {
    // The older family lies within the newer one; how long a prefix is, is compared as it is written.
    let read = |text: &str| {
        let (first, bits, all) = parse_legacy_range(text)?;
        Some(if all == 32 { (0xffff_u128 << 32 | first >> 96, bits, 96 + bits) } else { (first, bits, bits) })
    };
    let ((inside, longer, _), (first, bits, prefix)) = (read(inner)?, read(outer)?);
    let mask = u128::MAX.checked_shl(128 - prefix).unwrap_or_default();
    Some(longer > bits && inside & mask == first & mask)
}
