//! Ids that are the same for each attempt, and after a restart.

use belay_core::manifest::hex;
use sha2::{Digest as _, Sha256};

/// The number of bytes of an id.
const ID: usize = 16;

/// Returns an id of these texts: 32 hexadecimal digits.
pub(super) fn digest(parts: &[&str]) -> String {
    hex(&Sha256::digest(parts.join("\n"))[..ID])
}
