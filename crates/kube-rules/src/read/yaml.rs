//! YAML as the real server reads it: YAML 1.1's words for booleans and numbers, merge keys, aliases within bounds.

use std::collections::BTreeMap;

use granit_parser::{Event, Parser, ScalarStyle, Span};

use super::node::{MAX_DEPTH, Node};
use super::scalar;

/// So many values may come from aliases, so that a short text does not become an endless one.
const ALIAS_BUDGET: usize = 100_000;

/// The prefix of YAML's own tags.
const YAML_TAGS: &str = "tag:yaml.org,2002:";

/// A document, and the keys in it that are written twice: `line 4: key "a" already set in map`.
pub struct Document {
    /// The value; of several equal keys, the last.
    pub node: Node,
    /// The keys that were written twice.
    pub duplicates: Vec<String>,
}

/// Reads the first document of a text.
///
/// # Errors
/// `yaml: …` for a syntax error, other words for a value that JSON cannot hold.
pub fn parse(text: &[u8]) -> Result<Document, String> {
    let text = std::str::from_utf8(text).map_err(|_| "yaml: invalid leading UTF-8 octet".to_owned())?;
    let mut loader = Loader {
        parser: Parser::new_from_str(text),
        anchors: BTreeMap::new(),
        duplicates: Vec::new(),
        budget: ALIAS_BUDGET,
    };
    loop {
        match loader.next()? {
            (Event::StreamEnd, _) => return Ok(Document { node: Node::Null, duplicates: Vec::new() }),
            (Event::DocumentStart(..), _) => break,
            _ => {}
        }
    }
    let event = loader.next()?;
    let node = if matches!(event.0, Event::DocumentEnd) { Node::Null } else { loader.node(event, 0)? };
    // The rest of the document may still be wrong.
    loader.next()?;
    Ok(Document { node, duplicates: loader.duplicates })
}

struct Loader<'a> {
    parser: Parser<'a, granit_parser::StrInput<'a>>,
    anchors: BTreeMap<usize, Node>,
    duplicates: Vec<String>,
    budget: usize,
}

type Loaded<T> = Result<T, String>;

impl<'a> Loader<'a> {
    fn next(&mut self) -> Loaded<(Event<'a>, Span)> {
        loop {
            match self.parser.next_event() {
                Some(Ok((Event::Comment(..) | Event::Anchor(..), _))) => {}
                Some(Ok(event)) => return Ok(event),
                Some(Err(error)) => {
                    return Err(format!("yaml: line {}: {}", error.marker().line(), worded(&error.info())));
                }
                None => return Ok((Event::StreamEnd, Span::default())),
            }
        }
    }

    fn node(&mut self, (event, _): (Event<'a>, Span), depth: usize) -> Loaded<Node> {
        if depth > MAX_DEPTH {
            return Err("yaml: exceeded max depth".to_owned());
        }
        let (node, anchor) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                let tag = tag.as_ref().and_then(|tag| tag.suffix_in_namespace(YAML_TAGS));
                (scalar::resolve(&text, style == ScalarStyle::Plain, tag.as_deref())?, anchor)
            }
            Event::SequenceStart(_, anchor, _) => (self.list(depth)?, anchor),
            Event::MappingStart(_, anchor, _) => (self.map(depth)?, anchor),
            Event::Alias(id) => {
                let node = self.anchors.get(&id).cloned().unwrap_or(Node::Null);
                let size = size(&node);
                if size > self.budget || height(&node) + depth > MAX_DEPTH {
                    return Err("yaml: document contains excessive aliasing".to_owned());
                }
                self.budget -= size;
                return Ok(node);
            }
            _ => (Node::Null, 0),
        };
        if anchor > 0 {
            self.anchors.insert(anchor, node.clone());
        }
        Ok(node)
    }

    fn list(&mut self, depth: usize) -> Loaded<Node> {
        let mut items = Vec::new();
        loop {
            let event = self.next()?;
            if matches!(event.0, Event::SequenceEnd | Event::StreamEnd) {
                return Ok(Node::List(items));
            }
            items.push(self.node(event, depth + 1)?);
        }
    }

    fn map(&mut self, depth: usize) -> Loaded<Node> {
        let mut entries = Vec::new();
        loop {
            let event = self.next()?;
            if matches!(event.0, Event::MappingEnd | Event::StreamEnd) {
                return Ok(Node::Map(entries));
            }
            let line = event.1.start.line();
            let merges =
                matches!(&event.0, Event::Scalar(text, ScalarStyle::Plain, _, tag) if text == "<<" && tag.is_none());
            let key = self.node(event, depth + 1)?;
            let event = self.next()?;
            let value_line = event.1.start.line();
            let value = self.node(event, depth + 1)?;
            if merges {
                self.merge(&mut entries, value, value_line)?;
            } else {
                let key = scalar::key(&key, &value)?;
                self.put(&mut entries, key, value, line);
            }
        }
    }

    fn put(&mut self, entries: &mut Vec<(String, Node)>, key: String, value: Node, line: usize) {
        match entries.iter_mut().find(|(name, _)| *name == key) {
            Some((_, old)) => {
                let quoted = super::super::words::quote(&key);
                self.duplicates.push(format!("line {line}: key {quoted} already set in map"));
                *old = value;
            }
            None => entries.push((key, value)),
        }
    }

    fn merge(&mut self, entries: &mut Vec<(String, Node)>, value: Node, line: usize) -> Loaded<()> {
        match value {
            Node::Map(merged) => {
                for (key, value) in merged {
                    self.put(entries, key, value, line);
                }
                Ok(())
            }
            // The first of several maps wins, so the last goes in first.
            Node::List(maps) if maps.iter().all(|map| matches!(map, Node::Map(_))) => {
                for map in maps.into_iter().rev() {
                    self.merge(entries, map, line)?;
                }
                Ok(())
            }
            _ => Err("yaml: map merge requires map or sequence of maps as the value".to_owned()),
        }
    }
}

