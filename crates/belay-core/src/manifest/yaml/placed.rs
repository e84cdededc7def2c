//! The meaning of a document: a JSON value, with the place of each part of it.

mod namespace;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::YamlComplaint;
use super::node::{Content, Document, Node, NodeId, Position, Span, Style, Tag};
use super::scalar::{self, Scalar, Unreadable};

/// A value, and where each part of it is written.
#[derive(Clone, Debug, PartialEq)]
pub struct Placed {
    value: Value,
    /// One for each value in `value`, a parent before its children, in the order in which `value` has them.
    spots: Vec<Spot>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Spot {
    /// The place of the key that the value belongs to; the value's own place for an item.
    key: Span,
    value: Span,
    /// The number of spots from here to the end of this value.
    size: u32,
}

/// The beginning of a part of a value: the only place of a manifest's parts that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::manifest) struct Start {
    /// The line of the key that the part belongs to; for an item, of the item itself.
    line: u32,
    column: u32,
    /// As in [`Spot`].
    size: u32,
}

impl Placed {
    /// Returns a value and the beginnings of its parts, as [`Placed::starts`] gave them for the same value.
    pub(in crate::manifest) fn starting(value: Value, starts: &[Start]) -> Placed {
        let spot = |start: &Start| {
            let at = Position { offset: 0, line: start.line, column: start.column };
            let span = Span { start: at, end: at };
            Spot { key: span, value: span, size: start.size }
        };
        Placed { value, spots: starts.iter().map(spot).collect() }
    }

    /// Returns the beginnings of its parts.
    pub(in crate::manifest) fn starts(&self) -> Arc<[Start]> {
        let start = |spot: &Spot| {
            let Position { line, column, .. } = spot.key.start;
            Start { line, column, size: spot.size }
        };
        self.spots.iter().map(start).collect()
    }

    /// Returns the value.
    #[must_use]
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// Returns the value itself; the places are dropped.
    #[must_use]
    pub fn into_value(self) -> Value {
        self.value
    }

    /// Returns the same with `apiVersion` and `kind`, if it lacks them; they have the place of the whole.
    pub(in crate::manifest) fn with_type(mut self, api_version: &str, kind: &str) -> Placed {
        for (name, text) in [("apiVersion", api_version), ("kind", kind)] {
            if self.value.get(name).is_none_or(Value::is_null) {
                self = self.with_text(name, text);
            }
        }
        self
    }

    fn with_text(mut self, name: &str, text: &str) -> Placed {
        let Some(map) = self.value.as_object_mut() else { return self };
        let before = map.keys().take_while(|key| key.as_str() < name).count();
        let replaced = map.insert(name.to_owned(), Value::String(text.to_owned())).is_some();
        let mut at = 1;
        for _ in 0..before {
            at += self.spots.get(at).map_or(1, |spot| spot.size as usize);
        }
        let whole = self.spots.first().map_or_else(Span::default, |spot| spot.value);
        if !replaced && at <= self.spots.len() {
            self.spots.insert(at, Spot { key: whole, value: whole, size: 1 });
            self.spots[0].size += 1;
        }
        self
    }

    /// Returns the outermost value.
    #[must_use]
    pub fn root(&self) -> At<'_> {
        At { value: &self.value, spots: &self.spots }
    }
}

/// A value inside a [`Placed`].
#[derive(Clone, Copy, Debug)]
pub struct At<'p> {
    value: &'p Value,
    spots: &'p [Spot],
}

/// An entry of a mapping, or an item of a list.
#[derive(Clone, Copy, Debug)]
pub struct Child<'p> {
    /// The key; empty for an item.
    pub name: &'p str,
    /// The place of the key; for an item, of the value.
    pub key: Span,
    /// The value.
    pub at: At<'p>,
}

impl<'p> At<'p> {
    /// Returns the value.
    #[must_use]
    pub fn value(self) -> &'p Value {
        self.value
    }

    /// Returns its place.
    #[must_use]
    pub fn span(self) -> Span {
        self.spots.first().map_or_else(Span::default, |spot| spot.value)
    }

    /// Returns its entries in the order of their keys, or its items; none for a single value.
    pub fn children(self) -> impl Iterator<Item = Child<'p>> {
        let entries = self.value.as_object().into_iter().flatten().map(|(name, value)| (name.as_str(), value));
        let items = self.value.as_array().into_iter().flatten().map(|value| ("", value));
        let mut rest = self.spots.get(1..).unwrap_or_default();
        entries.chain(items).map_while(move |(name, value)| {
            let first = rest.first()?;
            let (spots, after) = rest.split_at_checked(first.size as usize)?;
            rest = after;
            Some(Child { name, key: first.key, at: At { value, spots } })
        })
    }

    /// Returns the entry with a key.
    #[must_use]
    pub fn entry(self, name: &str) -> Option<Child<'p>> {
        self.value.get(name)?;
        self.children().find(|child| child.name == name)
    }

    /// Returns the value of a key.
    #[must_use]
    pub fn get(self, name: &str) -> Option<At<'p>> {
        self.entry(name).map(|child| child.at)
    }

    /// Returns the value of a key as text.
    #[must_use]
    pub fn text(self, name: &str) -> Option<&'p str> {
        self.value.get(name)?.as_str()
    }

    /// Returns a copy of the value with its places.
    #[must_use]
    pub fn to_placed(self) -> Placed {
        Placed { value: self.value.clone(), spots: self.spots.to_vec() }
    }
}

