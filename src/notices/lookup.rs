//! The addresses of a receiver that may be connected to.

use std::net::SocketAddr;

use tokio::net::lookup_host;

use super::address::{Destination, is_public};
use super::delivery::SendError;

/// The number of addresses of one name that are tried.
const ADDRESSES: usize = 4;

/// Returns the addresses of a receiver that may be connected to, at least one.
pub(super) async fn allowed_addresses(target: &Destination, allow_private: bool) -> Result<Vec<SocketAddr>, SendError> {
    let host = target.host();
    let found = lookup_host((host, target.port())).await;
    let found: Vec<SocketAddr> = found.map_err(|error| SendError(format!("no address of {host}: {error}")))?.collect();
    let allowed = found.iter().copied().filter(|address| allow_private || is_public(address.ip()));
    let allowed: Vec<SocketAddr> = allowed.take(ADDRESSES).collect();
    match found.first() {
        Some(address) if allowed.is_empty() => Err(SendError(format!(
            "{host} is at {}, which is no public address: allow_private = true allows that",
            address.ip()
        ))),
        Some(_) => Ok(allowed),
        None => Err(SendError(format!("{host} has no address"))),
    }
}
