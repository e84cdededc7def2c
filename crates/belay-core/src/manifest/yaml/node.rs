//! A document as it is written: nodes, their style, and where they are.

use std::borrow::Cow;
use std::ops::Range;

/// A place in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// Bytes from the beginning of the text.
    pub offset: u32,
    /// The line, from 1.
    pub line: u32,
    /// The column in characters, from 1.
    pub column: u32,
}

impl Default for Position {
    /// Returns the beginning of the text.
    fn default() -> Position {
        Position { offset: 0, line: 1, column: 1 }
    }
}

/// A part of a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// Its first character.
    pub start: Position,
    /// Behind its last character.
    pub end: Position,
}

impl Span {
    /// Returns the bytes of it.
    #[must_use]
    pub fn range(&self) -> Range<usize> {
        self.start.offset as usize..self.end.offset as usize
    }

    /// Returns the text of it; empty if the text is another one.
    #[must_use]
    pub fn slice<'t>(&self, text: &'t str) -> &'t str {
        text.get(self.range()).unwrap_or_default()
    }
}

/// Names a node of one [`Document`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub(super) u32);

/// One document of a text.
#[derive(Clone, Debug)]
pub struct Document<'t> {
    pub(super) text: &'t str,
    /// Every node, a parent before its children.
    pub(super) nodes: Vec<Node<'t>>,
    /// True when it was read as JSON: its scalars then have the meaning of JSON.
    pub(super) json: bool,
    pub(super) range: Range<usize>,
}

impl<'t> Document<'t> {
    /// Returns the whole text of the file.
    #[must_use]
    pub fn text(&self) -> &'t str {
        self.text
    }

    /// Returns the bytes between this document's separators.
    #[must_use]
    pub fn range(&self) -> Range<usize> {
        self.range.clone()
    }

    /// Returns the outermost node.
    #[must_use]
    pub fn root(&self) -> NodeId {
        NodeId(0)
    }

    /// Returns a node of this document.
    ///
    /// # Panics
    /// For an id of another document.
    #[must_use]
    pub fn node(&self, id: NodeId) -> &Node<'t> {
        &self.nodes[id.0 as usize]
    }

    /// Returns a node, or the target of an alias.
    #[must_use]
    pub fn resolve(&self, id: NodeId) -> (NodeId, &Node<'t>) {
        match self.node(id) {
            Node { content: Content::Alias { target }, .. } => (*target, self.node(*target)),
            node => (id, node),
        }
    }
}

impl Document<'_> {
    /// Returns true when it was read as JSON.
    #[must_use]
    pub fn is_json(&self) -> bool {
        self.json
    }

    /// Returns all its nodes, a parent before its children.
    pub fn nodes(&self) -> impl Iterator<Item = &Node<'_>> {
        self.nodes.iter()
    }

    /// Returns the target of every alias in it, one for each.
    pub fn aliases(&self) -> impl Iterator<Item = NodeId> {
        self.nodes.iter().filter_map(|node| match node.content {
            Content::Alias { target } => Some(target),
            _ => None,
        })
    }
}

/// A key, a value, or an item.
#[derive(Clone, Debug)]
pub struct Node<'t> {
    /// The place of its content, quotes and brackets included, anchor and tag not.
    ///
    /// An empty value has an empty span, where its text would begin at the earliest.
    pub span: Span,
    /// Its tag, if one is written.
    pub tag: Option<Tag>,
    /// The name of its anchor, if it has one.
    pub anchor: Option<Cow<'t, str>>,
    /// Its content.
    pub content: Content<'t>,
    /// The number of nodes of it and everything below it, aliases expanded.
    pub(super) weight: Weight,
}

/// The size of a node with its aliases expanded.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Weight {
    pub(super) nodes: usize,
    pub(super) bytes: usize,
    /// The number of levels below it.
    pub(super) height: usize,
}

/// The content of a node.
#[derive(Clone, Debug)]
pub enum Content<'t> {
    /// A single value.
    Scalar {
        /// The text, quotes and escapes resolved.
        text: Cow<'t, str>,
        /// Its style.
        style: Style,
    },
    /// A list.
    Sequence {
        /// Its items.
        items: Vec<NodeId>,
        /// Its layout.
        layout: Layout,
    },
    /// Keys with values, in the order in which they are written.
    Mapping {
        /// Its keys and values.
        entries: Vec<(NodeId, NodeId)>,
        /// Its layout.
        layout: Layout,
    },
    /// `*name`: the node with that anchor.
    Alias {
        /// The node with that anchor, never an alias itself.
        target: NodeId,
    },
}

/// The style of a scalar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Without quotes.
    Plain,
    /// `'single'`.
    Single,
    /// `"double"`.
    Double,
    /// `|`: line by line.
    Literal,
    /// `>`: lines joined.
    Folded,
}

/// The layout of a list or mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// A line for each entry.
    Block,
    /// Between brackets.
    Flow,
}

/// A tag, as far as it changes the meaning of a scalar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tag {
    /// `!!str`.
    Text,
    /// `!!binary`: base64 of the text that is meant.
    Binary,
    /// `!!bool`.
    Boolean,
    /// `!!int`.
    Integer,
    /// `!!float`.
    Float,
    /// `!!null`.
    Null,
    /// `!!timestamp`.
    Timestamp,
    /// `!!merge`.
    Merge,
    /// `!`: the value is text, but `<<` is still a merge.
    NonSpecific,
    /// Any other: the value is text.
    Other,
}
