//! The free space of a disk.

use std::path::Path;

/// With less than so many bytes the history can't be opened: SQLite makes a file of 32 KiB beside it, and a log.
const LEAST: u64 = 256 << 10;

/// The free space of a disk, as far as belay's user may take it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::history) struct DiskSpace {
    bytes: u64,
    /// The files that can be made; `None` where the file system does not count them.
    files: Option<u64>,
}

impl DiskSpace {
    /// Returns the free space on the disk of a folder; `None` if the system does not say it.
    pub(in crate::history) fn at(folder: &Path) -> Option<DiskSpace> {
        let found = rustix::fs::statvfs(folder).ok()?;
        let files = (found.f_files > 0).then_some(found.f_favail);
        Some(DiskSpace { bytes: found.f_bavail.saturating_mul(found.f_frsize), files })
    }

    /// Returns true when so many bytes more can be written, and the history after them.
    pub(in crate::history) fn has_room_for(self, bytes: u64) -> bool {
        self.bytes >= bytes.saturating_add(LEAST)
    }

    /// Returns true when the history can't be written in it.
    pub(in crate::history) fn is_too_little(self) -> bool {
        self.bytes < LEAST || self.files == Some(0)
    }
}

/// Returns the words about the free space of a full disk.
pub(in crate::history) fn described(space: Option<DiskSpace>) -> String {
    match space {
        Some(DiskSpace { files: Some(0), bytes }) if bytes >= LEAST => "no file can be made there any more".to_owned(),
        Some(space) if space.is_too_little() => format!("{} KiB are left", space.bytes >> 10),
        // A limit of belay's user, or room that was made since.
        _ => "belay's user has no more room there".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_little_room_is_told() {
        let room = |bytes, files| Some(DiskSpace { bytes, files });
        for (room, is_too_little, words) in [
            (room(0, Some(1)), true, "0 KiB are left"),
            (room(40 << 10, None), true, "40 KiB are left"),
            (room(1 << 30, Some(0)), true, "no file can be made there any more"),
            (room(1 << 30, Some(9)), false, "belay's user has no more room there"),
            (room(1 << 30, None), false, "belay's user has no more room there"),
            (None, false, "belay's user has no more room there"),
        ] {
            assert_eq!(room.is_some_and(DiskSpace::is_too_little), is_too_little, "{room:?}");
            assert_eq!(described(room), words, "{room:?}");
        }
    }
}
