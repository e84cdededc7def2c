//! Files that hold an address or a secret.

use std::path::Path;

use crate::regular_file::read_regular_text;

/// The largest such file, in bytes.
const LARGEST: u64 = 64 << 10;

/// Returns what stands in a file that holds a secret. It is read when it is needed, so that a new secret counts at once.
///
/// # Errors
///
/// Fails with the fault: the text names the file, and nothing of its content.
pub fn read_secret(file: &Path) -> Result<String, String> {
    let failed = |why: &str| format!("failed to read {}: {why}", file.display());
    let text = read_regular_text(file, LARGEST).map_err(|error| failed(&error.to_string()))?;
    if text.trim().is_empty() { Err(failed("it is empty")) } else { Ok(text) }
}
