//! Files that hold an address or a secret.

use std::path::Path;

/// The largest such file, in bytes.
const LARGEST: u64 = 64 << 10;

/// What stands in a file that holds a secret. It is read when it is needed, so that a new secret counts at once.
///
/// # Errors
///
/// What is wrong: it names the file, and nothing of what is in it.
pub fn read_secret(file: &Path) -> Result<String, String> {
    let failed = |why: String| format!("failed to read {}: {why}", file.display());
    let size = std::fs::metadata(file).map_err(|error| failed(error.to_string()))?.len();
    if size > LARGEST {
        return Err(failed(format!("it is larger than {} KiB", LARGEST >> 10)));
    }
    let text = std::fs::read_to_string(file).map_err(|error| failed(error.to_string()))?;
    if text.trim().is_empty() { Err(failed("it is empty".to_owned())) } else { Ok(text) }
}
