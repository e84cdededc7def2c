//! Collects the complaints about one file, and decides how much of its text they may show.

use std::sync::Arc;

use serde::de::IgnoredAny;

use super::yaml::{Limits, Lines, Span, YamlComplaint};
use super::{Complaint, Excerpt, Note, ObjectKey, Place};

/// The amount of the text that may be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Showing {
    /// Lines as they are.
    Everything,
    /// Keys that are known to be keys, and no values.
    Keys,
    /// Nothing: an unreadable text may be a Secret.
    Nothing,
}

/// The subject of complaints.
#[derive(Clone, Debug)]
pub(super) struct Subject {
    pub(super) object: Option<ObjectKey>,
    pub(super) showing: Showing,
}

/// The message of a complaint, and its place.
pub(super) struct Words {
    pub(super) span: Span,
    /// True when `span` is a key, which may be shown even if values may not.
    pub(super) key: bool,
    pub(super) message: String,
    pub(super) hint: Option<String>,
    pub(super) also: Option<(Span, String)>,
}

impl Subject {
    /// Returns a key, as it may be shown.
    pub(super) fn name<'n>(&self, key: &'n str) -> &'n str {
        if self.showing == Showing::Everything || is_short_key(key) { key } else { "***" }
    }
}

impl Words {
    pub(super) fn at_key(span: Span, message: impl Into<String>) -> Words {
        Words { span, key: true, message: message.into(), hint: None, also: None }
    }

    pub(super) fn at_value(span: Span, message: impl Into<String>) -> Words {
        Words { span, key: false, message: message.into(), hint: None, also: None }
    }

    pub(super) fn hint(mut self, hint: impl Into<String>) -> Words {
        self.hint = Some(hint.into());
        self
    }

    pub(super) fn maybe_hint(mut self, hint: Option<String>) -> Words {
        self.hint = hint;
        self
    }

    pub(super) fn also(mut self, span: Span, message: impl Into<String>) -> Words {
        self.also = Some((span, message.into()));
        self
    }
}

/// The complaints about one file.
pub(super) struct Report<'t> {
    path: Arc<str>,
    text: &'t str,
    lines: &'t Lines,
    complaints: Vec<Complaint>,
    /// The number of complaints, with those that are not kept.
    count: usize,
    warnings: Vec<Complaint>,
}

/// The number of complaints that are kept until the file is read; the rest is only counted.
const KEPT: usize = 1000;

impl<'t> Report<'t> {
    pub(super) fn new(path: Arc<str>, text: &'t str, lines: &'t Lines) -> Report<'t> {
        Report { path, text, lines, complaints: Vec::new(), count: 0, warnings: Vec::new() }
    }

    pub(super) fn text(&self) -> &'t str {
        self.text
    }

    pub(super) fn lines(&self) -> &'t Lines {
        self.lines
    }

    /// Returns the number of complaints so far.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Returns true when there are so many that no more are kept.
    pub(super) fn is_full(&self) -> bool {
        self.count >= KEPT
    }

    /// Returns true when there are so few yet that suggestions are worth their time.
    pub(super) fn is_short(&self) -> bool {
        self.count < Limits::default().complaints
    }

    pub(super) fn place(&self, span: Span) -> Place {
        Place { path: self.path.clone(), line: span.start.line, column: span.start.column }
    }

    pub(super) fn add(&mut self, subject: &Subject, words: Words) {
        self.count += 1;
        if self.complaints.len() < KEPT {
            let complaint = self.complaint(subject, words);
            self.complaints.push(complaint);
        }
    }

    /// Adds something that is doubtful, and not wrong.
    pub(super) fn warn(&mut self, subject: &Subject, words: Words) {
        if self.warnings.len() < Limits::default().complaints {
            let warning = self.complaint(subject, words);
            self.warnings.push(warning);
        }
    }

    /// Returns the warnings, in the order of places.
    pub(super) fn take_warnings(&mut self) -> Vec<Complaint> {
        let mut warnings = std::mem::take(&mut self.warnings);
        warnings.sort_by(|a, b| a.place.cmp(&b.place));
        warnings
    }

    fn complaint(&self, subject: &Subject, words: Words) -> Complaint {
        let Words { span, key, message, hint, also } = words;
        let excerpt = |span| self.excerpt(span, key, subject.showing);
        let also = also.map(|(span, message)| Note {
            place: self.place(span),
            message: harmless(&message),
            excerpt: excerpt(span),
        });
        Complaint {
            place: self.place(span),
            object: subject.object.clone(),
            excerpt: excerpt(span),
            message: harmless(&message),
            hint: hint.as_deref().map(harmless),
            also: also.into_iter().collect(),
        }
    }

    /// Takes over a complaint about the YAML itself. It is about a key where it has a second place.
    pub(super) fn add_yaml(&mut self, subject: &Subject, complaint: YamlComplaint) {
        let YamlComplaint { span, message, hint, also, lost: _ } = complaint;
        self.add(subject, Words { span, key: also.is_some(), message, hint, also });
    }

    /// Returns all of them in the order of their places, at most [`Limits::complaints`] and one that counts the others.
    pub(super) fn finish(self) -> Vec<Complaint> {
        let limit = Limits::default().complaints;
        let mut complaints = self.complaints;
        complaints.sort_by(|a, b| (&a.place, &a.message).cmp(&(&b.place, &b.message)));
        let (kept, not_kept) = (complaints.len(), self.count - complaints.len());
        complaints.dedup();
        if complaints.len() > limit {
            let left_out = complaints.len() - limit + if kept < KEPT { 0 } else { not_kept };
            complaints.truncate(limit);
            if let Some(last) = complaints.last().cloned() {
                let message = format!("{left_out} more complaints about this file");
                complaints.push(Complaint {
                    object: None,
                    message,
                    hint: None,
                    excerpt: None,
                    also: Vec::new(),
                    ..last
                });
            }
        }
        complaints
    }

    fn excerpt(&self, span: Span, key: bool, showing: Showing) -> Option<Excerpt> {
        match showing {
            Showing::Everything => Some(window(self.lines.line(self.text, span.start.line), span, self.text)),
            Showing::Keys if key && is_short_key(span.slice(self.text).trim_matches(['"', '\''])) => {
                let key = span.slice(self.text);
                let start = span.start.column.saturating_sub(1).min(60);
                let end = start + u32::try_from(key.chars().count()).unwrap_or_default();
                Some(Excerpt { line: format!("{}{key}: ***", " ".repeat(start as usize)), start, end })
            }
            Showing::Keys | Showing::Nothing => None,
        }
    }
}

