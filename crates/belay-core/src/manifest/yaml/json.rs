//! JSON, one value after another, as kubectl reads a file that begins with `{`.

use std::borrow::Cow;
use std::ops::Range;

use super::node::{Content, Document, Layout, Node, NodeId, Position, Span, Style, Weight};
use super::text::{Lines, narrow};
use super::{Limits, YamlComplaint, limits};

/// Returns the values in a part of the text, up to a text that is no JSON or breaks a limit.
pub(super) fn documents<'t>(
    text: &'t str,
    lines: &Lines,
    range: &Range<usize>,
    limits: Limits,
) -> (Vec<Document<'t>>, Option<YamlComplaint>) {
    let at = lines.position(text, range.start);
    let mut reader = JsonReader { text: &text[..range.end], at, limits, nodes: Vec::new() };
    let mut documents = Vec::new();
    loop {
        reader.skip_blanks();
        let start = reader.at.offset as usize;
        if start >= range.end {
            return (documents, None);
        }
        if documents.len() >= limits.documents {
            let complaint = reader.error(&format!("more than {} documents in one file", limits.documents));
            return (documents, Some(complaint));
        }
        if let Err(complaint) = reader.value(0) {
            return (documents, Some(complaint));
        }
        let end = reader.at.offset as usize;
        documents.push(Document { text, nodes: std::mem::take(&mut reader.nodes), json: true, range: start..end });
    }
}

/// Returns true when text is meant as JSON: it begins with `{` and a quoted key.
pub(super) fn looks_like_json(text: &str) -> bool {
    text.trim_start().strip_prefix('{').is_some_and(|rest| rest.trim_start().starts_with('"'))
}

struct JsonReader<'t> {
    /// The file up to the end of the part.
    text: &'t str,
    at: Position,
    limits: Limits,
    nodes: Vec<Node<'t>>,
}

