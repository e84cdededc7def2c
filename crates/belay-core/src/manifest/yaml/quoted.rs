//! Quoted texts that go on in the next line. kubectl's YAML does not mind in which column that is; the parser of events wants
//! them indented. Blanks that begin such a line are no part of the text, so where it stands too far left, it is moved.

use granit_parser::Marker;

use super::text::narrow;
use super::{Content, Node, Position, Span, Style};

/// The most that lines are moved, all in all, as a multiple of the text's length.
const GROWTH: usize = 8;

/// A text whose quoted lines are indented.
#[derive(Debug)]
pub(super) struct Indented {
    pub(super) text: String,
    pub(super) moved: Vec<Moved>,
}

/// A line that begins with more blanks than it was written with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moved {
    /// Its beginning in the new text, in bytes.
    at: usize,
    /// Its number, from 1.
    line: usize,
    /// The number of blanks that it has more.
    blanks: usize,
    /// The number that all lines up to this one have more.
    total: usize,
}

impl Indented {
    /// Returns the text with each line of a quoted text behind the column of its parent. `None` if there is no such
    /// line.
    pub(super) fn of(text: &str) -> Option<Indented> {
        let mut scan =
            Scan { bytes: text.as_bytes(), at: 0, line: 1, line_start: 0, indent: None, flow: 0, found: vec![] };
        scan.run();
        let total: usize = scan.found.iter().map(|found| found.blanks).sum();
        if scan.found.is_empty() || total > text.len() * GROWTH {
            return None;
        }
        let (mut new, mut moved, mut from, mut total) = (String::with_capacity(text.len() + total), Vec::new(), 0, 0);
        for Found { at, line, blanks } in scan.found {
            new.push_str(text.get(from..at)?);
            total += blanks;
            moved.push(Moved { at: new.len(), line, blanks, total });
            new.extend(std::iter::repeat_n(' ', blanks));
            from = at;
        }
        new.push_str(text.get(from..)?);
        Some(Indented { text: new, moved })
    }

    /// Returns true when each moved line lies in a quoted text of these nodes; `base` is the beginning of the text in
    /// theirs.
    pub(super) fn moves_only(&self, nodes: &[Node<'_>], base: usize) -> bool {
        let quoted =
            |node: &&Node<'_>| matches!(node.content, Content::Scalar { style: Style::Single | Style::Double, .. });
        let mut spans: Vec<(usize, usize)> = nodes
            .iter()
            .filter(quoted)
            .map(|node| (node.span.start.offset as usize, node.span.end.offset as usize))
            .collect();
        spans.sort_unstable();
        self.moved.iter().all(|moved| {
            let at = base + moved.at - (moved.total - moved.blanks);
            let before = spans.partition_point(|(start, _)| *start < at);
            before.checked_sub(1).is_some_and(|index| at < spans[index].1)
        })
    }
}

/// The beginning of the part that the parser counts from, and the lines of it that have been moved.
#[derive(Clone, Copy)]
pub(super) struct Base<'m> {
    pub(super) line: u32,
    pub(super) offset: usize,
    pub(super) moved: &'m [Moved],
}

impl Base<'_> {
    pub(super) fn position(self, marker: &Marker) -> Position {
        let at = (marker.byte_offset().unwrap_or_default(), marker.line(), marker.col());
        let (offset, column) = written(self.moved, at);
        Position {
            offset: narrow(self.offset + offset),
            line: self.line + narrow(marker.line()),
            column: narrow(column) + 1,
        }
    }

    pub(super) fn span(self, span: granit_parser::Span) -> Span {
        Span { start: self.position(&span.start), end: self.position(&span.end) }
    }

    pub(super) fn at(self, marker: &Marker) -> Span {
        let position = self.position(marker);
        Span { start: position, end: position }
    }
}

/// Returns a place in the new text as it was in the old one: byte and column, the column from 0.
fn written(moved: &[Moved], (at, line, column): (usize, usize, usize)) -> (usize, usize) {
    let before = moved.partition_point(|one| one.at <= at);
    let Some(last) = before.checked_sub(1).map(|index| moved[index]) else { return (at, column) };
    let in_line = if last.line == line { last.blanks } else { 0 };
    (at.saturating_sub(last.total), column.saturating_sub(in_line))
}

/// A line of a quoted text that has to be moved.
struct Found {
    at: usize,
    line: usize,
    blanks: usize,
}

/// Finds quoted texts without reading their meaning. [`Indented::moves_only`] finds its mistakes.
struct Scan<'t> {
    bytes: &'t [u8],
    at: usize,
    line: usize,
    line_start: usize,
    /// The column of the key or dash that was read last.
    indent: Option<usize>,
    /// The number of open brackets.
    flow: usize,
    found: Vec<Found>,
}