/// Returns true when a text looks like the name of a field. A key that does not look like a name may be a value that a
/// slip made a key.
pub(super) fn is_name(text: &str) -> bool {
    let fine = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'/' | b'$' | b'<');
    !text.is_empty() && text.len() <= 253 && text.bytes().all(fine)
}

/// Returns the words of an API server without a long value in them: `Invalid value: {…}: field is immutable`.
#[must_use]
pub fn brief(message: &str) -> String {
    const SHORT: usize = 80;
    let shortened = message.split_once(" value: ").and_then(|(before, rest)| {
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<IgnoredAny>();
        values.next()?.ok()?;
        let end = values.byte_offset();
        let shown = match rest.as_bytes().first()? {
            b'{' => "{…}",
            b'[' => "[…]",
            _ => "\"…\"",
        };
        (end > SHORT).then(|| format!("{before} value: {shown}{}", &rest[end..]))
    });
    harmless(shortened.as_deref().unwrap_or(message))
}

/// The longest key of a Secret that is shown, in bytes. A longer one may be a value that a slip made a key.
pub(super) const KEY: usize = 32;

/// Returns true when a key of a possible Secret is shown.
pub(super) fn is_short_key(key: &str) -> bool {
    is_name(key) && key.len() <= KEY
}

/// Makes text from a file or of a tool fit for a terminal: without control characters and those that change the
/// direction of writing, and at most 300 characters of it. The middle of a longer one is left out: it begins with the
/// place, and programs that wrap one error into another write the cause at the end.
pub(super) fn harmless(text: &str) -> String {
    const BEGINNING: usize = 119;
    const END: usize = 180;
    let characters = text.chars().count();
    if characters <= BEGINNING + 1 + END {
        return text.chars().map(harmless_char).collect();
    }
    let beginning = text.chars().take(BEGINNING).map(harmless_char);
    let end = text.chars().skip(characters - END).map(harmless_char);
    beginning.chain(['…']).chain(end).collect()
}

fn harmless_char(c: char) -> char {
    match c {
        '\t' => ' ',
        '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2060}'..='\u{2069}' | '\u{FEFF}' => '\u{FFFD}',
        c if super::is_hidden(c) => '\u{FFFD}',
        c => c,
    }
}

/// Returns the part of a line around a span, at most 160 characters of it.
fn window(line: &str, span: Span, text: &str) -> Excerpt {
    const WIDTH: usize = 160;
    const BEFORE: usize = 60;
    // Nothing here may take longer because the line is long: files of one line hold many complaints.
    let line_start = line.as_ptr() as usize - text.as_ptr() as usize;
    let at = (span.start.offset as usize).saturating_sub(line_start).min(line.len());
    let at = line.floor_char_boundary(at);
    let short = line.len() <= 4 * WIDTH && line.chars().count() <= WIDTH;
    let cut = if short { 0 } else { line[..at].char_indices().rev().take(BEFORE).last().map_or(at, |(cut, _)| cut) };
    let shown: String = line[cut..].chars().take(WIDTH).map(harmless_char).collect();
    let start = line[cut..at].chars().count();
    let rest = shown.chars().count() - start.min(shown.chars().count());
    let length = match span.end.line == span.start.line {
        true => (span.end.column.saturating_sub(span.start.column) as usize).min(rest),
        false => rest,
    };
    let narrow = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    Excerpt { line: shown, start: narrow(start), end: narrow(start + length) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_values_are_left_out_of_what_a_server_says() {
        let long = "x".repeat(500);
        for (message, brief_message) in [
            (
                format!("Invalid value: {{\"a\":\"{long}\"}}: field is immutable"),
                "Invalid value: {…}: field is immutable",
            ),
            (
                format!("Invalid value: \"{long}\": must be no more than 253: a"),
                "Invalid value: \"…\": must be no more than 253: a",
            ),
            (
                format!("Unsupported value: [\"{long}\"]: supported values: \"A\": b"),
                "Unsupported value: […]: supported values: \"A\": b",
            ),
            ("Invalid value: \"a\": no".to_owned(), "Invalid value: \"a\": no"),
            ("no".to_owned(), "no"),
        ] {
            assert_eq!(brief(&message), brief_message);
        }
        assert_eq!(brief(&long).chars().count(), 300);
    }
}