impl Document<'_> {
    /// Returns the document as kubectl reads it, aliases and merge keys resolved, and the complaints about it.
    ///
    /// `None` if it can't be read at all: a tag that its value doesn't fit, a key that is no text, an infinity, a merge
    /// of another value than a mapping. A key written twice is a complaint, and the last one counts.
    #[must_use]
    pub fn read(&self) -> (Option<Placed>, Vec<YamlComplaint>) {
        let mut reader = PlacedReader { document: self, spots: Vec::new(), complaints: Vec::new(), unreadable: false };
        let span = self.node(self.root()).span;
        let value = reader.value(self.root(), span);
        let PlacedReader { spots, mut complaints, unreadable, .. } = reader;
        // The target of an alias is read once for each alias.
        complaints.sort_by(|a, b| (a.span, &a.message).cmp(&(b.span, &b.message)));
        complaints.dedup();
        (if unreadable { None } else { Some(Placed { value, spots }) }, complaints)
    }
}

impl Document<'_> {
    /// Returns a key as kubectl reads it (`yes` is `true`); `None` for a value that is no key. A merge is `<<`.
    #[must_use]
    pub fn key_text(&self, key: NodeId) -> Option<String> {
        match &self.resolve(key).1 {
            Node { content: Content::Scalar { text, .. }, .. } if self.json => Some(text.clone().into_owned()),
            Node { content: Content::Scalar { text, style }, tag, .. } => {
                scalar::resolve(text, *style, *tag).ok()?.key()
            }
            _ => None,
        }
    }
}

struct PlacedReader<'d, 't> {
    document: &'d Document<'t>,
    spots: Vec<Spot>,
    complaints: Vec<YamlComplaint>,
    unreadable: bool,
}

/// An entry of a mapping, its key read.
struct PlacedEntry {
    name: String,
    key: NodeId,
    value: NodeId,
    /// The mapping that it is written in, which a merge makes another one than it ends up in.
    within: NodeId,
}

