//! Null, which stands for nothing.

use serde::{Deserialize, Deserializer};

/// Reads null as nothing, as the types of `k8s-openapi` do.
pub(super) fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}
