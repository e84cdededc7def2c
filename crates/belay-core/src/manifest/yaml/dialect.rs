//! The differences between kubectl's YAML 1.1 and the parser of events, which knows YAML 1.2.
//!
//! Text that kubectl refuses or reads in another way is refused here, with a text on which both agree.

use std::ops::Range;

use super::{Content, Node, Span, Style, YamlComplaint};

/// They end a line in YAML 1.1, but not in YAML 1.2.
pub(super) const BREAKS: [char; 3] = ['\u{85}', '\u{2028}', '\u{2029}'];

/// Looks at a node as it is written; `flow` says that it stands between brackets.
///
/// # Errors
/// Refuses text that kubectl would not read, or not in this way.
pub(super) fn check(text: &str, here: Span, tag: Option<Span>, style: Style, flow: bool) -> Result<(), YamlComplaint> {
    let tabs = YamlComplaint::new(here, "a tab stands where only spaces may indent").hint("indent with spaces");
    if !flow && tab_indents(text, here) {
        return Err(tabs);
    }
    let written = here.slice(text);
    match style {
        Style::Literal | Style::Folded if begins_with_tab(written) => return Err(tabs),
        Style::Double => {
            if let Some((message, hint)) = unknown_escape(written) {
                return Err(YamlComplaint::new(here, message).hint(hint));
            }
        }
        Style::Plain if flow && (written.starts_with(':') || written.contains('?')) => {
            return Err(YamlComplaint::new(here, "between brackets, kubectl reads : and ? as indicators here")
                .hint("put the text in quotes"));
        }
        _ => {}
    }
    let at = |offset: u32| text.as_bytes().get(offset as usize).copied().unwrap_or(b' ');
    let bracket = |byte: u8| matches!(byte, b',' | b'[' | b']' | b'{' | b'}');
    if flow && tag.is_some_and(|tag| bracket(at(tag.end.offset))) {
        return Err(YamlComplaint::new(here, "a tag needs a space behind it between brackets"));
    }
    if tag.is_some_and(|tag| tag.slice(text).contains('#')) {
        return Err(YamlComplaint::new(here, "a tag may not have a #").hint("put a space before a comment"));
    }
    let behind = text[here.end.offset as usize..].trim_start();
    let colon = behind.strip_prefix(':').is_some_and(|rest| rest.starts_with([',', '[', ']', '{', '}']));
    if flow && style == Style::Plain && !written.is_empty() && colon {
        return Err(YamlComplaint::new(here, "between brackets, kubectl takes this : for a part of the text")
            .hint("put a space behind it"));
    }
    breaks(text, here, style)
}

/// Looks at a key between brackets: it and its `:` must stand on one line, unless a `?` says that it is a key.
///
/// # Errors
/// A key that kubectl would not take for one.
pub(super) fn check_key(text: &str, key: Span) -> Result<(), YamlComplaint> {
    let behind = &text[key.end.offset as usize..];
    let blanks = behind.len() - behind.trim_start().len();
    if !behind[blanks..].starts_with(':') {
        return Ok(());
    }
    let apart = key.start.line != key.end.line || behind[..blanks].contains(['\n', '\r']);
    if !apart || text[..key.start.offset as usize].trim_end().ends_with('?') {
        return Ok(());
    }
    Err(YamlComplaint::new(key, "a key must stand on one line, with its :"))
}

fn tab_indents(text: &str, here: Span) -> bool {
    let start = here.start.offset as usize;
    if !text[..start].ends_with('\t') {
        return false;
    }
    let before = text[..start].trim_end_matches([' ', '\t']);
    before.is_empty() || before.ends_with(['\n', '\r', '-', '?'])
}

/// Returns true when the first line of a block scalar begins with a tab, which kubectl does not take for text.
fn begins_with_tab(written: &str) -> bool {
    let (header, lines) = written.split_once('\n').unwrap_or((written, ""));
    let told = header.split('#').next().unwrap_or_default().contains(|c: char| c.is_ascii_digit());
    let first = lines.split('\n').find(|line| !line.trim_matches([' ', '\r']).is_empty());
    !told && first.is_some_and(|line| line.trim_start_matches(' ').starts_with('\t'))
}

