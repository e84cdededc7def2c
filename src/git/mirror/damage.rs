//! Distinguishes a damaged mirror from a shortage of the machine: the first is mended by a new fetch, the second only
//! by the person who runs the machine. It also clears the leftovers of a killed process.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use git2::ErrorClass;

use crate::git::error::{GitError, with_file};
use crate::regular_file::{first_irregular, first_linked};

/// The number of bytes that a mirror must be able to write, for a shortage of room to be ruled out.
const ROOM: usize = 64 << 10;
/// The largest number of files and folders of a mirror that are examined.
const MOST: usize = 100_000;
/// The C library's messages about errors that are the machine's and not the repository's, and that libgit2 quotes.
const OF_THE_MACHINE: [(&str, ErrorKind); 9] = [
    ("No space left on device", ErrorKind::StorageFull),
    ("Disk quota exceeded", ErrorKind::QuotaExceeded),
    ("Too many open files", ErrorKind::Other),
    ("Permission denied", ErrorKind::PermissionDenied),
    ("Operation not permitted", ErrorKind::PermissionDenied),
    ("Read-only file system", ErrorKind::ReadOnlyFilesystem),
    ("Cannot allocate memory", ErrorKind::OutOfMemory),
    ("Input/output error", ErrorKind::Other),
    ("File too large", ErrorKind::FileTooLarge),
];

/// Returns the meaning of a libgit2 error about the files below `path`, if it is the machine's.
pub(in crate::git) fn of_the_machine(error: &git2::Error, path: &Path) -> Option<GitError> {
    let message = error.message();
    let known = OF_THE_MACHINE.iter().find(|(text, _)| message.contains(text));
    let kind = match known {
        Some((_, kind)) => *kind,
        None if error.class() == ErrorClass::NoMemory => ErrorKind::OutOfMemory,
        None => return None,
    };
    // The objects of a repository on this machine are read where they lie.
    if let Some((file, (text, _))) = named_file(message).filter(|file| !file.starts_with(path)).zip(known) {
        return Some(GitError::Io { doing: "read", path: file.to_owned(), source: io::Error::new(kind, *text) });
    }
    let source = io::Error::new(kind, message.to_owned());
    Some(GitError::Io { doing: "read or write", path: path.to_owned(), source })
}

/// Returns the whole path of the file that a message of libgit2 names in quotes.
fn named_file(message: &str) -> Option<&Path> {
    message.split('\'').nth(1).map(Path::new).filter(|file| file.is_absolute())
}

/// Fails when the files below `folder` exist and can't be read: because of their rights, or too few descriptors.
/// Nothing is written.
pub(in crate::git) fn unreadable(folder: &Path) -> Result<(), GitError> {
    for file in files(folder)? {
        match File::open(&file).and_then(|mut file| file.read(&mut [0])) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(with_file("read", file)(error)),
            _ => {}
        }
    }
    Ok(())
}

/// Returns what in a mirror is no file, and would keep its reader waiting.
pub(in crate::git) fn irregular(mirror: &Path) -> Result<Option<String>, GitError> {
    if !mirror.is_dir() {
        return Ok(None);
    }
    let found = first_irregular(mirror).map_err(with_file("read", mirror))?;
    Ok(found.map(|(path, why)| format!("{}: {why}", path.display())))
}

/// Returns the file of a mirror that has another name elsewhere: libgit2 writes into some of them, as the logs of references.
pub(in crate::git) fn linked(mirror: &Path) -> Result<Option<String>, GitError> {
    let found = first_linked(mirror).map_err(with_file("read", mirror))?;
    Ok(found.map(|(path, why)| format!("{}: {why}", path.display())))
}

/// Fails when belay can't write in `folder`: no room, no rights, a disk that is read-only.
pub(in crate::git) fn unwritable(folder: &Path) -> Result<(), GitError> {
    let test = folder.join("test");
    // It may be left of a belay that was killed, or planted.
    let _ = fs::remove_file(&test);
    let written =
        File::create_new(&test).and_then(|mut file| file.write_all(&[0; ROOM]).and_then(|()| file.sync_all()));
    let removed = fs::remove_file(&test);
    match written.and(removed) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(with_file("write", test)(error)),
        _ => Ok(()),
    }
}

