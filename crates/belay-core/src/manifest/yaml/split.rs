//! Splits a text into documents: at lines, before any YAML is read.
//!
//! kubectl splits a file at every line that begins with `---`, wherever that is, also inside a quoted text. After the
//! dashes only blanks and a comment may follow.

use std::ops::Range;

use super::text::Lines;
use super::{Limits, YamlComplaint, dialect};

/// A part of the text between two separators.
pub(super) struct Chunk {
    /// Its bytes, without a byte order mark.
    pub(super) range: Range<usize>,
}

/// Returns the parts of a text that hold more than blanks and comments.
pub(super) fn chunks(text: &str, lines: &Lines, limits: Limits, complaints: &mut Vec<YamlComplaint>) -> Vec<Chunk> {
    let mut chunks = Vec::new();
    let mut start = 0;
    let mut at = 0;
    // Lines end with `\n` here: kubectl knows no others when it splits.
    for line in text.split_inclusive('\n') {
        if let Some(rest) = line.strip_prefix("---") {
            push(text, start..at, &mut chunks);
            start = at + line.len();
            let rest = rest.trim();
            let fine = rest.is_empty() || rest.starts_with('#');
            if !fine && complaints.len() <= limits.complaints {
                complaints.push(bad_separator(text, lines, at, line));
            }
        }
        at += line.len();
    }
    push(text, start..text.len(), &mut chunks);
    chunks
}

fn push(text: &str, mut range: Range<usize>, chunks: &mut Vec<Chunk>) {
    if text[range.clone()].starts_with('\u{FEFF}') {
        range.start += '\u{FEFF}'.len_utf8();
    }
    if !holds_nothing(&text[range.clone()]) {
        chunks.push(Chunk { range });
    }
}

/// Returns true when a text holds nothing but blanks and comments.
pub(super) fn holds_nothing(text: &str) -> bool {
    text.lines().all(is_nothing)
}

/// Returns true when kubectl reads nothing of a line. A tab may not begin one, and a character that ends a line in YAML
/// 1.1 ends a comment.
fn is_nothing(line: &str) -> bool {
    let line = line.trim_start_matches([' ', '\r']);
    line.trim_start_matches(dialect::BREAKS).is_empty() || line.starts_with('#') && !line.contains(dialect::BREAKS)
}

fn bad_separator(text: &str, lines: &Lines, at: usize, line: &str) -> YamlComplaint {
    let written = line.trim_end();
    let content = written.trim_start_matches('-').trim_start();
    let from = at + written.len() - content.len();
    let hint = if content.is_empty() {
        "write exactly three dashes, or begin the line with #"
    } else {
        "begin the document on the next line"
    };
    let span = lines.span(text, if content.is_empty() { at } else { from }, at + written.len());
    YamlComplaint {
        lost: Some(at..at + line.len()),
        ..YamlComplaint::new(span, "a line that begins with --- separates documents and holds nothing else").hint(hint)
    }
}
