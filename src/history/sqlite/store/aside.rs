//! Files that could not be read: renamed, so that nothing is lost, and the oldest of them deleted.

use std::fs;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use crate::history::error::HistoryError;
use crate::history::error::io;

/// The number of files that were set aside and are kept.
const SET_ASIDE: usize = 3;

/// Renames the file, and those that SQLite keeps beside it, so that nothing of it is lost.
pub(in crate::history) fn set_aside(path: &Path, now: Timestamp) -> Result<PathBuf, HistoryError> {
    let name = format!("{}.damaged-{}", path.display(), now.strftime("%Y%m%dT%H%M%SZ"));
    let numbered = (1..).map(|number| if number == 1 { name.clone() } else { format!("{name}-{number}") });
    let to = numbered.map(PathBuf::from).find(|to| fs::symlink_metadata(to).is_err()).unwrap_or_default();
    fs::rename(path, &to).map_err(io("rename", path))?;
    for suffix in ["-wal", "-shm"] {
        let beside = with_suffix(path, suffix);
        if beside.exists() {
            fs::rename(&beside, with_suffix(&to, suffix)).map_err(io("rename", &beside))?;
        }
    }
    forget_older(path);
    Ok(to)
}

/// Keeps the newest few files that were set aside. A failure to delete one is no reason to stop.
fn forget_older(path: &Path) {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return };
    let prefix = format!("{}.damaged-", name.to_string_lossy());
    let Ok(entries) = fs::read_dir(folder) else { return };
    let is_old = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        name.starts_with(&prefix) && !name.ends_with("-wal") && !name.ends_with("-shm")
    };
    let mut old: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).filter(is_old).collect();
    old.sort();
    for path in old.iter().rev().skip(SET_ASIDE) {
        for file in [path.clone(), with_suffix(path, "-wal"), with_suffix(path, "-shm")] {
            if let Err(error) = fs::remove_file(&file)
                && error.kind() != std::io::ErrorKind::NotFound
            {
                tracing::warn!(%error, file = %file.display(), "failed to delete an old history that was set aside");
            }
        }
    }
}

/// Returns the path with something behind its last letter.
pub(in crate::history) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}
