//! Ids that are the same for each attempt, and after a restart.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

/// The number of bytes of an id.
const ID: usize = 16;

/// Returns an id of these texts: 32 hexadecimal digits.
pub(super) fn digest(parts: &[&str]) -> String {
    let hash = Sha256::digest(parts.join("\n"));
    hash.iter().take(ID).fold(String::new(), |mut text, byte| {
        // Writing to a String can't fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
