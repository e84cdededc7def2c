//! Copies of the packs of a repository on this machine: never links, by which its owner could change them afterwards.

use std::fs::{self, File, Permissions};
use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use git2::Repository;
use tokio_util::sync::CancellationToken;

use crate::git::error::{GitError, with_file};
use crate::git::read::limits::Limits;
use crate::regular_file::open_regular;

/// Copies all packs of a repository as they are.
pub(in crate::git) fn copy_packs(
    source: &Repository,
    mirror: &Repository,
    limits: &Limits,
    stop: &CancellationToken,
) -> Result<(), GitError> {
    let to = mirror.path().join("objects/pack");
    let mut room = limits.fetch_bytes;
    let folder = source.commondir().join("objects/pack");
    let entries = fs::read_dir(&folder).map_err(with_file("list", &folder))?;
    for index in entries.filter_map(Result::ok).map(|entry| entry.path()) {
        let pack = index.with_extension("pack");
        let is_file = |path: &Path| fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file());
        if index.extension().is_none_or(|extension| extension != "idx") || !is_file(&index) || !is_file(&pack) {
            continue;
        }
        if stop.is_cancelled() {
            return Err(GitError::Cancelled);
        }
        // The index comes last: without it a pack is not seen.
        for file in [&pack, &index] {
            let copied = copy(file, &to, room)?;
            room = room.checked_sub(copied).ok_or_else(|| GitError::TooLarge {
                what: format!("all packs of {}", source.path().display()),
                size: limits.fetch_bytes - room + copied,
                limit: limits.fetch_bytes,
            })?;
        }
    }
    Ok(())
}

/// Copies a file that is not there yet. Returns how many bytes were copied: at most one more than there is room for,
/// also if the file grows meanwhile.
fn copy(file: &Path, to: &Path, room: u64) -> Result<u64, GitError> {
    let Some(name) = file.file_name() else { return Ok(0) };
    let (temporary, end) = (to.join("tmp_copy"), to.join(name));
    if end.exists() {
        return Ok(0);
    }
    let mut from = open_regular(file).map_err(with_file("open", file))?.take(room.saturating_add(1));
    // It may be left of a belay that was killed, or planted.
    let _ = fs::remove_file(&temporary);
    let mut into = File::create_new(&temporary).map_err(with_file("make", &temporary))?;
    let copied = io::copy(&mut from, &mut into).map_err(with_file("copy", file))?;
    if copied > room {
        return Ok(copied);
    }
    into.sync_all().map_err(with_file("sync", &temporary))?;
    fs::set_permissions(&temporary, Permissions::from_mode(0o444)).map_err(with_file("close", &temporary))?;
    fs::rename(&temporary, &end).map_err(with_file("rename", temporary))?;
    Ok(copied)
}