impl<'d> PlacedReader<'d, '_> {
    /// Returns the value of a node, `key` being where its key is written.
    fn value(&mut self, id: NodeId, key: Span) -> Value {
        let (_, node) = self.document.resolve(id);
        let at = self.spots.len();
        self.spots.push(Spot { key, value: node.span, size: 1 });
        let value = match &node.content {
            Content::Scalar { .. } => self.scalar(node),
            Content::Sequence { items, .. } => {
                let items = items.iter().map(|item| {
                    let span = self.document.resolve(*item).1.span;
                    self.value(*item, span)
                });
                Value::Array(items.collect())
            }
            Content::Mapping { .. } => self.mapping(id),
            Content::Alias { .. } => Value::Null,
        };
        let size = self.spots.len() - at;
        self.spots[at].size = super::text::narrow(size);
        value
    }

    /// Returns a mapping's entries, merges included. The last one of a name counts, in the order in which they are
    /// written: a merge that stands behind a key replaces it.
    fn mapping(&mut self, id: NodeId) -> Value {
        let mut entries = Vec::new();
        self.entries(id, &mut entries);
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        let mut map = Map::new();
        for same in entries.chunk_by_mut(|a, b| a.name == b.name) {
            self.report_twice(same);
            for replaced in &same[..same.len() - 1] {
                // kubectl reads it before it is replaced, and so may refuse it.
                let spots = self.spots.len();
                self.value(replaced.value, Span::default());
                self.spots.truncate(spots);
            }
            let Some(PlacedEntry { name, key, value, .. }) = same.last_mut() else { continue };
            let span = self.document.resolve(*key).1.span;
            let value = self.value(*value, span);
            map.insert(std::mem::take(name), value);
        }
        Value::Object(map)
    }

    fn report_twice(&mut self, same: &[PlacedEntry]) {
        let mut first: BTreeMap<NodeId, Span> = BTreeMap::new();
        for entry in same {
            let span = self.document.node(entry.key).span;
            if let Some(first) = first.get(&entry.within) {
                self.complaints.push(YamlComplaint {
                    also: Some((*first, "first written here".to_owned())),
                    ..YamlComplaint::new(span, twice(&entry.name)).hint("leave one of them out")
                });
            } else if same.len() > 1 {
                first.insert(entry.within, span);
            }
        }
    }

    fn entries(&mut self, id: NodeId, entries: &mut Vec<PlacedEntry>) {
        let (within, node) = self.document.resolve(id);
        let Content::Mapping { entries: written, .. } = &node.content else { return };
        for (key, value) in written {
            if self.is_merge(*key) {
                self.merge(*value, entries);
            } else if let Some(name) = self.key(*key) {
                entries.push(PlacedEntry { name, key: *key, value: *value, within });
            }
        }
    }

    fn merge(&mut self, value: NodeId, entries: &mut Vec<PlacedEntry>) {
        // The first of a list counts most. An alias may stand for a mapping here, but not for a list of them.
        let sources: Vec<NodeId> = match &self.document.node(value).content {
            Content::Sequence { items, .. } => items.iter().rev().copied().collect(),
            _ => vec![value],
        };
        for source in sources {
            match self.document.resolve(source).1.content {
                Content::Mapping { .. } => self.entries(source, entries),
                _ => self.refuse(source, "only mappings can be merged", "<< takes a mapping, or a list of them"),
            }
        }
    }

    fn is_merge(&self, key: NodeId) -> bool {
        let node = self.document.node(key);
        let Content::Scalar { text, style } = &node.content else { return false };
        !self.document.json
            && text == "<<"
            && match node.tag {
                None => *style == Style::Plain,
                Some(tag) => matches!(tag, Tag::Merge | Tag::NonSpecific),
            }
    }

    fn scalar(&mut self, node: &'d Node<'_>) -> Value {
        let Content::Scalar { text, style } = &node.content else { return Value::Null };
        if self.document.json {
            return self.json_scalar(node);
        }
        match scalar::resolve(text, *style, node.tag).map(Scalar::value) {
            Ok(Some(value)) => value,
            Ok(None) => self.unreadable(node.span, "not a number that JSON has", "write it in quotes if text is meant"),
            Err(Unreadable::NotWhatItsTagSays) => self.unreadable(node.span, "the value is not what its tag says", ""),
            Err(Unreadable::NotBase64) => self.unreadable(node.span, "not valid base64, as !!binary asks for", ""),
        }
    }

    fn json_scalar(&mut self, node: &'d Node<'_>) -> Value {
        let Content::Scalar { text, style } = &node.content else { return Value::Null };
        match (*style, text.as_ref()) {
            (Style::Plain, "null") => Value::Null,
            (Style::Plain, "true") => Value::Bool(true),
            (Style::Plain, "false") => Value::Bool(false),
            (Style::Plain, number) => {
                let whole = number.parse::<i64>().ok().map(Value::from);
                let any = || scalar::float(number.parse().ok().filter(|value: &f64| value.is_finite())?);
                match whole.or_else(|| any().map(Value::Number)) {
                    Some(value) => value,
                    None => self.unreadable(node.span, "the number is too large", ""),
                }
            }
            (_, text) => Value::String(text.to_owned()),
        }
    }

    fn key(&mut self, id: NodeId) -> Option<String> {
        let (_, node) = self.document.resolve(id);
        let Content::Scalar { text, style } = &node.content else {
            self.refuse(id, "a key may not be a list or a mapping", "");
            return None;
        };
        if self.document.json {
            return Some(text.clone().into_owned());
        }
        match scalar::resolve(text, *style, node.tag).map(Scalar::key) {
            Ok(Some(name)) => return Some(name),
            Ok(None) => self.refuse(id, "a key must be text", "write the key in quotes"),
            Err(Unreadable::NotBase64) => self.refuse(id, "not valid base64, as !!binary asks for", ""),
            Err(Unreadable::NotWhatItsTagSays) => self.refuse(id, "the key is not what its tag says", ""),
        }
        None
    }

    fn refuse(&mut self, id: NodeId, message: &str, hint: &str) {
        // The value stays as it is; the document is refused.
        self.unreadable(self.document.node(id).span, message, hint);
    }

    fn unreadable(&mut self, span: Span, message: &str, hint: &str) -> Value {
        let complaint = YamlComplaint::new(span, message);
        self.unreadable = true;
        self.complaints.push(if hint.is_empty() { complaint } else { complaint.hint(hint) });
        Value::Null
    }
}

/// Returns the message about a key that is written twice. The key is named only if it looks like one: a slip may have
/// made a value of it, and that may be secret.
fn twice(key: &str) -> String {
    let name = key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._/<".contains(&byte));
    if name && !key.is_empty() {
        format!("the key {key} is written twice")
    } else {
        "the key is written twice".to_owned()
    }
}