impl<'t> JsonReader<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at.offset as usize..]
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at.offset as usize).copied()
    }

    /// Moves on by some bytes, counting lines and columns; each byte is counted once.
    fn advance(&mut self, bytes: usize) {
        let rest = self.rest();
        let mut passed = rest[..bytes].chars().peekable();
        while let Some(c) = passed.next() {
            let broken = c == '\n' || (c == '\r' && passed.peek() != Some(&'\n'));
            self.at.column = if broken { 1 } else { self.at.column + 1 };
            self.at.line += u32::from(broken);
        }
        self.at.offset += narrow(bytes);
    }

    fn skip_blanks(&mut self) {
        let rest = self.rest();
        let blanks = rest.len() - rest.trim_start_matches([' ', '\t', '\n', '\r']).len();
        self.advance(blanks);
    }

    fn error(&self, message: &str) -> YamlComplaint {
        YamlComplaint::new(Span { start: self.at, end: self.at }, message)
    }

    fn value(&mut self, depth: usize) -> Result<NodeId, YamlComplaint> {
        let start = self.at;
        match self.peek() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'"') => {
                let text = self.string()?;
                self.push(start, Content::Scalar { text, style: Style::Double })
            }
            Some(b'-' | b'0'..=b'9') => {
                let length = number(self.rest()).ok_or_else(|| self.error("not a number that JSON has"))?;
                self.word(length)
            }
            _ => {
                let word = ["true", "false", "null"].into_iter().find(|word| self.rest().starts_with(word));
                self.word(word.ok_or_else(|| self.error("a JSON value is expected here"))?.len())
            }
        }
    }

    fn word(&mut self, length: usize) -> Result<NodeId, YamlComplaint> {
        let start = self.at;
        let text = Cow::Borrowed(&self.rest()[..length]);
        self.advance(length);
        self.push(start, Content::Scalar { text, style: Style::Plain })
    }

    fn object(&mut self, depth: usize) -> Result<NodeId, YamlComplaint> {
        let id = self.open(Content::Mapping { entries: Vec::new(), layout: Layout::Flow }, depth)?;
        if self.ends(b'}') {
            return Ok(self.close(id));
        }
        loop {
            self.skip_blanks();
            let start = self.at;
            if self.peek() != Some(b'"') {
                return Err(self.error("a key in double quotes is expected here"));
            }
            let text = self.string()?;
            let key = self.push(start, Content::Scalar { text, style: Style::Double })?;
            self.skip_blanks();
            self.expect(b':', "`:` is expected here")?;
            self.skip_blanks();
            let value = self.value(depth + 1)?;
            self.attach(id, key, value);
            if self.ends(b'}') {
                return Ok(self.close(id));
            }
            self.expect(b',', "`,` or `}` is expected here")?;
        }
    }

    fn array(&mut self, depth: usize) -> Result<NodeId, YamlComplaint> {
        let id = self.open(Content::Sequence { items: Vec::new(), layout: Layout::Flow }, depth)?;
        if self.ends(b']') {
            return Ok(self.close(id));
        }
        loop {
            self.skip_blanks();
            let item = self.value(depth + 1)?;
            self.attach(id, item, item);
            if self.ends(b']') {
                return Ok(self.close(id));
            }
            self.expect(b',', "`,` or `]` is expected here")?;
        }
    }

    fn open(&mut self, content: Content<'t>, depth: usize) -> Result<NodeId, YamlComplaint> {
        if depth >= self.limits.depth {
            return Err(self.error(&format!("nested deeper than {} levels", self.limits.depth)));
        }
        let start = self.at;
        self.advance(1);
        self.push(start, content)
    }

    fn close(&mut self, id: NodeId) -> NodeId {
        self.nodes[id.0 as usize].span.end = self.at;
        id
    }

    /// Goes past the closing bracket, if that is next.
    fn ends(&mut self, bracket: u8) -> bool {
        self.skip_blanks();
        let found = self.peek() == Some(bracket);
        if found {
            self.advance(1);
        }
        found
    }

    fn expect(&mut self, byte: u8, message: &str) -> Result<(), YamlComplaint> {
        if self.peek() != Some(byte) {
            return Err(self.error(message));
        }
        self.advance(1);
        Ok(())
    }

    fn push(&mut self, start: Position, content: Content<'t>) -> Result<NodeId, YamlComplaint> {
        if self.nodes.len() >= self.limits.nodes {
            let size = limits::size(self.limits.document_bytes);
            return Err(self.error(&format!("the document has more than {} values or {size}", self.limits.nodes)));
        }
        let id = NodeId(narrow(self.nodes.len()));
        let span = Span { start, end: self.at };
        self.nodes.push(Node { span, tag: None, anchor: None, content, weight: Weight::default() });
        Ok(id)
    }

    fn attach(&mut self, to: NodeId, key: NodeId, value: NodeId) {
        match &mut self.nodes[to.0 as usize].content {
            Content::Mapping { entries, .. } => entries.push((key, value)),
            Content::Sequence { items, .. } => items.push(value),
            Content::Scalar { .. } | Content::Alias { .. } => {}
        }
    }

    fn string(&mut self) -> Result<Cow<'t, str>, YamlComplaint> {
        self.advance(1);
        let rest = self.rest();
        let Some(plain) = rest.find(['"', '\\']) else {
            return Err(self.error("a quote is never closed"));
        };
        if let Some(at) = rest[..plain].find(control) {
            self.advance(at);
            return Err(self.error("a line break or another control character in a text"));
        }
        self.advance(plain);
        if rest[plain..].starts_with('"') {
            self.advance(1);
            return Ok(Cow::Borrowed(&rest[..plain]));
        }
        let mut text = rest[..plain].to_owned();
        loop {
            let rest = self.rest();
            match rest.chars().next() {
                None => return Err(self.error("a quote is never closed")),
                Some('"') => {
                    self.advance(1);
                    return Ok(Cow::Owned(text));
                }
                Some('\\') => self.escape(&mut text)?,
                Some(c) if control(c) => {
                    return Err(self.error("a line break or another control character in a text"));
                }
                Some(_) => {
                    let until = rest.find(|c| matches!(c, '"' | '\\') || control(c)).unwrap_or(rest.len());
                    text.push_str(&rest[..until]);
                    self.advance(until);
                }
            }
        }
    }

    fn escape(&mut self, text: &mut String) -> Result<(), YamlComplaint> {
        let rest = self.rest().as_bytes();
        let simple = match rest.get(1) {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode(text),
            _ => return Err(self.error("not an escape that JSON has")),
        };
        text.push(simple);
        self.advance(2);
        Ok(())
    }

    /// Reads `\u0041`; a surrogate without its other half becomes U+FFFD.
    fn unicode(&mut self, text: &mut String) -> Result<(), YamlComplaint> {
        let rest = self.rest();
        let first = hex(rest).ok_or_else(|| self.error("four hexadecimal digits are expected after \\u"))?;
        let second = if (0xD800..0xDC00).contains(&first) { hex(&rest[6..]) } else { None };
        let pair = second.and_then(|second| char::decode_utf16([first, second]).next()?.ok());
        match pair {
            Some(c) => {
                text.push(c);
                self.advance(12);
            }
            None => {
                text.push(char::from_u32(u32::from(first)).unwrap_or(char::REPLACEMENT_CHARACTER));
                self.advance(6);
            }
        }
        Ok(())
    }
}

fn control(c: char) -> bool {
    c < ' '
}

fn hex(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    u16::from_str_radix(digits, 16).ok()
}

/// Returns the length of the number at the beginning: `-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?`.
fn number(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let digits = |from: usize| bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let mut at = usize::from(bytes.first() == Some(&b'-'));
    let whole = digits(at);
    if whole == 0 || (whole > 1 && bytes[at] == b'0') {
        return None;
    }
    at += whole;
    if bytes.get(at) == Some(&b'.') {
        let fraction = digits(at + 1);
        if fraction == 0 {
            return None;
        }
        at += 1 + fraction;
    }
    if matches!(bytes.get(at), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
        let exponent = digits(at + 1 + sign);
        if exponent == 0 {
            return None;
        }
        at += 1 + sign + exponent;
    }
    Some(at)
}
