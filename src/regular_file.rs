//! Files that are read as a whole: regular ones only, and only so much of them. And belay's own files, which have one name.
//!
//! A pipe in the place of a file keeps its reader waiting until somebody writes, a device may never end, and a file may grow
//! while it is read. So the file is opened without waiting, checked once it is open, and read up to a limit.

use std::collections::BTreeMap;
use std::fs::{DirEntry, File, FileType, Metadata, OpenOptions};
use std::io::{Error, ErrorKind, Read as _, Result};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crate::systemd_unit;

/// The most files and folders that are looked at.
const MOST: usize = 1_000_000;

/// Opens a regular file, or a link to one. Never waits for somebody to write.
///
/// # Errors
/// Fails when it can't be opened, or is no regular file; the error says so.
pub fn open_regular(path: &Path) -> Result<File> {
    opened(OpenOptions::new().read(true), path)
}

/// Opens one of belay's own files for writing, or makes one that nobody else may read. What is in it stays. Never waits for
/// somebody to read, and never writes into another file: a link is not followed, and a file with another name is left alone.
///
/// # Errors
/// As [`open_own`].
pub fn make_own(path: &Path) -> Result<File> {
    own(OpenOptions::new().write(true).create(true).truncate(false).mode(0o600), path)
}

/// Opens one of belay's own files, which has no other name.
///
/// # Errors
/// As [`open_regular`], and if it is a link, or has another name.
pub fn open_own(path: &Path) -> Result<File> {
    own(OpenOptions::new().read(true), path)
}

/// Reads one of belay's own files, of at most `limit` bytes of text.
///
/// # Errors
/// As [`read_regular_text`] and [`open_own`].
pub fn read_own_text(path: &Path, limit: u64) -> Result<String> {
    text_of(read_up_to(open_own(path)?, limit)?)
}

fn opened(options: &mut OpenOptions, path: &Path) -> Result<File> {
    let file = options.custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path).map_err(|error| {
        // The system says of a socket, and of a pipe without a reader, that there is no such device.
        let irregular = std::fs::metadata(path).and_then(|found| check_regular(&found)).err();
        irregular
            .filter(|irregular| irregular.kind() == ErrorKind::InvalidInput)
            .unwrap_or_else(|| with_advice(error, path))
    })?;
    check_regular(&file.metadata()?)?;
    Ok(file)
}

/// Adds what to do about a file that is missing, or may not be read.
fn with_advice(error: Error, path: &Path) -> Error {
    let advice = systemd_unit::advice(path, error.kind());
    advice.map(|advice| Error::new(error.kind(), format!("{error}; {advice}"))).unwrap_or(error)
}

fn own(options: &mut OpenOptions, path: &Path) -> Result<File> {
    let file = options.custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_NOFOLLOW).open(path);
    let file = file.map_err(|error| {
        // The system says of a link that there are too many of them.
        let found = std::fs::symlink_metadata(path);
        let wrong = found.and_then(|found| check_alone(&found).and_then(|()| check_regular(&found))).err();
        wrong.filter(|wrong| wrong.kind() == ErrorKind::InvalidInput).unwrap_or(error)
    })?;
    let found = file.metadata()?;
    check_regular(&found)?;
    check_alone(&found)?;
    Ok(file)
}

/// Checks one of belay's own files before anything opens it: there is none, or it is a regular one without another name.
///
/// # Errors
/// Fails when something else is in its place; the error says so, and what to do.
pub fn check_own(path: &Path) -> Result<()> {
    // Opening it says what else is wrong with it.
    let Ok(found) = std::fs::symlink_metadata(path) else { return Ok(()) };
    let checked = check_alone(&found).and_then(|()| check_regular(&found));
    checked.map_err(|wrong| Error::new(wrong.kind(), format!("{wrong}; remove it: belay makes another")))
}

/// Checks that no other name leads to the same file: whoever has put it there chose what belay writes into.
///
/// # Errors
/// Fails when it is a symbolic link, or has more than one name.
pub fn check_alone(metadata: &Metadata) -> Result<()> {
    let wrong = match (metadata.is_symlink(), metadata.nlink()) {
        (true, _) => "it is a symbolic link".to_owned(),
        (false, 2..) if metadata.is_file() => format!("it is a file with {} names (hard links)", metadata.nlink()),
        (false, _) => return Ok(()),
    };
    Err(Error::new(ErrorKind::InvalidInput, format!("{wrong}, and what belay writes would be written elsewhere too")))
}

