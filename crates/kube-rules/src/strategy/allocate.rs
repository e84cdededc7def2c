//! The addresses and ports that a cluster gives to services.

use serde_json::Value;

/// Gives out addresses and ports. Implementations know which are taken.
pub trait Allocate {
    /// Reserves an address, the wanted one or any.
    ///
    /// # Errors
    /// Fails with the reason for which it can't be had.
    fn address(&mut self, wanted: Option<&str>) -> Result<String, String>;

    /// Reserves a port on nodes, the wanted one or any.
    ///
    /// # Errors
    /// Fails with the reason for which it can't be had.
    fn node_port(&mut self, wanted: Option<i64>) -> Result<i64, String>;
}

/// The field of a service that could not be had, with the wanted value and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unavailable {
    /// `spec.clusterIPs[0]`, `spec.ports[1].nodePort`
    pub field: String,
    /// The wanted value.
    pub wanted: Value,
    /// The reason.
    pub why: String,
}
