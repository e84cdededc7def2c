//! Names of files: those that can be used, and how the others are shown.

use belay_core::manifest::{Complaint, Place, is_hidden};

/// No path of a file is longer, in bytes.
const PATH_LIMIT: usize = 4096;

/// A path that belay does not use: not UTF-8, with control characters, or not a path at all. It stands for everything
/// below it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OddPath {
    /// The path, with unprintable characters escaped (`\xff`, `\n`).
    pub shown: String,
    /// The oddity.
    pub why: &'static str,
}

impl OddPath {
    /// Returns the path of an entry of `folder`, which is empty or ends with `/`, if belay does not use it.
    #[must_use]
    pub fn of(folder: &str, name: &[u8]) -> Option<OddPath> {
        let why = usable(name, folder.len()).err()?;
        Some(OddPath { shown: format!("{}{}", shown(folder.as_bytes()), shown(name)), why })
    }

    /// Returns the complaint about it.
    #[must_use]
    pub fn complaint(&self) -> Complaint {
        let place = Place { path: self.shown.as_str().into(), line: 1, column: 1 };
        Complaint::of_file(
            place,
            format!("the file has a name that belay does not use: {}", self.why),
            Some("rename it".to_owned()),
        )
    }
}

/// Returns the name of an entry, if it can be used; `before` is how long the path of its folder is.
pub(in crate::git) fn usable(name: &[u8], before: usize) -> Result<&str, &'static str> {
    let Ok(text) = std::str::from_utf8(name) else { return Err("its name is not UTF-8") };
    if text.chars().any(char::is_control) {
        return Err("its name has control characters");
    }
    if text.chars().any(is_hidden) {
        return Err("its name has characters that are not shown, or that turn the direction of others");
    }
    if text.is_empty() || text == "." || text == ".." || text.contains('/') {
        return Err("its name is not one that a file can have");
    }
    if before + text.len() > PATH_LIMIT {
        return Err("its path is longer than 4096 bytes");
    }
    Ok(text)
}

/// Returns a name with everything escaped that a terminal or a log could take amiss.
pub(in crate::git) fn shown(name: &[u8]) -> String {
    let mut text = String::new();
    for chunk in name.utf8_chunks() {
        for c in chunk.valid().chars() {
            if is_hidden(c) {
                text.extend(c.escape_default());
            } else {
                text.push(c);
            }
        }
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text.truncate(text.floor_char_boundary(PATH_LIMIT));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_shows_what_it_says_or_is_not_used() {
        assert_eq!(usable("größe-価格.yaml".as_bytes(), 0), Ok("größe-価格.yaml"));
        for hidden in
            ["a\u{202E}lmay.b", "a\u{2066}b", "a\u{200B}b", "a\u{2028}b", "a\u{FEFF}b", "a\u{1b}[2Jb", "a\u{E0041}b"]
        {
            assert!(usable(hidden.as_bytes(), 0).is_err(), "{hidden:?}");
            let shown = shown(hidden.as_bytes());
            assert!(!shown.chars().any(is_hidden) && shown.contains("\\u{"), "{shown:?}");
        }
    }
}