/// Returns what in a folder, or below it, is neither a file nor a folder, and what it is instead. Opens none of them, and
/// follows no link.
///
/// # Errors
/// Fails when a folder can't be read.
pub fn first_irregular(folder: &Path) -> Result<Option<(PathBuf, Error)>> {
    first(folder, |entry, kind| {
        let found = if kind.is_file() || kind.is_dir() { return None } else { entry.metadata().ok()? };
        let irregular = check_alone(&found).and_then(|()| check_regular(&found)).err()?;
        Some((entry.path(), irregular))
    })
}

/// Returns a file in a folder, or below it, that has another name elsewhere, and says so. Names of a file that are all in there
/// lead nowhere else: libgit2 gives a file its name by a second one, and takes the first away afterwards.
///
/// # Errors
/// Fails when a folder can't be read.
pub fn first_linked(folder: &Path) -> Result<Option<(PathBuf, Error)>> {
    let mut linked = BTreeMap::new();
    first::<()>(folder, |entry, kind| {
        let found = if kind.is_file() { entry.metadata().ok()? } else { return None };
        let linking = check_alone(&found).err()?;
        let names = linked.entry((found.dev(), found.ino())).or_insert((found.nlink(), entry.path(), linking));
        names.0 = names.0.saturating_sub(1);
        None
    })?;
    Ok(linked.into_values().find(|(elsewhere, ..)| *elsewhere > 0).map(|(_, path, linking)| (path, linking)))
}

/// Returns the first result of `look` about what is in a folder, or below it. Follows no link.
fn first<T>(folder: &Path, mut look: impl FnMut(&DirEntry, FileType) -> Option<T>) -> Result<Option<T>> {
    let (mut folders, mut looked) = (vec![folder.to_owned()], 0);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder)? {
            let entry = entry?;
            looked += 1;
            let kind = entry.file_type()?;
            if kind.is_dir() && looked < MOST {
                folders.push(entry.path());
            }
            if let Some(found) = look(&entry, kind) {
                return Ok(Some(found));
            }
        }
    }
    Ok(None)
}

/// Reads a regular file of at most `limit` bytes.
///
/// # Errors
/// As [`open_regular`], and if the file is larger, also if it grows while it is read.
pub fn read_regular(path: &Path, limit: u64) -> Result<Vec<u8>> {
    read_up_to(open_regular(path)?, limit)
}

fn read_up_to(file: File, limit: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > limit {
        let limit = if limit >= 1024 { format!("{} KiB", limit / 1024) } else { format!("{limit} bytes") };
        return Err(Error::new(ErrorKind::FileTooLarge, format!("it is larger than {limit}")));
    }
    Ok(bytes)
}

/// Reads a regular file of at most `limit` bytes of text.
///
/// # Errors
/// As [`read_regular`], and if it is not UTF-8.
pub fn read_regular_text(path: &Path, limit: u64) -> Result<String> {
    text_of(read_regular(path, limit)?)
}

fn text_of(bytes: Vec<u8>) -> Result<String> {
    String::from_utf8(bytes).map_err(|_| Error::new(ErrorKind::InvalidData, "it is not UTF-8"))
}

