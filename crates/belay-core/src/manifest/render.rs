//! Complaints in the manner of a compiler: the line, a caret, advice.

use std::ops::Range;

use annotate_snippets::{AnnotationKind, Element, Group, Level, Origin, Renderer, Snippet};

use super::report::harmless;
use super::{Complaint, Excerpt, Place};

/// The choice of coloured text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// With escapes for a terminal.
    On,
    /// Plain text.
    Off,
}

/// Returns a complaint for people, over several lines, at most `width` columns wide where its words allow it; ends with
/// a line break.
///
/// ```text
/// error: there is no field imagee in spec.template.spec.containers[0]
///   --> web.yaml:17:9
///    |
/// 17 |         imagee: nginx
///    |         ^^^^^^
///    |
///    = help: did you mean image?
/// ```
#[must_use]
pub fn render(complaint: &Complaint, colour: Colour, width: usize) -> String {
    let renderer = match colour {
        Colour::On => Renderer::styled().hyperlink(false),
        Colour::Off => Renderer::plain(),
    };
    let message = wrapped(&complaint.message, width, "error: ".len());
    let mut groups = vec![group(Level::ERROR.primary_title(message), &complaint.place, complaint.excerpt.as_ref())];
    for note in &complaint.also {
        let title = Level::NOTE.secondary_title(wrapped(&note.message, width, "note: ".len()));
        groups.push(group(title, &note.place, note.excerpt.as_ref()));
    }
    if let Some(hint) = &complaint.hint {
        let help: Element<'_> = Level::HELP.message(wrapped(hint, width, "   = help: ".len())).into();
        // It belongs to the complaint, not to the other places.
        groups[0] = std::mem::replace(&mut groups[0], Group::with_level(Level::ERROR)).element(help);
    }
    let mut text = renderer.term_width(width).render(&groups);
    text.push('\n');
    text
}

fn group<'g>(title: annotate_snippets::Title<'g>, place: &Place, excerpt: Option<&'g Excerpt>) -> Group<'g> {
    let path = harmless(&place.path);
    let Some(excerpt) = excerpt.filter(|excerpt| !excerpt.line.is_empty()) else {
        let origin = Origin::path(path).line(place.line as usize).char_column(place.column as usize);
        return title.element(origin);
    };
    let marked = AnnotationKind::Primary.span(bytes(excerpt)).highlight_source(true);
    let snippet = Snippet::source(excerpt.line.as_str()).line_start(place.line as usize).annotation(marked);
    if excerpt.start + 1 == place.column {
        return title.element(snippet.path(path));
    }
    // Only a part of the line is shown: the column in the file is said apart.
    let origin = Origin::path(path).line(place.line as usize).char_column(place.column as usize);
    title.element(origin).element(snippet)
}

/// Returns the marked part of an excerpt in bytes.
fn bytes(excerpt: &Excerpt) -> Range<usize> {
    let line = &excerpt.line;
    let at = |column: u32| line.char_indices().nth(column as usize).map_or(line.len(), |(at, _)| at);
    let (start, end) = (at(excerpt.start), at(excerpt.end));
    start..end.max(start)
}

/// Breaks a text between words, so that no line is wider than it must be.
fn wrapped(text: &str, width: usize, indent: usize) -> String {
    let room = width.saturating_sub(indent).max(20);
    let mut lines = String::new();
    let mut column = 0;
    for word in text.split(' ') {
        let length = word.chars().count();
        if column > 0 && column + 1 + length > room {
            lines.push('\n');
            column = 0;
        } else if column > 0 {
            lines.push(' ');
            column += 1;
        }
        lines.push_str(word);
        column += length;
    }
    lines
}
