//! The roles that every cluster begins with, and who has them.

use serde_json::Value;

/// Generated from a real API server; `tests/cluster/fidelity/roles.rs` says how.
const ROLES: &str = include_str!("roles.json");

/// Cluster roles, roles, and the bindings of some of them.
///
/// # Errors
/// The file that holds them is not JSON, which is a mistake in here.
pub fn policy() -> Result<Vec<Value>, serde_json::Error> {
    serde_json::from_str(ROLES)
}
