//! One entry of a mapping less, one item of a list less.

use crate::manifest::yaml::{Content, Document, Layout, NodeId};

use super::{Patch, content_end};

/// Returns the patch that takes the entry with that key out of a mapping. The last one stays: an empty mapping is not
/// written by taking lines away.
///
/// # Errors
/// Fails with the node's form if it is no mapping.
pub(super) fn entry(document: &Document<'_>, id: NodeId, key: &str) -> Result<Patch, &'static str> {
    let Content::Mapping { entries, layout } = &document.node(id).content else { return Err("not a mapping") };
    let found = entries.iter().position(|(there, _)| document.key_text(*there).as_deref() == Some(key));
    let Some(at) = found else { return Err("a mapping without that key") };
    let parts: Vec<Extent> = entries.iter().map(|(key, value)| extent(document, *key, *value)).collect();
    part(document, &parts, at, *layout)
}

/// Returns the patch that takes an item out of a list; not the last one that is left.
///
/// # Errors
/// Fails with the node's form if it is no list.
pub(super) fn item(document: &Document<'_>, id: NodeId, at: usize) -> Result<Patch, &'static str> {
    let Content::Sequence { items, layout } = &document.node(id).content else { return Err("not a list") };
    if at >= items.len() {
        return Err("a list without that item");
    }
    let start = |item: &NodeId| document.node(*item).span.start.offset as usize;
    let whole = |item: &NodeId| Extent { start: start(item), end: content_end(document, *item).max(start(item)) };
    let mut parts: Vec<Extent> = items.iter().map(whole).collect();
    if *layout == Layout::Block {
        for part in &mut parts {
            part.start = dash(document, part.start).ok_or("a list that is written in an unusual way")?;
        }
    }
    part(document, &parts, at, *layout)
}

/// The place of an item, or of an entry: from its beginning to its end.
#[derive(Clone, Copy)]
struct Extent {
    start: usize,
    end: usize,
}

fn extent(document: &Document<'_>, key: NodeId, value: NodeId) -> Extent {
    let start = document.node(key).span.start.offset as usize;
    let end = content_end(document, value).max(document.node(key).span.end.offset as usize);
    Extent { start, end }
}

fn part(document: &Document<'_>, parts: &[Extent], at: usize, layout: Layout) -> Result<Patch, &'static str> {
    let text = document.text();
    let (this, next) = (parts[at], parts.get(at + 1));
    let remove = |range: std::ops::Range<usize>| Ok(Patch { range, text: String::new() });
    match layout {
        Layout::Flow => match (next, at.checked_sub(1).map(|before| parts[before])) {
            (Some(next), _) => remove(this.start..next.start),
            (None, Some(before)) => remove(before.end..this.end),
            (None, None) => remove(this.start..this.end),
        },
        Layout::Block if parts.len() == 1 => Err("the only one there"),
        Layout::Block => {
            let line = text[..this.start].rfind('\n').map_or(0, |end| end + 1);
            if text[line..this.start].trim().is_empty() {
                return remove(whole_lines(text, line, this.end));
            }
            // It stands behind a dash, which the next one takes over.
            let next = next.ok_or("written behind something else")?;
            if text[this.end..next.start].trim().is_empty() {
                remove(this.start..next.start)
            } else {
                Err("written behind a dash, with a comment below it")
            }
        }
    }
}

/// Returns the lines from the beginning of a line to the end of the line that something ends on, with its line break;
/// or, if the text ends there, with the line break before.
fn whole_lines(text: &str, line: usize, end: usize) -> std::ops::Range<usize> {
    if text[..end].ends_with('\n') {
        return line..end;
    }
    match text[end..].find('\n') {
        Some(more) => line..end + more + 1,
        None => {
            let before = text[..line]
                .strip_suffix('\n')
                .map_or(line, |before| before.strip_suffix('\r').unwrap_or(before).len());
            before..text.len()
        }
    }
}

/// Returns the place of an item's dash.
fn dash(document: &Document<'_>, item: usize) -> Option<usize> {
    let text = document.text();
    let line = text[..item].rfind('\n').map_or(0, |end| end + 1);
    let lead = &text[line..item];
    let dash = lead.find('-')?;
    // Only an anchor or a tag may stand between the dash and its item.
    let between = &lead[dash + 1..];
    let plain = between.split_whitespace().all(|word| word.starts_with(['&', '!']));
    (lead[..dash].trim().is_empty() && plain).then_some(line + dash)
}

/// Returns true when a list has just one item.
pub(super) fn is_alone(document: &Document<'_>, id: NodeId) -> bool {
    match &document.node(id).content {
        Content::Sequence { items, .. } => items.len() == 1,
        _ => false,
    }
}
