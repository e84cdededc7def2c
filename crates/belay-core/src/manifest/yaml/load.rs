//! YAML events to nodes: bounded, with kubectl's refusals where the parser of events is more generous.

use std::borrow::Cow;
use std::ops::Range;

use granit_parser::{ErrorKind, Event, Parser, ScalarStyle, ScanError, StrInput, StructureStyle};

use super::node::{Content, Document, Layout, Node, NodeId, Position, Span, Style, Tag, Weight};
use super::quoted::{Base, Indented, Moved};
use super::text::{Lines, forbidden, narrow};
use super::{Limits, YamlComplaint, dialect, limits};

type Events<'t> = Parser<'t, StrInput<'t>>;

/// Reads one document, and complains about text after it in its part: kubectl reads only the first.
///
/// # Errors
/// Fails with a complaint if it can't be read.
pub(super) fn document<'t>(
    text: &'t str,
    lines: &Lines,
    range: &Range<usize>,
    limits: Limits,
) -> Result<(Option<Document<'t>>, Option<YamlComplaint>), YamlComplaint> {
    let part = &text[range.clone()];
    if let Some((at, c)) = forbidden(part) {
        let at = range.start + at;
        let span = lines.span(text, at, at + c.len_utf8());
        return Err(YamlComplaint::new(span, format!("the character U+{:04X} is not allowed", u32::from(c)))
            .hint("remove it, or write it as an escape in double quotes"));
    }
    if let Some(at) = dialect::end_without_content(part) {
        let at = range.start + at;
        let span = lines.span(text, at, at + dialect::END.len());
        return Err(YamlComplaint::new(span, "no document stands before this end of one").hint("remove the line"));
    }
    let whole = Part { text, lines, range, limits };
    let (nodes, trailing) = match whole.read(part, &[], |text| text) {
        Ok(read) => read,
        Err(refused) => whole.read_indented(part, refused)?,
    };
    if let Some((at, message)) = dialect::between(text, range, &nodes) {
        let span = lines.span(text, at, at + 1);
        return Err(YamlComplaint::new(span, message).hint("remove it"));
    }
    let nothing = match nodes.first() {
        None => true,
        Some(Node { content: Content::Scalar { text, style: Style::Plain }, tag: None, .. }) => {
            super::scalar::is_null(text)
        }
        Some(_) => false,
    };
    let document = (!nothing).then(|| Document { text, nodes, json: false, range: range.clone() });
    Ok((document, trailing))
}

/// A part of a text that is one document.
struct Part<'s, 't> {
    text: &'t str,
    lines: &'s Lines,
    range: &'s Range<usize>,
    limits: Limits,
}

/// The nodes of a document, and a complaint about text after it.
type Nodes<'t> = (Vec<Node<'t>>, Option<YamlComplaint>);

/// The reason for which a document can't be read.
struct Unread {
    complaint: YamlComplaint,
    /// True when a line of a quoted text is not indented as the parser wants it.
    indent: bool,
}

impl From<YamlComplaint> for Unread {
    fn from(complaint: YamlComplaint) -> Unread {
        Unread { complaint, indent: false }
    }
}

