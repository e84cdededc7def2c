//! Bytes to text, and where things are in it.

use std::borrow::Cow;

use super::{Position, Span, YamlComplaint};

/// Reads bytes as kubectl does: UTF-8, or UTF-16 where a byte order mark says so; a byte order mark of UTF-8 is dropped.
///
/// # Errors
/// Bytes that are not text. kubectl would put U+FFFD in their place and go on, which changes the applied object.
pub fn decode(bytes: &[u8]) -> Result<Cow<'_, str>, YamlComplaint> {
    match bytes {
        [0xEF, 0xBB, 0xBF, rest @ ..] => utf8(rest),
        [0xFF, 0xFE, rest @ ..] => utf16(rest, u16::from_le_bytes),
        [0xFE, 0xFF, rest @ ..] => utf16(rest, u16::from_be_bytes),
        _ => utf8(bytes),
    }
}

fn utf8(bytes: &[u8]) -> Result<Cow<'_, str>, YamlComplaint> {
    let error = match str::from_utf8(bytes) {
        Ok(text) => return Ok(Cow::Borrowed(text)),
        Err(error) => error,
    };
    let readable = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
    let span = Lines::new(&readable).span(&readable, readable.len(), readable.len());
    if bytes[..bytes.len().min(1024)].contains(&0) {
        return Err(YamlComplaint::new(span, "the file is binary, not text").hint("only text can be a manifest"));
    }
    Err(YamlComplaint::new(span, "the file is not UTF-8 here").hint("save the file as UTF-8"))
}

fn utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Result<Cow<'_, str>, YamlComplaint> {
    let (pairs, rest) = bytes.as_chunks::<2>();
    let units = pairs.iter().map(|pair| unit(*pair));
    let text: Result<String, _> = char::decode_utf16(units).collect();
    match text {
        Ok(text) if rest.is_empty() => Ok(Cow::Owned(text)),
        _ => Err(YamlComplaint::new(Span::default(), "the file is not valid UTF-16, as its first bytes say")
            .hint("save the file as UTF-8")),
    }
}

/// The beginnings of the lines of a text. A line ends with `\n`, `\r\n`, or a `\r` alone.
pub(in crate::manifest) struct Lines {
    starts: Vec<u32>,
}

impl Lines {
    pub(in crate::manifest) fn new(text: &str) -> Lines {
        let bytes = text.as_bytes();
        let mut starts = vec![0];
        for (at, byte) in bytes.iter().enumerate() {
            if *byte == b'\n' || (*byte == b'\r' && bytes.get(at + 1) != Some(&b'\n')) {
                starts.push(narrow(at + 1));
            }
        }
        Lines { starts }
    }

    /// Returns the position of a byte. The text is the one that the lines were found in.
    pub(in crate::manifest) fn position(&self, text: &str, offset: usize) -> Position {
        let offset = text.floor_char_boundary(offset);
        let line = self.starts.partition_point(|start| *start as usize <= offset);
        let start = self.starts[line - 1] as usize;
        let column = text[start..offset].chars().count() + 1;
        Position { offset: narrow(offset), line: narrow(line), column: narrow(column) }
    }

    /// Returns the span between two bytes.
    pub(in crate::manifest) fn span(&self, text: &str, start: usize, end: usize) -> Span {
        Span { start: self.position(text, start), end: self.position(text, end) }
    }

    /// Returns the bytes of a line, without its end. Lines count from 1.
    pub(in crate::manifest) fn line<'t>(&self, text: &'t str, line: u32) -> &'t str {
        let index = (line as usize).saturating_sub(1).min(self.starts.len() - 1);
        let start = self.starts[index] as usize;
        let end = self.starts.get(index + 1).map_or(text.len(), |next| *next as usize);
        text[start..end].trim_end_matches(['\n', '\r'])
    }
}

/// Offsets are kept in 32 bits: no file that is read is larger, see [`super::Limits`].
pub(super) fn narrow(offset: usize) -> u32 {
    u32::try_from(offset).unwrap_or(u32::MAX)
}

/// Returns the first character that kubectl's YAML library does not take, and why.
pub(super) fn forbidden(text: &str) -> Option<(usize, char)> {
    // Nearly every text is printable ASCII; only the rest is checked character by character.
    let plain = |byte: u8| (0x20..0x7F).contains(&byte) || matches!(byte, b'\n' | b'\r' | b'\t');
    let first = text.bytes().position(|byte| !plain(byte))?;
    text[first..].char_indices().map(|(at, c)| (first + at, c)).find(|(_, c)| !printable(*c))
}

fn printable(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | ' '..='~' | '\u{85}' | '\u{A0}'..='\u{D7FF}' | '\u{E000}'..='\u{FFFD}' | '\u{10000}'..)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn utf16_with_a_mark_is_text() {
        let mut bytes = vec![0xFF, 0xFE];
        bytes.extend("a: ä".encode_utf16().flat_map(u16::to_le_bytes));
        assert_eq!(decode(&bytes).unwrap(), "a: ä");
        bytes.push(0);
        assert!(decode(&bytes).is_err());
    }

    #[test]
    fn what_is_not_text_is_said_with_its_place() {
        let complaint = decode(b"a: b\nc: \xE4\n").unwrap_err();
        assert_eq!((complaint.span.start.line, complaint.span.start.column), (2, 4));
        assert!(decode(b"\x7fELF\0\0\xff").unwrap_err().message.contains("binary"));
    }

    #[test]
    fn columns_count_characters() {
        let text = "a\r\nüb\rc";
        let lines = Lines::new(text);
        let at = |offset| {
            let position = lines.position(text, offset);
            (position.line, position.column)
        };
        assert_eq!([at(0), at(3), at(5), at(7), at(8)], [(1, 1), (2, 1), (2, 2), (3, 1), (3, 2)]);
        assert_eq!(lines.line(text, 2), "üb");
    }
}
