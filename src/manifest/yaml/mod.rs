//! Text to documents, exactly as kubectl would read them, each key and value with its place.
//!
//! kubectl splits a file into documents at lines that begin with `---`, reads each as JSON where it is JSON, and as YAML
//! 1.1 (with the rules of its own library) otherwise. [`documents`] does the same, but goes on after a broken document and
//! refuses in the open what kubectl would drop in silence: a key written twice, text after `...`, bytes that are no text.
//!
//! Everything is bounded, see [`Limits`]; nothing panics, and the work grows linearly with the text.

mod dialect;
mod json;
mod limits;
mod load;
mod node;
mod placed;
mod scalar;
mod split;
mod syntax;
mod text;

use std::ops::Range;

pub use limits::Limits;
pub use node::{Content, Document, Layout, Node, NodeId, Position, Span, Style, Tag};
pub use placed::{At, Child, Placed};
pub use text::decode;

pub(super) use limits::size;
pub(super) use placed::Start;
pub(super) use scalar::plain_is_text;
pub(super) use text::Lines;

/// One thing wrong with a text, before anything is known about Kubernetes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct YamlComplaint {
    /// What it is about.
    pub span: Span,
    /// What is wrong: one sentence, no full stop. Never text from a value, which may be secret.
    pub message: String,
    /// What to write instead.
    pub hint: Option<String>,
    /// Another place that belongs to it, and what is there.
    pub also: Option<(Span, String)>,
    /// The part of the text that can't be read because of it; `None` where the document was read all the same.
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

/// All documents of a text, in order, and what is wrong with it.
///
/// A document that is broken gives one complaint (with [`YamlComplaint::lost`]) and does not hide the others. Documents
/// that hold nothing (comments only, `null`) are left out. What a document's scalars mean is found out later, by
/// [`Document::read`].
#[must_use]
pub fn documents(text: &str) -> (Vec<Document<'_>>, Vec<YamlComplaint>) {
    let limits = Limits::default();
    let lines = Lines::new(text);
    let mut documents = Vec::new();
    let mut complaints = Vec::new();
    let chunks = split::chunks(text, &lines, limits, &mut complaints);
    let only = chunks.len() == 1;
    for chunk in chunks {
        if documents.len() >= limits.documents {
            let span = lines.span(text, chunk.range.start, chunk.range.start);
            complaints.push(YamlComplaint {
                lost: Some(chunk.range.start..text.len()),
                ..YamlComplaint::new(span, format!("more than {} documents in one file", limits.documents))
                    .hint("split the file")
            });
            break;
        }
        let first = documents.len() + 1;
        chunk_documents(text, &lines, &chunk.range, limits, &mut documents, &mut complaints);
        if let (false, Some(second)) = (only, documents.get(first)) {
            // One JSON value after another is fine, but not in a file that is also split.
            let message = "kubectl reads one JSON object between two lines with ---";
            let complaint = YamlComplaint::new(second.node(second.root()).span, message);
            let lost = second.range().start..chunk.range.end;
            complaints.push(YamlComplaint { lost: Some(lost), ..complaint }.hint("put a line --- before it"));
            documents.truncate(first);
        }
    }
    (documents, complaints)
}

fn chunk_documents<'t>(
    text: &'t str,
    lines: &Lines,
    range: &Range<usize>,
    limits: Limits,
    documents: &mut Vec<Document<'t>>,
    complaints: &mut Vec<YamlComplaint>,
) {
    let part = &text[range.clone()];
    let lost = |complaint: YamlComplaint| YamlComplaint { lost: Some(range.clone()), ..complaint };
    if part.len() > limits.document_bytes {
        let span = lines.span(text, range.start, range.start);
        let message = format!("the document is larger than {}", size(limits.document_bytes));
        complaints
            .push(lost(YamlComplaint::new(span, message).hint("an API server does not take more in one request")));
        return;
    }
    if !part.trim_start().starts_with('{') {
        return yaml_document(text, lines, range, limits, documents, complaints);
    }
    // Text that begins like JSON is read as JSON, and as YAML only where that fails.
    let left = Limits { documents: limits.documents - documents.len(), ..limits };
    match json::documents(text, lines, range, left) {
        Ok(read) => documents.extend(read),
        Err(json) => {
            let before = (documents.len(), complaints.len());
            yaml_document(text, lines, range, limits, documents, complaints);
            let as_yaml = complaints[before.1..].iter().any(|complaint| complaint.lost.is_some());
            if as_yaml && json::looks_like_json(part) {
                documents.truncate(before.0);
                complaints.truncate(before.1);
                complaints.push(lost(json));
            }
        }
    }
}

fn yaml_document<'t>(
    text: &'t str,
    lines: &Lines,
    range: &Range<usize>,
    limits: Limits,
    documents: &mut Vec<Document<'t>>,
    complaints: &mut Vec<YamlComplaint>,
) {
    let lost = |complaint: YamlComplaint| YamlComplaint { lost: Some(range.clone()), ..complaint };
    match load::document(text, lines, range, limits) {
        Ok((document, trailing)) => {
            documents.extend(document);
            complaints.extend(trailing);
        }
        Err(complaint) => complaints.push(lost(complaint)),
    }
}
