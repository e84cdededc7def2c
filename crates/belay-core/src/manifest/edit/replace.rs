//! Another text for a single value.

use crate::manifest::yaml::{Content, Document, Layout, NodeId, Style};

use super::write::{Between, New};
use super::{Patch, content_end};

/// Returns the patch that gives a node a new single value.
///
/// # Errors
/// Fails with the node's form if it is no scalar.
pub(super) fn scalar(document: &Document<'_>, id: NodeId, new: &New) -> Result<Patch, &'static str> {
    let node = document.node(id);
    if matches!(new, New::Mapping(_) | New::List(_)) {
        return Err("a single value");
    }
    let style = match &node.content {
        Content::Scalar { style, .. } => *style,
        Content::Mapping { .. } => return Err("a mapping"),
        Content::Sequence { .. } => return Err("a list"),
        Content::Alias { .. } => return Err("an alias"),
    };
    let between = match () {
        () if document.is_json() => Between::Json,
        () if in_brackets(document, id) => Between::Brackets,
        () => Between::Lines,
    };
    let text = new.inline(between, Some(style));
    let start = node.span.start.offset as usize;
    let before = document.text()[..start].chars().next_back();
    let apart = before.is_some_and(|c| matches!(c, ':' | '-' | '?'));
    let text = if node.span.start == node.span.end && apart { format!(" {text}") } else { text };
    let end = if matches!(style, Style::Literal | Style::Folded) {
        content_end(document, id)
    } else {
        node.span.end.offset as usize
    };
    Ok(Patch { range: start..end.max(start), text })
}

/// Returns true when a node stands between brackets.
pub(super) fn in_brackets(document: &Document<'_>, id: NodeId) -> bool {
    let inside = document.node(id).span;
    document.nodes().any(|node| {
        let flow = matches!(
            node.content,
            Content::Mapping { layout: Layout::Flow, .. } | Content::Sequence { layout: Layout::Flow, .. }
        );
        flow && node.span.start < inside.start && inside.end < node.span.end
    })
}