/// Returns the fault of a bare repository's files that libgit2 does not notice, or notices too late: a reference that
/// is empty or no id, as a power cut leaves it, and a pack that is cut short.
pub(in crate::git) fn wrong_files(repository: &Path) -> Result<Option<String>, GitError> {
    for file in files(&repository.join("refs"))? {
        if file.extension().is_some_and(|extension| extension == "lock") {
            continue;
        }
        let Ok(metadata) = fs::metadata(&file) else { continue };
        if metadata.len() < 41 && !fs::read(&file).is_ok_and(|text| text.starts_with(b"ref: ")) {
            return Ok(Some(format!("{} is no reference: it has {} bytes", file.display(), metadata.len())));
        }
    }
    for index in files(&repository.join("objects/pack"))? {
        let pack = index.with_extension("pack");
        // An index alone is the rest of a pack that was never finished.
        if index.extension().is_some_and(|extension| extension == "idx")
            && pack.exists()
            && !is_whole(&pack, &index).map_err(with_file("read", &pack))?
        {
            return Ok(Some(format!("{} is not the pack that its index was made of", pack.display())));
        }
    }
    Ok(None)
}

/// Returns true when a pack ends with the checksum that its index names (gitformat-pack(5)): the index's last 40 bytes
/// are that of the pack and its own.
fn is_whole(pack: &Path, index: &Path) -> io::Result<bool> {
    let end = |path: &Path, from: u64, bytes: &mut [u8]| -> io::Result<bool> {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        let Some(start) = length.checked_sub(from) else { return Ok(false) };
        file.seek(SeekFrom::Start(start))?;
        file.read_exact(bytes)?;
        Ok(true)
    };
    let (mut named, mut there) = ([0; 20], [0; 20]);
    Ok(end(index, 40, &mut named)? && end(pack, 20, &mut there)? && named == there)
}

/// Removes the leftovers of a killed process from the mirror: unfinished packs, and locks that nobody holds any more.
/// The mirror must be locked, so that nobody else is writing.
pub(in crate::git) fn clear_leftovers(repository: &Path) -> Result<(), GitError> {
    let packs = repository.join("objects/pack");
    fs::create_dir_all(&packs).map_err(with_file("make the folder", &packs))?;
    let mut left = Vec::new();
    for file in files(&packs)? {
        let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.starts_with("pack_git2_")
            || name.starts_with("tmp_")
            || name.starts_with(".tmp-")
            || name.ends_with(".lock")
            || name.ends_with(".idx") && !file.with_extension("pack").exists()
        {
            left.push(file);
        }
    }
    left.extend(
        files(&repository.join("refs"))?.into_iter().filter(|file| file.extension().is_some_and(|it| it == "lock")),
    );
    left.extend(["HEAD.lock", "packed-refs.lock", "config.lock"].map(|name| repository.join(name)));
    for file in left {
        match fs::remove_file(&file) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(with_file("remove", file)(error)),
            Ok(()) => tracing::debug!(file = %file.display(), "removed what a process that was killed had left"),
            Err(_) => {}
        }
    }
    Ok(())
}

/// Makes sure that packs and their folder are on the disk, before anything says that they are there.
pub(in crate::git) fn sync_packs(repository: &Path, known: &[PathBuf]) -> Result<(), GitError> {
    let folder = repository.join("objects/pack");
    for file in files(&folder)?.into_iter().filter(|file| !known.contains(file)) {
        File::open(&file).and_then(|file| file.sync_all()).map_err(with_file("sync", &file))?;
    }
    sync_folder(&folder)
}

/// Makes sure that the names in a folder are on the disk.
pub(in crate::git) fn sync_folder(folder: &Path) -> Result<(), GitError> {
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(with_file("sync", folder))
}

/// Returns the files in a folder and below it; none if it is not there.
pub(in crate::git) fn files(folder: &Path) -> Result<Vec<PathBuf>, GitError> {
    let (mut files, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        let entries = match fs::read_dir(&folder) {
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => continue,
            entries => entries.map_err(with_file("read", &folder))?,
        };
        for entry in entries {
            let entry = entry.map_err(with_file("read", &folder))?;
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                Ok(kind) if kind.is_file() => files.push(entry.path()),
                _ => {}
            }
            if files.len() + folders.len() > MOST {
                return Ok(files);
            }
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use git2::{Error, ErrorCode};

    #[test]
    fn an_object_of_the_repository_is_not_charged_to_the_mirror() {
        let said = |file: &str| {
            let message = format!("failed open - '{file}' is locked: Permission denied");
            let error = Error::new(ErrorCode::Locked, ErrorClass::Os, message);
            of_the_machine(&error, Path::new("/state/repository.git/")).unwrap().to_string()
        };
        assert_eq!(
            said("/srv/shop.git/objects/3b/8e"),
            "failed to read /srv/shop.git/objects/3b/8e: Permission denied"
        );
        assert!(
            said("/state/repository.git/objects/3b/8e").starts_with("failed to read or write /state/repository.git/")
        );
        let other = Error::new(ErrorCode::NotFound, ErrorClass::Odb, "object not found");
        assert!(of_the_machine(&other, Path::new("/state")).is_none());
    }
}
