//! Names of files: those that can be used, and how the others are shown.

/// No path of a file is longer, in bytes.
const PATH_LIMIT: usize = 4096;

/// A path that belay does not use: not UTF-8, with control characters, or not a path at all. It stands for everything
/// below it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OddPath {
    /// The path, with what can't be shown escaped (`\xff`, `\n`).
    pub shown: String,
    /// What is odd about it.
    pub why: &'static str,
}

/// The name of an entry, if it can be used; `before` is how long the path of its folder is.
pub(super) fn usable(name: &[u8], before: usize) -> Result<&str, &'static str> {
    let Ok(text) = std::str::from_utf8(name) else { return Err("its name is not UTF-8") };
    if text.chars().any(char::is_control) {
        return Err("its name has control characters");
    }
    if text.is_empty() || text == "." || text == ".." || text.contains('/') {
        return Err("its name is not one that a file can have");
    }
    if before + text.len() > PATH_LIMIT {
        return Err("its path is longer than 4096 bytes");
    }
    Ok(text)
}

/// A name with everything escaped that a terminal or a log could take amiss.
pub(super) fn shown(name: &[u8]) -> String {
    let mut text = String::new();
    for chunk in name.utf8_chunks() {
        for c in chunk.valid().chars() {
            if c.is_control() {
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