/// Checks that this is a regular file.
///
/// # Errors
/// Fails when it is no regular file; the error says so.
pub fn check_regular(metadata: &Metadata) -> Result<()> {
    let kind = metadata.file_type();
    let word = match () {
        () if kind.is_file() => return Ok(()),
        () if kind.is_dir() => "a folder",
        () if kind.is_fifo() => "a named pipe",
        () if kind.is_socket() => "a socket",
        () if kind.is_char_device() || kind.is_block_device() => "a device",
        () => "something else",
    };
    Err(Error::new(ErrorKind::InvalidInput, format!("it is not a regular file but {word}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    /// Makes a named pipe.
    fn pipe(path: &Path) {
        assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
    }

    #[test]
    fn only_a_regular_file_is_read_and_nobody_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("file"), "text").unwrap();
        std::os::unix::fs::symlink(at("file"), at("link")).unwrap();
        pipe(&at("pipe"));
        std::os::unix::fs::symlink(at("pipe"), at("link-to-pipe")).unwrap();
        let _socket = UnixListener::bind(at("socket")).unwrap();
        for name in ["file", "link"] {
            assert_eq!(read_regular_text(&at(name), 4).unwrap(), "text", "{name}");
        }
        let why = |path: &Path| read_regular(path, 4).unwrap_err().to_string();
        assert!(why(&at("pipe")).contains("a named pipe") && why(&at("link-to-pipe")).contains("a named pipe"));
        assert!(why(folder.path()).contains("a folder") && why(&at("socket")).contains("a socket"));
        for name in ["pipe", "link-to-pipe", "socket"] {
            for error in [make_own(&at(name)).unwrap_err(), check_own(&at(name)).unwrap_err()] {
                let wrong =
                    if name == "link-to-pipe" { "it is a symbolic link" } else { "it is not a regular file but a" };
                assert!(error.to_string().contains(wrong), "{name}: {error}");
            }
        }
        make_own(&at("new")).unwrap();
        for name in ["new", "none"] {
            check_own(&at(name)).unwrap();
        }
        assert!(why(Path::new("/dev/zero")).contains("a device"));
        assert!(read_regular(&at("socket"), 4).is_err() && read_regular(&at("none"), 4).is_err());
    }

    #[test]
    fn nothing_is_written_through_another_name() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("victim"), "theirs").unwrap();
        std::fs::hard_link(at("victim"), at("hard")).unwrap();
        std::os::unix::fs::symlink(at("victim"), at("soft")).unwrap();
        std::os::unix::fs::symlink(at("nowhere"), at("dangling")).unwrap();
        for (name, words) in
            [("hard", "a file with 2 names"), ("soft", "a symbolic link"), ("dangling", "a symbolic link")]
        {
            for error in [
                make_own(&at(name)).unwrap_err(),
                open_own(&at(name)).unwrap_err(),
                check_own(&at(name)).unwrap_err(),
                read_own_text(&at(name), 9).unwrap_err(),
            ] {
                assert!(error.to_string().contains(words), "{name}: {error}");
            }
        }
        assert!(!at("nowhere").exists());
        std::fs::write(at("own"), "mine").unwrap();
        assert_eq!(read_own_text(&at("own"), 9).unwrap(), "mine");
    }

    #[test]
    fn what_is_no_file_is_found_however_deep_and_not_opened() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(at("objects/pack")).unwrap();
        std::fs::write(at("objects/pack/file"), "text").unwrap();
        assert!(first_irregular(folder.path()).unwrap().is_none());
        for (target, link) in [("file", "link"), ("nowhere", "broken"), ("..", "up")] {
            let link = at("objects/pack").join(link);
            std::os::unix::fs::symlink(target, &link).unwrap();
            let (path, why) = first_irregular(folder.path()).unwrap().unwrap();
            assert!(path == link && why.to_string().contains("a symbolic link"), "{why}");
            std::fs::remove_file(link).unwrap();
        }
        pipe(&at("objects/pack/pipe"));
        let (path, why) = first_irregular(folder.path()).unwrap().unwrap();
        assert_eq!(path, at("objects/pack/pipe"));
        assert!(why.to_string().contains("a named pipe"), "{why}");
    }

    #[test]
    fn a_file_with_another_name_elsewhere_is_found() {
        let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(at("objects/pack")).unwrap();
        std::fs::write(at("config"), "").unwrap();
        std::fs::hard_link(at("config"), at("objects/pack/tmp_1")).unwrap();
        assert!(first_linked(folder.path()).unwrap().is_none(), "both names are in there");
        std::fs::hard_link(at("config"), other.path().join("theirs")).unwrap();
        let (path, why) = first_linked(folder.path()).unwrap().unwrap();
        assert!(path == at("config") || path == at("objects/pack/tmp_1"), "{}", path.display());
        assert!(why.to_string().contains("a file with 3 names"), "{why}");
        std::fs::remove_file(at("objects/pack/tmp_1")).unwrap();
        assert!(first_linked(folder.path()).unwrap().is_some());
        std::fs::remove_file(at("config")).unwrap();
        assert!(first_linked(folder.path()).unwrap().is_none());
    }

    #[test]
    fn a_file_is_read_up_to_its_limit() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, [b'a'; 2049]).unwrap();
        assert_eq!(read_regular(&file, 2049).unwrap().len(), 2049);
        assert!(read_regular(&file, 2048).unwrap_err().to_string().contains("larger than 2 KiB"));
        std::fs::write(&file, [0xff]).unwrap();
        assert_eq!(read_regular_text(&file, 10).unwrap_err().kind(), ErrorKind::InvalidData);
        // The kernel says of these that they are empty, and they are not.
        assert!(read_regular(Path::new("/proc/self/maps"), 16).unwrap_err().to_string().contains("16 bytes"));
    }
}
