//! Collects the complaints about one file, and decides how much of its text they may show.

use std::sync::Arc;

use super::yaml::{Limits, Lines, Span, YamlComplaint};
use super::{Complaint, Excerpt, Note, ObjectKey, Place};

/// How much of the text may be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Showing {
    /// Lines as they are.
    Everything,
    /// Keys that are known to be keys, and no values.
    Keys,
    /// Nothing: what can't be read may be a Secret.
    Nothing,
}

/// What complaints are about.
#[derive(Clone, Debug)]
pub(super) struct Subject {
    pub(super) object: Option<ObjectKey>,
    pub(super) showing: Showing,
}

/// What a complaint says, and where.
pub(super) struct Words {
    pub(super) span: Span,
    /// Whether `span` is a key, which may be shown where values may not.
    pub(super) key: bool,
    pub(super) message: String,
    pub(super) hint: Option<String>,
    pub(super) also: Option<(Span, String)>,
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
}

impl<'t> Report<'t> {
    pub(super) fn new(path: Arc<str>, text: &'t str, lines: &'t Lines) -> Report<'t> {
        Report { path, text, lines, complaints: Vec::new() }
    }

    pub(super) fn text(&self) -> &'t str {
        self.text
    }

    /// How many there are so far.
    pub(super) fn count(&self) -> usize {
        self.complaints.len()
    }

    pub(super) fn place(&self, span: Span) -> Place {
        Place { path: self.path.clone(), line: span.start.line, column: span.start.column }
    }

    pub(super) fn add(&mut self, subject: &Subject, words: Words) {
        let Words { span, key, message, hint, also } = words;
        let excerpt = |span| self.excerpt(span, key, subject.showing);
        let also = also.map(|(span, message)| Note {
            place: self.place(span),
            message: harmless(&message),
            excerpt: excerpt(span),
        });
        self.complaints.push(Complaint {
            place: self.place(span),
            object: subject.object.clone(),
            excerpt: excerpt(span),
            message: harmless(&message),
            hint: hint.as_deref().map(harmless),
            also: also.into_iter().collect(),
        });
    }

    /// Takes over a complaint about the YAML itself. It is about a key where it has a second place.
    pub(super) fn add_yaml(&mut self, subject: &Subject, complaint: YamlComplaint) {
        let YamlComplaint { span, message, hint, also, lost: _ } = complaint;
        self.add(subject, Words { span, key: also.is_some(), message, hint, also });
    }

    /// All of them in the order of their places, at most [`Limits::complaints`] and one that counts the others.
    pub(super) fn finish(self) -> Vec<Complaint> {
        let limit = Limits::default().complaints;
        let mut complaints = self.complaints;
        complaints.sort_by(|a, b| (&a.place, &a.message).cmp(&(&b.place, &b.message)));
        complaints.dedup();
        if complaints.len() > limit {
            let left_out = complaints.len() - limit;
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
            Showing::Everything => Some(window(self.lines.line(self.text, span.start.line), span)),
            Showing::Keys if key => {
                let key = harmless(span.slice(self.text).lines().next().unwrap_or_default());
                let start = span.start.column.saturating_sub(1).min(60);
                let end = start + u32::try_from(key.chars().count()).unwrap_or_default();
                Some(Excerpt { line: format!("{}{key}: ***", " ".repeat(start as usize)), start, end })
            }
            Showing::Keys | Showing::Nothing => None,
        }
    }
}

/// Text from a file, made fit for a terminal: without control characters and what changes the direction of writing, and
/// at most 300 characters of it.
pub(super) fn harmless(text: &str) -> String {
    const LONGEST: usize = 300;
    let mut shown: String = text.chars().take(LONGEST).map(harmless_char).collect();
    if text.chars().nth(LONGEST).is_some() {
        shown.push('…');
    }
    shown
}

fn harmless_char(c: char) -> char {
    match c {
        '\t' => ' ',
        '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2060}'..='\u{2069}' | '\u{FEFF}' => '\u{FFFD}',
        c if c.is_control() => '\u{FFFD}',
        c => c,
    }
}

/// The part of a line around a span, at most 160 characters of it.
fn window(line: &str, span: Span) -> Excerpt {
    const WIDTH: usize = 160;
    const BEFORE: usize = 60;
    let start = span.start.column.saturating_sub(1) as usize;
    let length = line.chars().count();
    let end = if span.end.line == span.start.line { (span.end.column as usize).saturating_sub(1) } else { length };
    let cut = if length > WIDTH { start.saturating_sub(BEFORE) } else { 0 };
    let shown: String = line.chars().skip(cut).take(WIDTH).map(harmless_char).collect();
    let last = shown.chars().count();
    let within = |at: usize| u32::try_from(at.saturating_sub(cut).min(last)).unwrap_or(u32::MAX);
    Excerpt { line: shown, start: within(start), end: within(end).max(within(start)) }
}
