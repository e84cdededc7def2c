//! One more entry of a mapping, one more item of a list.

use crate::manifest::yaml::{Content, Document, Layout, NodeId, Style};

use super::replace::in_brackets;
use super::write::{Behind, Between, New, written};
use super::{Patch, before, content_end, line_end};

/// Returns the patch that adds a key with a value to a mapping.
///
/// # Errors
/// Fails with the node's form if it is no mapping.
pub(super) fn entry(document: &Document<'_>, id: NodeId, key: &str, new: &New) -> Result<Patch, &'static str> {
    match &document.node(id).content {
        Content::Mapping { entries, .. }
            if entries.iter().any(|(there, _)| document.key_text(*there).as_deref() == Some(key)) =>
        {
            Err("a mapping that has the key already")
        }
        Content::Mapping { entries, layout: Layout::Block } => {
            let Some((first, last)) = entries.first().zip(entries.last()) else { return Err("an empty mapping") };
            let column = document.node(first.0).span.start.column as usize - 1;
            let indent = indentation(document, first.0, column)?;
            let end = line_end(document.text());
            let text =
                format!("{indent}{}:{}", written(key, Between::Lines, None), new.lines(column, end, Behind::Key));
            Ok(behind(
                document,
                content_end(document, last.1).max(document.node(last.0).span.end.offset as usize),
                &text,
            ))
        }
        Content::Mapping { entries, layout: Layout::Flow } => {
            let between = if document.is_json() { Between::Json } else { Between::Brackets };
            let text = format!("{}: {}", written(key, between, None), new.inline(between, None));
            Ok(into_brackets(document, id, entries.last().map(|(key, value)| (*key, *value)), &text))
        }
        Content::Scalar { style: Style::Plain, .. } if is_empty(document, id) => {
            nested(document, id, &New::Mapping(vec![(key.to_owned(), new.clone())]))
        }
        Content::Sequence { .. } => Err("a list"),
        Content::Scalar { .. } => Err("a single value"),
        Content::Alias { .. } => Err("an alias"),
    }
}

/// Returns the patch that adds an item to a list.
///
/// # Errors
/// Fails with the node's form if it is no list.
pub(super) fn item(document: &Document<'_>, id: NodeId, new: &New) -> Result<Patch, &'static str> {
    match &document.node(id).content {
        Content::Sequence { items, layout: Layout::Block } => {
            let Some((first, last)) = items.first().zip(items.last()) else { return Err("an empty list") };
            let dash = dash(document, *first).ok_or("a list that is written in an unusual way")?;
            // Items between brackets are followed by one between brackets.
            let flow = matches!(document.node(*last).content, Content::Mapping { layout: Layout::Flow, .. });
            let end = line_end(document.text());
            let item = if flow {
                format!(" {}", new.inline(Between::Brackets, None))
            } else {
                new.lines(dash, end, Behind::Dash)
            };
            Ok(behind(document, content_end(document, *last), &format!("{}-{item}", " ".repeat(dash))))
        }
        Content::Sequence { items, layout: Layout::Flow } => {
            let between = if document.is_json() { Between::Json } else { Between::Brackets };
            let last = items.last().map(|last| (*last, *last));
            Ok(into_brackets(document, id, last, &new.inline(between, None)))
        }
        Content::Scalar { style: Style::Plain, .. } if is_empty(document, id) => {
            nested(document, id, &New::List(vec![new.clone()]))
        }
        Content::Mapping { .. } => Err("a mapping"),
        Content::Scalar { .. } => Err("a single value"),
        Content::Alias { .. } => Err("an alias"),
    }
}

fn is_empty(document: &Document<'_>, id: NodeId) -> bool {
    let node = document.node(id);
    !document.is_json() && node.span.start == node.span.end && !in_brackets(document, id)
}

/// Returns a mapping or list in the place of nothing, below the key that it belongs to.
fn nested(document: &Document<'_>, id: NodeId, new: &New) -> Result<Patch, &'static str> {
    let at = document.node(id).span.start;
    let line = before(document.text(), at);
    let indent = line.len() - line.trim_start_matches([' ', '-']).len();
    if !line.ends_with(':') || line[..indent].contains('\t') {
        return Err("empty in an unusual place");
    }
    let lines = new.lines(indent, line_end(document.text()), Behind::Key);
    // The comment behind the key stays on the key's line.
    let end = end_of_line(document.text(), at.offset as usize);
    Ok(Patch { range: end..end, text: lines })
}

/// Returns the text before the keys of a mapping on lines of their own.
fn indentation(document: &Document<'_>, first: NodeId, column: usize) -> Result<String, &'static str> {
    let line = before(document.text(), document.node(first).span.start);
    // The first key may stand behind a dash, a `?`, or its anchor.
    if line.contains('\t') { Err("indented with tabs") } else { Ok(" ".repeat(column)) }
}

/// Returns the column, from 0, of the dash before an item.
fn dash(document: &Document<'_>, item: NodeId) -> Option<usize> {
    let text = document.text();
    let start = document.node(item).span.start.offset as usize;
    // Anchors, tags, comments and line ends may stand between the dash and its item.
    let mut at = start;
    loop {
        let line_start = text[..at].rfind('\n').map_or(0, |end| end + 1);
        let line = text[line_start..at].split(" #").next().unwrap_or_default();
        let mut code = line.trim_end();
        while let Some((rest, _)) = code.rsplit_once(' ').filter(|(_, last)| last.starts_with(['&', '!'])) {
            code = rest.trim_end();
        }
        if let Some(rest) = code.strip_suffix('-') {
            return rest.chars().all(|c| matches!(c, ' ' | '-')).then(|| rest.chars().count());
        }
        if line_start == 0 || at - line_start > 1000 || !(code.is_empty() || code.trim_start().starts_with('#')) {
            return None;
        }
        at = line_start - 1;
    }
}

/// Returns a new line behind the line that something ends on.
fn behind(document: &Document<'_>, content_end: usize, line: &str) -> Patch {
    let text = document.text();
    let end = line_end(text);
    if content_end > 0 && text[..content_end].ends_with('\n') {
        // A block scalar that keeps its line ends has ended with one.
        return Patch { range: content_end..content_end, text: format!("{line}{end}") };
    }
    let at = end_of_line(text, content_end);
    Patch { range: at..at, text: format!("{end}{line}") }
}

/// Returns the end of a line, before its line break.
fn end_of_line(text: &str, from: usize) -> usize {
    let rest = &text[from..];
    let line = &rest[..rest.find('\n').unwrap_or(rest.len())];
    from + line.strip_suffix('\r').unwrap_or(line).len()
}

/// Returns one more entry between brackets, laid out like the last one.
fn into_brackets(document: &Document<'_>, id: NodeId, last: Option<(NodeId, NodeId)>, entry: &str) -> Patch {
    let text = document.text();
    let Some((key, value)) = last else {
        let at = document.node(id).span.start.offset as usize + 1;
        return Patch { range: at..at, text: entry.to_owned() };
    };
    let at = (document.node(value).span.end.offset as usize).max(document.node(key).span.end.offset as usize);
    let line = before(text, document.node(key).span.start);
    let own_line = !line.is_empty() && line.trim().is_empty();
    let separator = if own_line { format!(",{}{line}", line_end(text)) } else { ", ".to_owned() };
    Patch { range: at..at, text: format!("{separator}{entry}") }
}