/// Returns an escape that YAML 1.1 doesn't have.
fn unknown_escape(written: &str) -> Option<(&'static str, &'static str)> {
    let bytes = written.as_bytes();
    let mut at = 0;
    while let Some(found) = bytes.get(at..).and_then(|rest| rest.iter().position(|byte| *byte == b'\\')) {
        at += found;
        match bytes.get(at + 1) {
            Some(b'/') => return Some(("kubectl's YAML does not know the escape \\/", "write / alone")),
            Some(b'u') => {
                let digits = written.get(at + 2..at + 6).and_then(|digits| u16::from_str_radix(digits, 16).ok());
                if digits.is_some_and(|unit| (0xD800..0xE000).contains(&unit)) {
                    let hint = "write the character itself, or \\U and eight digits";
                    return Some(("kubectl's YAML does not join two \\u escapes to one character", hint));
                }
            }
            _ => {}
        }
        at += 2;
    }
    None
}

/// Refuses U+0085, U+2028 and U+2029, which end a line in YAML 1.1. Inside quotes the last two are kept all the same.
fn breaks(text: &str, here: Span, style: Style) -> Result<(), YamlComplaint> {
    let written = here.slice(text);
    let Some(at) = written.find(BREAKS) else { return Ok(()) };
    let kept = |(at, found): (usize, &str)| {
        let blank = |c: char| c.is_whitespace();
        let end = at + found.len();
        found != "\u{85}" && !written[..at].ends_with(blank) && !written[end..].starts_with(blank)
    };
    let quoted = matches!(style, Style::Single | Style::Double);
    if quoted && written.match_indices(BREAKS).all(kept) {
        return Ok(());
    }
    let c = written[at..].chars().next().unwrap_or_default();
    Err(YamlComplaint::new(here, format!("kubectl takes U+{:04X} for the end of a line", u32::from(c)))
        .hint(format!("write it as \\u{:04x} in double quotes", u32::from(c))))
}

/// Returns the text between the nodes that kubectl reads in another way: a line end of YAML 1.1, mostly in a comment,
/// so that the text after it would be content; or a tab that begins a line, before a comment or nothing.
pub(super) fn between(text: &str, range: &Range<usize>, nodes: &[Node<'_>]) -> Option<(usize, &'static str)> {
    let part = &text[range.clone()];
    if !part.contains(BREAKS) && !part.contains('\t') {
        return None;
    }
    let breaks = part.match_indices(BREAKS).map(|(at, _)| range.start + at);
    if let Some(at) = outside(breaks, nodes) {
        return Some((at, "kubectl takes this character for the end of a line"));
    }
    let mut start = range.start;
    let tabs = part.split_inclusive('\n').filter_map(|line| {
        let here = start;
        start += line.len();
        let content = line.trim_start_matches([' ', '\t']);
        let blank = &line[..line.len() - content.len()];
        let nothing = content.trim_end().is_empty() || content.starts_with('#');
        blank.find('\t').filter(|_| nothing).map(|tab| here + tab)
    });
    outside(tabs, nodes).map(|at| (at, "a tab stands where only spaces may indent"))
}

/// The end of a document, at the beginning of a line.
pub(super) const END: &str = "...";

/// Returns the place of a document's end that begins a part, which kubectl refuses.
pub(super) fn end_without_content(part: &str) -> Option<usize> {
    let mut start = 0;
    let mut lines = part.split_inclusive(['\n', '\r']).map(|line| {
        start += line.len();
        (start - line.len(), line)
    });
    let (at, line) = lines.find(|(_, line)| !matches!(line.trim_start().as_bytes().first(), None | Some(b'#')))?;
    let rest = line.strip_prefix(END)?;
    rest.chars().next().is_none_or(char::is_whitespace).then_some(at)
}

/// Returns the first of some places, in their order, that no scalar covers.
fn outside(mut places: impl Iterator<Item = usize>, nodes: &[Node<'_>]) -> Option<usize> {
    let scalars =
        nodes.iter().filter(|node| matches!(node.content, Content::Scalar { .. })).map(|node| node.span.range());
    let mut spans = scalars.peekable();
    places.find(|at| {
        while spans.next_if(|span| span.end <= *at).is_some() {}
        spans.peek().is_none_or(|span| span.start > *at)
    })
}

/// Returns the beginning of a block scalar's header, its `|` or `>`: between the place that the parser had passed
/// before it and its text.
pub(super) fn header(text: &str, passed: usize, until: usize) -> usize {
    let mut at = passed.min(until);
    let bytes = text.as_bytes();
    while at < until {
        match bytes[at] {
            b'|' | b'>' => return at,
            b'#' => at += skip(&bytes[at..until], |byte| matches!(byte, b'\n' | b'\r')),
            b'&' | b'!' => at += skip(&bytes[at..until], |byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')),
            _ => at += 1,
        }
    }
    until
}

fn skip(bytes: &[u8], end: impl Fn(u8) -> bool) -> usize {
    bytes.iter().position(|byte| end(*byte)).unwrap_or(bytes.len())
}
