//! The name of belay in its requests to other servers: audit logs, and the logs of forges and receivers, show it.

/// The `User-Agent` of belay's requests.
pub const AGENT: &str = concat!("belay/", env!("CARGO_PKG_VERSION"));
