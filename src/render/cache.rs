//! What was rendered, on disk, by what it was rendered from.
#![allow(
    clippy::disallowed_methods,
    reason = "a child process and the files of this machine live in the machine's own time"
)]

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use super::unit::RenderId;

/// The most that is kept, in bytes and in renderings.
const BYTES: u64 = 512 << 20;
const RENDERINGS: usize = 10_000;
/// After how many new renderings it is looked whether there are too many.
const SWEEP: u64 = 100;
/// How old a mark of use may become before it is renewed.
const USED: Duration = Duration::from_hours(1);

/// Renderings in a folder of their own.
#[derive(Debug)]
pub(super) struct Cache {
    folder: PathBuf,
    written: AtomicU64,
}

impl Cache {
    /// A cache in a folder, which is made when the first rendering is kept.
    pub(super) fn new(folder: PathBuf) -> Cache {
        Cache { folder, written: AtomicU64::new(0) }
    }

    /// What was rendered from these inputs, by a tool of this identity; by any, where none is known.
    pub(super) fn get(&self, id: RenderId, tool: Option<&str>) -> Option<Vec<u8>> {
        let mut file = File::open(self.path(id)).ok()?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).ok()?;
        let end = bytes.iter().position(|byte| *byte == b'\n')?;
        if tool.is_some_and(|tool| tool.as_bytes() != &bytes[..end]) {
            return None;
        }
        let used = file.metadata().and_then(|data| data.modified()).ok()?;
        if used.elapsed().is_ok_and(|age| age > USED) {
            // It only goes sooner where that fails.
            let _ = file.set_modified(SystemTime::now());
        }
        bytes.drain(..=end);
        Some(bytes)
    }

    /// Keeps what was rendered. Where that fails it is rendered again.
    pub(super) fn put(&self, id: RenderId, tool: &str, bytes: &[u8]) {
        let write = || -> std::io::Result<()> {
            DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
            let number = self.written.fetch_add(1, Ordering::Relaxed);
            let new = self.folder.join(format!("new-{}-{number}", std::process::id()));
            let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
            file.write_all(tool.as_bytes())?;
            file.write_all(b"\n")?;
            file.write_all(bytes)?;
            fs::rename(&new, self.path(id))?;
            if number.is_multiple_of(SWEEP) {
                sweep(&self.folder)?;
            }
            Ok(())
        };
        if let Err(error) = write() {
            tracing::warn!(folder = %self.folder.display(), %error, "failed to keep what was rendered");
        }
    }

    fn path(&self, id: RenderId) -> PathBuf {
        self.folder.join(id.to_string())
    }
}

/// Deletes what was used longest ago, where there is more than is kept.
fn sweep(folder: &Path) -> std::io::Result<()> {
    let mut kept = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let data = entry.metadata()?;
        kept.push((data.modified()?, data.len(), entry.path()));
    }
    kept.sort_by_key(|(used, ..)| std::cmp::Reverse(*used));
    let mut bytes = 0;
    for (count, (_, size, path)) in kept.iter().enumerate() {
        bytes += size;
        if count >= RENDERINGS || bytes > BYTES {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}