impl<'t> Part<'_, 't> {
    /// Reads the events of a part in which these lines have been moved. `own` makes its texts those of the nodes.
    fn read<'p>(
        &self,
        part: &'p str,
        moved: &[Moved],
        own: impl Fn(Cow<'p, str>) -> Cow<'t, str>,
    ) -> Result<Nodes<'t>, Unread> {
        let Part { text, lines, range, limits } = *self;
        let options = granit_parser::options! {
            disallow_directives: true,
            emit_anchor_events: true,
            emit_comments: false,
            // Deeper than ours, so that the limit is said in our words.
            flow_nesting_limit: limits.depth + 2,
            block_nesting_limit: limits.depth + 2,
        };
        let base = Base { line: lines.position(text, range.start).line - 1, offset: range.start, moved };
        let mut events = Parser::new_from_str_with_options(part, options);
        let mut loader = Loader {
            text,
            lines,
            passed: range.start,
            base,
            limits,
            nodes: Vec::new(),
            open: Vec::new(),
            anchors: Vec::new(),
        };
        loader.run(&mut events, own)?;
        Ok((loader.nodes, trailing(&mut events, base)))
    }

    /// Reads a part once more, with the lines of quoted texts indented.
    fn read_indented(&self, part: &str, refused: Unread) -> Result<Nodes<'t>, YamlComplaint> {
        let indented = if refused.indent { Indented::of(part) } else { None };
        let Some(indented) = indented else { return Err(refused.complaint) };
        let own = |text: Cow<'_, str>| Cow::Owned(text.into_owned());
        match self.read(&indented.text, &indented.moved, own) {
            Ok(read) if indented.moves_only(&read.0, self.range.start) => Ok(read),
            Ok(_) => Err(refused.complaint),
            Err(refused) => Err(refused.complaint),
        }
    }
}

/// Returns a complaint about text behind the first document of a part.
fn trailing(events: &mut Events<'_>, base: Base<'_>) -> Option<YamlComplaint> {
    let span = match events.next_event()? {
        Ok((Event::StreamEnd, _)) => return None,
        Ok((_, span)) => base.span(span),
        Err(error) => base.at(error.marker()),
    };
    let message = "kubectl reads nothing from here to the next line with ---";
    let lost = span.start.offset as usize..span.start.offset as usize;
    Some(YamlComplaint { lost: Some(lost), ..YamlComplaint::new(span, message).hint("begin it with a line ---") })
}

struct Loader<'l, 't> {
    text: &'t str,
    lines: &'l Lines,
    /// The progress of the parser's events.
    passed: usize,
    base: Base<'l>,
    limits: Limits,
    nodes: Vec<Node<'t>>,
    /// The collections that are not closed yet, outermost first.
    open: Vec<NodeId>,
    /// The node of each anchor, by the parser's number for it.
    anchors: Vec<Option<NodeId>>,
}