impl Scan<'_> {
    fn run(&mut self) {
        while let Some(byte) = self.peek(0) {
            match byte {
                b' ' | b'\t' => self.at += 1,
                b'\n' | b'\r' => self.line_end(),
                b'#' if self.begins_token() => self.skip_line(),
                b'\'' | b'"' => self.quoted(byte),
                b'[' | b'{' => {
                    self.flow += 1;
                    self.at += 1;
                }
                b']' | b'}' if self.flow > 0 => {
                    self.flow -= 1;
                    self.at += 1;
                }
                b',' if self.flow > 0 => self.at += 1,
                b'-' | b'?' | b':' if self.is_blank(1) => self.indicator(),
                b':' if self.flow > 0 => self.at += 1,
                b'|' | b'>' if self.flow == 0 => self.block(),
                b'&' | b'!' | b'*' => self.word(),
                _ => self.plain(),
            }
        }
    }

    fn peek(&self, ahead: usize) -> Option<u8> {
        self.bytes.get(self.at + ahead).copied()
    }

    fn column(&self) -> usize {
        self.at - self.line_start
    }

    /// Returns true when a blank, a line's end or the end follows.
    fn is_blank(&self, ahead: usize) -> bool {
        self.peek(ahead).is_none_or(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r'))
    }

    fn begins_token(&self) -> bool {
        self.at == self.line_start || matches!(self.bytes[self.at - 1], b' ' | b'\t')
    }

    fn is_line_end(&self) -> bool {
        matches!(self.peek(0), None | Some(b'\n' | b'\r'))
    }

    /// Steps over the end of a line.
    fn line_end(&mut self) {
        self.at += if self.peek(0) == Some(b'\r') && self.peek(1) == Some(b'\n') { 2 } else { 1 };
        self.line += 1;
        self.line_start = self.at;
    }

    fn skip_line(&mut self) {
        while !self.is_line_end() {
            self.at += 1;
        }
    }

    /// Skips an anchor, a tag or an alias.
    fn word(&mut self) {
        while !(self.is_blank(0) || self.flow > 0 && matches!(self.peek(0), Some(b',' | b'[' | b']' | b'{' | b'}'))) {
            self.at += 1;
        }
    }

    /// `- `, `? ` or `: `.
    fn indicator(&mut self) {
        if self.flow == 0 {
            self.indent = Some(self.column());
        }
        self.at += 1;
    }

    fn quoted(&mut self, quote: u8) {
        let column = self.column();
        self.at += 1;
        while let Some(byte) = self.peek(0) {
            match byte {
                b'\n' | b'\r' => {
                    self.line_end();
                    self.note_line();
                }
                b'\\' if quote == b'"' => {
                    self.at += if matches!(self.peek(1), Some(b'\n' | b'\r')) { 1 } else { 2 };
                }
                _ if byte == quote && quote == b'\'' && self.peek(1) == Some(b'\'') => self.at += 2,
                _ if byte == quote => {
                    self.at += 1;
                    return self.key(column);
                }
                _ => self.at += 1,
            }
        }
    }

    /// Notes a line inside a quoted text, unless it is empty, or ends the document. The parser wants a line of nothing but tabs
    /// indented, too.
    fn note_line(&mut self) {
        let rest = &self.bytes[self.at..];
        let blank = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        let is_empty = matches!(rest.get(blank), None | Some(b'\n' | b'\r')) && !rest[..blank].contains(&b'\t');
        let ends = rest.starts_with(b"---") || rest.starts_with(b"...");
        let blanks = self.indent.map_or(0, |indent| indent + 1);
        if !is_empty && !ends && blanks > 0 {
            self.found.push(Found { at: self.at, line: self.line, blanks });
        }
    }

    /// Notes that the text at this column was a key, if a `:` follows.
    fn key(&mut self, column: usize) {
        if self.flow > 0 {
            return;
        }
        while matches!(self.peek(0), Some(b' ' | b'\t')) {
            self.at += 1;
        }
        if self.peek(0) == Some(b':') && self.is_blank(1) {
            self.indent = Some(column);
            self.at += 1;
        }
    }

    /// Skips a text without quotes: a key up to its `:`, else with the lines that belong to it.
    fn plain(&mut self) {
        let column = self.column();
        loop {
            while !self.is_line_end() {
                match self.peek(0) {
                    Some(b':') if self.is_blank(1) => {
                        if self.flow == 0 {
                            self.indent = Some(column);
                        }
                        self.at += 1;
                        return;
                    }
                    Some(b'#') if self.begins_token() => return,
                    Some(b',' | b'[' | b']' | b'{' | b'}') if self.flow > 0 => return,
                    _ => self.at += 1,
                }
            }
            // Between brackets, each line begins again.
            if self.flow > 0 || !self.goes_on() {
                return;
            }
        }
    }

    /// Steps to the next line with text, if that belongs to the text of this one.
    fn goes_on(&mut self) -> bool {
        let back = (self.at, self.line, self.line_start);
        while self.peek(0).is_some() {
            match self.peek(0) {
                Some(b'\n' | b'\r') => self.line_end(),
                Some(b' ' | b'\t') => self.at += 1,
                Some(b'#') => break,
                _ if self.indent.is_none_or(|indent| self.column() > indent) => return true,
                _ => break,
            }
        }
        (self.at, self.line, self.line_start) = back;
        false
    }

    /// Skips a text behind `|` or `>`.
    fn block(&mut self) {
        let mut told = None;
        while !self.is_line_end() && self.peek(0) != Some(b'#') {
            told = told.or(self.peek(0).filter(u8::is_ascii_digit).map(|digit| usize::from(digit - b'0')));
            self.at += 1;
        }
        self.skip_line();
        let parent = self.indent;
        let mut indent = told.map(|told| parent.unwrap_or(0) + told);
        while self.peek(0).is_some() {
            let back = (self.at, self.line, self.line_start);
            self.line_end();
            let blanks = self.bytes[self.at..].iter().take_while(|byte| **byte == b' ').count();
            self.at += blanks;
            if self.is_line_end() {
                continue;
            }
            let least = *indent.get_or_insert(blanks.max(parent.map_or(0, |parent| parent + 1)));
            if blanks < least {
                (self.at, self.line, self.line_start) = back;
                self.line_end();
                return;
            }
            self.skip_line();
        }
    }
}
