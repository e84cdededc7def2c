//! Changes in the text of a manifest that touch only the lines they must: comments, quotes, order and line ends stay.
//!
//! Every change is proved before it is given out: the new text is read again, and must have exactly the wanted value
//! and no other difference.

mod insert;
mod remove;
mod replace;
mod write;

use serde_json::Value;
use thiserror::Error;

use super::yaml::{Content, Document, Layout, NodeId, Position, Style, documents};

pub use write::New;

/// One step from a document to a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The value of a key.
    Key(String),
    /// An item, from 0.
    Item(usize),
}

/// The reason for which a text can't be changed so.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum EditError {
    /// The text has no such document, or no such part.
    #[error("failed to find {0} in the file")]
    NotThere(String),
    /// The part is written elsewhere, for an alias or a merge.
    #[error("failed to change {path}: it is written at line {line}, for several places; change it there")]
    Shared {
        /// The part.
        path: String,
        /// The line of it.
        line: u32,
    },
    /// The part has another form.
    #[error("failed to change {path}: it is {found}")]
    WrongKind {
        /// The part.
        path: String,
        /// Its form.
        found: &'static str,
    },
    /// The text can't be read, or would not have the wanted value: it is written in an unknown way.
    #[error("failed to change {0} without touching anything else; change it by hand")]
    Unsure(String),
}

/// A part of a text and its replacement.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Patch {
    range: std::ops::Range<usize>,
    text: String,
}

/// Gives a single value another text or number. `document` counts as [`documents`] does, from 0.
///
/// # Errors
/// [`EditError`]; the text stays as it is.
pub fn set(text: &str, document: usize, path: &[Step], value: &New) -> Result<String, EditError> {
    change(text, document, path, |document, node| replace::scalar(document, node, value), |old| *old = value.to_value())
}

/// Adds a key with a value behind the others of the mapping at `path`; a value that is null becomes a mapping.
///
/// # Errors
/// [`EditError`], also if the key is there already; the text stays as it is.
pub fn add_entry(text: &str, document: usize, path: &[Step], key: &str, value: &New) -> Result<String, EditError> {
    let patch = |document: &Document<'_>, node| insert::entry(document, node, key, value);
    change(text, document, path, patch, |old| {
        if old.is_null() {
            *old = Value::Object(serde_json::Map::new());
        }
        if let Some(members) = old.as_object_mut() {
            members.insert(key.to_owned(), value.to_value());
        }
    })
}

/// Adds an item behind the others of the list at `path`; a value that is null becomes a list.
///
/// # Errors
/// [`EditError`]; the text stays as it is.
pub fn add_item(text: &str, document: usize, path: &[Step], value: &New) -> Result<String, EditError> {
    change(
        text,
        document,
        path,
        |document, node| insert::item(document, node, value),
        |old| {
            if old.is_null() {
                *old = Value::Array(Vec::new());
            }
            if let Some(items) = old.as_array_mut() {
                items.push(value.to_value());
            }
        },
    )
}

/// Takes the entry with a key out of the mapping at `path`.
///
/// # Errors
/// [`EditError`], also for the only entry of a mapping; the text stays as it is.
pub fn remove_entry(text: &str, document: usize, path: &[Step], key: &str) -> Result<String, EditError> {
    let patch = |document: &Document<'_>, node| remove::entry(document, node, key);
    change(text, document, path, patch, |old| {
        if let Some(members) = old.as_object_mut() {
            members.remove(key);
        }
    })
}

/// Takes an item out of the list at `path`; the list itself goes with its last item.
///
/// # Errors
/// [`EditError`]; the text stays as it is.
pub fn remove_item(text: &str, document: usize, path: &[Step], at: usize) -> Result<String, EditError> {
    if let Some((Step::Key(key), above)) = path.split_last() {
        let (all, _) = documents(text);
        let found = all.get(document).ok_or_else(|| EditError::NotThere(display(path)))?;
        let list = find(found, path)?;
        if at == 0 && remove::is_alone(found, list) {
            return remove_entry(text, document, above, key);
        }
    }
    change(
        text,
        document,
        path,
        |document, node| remove::item(document, node, at),
        |old| {
            if let Some(items) = old.as_array_mut()
                && at < items.len()
            {
                items.remove(at);
            }
        },
    )
}