impl<'t> Loader<'_, 't> {
    fn run<'p>(&mut self, events: &mut Events<'p>, own: impl Fn(Cow<'p, str>) -> Cow<'t, str>) -> Result<(), Unread> {
        while let Some(next) = events.next_event() {
            let (event, span) = next.map_err(|error| self.refused(&error))?;
            let here = self.base.span(span);
            match event {
                Event::StreamEnd | Event::DocumentEnd => return Ok(()),
                Event::Scalar(text, style, anchor, tag) => {
                    let style = scalar_style(style);
                    let tag_span = span.tag_span().map(|tag| self.base.span(tag));
                    let here = self.whole(here, style);
                    dialect::check(self.text, here, tag_span, style, self.in_flow())?;
                    let content = Content::Scalar { text: own(text), style };
                    let node = self.push(here, tag.as_deref(), content)?;
                    self.anchor(anchor, node);
                    self.attach(node)?;
                }
                Event::SequenceStart(style, anchor, tag) => {
                    let content = Content::Sequence { items: Vec::new(), layout: layout(style) };
                    self.start(here, tag.as_deref(), content, anchor)?;
                }
                Event::MappingStart(style, anchor, tag) => {
                    let content = Content::Mapping { entries: Vec::new(), layout: layout(style) };
                    self.start(here, tag.as_deref(), content, anchor)?;
                }
                Event::SequenceEnd | Event::MappingEnd => self.end(here)?,
                Event::Alias(anchor) => self.alias(here, anchor)?,
                Event::Anchor(_, name) => {
                    // It is reported behind its node, though it stands before it.
                    self.name_anchor(here, own(name))?;
                    continue;
                }
                _ => {}
            }
            self.passed = here.end.offset as usize;
        }
        Ok(())
    }

    /// The parser says where the text of a block scalar is, and an empty value to stand before its `:`.
    fn whole(&self, here: Span, style: Style) -> Span {
        let start = match style {
            Style::Literal | Style::Folded => dialect::header(self.text, self.passed, here.start.offset as usize),
            Style::Plain if here.start == here.end => {
                let colon = self.text[here.start.offset as usize..].starts_with(':');
                let at = here.start;
                let start = if colon { Position { offset: at.offset + 1, column: at.column + 1, ..at } } else { at };
                return Span { start, end: start };
            }
            _ => return here,
        };
        Span { start: self.lines.position(self.text, start), end: here.end }
    }

    fn in_flow(&self) -> bool {
        self.open.last().is_some_and(|id| {
            matches!(
                self.node(*id).content,
                Content::Sequence { layout: Layout::Flow, .. } | Content::Mapping { layout: Layout::Flow, .. }
            )
        })
    }

    fn start(
        &mut self,
        span: Span,
        tag: Option<&granit_parser::Tag>,
        content: Content<'t>,
        anchor: usize,
    ) -> Result<(), YamlComplaint> {
        dialect::check(self.text, span, None, Style::Double, self.in_flow())?;
        let node = self.push(span, tag, content)?;
        self.anchor(anchor, node);
        self.open.push(node);
        if self.open.len() > self.limits.depth { Err(self.too_deep(span)) } else { Ok(()) }
    }

    fn end(&mut self, here: Span) -> Result<(), YamlComplaint> {
        let Some(id) = self.open.pop() else { return Ok(()) };
        let end = match &self.node(id).content {
            Content::Sequence { layout: Layout::Flow, .. } | Content::Mapping { layout: Layout::Flow, .. } => here.end,
            // A block ends where its last entry does, not where the next line begins.
            Content::Sequence { items, .. } => items.last().map_or(here.start, |last| self.node(*last).span.end),
            Content::Mapping { entries, .. } => entries
                .last()
                .map_or(here.start, |(key, value)| self.node(*value).span.end.max(self.node(*key).span.end)),
            _ => here.end,
        };
        self.nodes[id.0 as usize].span.end = end.max(self.node(id).span.start);
        self.attach(id)
    }

    fn alias(&mut self, here: Span, anchor: usize) -> Result<(), YamlComplaint> {
        let Some(target) = self.anchors.get(anchor).copied().flatten() else {
            return Err(YamlComplaint::new(here, "the alias has no anchor above it"));
        };
        if self.open.contains(&target) {
            return Err(YamlComplaint::new(here, "the alias stands inside what it stands for"));
        }
        let weight = self.node(target).weight;
        if self.open.len() + weight.height > self.limits.depth {
            return Err(self.too_deep(here));
        }
        let node = self.push(here, None, Content::Alias { target })?;
        self.nodes[node.0 as usize].weight = weight;
        self.attach(node)
    }

    /// Reads the name of an anchor: kubectl takes ASCII letters, digits, `-` and `_` for it.
    fn name_anchor(&mut self, here: Span, name: Cow<'t, str>) -> Result<(), YamlComplaint> {
        if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')) {
            return Err(YamlComplaint::new(here, "the name of an anchor may only have letters, digits, - and _"));
        }
        let next = self.text[here.end.offset as usize..].chars().next();
        if next.is_some_and(|c| !c.is_whitespace() && !"?:,]}%@`".contains(c)) {
            return Err(YamlComplaint::new(here, "an anchor needs a space behind it"));
        }
        if let Some(node) = self.nodes.last_mut() {
            node.anchor = Some(name);
        }
        Ok(())
    }

    fn push(
        &mut self,
        span: Span,
        tag: Option<&granit_parser::Tag>,
        content: Content<'t>,
    ) -> Result<NodeId, YamlComplaint> {
        if self.nodes.len() >= self.limits.nodes {
            return Err(self.too_many(span));
        }
        let bytes = if let Content::Scalar { text, .. } = &content { text.len() + 3 } else { 2 };
        let weight = Weight { nodes: 1, bytes, height: 0 };
        let id = NodeId(narrow(self.nodes.len()));
        self.nodes.push(Node { span, tag: tag.map(tag_of), anchor: None, content, weight });
        Ok(id)
    }

    fn anchor(&mut self, anchor: usize, node: NodeId) {
        if anchor != 0 {
            if self.anchors.len() <= anchor {
                self.anchors.resize(anchor + 1, None);
            }
            self.anchors[anchor] = Some(node);
        }
    }

    /// Gives a finished node to the collection that it belongs to.
    fn attach(&mut self, node: NodeId) -> Result<(), YamlComplaint> {
        let Some(parent) = self.open.last().copied() else { return Ok(()) };
        let child = self.node(node).weight;
        if let Content::Mapping { entries, layout: Layout::Flow } = &self.node(parent).content
            && entries.last().is_none_or(|(key, value)| key != value)
        {
            dialect::check_key(self.text, self.node(node).span)?;
        }
        let parent = &mut self.nodes[parent.0 as usize];
        parent.weight.nodes += child.nodes;
        parent.weight.bytes += child.bytes;
        parent.weight.height = parent.weight.height.max(child.height + 1);
        let weight = parent.weight;
        match &mut parent.content {
            Content::Sequence { items, .. } => items.push(node),
            Content::Mapping { entries, .. } => match entries.last_mut() {
                // A key waits for its value paired with itself.
                Some((key, value)) if key == value => *value = node,
                _ => entries.push((node, node)),
            },
            Content::Scalar { .. } | Content::Alias { .. } => {}
        }
        if weight.nodes > self.limits.nodes || weight.bytes > self.limits.document_bytes {
            return Err(self.too_many(self.node(node).span));
        }
        Ok(())
    }

    fn node(&self, id: NodeId) -> &Node<'t> {
        &self.nodes[id.0 as usize]
    }

    fn too_deep(&self, span: Span) -> YamlComplaint {
        YamlComplaint::new(span, format!("nested deeper than {} levels", self.limits.depth))
    }

    fn too_many(&self, span: Span) -> YamlComplaint {
        let size = limits::size(self.limits.document_bytes);
        let message =
            format!("the document grows beyond {} values or {size} here, aliases expanded", self.limits.nodes);
        YamlComplaint::new(span, message).hint("split it, or write less with aliases")
    }

    fn refused(&self, error: &ScanError) -> Unread {
        if *error.kind() == ErrorKind::RecursionLimitExceeded {
            return self.too_deep(self.base.at(error.marker())).into();
        }
        let indent = matches!(error.kind(), ErrorKind::InvalidQuotedScalarIndent | ErrorKind::TabInIndentation);
        Unread { complaint: super::syntax::complaint(error, self.base.at(error.marker())), indent }
    }
}

fn scalar_style(style: ScalarStyle) -> Style {
    match style {
        ScalarStyle::Plain => Style::Plain,
        ScalarStyle::SingleQuoted => Style::Single,
        ScalarStyle::DoubleQuoted => Style::Double,
        ScalarStyle::Literal => Style::Literal,
        ScalarStyle::Folded => Style::Folded,
    }
}

fn layout(style: StructureStyle) -> Layout {
    match style {
        StructureStyle::Block => Layout::Block,
        StructureStyle::Flow => Layout::Flow,
    }
}

fn tag_of(tag: &granit_parser::Tag) -> Tag {
    match tag.suffix_in_namespace("tag:yaml.org,2002:").as_deref() {
        Some("str") => Tag::Text,
        Some("binary") => Tag::Binary,
        Some("bool") => Tag::Boolean,
        Some("int") => Tag::Integer,
        Some("float") => Tag::Float,
        Some("null") => Tag::Null,
        Some("timestamp") => Tag::Timestamp,
        Some("merge") => Tag::Merge,
        _ if tag.original() == "!" => Tag::NonSpecific,
        _ => Tag::Other,
    }
}