fn size(node: &Node) -> usize {
    match node {
        Node::List(items) => 1 + items.iter().map(size).sum::<usize>(),
        Node::Map(entries) => 1 + entries.iter().map(|(_, value)| size(value)).sum::<usize>(),
        _ => 1,
    }
}

fn height(node: &Node) -> usize {
    match node {
        Node::List(items) => 1 + items.iter().map(height).max().unwrap_or_default(),
        Node::Map(entries) => 1 + entries.iter().map(|(_, value)| height(value)).max().unwrap_or_default(),
        _ => 0,
    }
}

/// Returns a complaint in the words of Go's reader, if they differ.
fn worded(complaint: &str) -> &str {
    match complaint {
        "unclosed bracket '['" => "did not find expected ',' or ']'",
        "unclosed bracket '{'" => "did not find expected ',' or '}'",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::parse;

    #[test]
    fn scalars_are_those_of_yaml_1_1() {
        let text = "{a: 2001-01-01, b: 12:30:45, c: 0o14, d: 014, e: 1_000, f: ~, g: 1e3, h: 1.0, i: 0x1f, j: yes, \
                    k: 'yes', l: 08, m: 1e400, 'n': +1, o: !!str 5, p: !!int '5', q: !foo bar, r: !!binary aGk=, \
                    s: 0b11, t: -0b11, u: 12345678901234567890123, 1: x, y: z, v: 1.5e-9, w: .5, x: <<}";
        let expected = json!({
            "a": "2001-01-01", "b": "12:30:45", "c": 12, "d": 12, "e": 1000, "f": null, "g": 1000, "h": 1, "i": 31,
            "j": true, "k": "yes", "l": 8, "m": "1e400", "n": 1, "o": "5", "p": 5, "q": "bar", "r": "hi", "s": 3,
            "t": -3, "u": 1.234_567_890_123_456_8e22, "1": "x", "true": "z", "v": 1.5e-9, "w": 0.5, "x": "<<",
        });
        assert_eq!(parse(text.as_bytes()).unwrap().node.to_value(), expected);
    }

    #[test]
    fn merge_keys_and_aliases_are_followed() {
        let document = parse(b"x: &x {a: u, b: v}\ndata: {<<: *x, a: t}\nlist: [*x, *x]\n").unwrap();
        let expected = json!({
            "x": { "a": "u", "b": "v" }, "data": { "a": "t", "b": "v" },
            "list": [{ "a": "u", "b": "v" }, { "a": "u", "b": "v" }],
        });
        assert_eq!(document.node.to_value(), expected);
        assert_eq!(document.duplicates, ["line 2: key \"a\" already set in map"]);
    }

    #[test]
    fn bombs_are_refused() {
        let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..12 {
            let alias = format!("*a{}", level - 1);
            bomb.push_str(&format!("a{level}: &a{level} [{}]\n", vec![alias; 9].join(", ")));
        }
        assert_eq!(parse(bomb.as_bytes()).err().unwrap(), "yaml: document contains excessive aliasing");
        let deep = "[".repeat(10_000);
        assert!(parse(deep.as_bytes()).is_err());
        let blocks: String = (0..5_000).map(|level| format!("{}- \n", " ".repeat(level))).collect();
        assert!(parse(blocks.as_bytes()).is_err());
    }

    #[test]
    fn what_json_cannot_hold_is_refused() {
        for (text, error) in [
            ("a: .inf", "json: unsupported value: +Inf"),
            ("? [a]\n: b", "yaml: invalid map key: []interface {}{\"a\"}"),
            ("{null: b}", "unsupported map key of type: %!s(<nil>), key: <nil>, value: \"b\""),
            ("a: !!binary x", "yaml: !!binary value contains invalid base64 data"),
        ] {
            assert_eq!(parse(text.as_bytes()).err().unwrap(), error);
        }
    }
}
