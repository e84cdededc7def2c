//! The files that a program needs to be started: none, its loader and libraries, or whatever a script may start.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use crate::regular_file::open_regular;

/// The kind of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ProgramKind {
    /// It needs no other file.
    Static,
    /// It needs its loader, and the libraries that the loader finds for it.
    Dynamic(Vec<PathBuf>),
    /// Another program reads it, and it may start others.
    Script,
}

/// The most that is read of a program to learn how it is started, in bytes.
const HEADERS: u64 = 64 << 10;
/// The type of a program header that names the loader.
const INTERPRETER: u32 = 3;
/// Lists of libraries, by the program and its loader.
static LISTED: Mutex<BTreeMap<(PathBuf, PathBuf), Vec<PathBuf>>> = Mutex::new(BTreeMap::new());

impl ProgramKind {
    /// Returns the kind of a program. One that can't be read is taken for one that needs nothing.
    pub(super) fn of(program: &Path) -> ProgramKind {
        let mut headers = Vec::new();
        let read = open_regular(program).and_then(|file| file.take(HEADERS).read_to_end(&mut headers));
        if read.is_err() {
            return ProgramKind::Static;
        }
        if headers.starts_with(b"#!") {
            return ProgramKind::Script;
        }
        match loader(&headers) {
            Some(loader) => ProgramKind::Dynamic(libraries(program, loader)),
            None => ProgramKind::Static,
        }
    }
}

/// Returns the loader that the headers of an ELF program name.
fn loader(headers: &[u8]) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    // The identification of a 64-bit program whose numbers have their lowest byte first.
    if !headers.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let number = |at: usize, length: usize| {
        let bytes = headers.get(at..at.checked_add(length)?)?;
        Some(bytes.iter().rev().fold(0_u64, |number, byte| number << 8 | u64::from(*byte)))
    };
    let at = |offset: u64| usize::try_from(offset).ok();
    let (table, size, count) = (at(number(32, 8)?)?, at(number(54, 2)?)?, at(number(56, 2)?)?);
    let entries = (0..count).map_while(|entry| table.checked_add(entry.checked_mul(size)?));
    let interpreter = entries.into_iter().find(|entry| number(*entry, 4) == Some(u64::from(INTERPRETER)))?;
    let (offset, length) =
        (at(number(interpreter.checked_add(8)?, 8)?)?, at(number(interpreter.checked_add(32)?, 8)?)?);
    let name = headers.get(offset..offset.checked_add(length)?)?.split(|byte| *byte == 0).next()?;
    Some(Path::new(std::ffi::OsStr::from_bytes(name)).to_owned()).filter(|loader| loader.is_absolute())
}

/// Returns the loader of a program, and the libraries that it finds for it.
fn libraries(program: &Path, loader: PathBuf) -> Vec<PathBuf> {
    let key = (program.to_owned(), loader);
    let mut listed = LISTED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = listed.get(&key) {
        return known.clone();
    }
    // Both glibc's loader and musl's list the libraries that they would load, and run none of them.
    let said = Command::new(&key.1).arg("--list").arg(program).env_clear().stdin(Stdio::null()).output();
    let said = said.map(|said| String::from_utf8_lossy(&said.stdout).into_owned()).unwrap_or_default();
    let paths = said.split_whitespace().filter(|word| word.starts_with('/')).map(PathBuf::from);
    let mut found = vec![key.1.clone()];
    found.extend(paths.filter(|path| path.is_file() && path != program));
    listed.insert(key, found.clone());
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_needs_its_loader_and_libraries() {
        let shell = std::fs::canonicalize("/bin/sh").unwrap();
        match ProgramKind::of(&shell) {
            ProgramKind::Dynamic(files) => {
                assert!(files.iter().any(|file| file.to_string_lossy().contains("libc")), "{files:?}");
                assert!(files.iter().all(|file| file.is_absolute()), "{files:?}");
            }
            // As busybox is.
            kind => assert_eq!(kind, ProgramKind::Static),
        }
    }

    #[test]
    fn headers_that_are_none_name_no_loader() {
        let mut headers = vec![0xff; 4096];
        headers[..6].copy_from_slice(b"\x7fELF\x02\x01");
        for length in 0..headers.len() {
            assert_eq!(loader(&headers[..length]), None, "{length}");
        }
        // A table of one entry at 64, whose name stands behind it.
        let mut fine = vec![0; 160];
        fine[..6].copy_from_slice(b"\x7fELF\x02\x01");
        (fine[32], fine[54], fine[56]) = (64, 56, 1);
        (fine[64], fine[72], fine[96]) = (3, 120, 12);
        fine[120..132].copy_from_slice(b"/lib/ld.so\0\0");
        assert_eq!(loader(&fine), Some(PathBuf::from("/lib/ld.so")));
    }
}