/// Finds the node, patches the text, and proves that the new text has the value that `wanted` makes of the old one.
fn change(
    text: &str,
    document: usize,
    path: &[Step],
    patch: impl Fn(&Document<'_>, NodeId) -> Result<Patch, &'static str>,
    wanted: impl Fn(&mut Value),
) -> Result<String, EditError> {
    let shown = display(path);
    let unsure = || EditError::Unsure(shown.clone());
    let (all, _) = documents(text);
    let before: Vec<Option<Value>> = all.iter().map(value_of).collect();
    let found = all.get(document).ok_or_else(|| EditError::NotThere(shown.clone()))?;
    let node = find(found, path)?;
    let Patch { range, text: new } =
        patch(found, node).map_err(|found| EditError::WrongKind { path: shown.clone(), found })?;
    let mut changed = String::with_capacity(text.len() + new.len());
    changed.push_str(text.get(..range.start).ok_or_else(unsure)?);
    changed.push_str(&new);
    changed.push_str(text.get(range.end..).ok_or_else(unsure)?);

    let mut expected = before;
    let part = expected[document].as_mut().and_then(|value| part_of(value, path));
    wanted(part.ok_or_else(unsure)?);
    let (again, _) = documents(&changed);
    let after: Vec<Option<Value>> = again.iter().map(value_of).collect();
    if after == expected { Ok(changed) } else { Err(unsure()) }
}

fn value_of(document: &Document<'_>) -> Option<Value> {
    document.read().0.map(super::yaml::Placed::into_value)
}

fn part_of<'v>(value: &'v mut Value, path: &[Step]) -> Option<&'v mut Value> {
    path.iter().try_fold(value, |value, step| match step {
        Step::Key(key) => value.get_mut(key),
        Step::Item(index) => value.get_mut(index),
    })
}

/// Returns the node at a path; it and all above it must be written where they are, and nowhere else.
fn find(document: &Document<'_>, path: &[Step]) -> Result<NodeId, EditError> {
    let mut node = document.root();
    for (taken, step) in path.iter().enumerate() {
        let shown = || display(&path[..=taken]);
        let next = match (&document.node(node).content, step) {
            (Content::Mapping { entries, .. }, Step::Key(wanted)) => {
                let entry = entries.iter().rev().find(|(key, _)| document.key_text(*key).as_deref() == Some(wanted));
                match entry {
                    Some((_, value)) => Some(*value),
                    None => {
                        return Err(merged(document, entries, wanted).map_or_else(
                            || EditError::NotThere(shown()),
                            |line| EditError::Shared { path: shown(), line },
                        ));
                    }
                }
            }
            (Content::Sequence { items, .. }, Step::Item(index)) => items.get(*index).copied(),
            _ => None,
        };
        node = next.ok_or_else(|| EditError::NotThere(shown()))?;
        if let Some(line) = shared(document, node) {
            return Err(EditError::Shared { path: shown(), line });
        }
    }
    Ok(node)
}

/// Returns the line where a node is really written, if an alias makes it stand in several places.
fn shared(document: &Document<'_>, node: NodeId) -> Option<u32> {
    let (target, written) = document.resolve(node);
    let aliased = document.aliases().any(|alias| alias == target);
    aliased.then_some(written.span.start.line)
}

/// Returns the line of a merge that brings a key in.
fn merged(document: &Document<'_>, entries: &[(NodeId, NodeId)], wanted: &str) -> Option<u32> {
    let merges = entries.iter().filter(|(key, _)| document.key_text(*key).as_deref() == Some("<<"));
    let mut sources: Vec<NodeId> = merges.map(|(_, value)| *value).collect();
    let mut looked = 0;
    while let Some(source) = sources.pop() {
        looked += 1;
        match &document.resolve(source).1.content {
            Content::Sequence { items, .. } => sources.extend(items),
            Content::Mapping { entries, .. } => {
                for (key, value) in entries {
                    match document.key_text(*key).as_deref() {
                        Some("<<") if looked < 1000 => sources.push(*value),
                        Some(key) if key == wanted => return Some(document.resolve(*value).1.span.start.line),
                        _ => {}
                    }
                }
            }
            Content::Scalar { .. } | Content::Alias { .. } => {}
        }
    }
    None
}

fn display(path: &[Step]) -> String {
    let mut shown = String::new();
    for step in path {
        match step {
            Step::Key(key) if shown.is_empty() => shown.push_str(key),
            Step::Key(key) => shown.push_str(&format!(".{key}")),
            Step::Item(index) => shown.push_str(&format!("[{index}]")),
        }
    }
    if shown.is_empty() { "the document".to_owned() } else { shown }
}

/// Returns the line ending of a text.
fn line_end(text: &str) -> &'static str {
    if text.contains("\r\n") { "\r\n" } else { "\n" }
}

/// Returns the text before a position on its line.
fn before(text: &str, at: Position) -> &str {
    let start = text[..at.offset as usize].rfind('\n').map_or(0, |end| end + 1);
    &text[start..at.offset as usize]
}

/// Returns the end of a node's content: the line breaks behind a block scalar are not content.
fn content_end(document: &Document<'_>, node: NodeId) -> usize {
    let written = document.node(node);
    let end = written.span.end.offset as usize;
    match &written.content {
        Content::Scalar { style: Style::Literal | Style::Folded, .. } => {
            let slice = written.span.slice(document.text());
            let header = slice.split(['\n', '\r']).next().unwrap_or_default();
            if header.contains('+') { end } else { written.span.start.offset as usize + slice.trim_end().len() }
        }
        Content::Mapping { entries, layout: Layout::Block } => entries.last().map_or(end, |(key, value)| {
            content_end(document, *value).max(document.node(*key).span.end.offset as usize)
        }),
        Content::Sequence { items, layout: Layout::Block } => {
            items.last().map_or(end, |last| content_end(document, *last))
        }
        _ => end,
    }
}
