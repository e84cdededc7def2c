//! Text to documents, exactly as kubectl would read them, each key and value with its place.
//!
//! kubectl splits a file into documents at lines that begin with `---`. If a file begins with JSON, kubectl reads that
//! as JSON, and everything else as YAML 1.1 (with the rules of its own library). [`documents`] does the same, but goes
//! on after a broken document and refuses in the open parts that kubectl would drop in silence: a key written twice,
//! text after `...`, bytes that are no text.
//!
//! Everything is bounded, see [`Limits`]; nothing panics, and the work grows linearly with the text.

mod dialect;
mod emit;
mod json;
mod limits;
mod load;
mod node;
mod placed;
mod quoted;
mod scalar;
mod split;
mod syntax;
mod text;

use std::ops::Range;

pub use emit::to_text;
pub use limits::Limits;
pub use node::{Content, Document, Layout, Node, NodeId, Position, Span, Style, Tag};
pub use placed::{At, Child, Placed};
pub use text::decode;

pub(super) use emit::double;
pub(super) use limits::size;
pub(super) use placed::Start;
pub(super) use scalar::plain_is_text;
pub(super) use text::Lines;

/// One thing wrong with a text, before anything is known about Kubernetes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct YamlComplaint {
    /// The text that it is about.
    pub span: Span,
    /// The fault: one sentence, no full stop. Never text from a value, which may be secret.
    pub message: String,
    /// The advice.
    pub hint: Option<String>,
    /// Another place that belongs to it, and its description.
    pub also: Option<(Span, String)>,
    /// The part of the text that can't be read because of it; `None` if the document was read all the same.
    pub lost: Option<Range<usize>>,
}

impl YamlComplaint {
    pub(super) fn new(span: Span, message: impl Into<String>) -> YamlComplaint {
        YamlComplaint { span, message: message.into(), hint: None, also: None, lost: None }
    }

    pub(super) fn hint(mut self, hint: impl Into<String>) -> YamlComplaint {
        self.hint = Some(hint.into());
        self
    }
}

/// Returns all documents of a text, in order, and the complaints about it.
///
/// A document that is broken gives one complaint (with [`YamlComplaint::lost`]) and does not hide the others. Documents
/// that hold nothing (comments only, `null`) are left out. The scalars of a document are interpreted later, by
/// [`Document::read`].
#[must_use]
pub fn documents(text: &str) -> (Vec<Document<'_>>, Vec<YamlComplaint>) {
    let mut documents = Vec::new();
    let complaints = each_document(text, &Lines::new(text), |document| documents.push(document));
    (documents, complaints)
}

/// Reads the documents of a text one after another, as [`documents`] does, and returns the complaints about it. A
/// document takes some forty times the memory of its text, so a whole file of them is never held at once.
pub(super) fn each_document<'t>(
    text: &'t str,
    lines: &Lines,
    mut take: impl FnMut(Document<'t>),
) -> Vec<YamlComplaint> {
    let limits = Limits::default();
    let mut count = 0;
    let mut complaints = Vec::new();
    let chunks = split::chunks(text, lines, limits, &mut complaints);
    for chunk in chunks {
        if count >= limits.documents {
            let span = lines.span(text, chunk.range.start, chunk.range.start);
            complaints.push(YamlComplaint {
                lost: Some(chunk.range.start..text.len()),
                ..YamlComplaint::new(span, format!("more than {} documents in one file", limits.documents))
                    .hint("split the file")
            });
            break;
        }
        let (read, wrong) = chunk_documents(text, lines, &chunk.range, limits);
        count += read.len();
        read.into_iter().for_each(&mut take);
        complaints.extend(wrong);
    }
    complaints
}

type Read<'t> = (Vec<Document<'t>>, Vec<YamlComplaint>);

fn chunk_documents<'t>(text: &'t str, lines: &Lines, range: &Range<usize>, limits: Limits) -> Read<'t> {
    let part = &text[range.clone()];
    if part.len() > limits.document_bytes {
        let span = lines.span(text, range.start, range.start);
        let message = format!("the document is larger than {}", size(limits.document_bytes));
        let complaint = YamlComplaint { lost: Some(range.clone()), ..YamlComplaint::new(span, message) };
        return (Vec::new(), vec![complaint.hint("an API server does not take more in one request")]);
    }
    // kubectl expects JSON only at the beginning of a file.
    let begins = text[..range.start].trim_start_matches('\u{FEFF}').is_empty();
    if begins && part.trim_start().starts_with('{') {
        json_documents(text, lines, range, limits)
    } else {
        yaml_document(text, lines, range, limits)
    }
}

/// Reads text that begins like JSON as JSON, and as YAML only if that fails.
fn json_documents<'t>(text: &'t str, lines: &Lines, range: &Range<usize>, limits: Limits) -> Read<'t> {
    let (mut read, failed) = json::documents(text, lines, range, limits);
    let Some(json) = failed else {
        let complaint = behind_json(text, lines, range, &read);
        if complaint.is_some() {
            read.truncate(1);
        }
        return (read, complaint.into_iter().collect());
    };
    let json = YamlComplaint { lost: Some(range.clone()), ..json };
    if read.first().is_some_and(|first| !split::holds_nothing(&text[behind(text, range, first)])) {
        return (Vec::new(), vec![json.hint("remove it, or put a line --- before it")]);
    }
    let (documents, complaints) = yaml_document(text, lines, range, limits);
    let refused = complaints.iter().any(|complaint| complaint.lost.is_some());
    if refused && json::looks_like_json(&text[range.clone()]) {
        return (Vec::new(), vec![json]);
    }
    (documents, complaints)
}

/// Returns the complaint about text behind the first JSON value of a file that also has separators: kubectl reads that
/// as YAML.
fn behind_json(text: &str, lines: &Lines, range: &Range<usize>, read: &[Document<'_>]) -> Option<YamlComplaint> {
    let (first, more) = read.split_first().filter(|_| range.end < text.len())?;
    if let Some(second) = more.first() {
        let message = "kubectl reads one JSON object between two lines with ---";
        let complaint = YamlComplaint::new(second.node(second.root()).span, message).hint("put a line --- before it");
        return Some(YamlComplaint { lost: Some(second.range().start..range.end), ..complaint });
    }
    let rest = behind(text, range, first);
    let (at, message) = dialect::between(text, &rest, &[])?;
    let complaint = YamlComplaint::new(lines.span(text, at, at + 1), message).hint("remove it");
    Some(YamlComplaint { lost: Some(rest), ..complaint })
}

/// Returns the text behind a value in its part, without the blanks in its line.
fn behind(text: &str, range: &Range<usize>, value: &Document<'_>) -> Range<usize> {
    let rest = &text[value.range().end..range.end];
    range.end - rest.trim_start_matches([' ', '\t']).len()..range.end
}

fn yaml_document<'t>(text: &'t str, lines: &Lines, range: &Range<usize>, limits: Limits) -> Read<'t> {
    match load::document(text, lines, range, limits) {
        Ok((document, trailing)) => (document.into_iter().collect(), trailing.into_iter().collect()),
        Err(complaint) => (Vec::new(), vec![YamlComplaint { lost: Some(range.clone()), ..complaint }]),
    }
}
