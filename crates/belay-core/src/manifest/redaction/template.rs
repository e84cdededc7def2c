//! Literals in texts that are no YAML: in templates, and in files that can't be read.

use super::super::report::is_name;
use super::{Certainty, PIECE, Redaction, WITHIN_WORDS};

/// Functions of templates whose first text is a name, or a message for people.
const NAMING: [&str; 6] = ["include", "template", "define", "block", "fail", "required"];
/// Functions of templates that are given a message for people.
const TELLING: [&str; 2] = ["fail", "required"];

impl Redaction {
    /// Hides the text behind the keys of a text that can't be read, and its lines without keys.
    pub(super) fn hide_lines(&mut self, text: &str, shown: &[&str], certainty: Certainty) {
        for line in text.lines() {
            let line = line.trim().trim_start_matches("- ").trim_start();
            let name = |key: &str| is_name(key.trim_matches(['"', '\'']));
            match line
                .split_once(": ")
                .or_else(|| line.split_once(":\t"))
                .or_else(|| Some((line.strip_suffix(':')?, "")))
            {
                Some((key, _)) if shown.contains(&key.trim_matches(['"', '\''])) => {}
                Some((key, value)) if name(key) => self.hide_words(value, certainty),
                _ => match line.split_once('=') {
                    Some((key, value)) if name(key) && !value.trim_matches('=').is_empty() => {
                        self.hide_words(value, certainty)
                    }
                    _ => self.hide_words(line, certainty),
                },
            }
        }
    }

    /// Hides a text, and the words in it. A short one is hidden only where it certainly is a value.
    fn hide_words(&mut self, text: &str, certainty: Certainty) {
        let shortest = shortest(certainty);
        let mut hide = |text: &str| {
            if text.len() >= shortest {
                self.hide(text, certainty);
            }
        };
        let text = text.trim();
        hide(text);
        hide(text.trim_matches(['"', '\'']));
        let is_part = |c: char| c.is_whitespace() || "\"'{}[],:=|>".contains(c);
        let mut rest = text;
        while !rest.is_empty() {
            let (word, behind) = rest.split_at(rest.find(is_part).unwrap_or(rest.len()));
            // A word before a colon is a key.
            if !behind.trim_start_matches(['"', '\'']).starts_with(':') {
                // Programs name an alias, an anchor or a tag without its mark.
                let named = word.trim_start_matches(['*', '&', '!', '@', '%']);
                if word.len() >= WITHIN_WORDS || named.len() < word.len() {
                    hide(word);
                    hide(named);
                }
            }
            let separator = behind.chars().next().map_or(0, char::len_utf8);
            rest = &behind[separator..];
        }
    }

    /// Hides the text of a template between its actions, and the texts in these.
    pub(super) fn hide_template(&mut self, text: &str, certainty: Certainty) {
        let mut rest = text;
        let mut between = String::new();
        while let Some((before, behind)) = rest.split_once("{{") {
            between.push_str(before);
            let (action, behind) = behind.split_once("}}").unwrap_or((behind, ""));
            self.hide_literals(action, certainty);
            rest = behind;
        }
        between.push_str(rest);
        self.hide_lines(&between, &["apiVersion", "kind", "name", "namespace"], certainty);
    }

    /// Hides the texts in an action of a template.
    fn hide_literals(&mut self, action: &str, certainty: Certainty) {
        let mut rest = action;
        while let Some(at) = rest.find(['"', '`']) {
            let (before, quoted) = rest.split_at(at);
            let naming = before.trim_end().rsplit([' ', '(', '\t', '\n']).next().unwrap_or_default();
            let end = end_of_literal(quoted);
            let literal = quoted[1..end].trim_end_matches(['"', '`']);
            let shortest = shortest(certainty);
            // An argument that joins or replaces parts of a text is no value.
            let is_mark = certainty < Certainty::Certain && !literal.contains(char::is_alphanumeric);
            if naming == "printf" && !is_told(before) {
                let parts = literal.split('%').enumerate().map(|(at, part)| without_verb(part, at > 0));
                parts
                    .filter(|part| part.len() >= WITHIN_WORDS.max(shortest))
                    .for_each(|part| self.hide(part, certainty));
            } else if naming != "printf" && !NAMING.contains(&naming) && literal.len() >= shortest && !is_mark {
                self.hide(literal, certainty);
            }
            rest = &quoted[end..];
        }
    }
}

/// Returns the length from which on a text is hidden, in bytes.
fn shortest(certainty: Certainty) -> usize {
    if certainty == Certainty::Possible { PIECE } else { 1 }
}

/// Returns true when what stands before a format ends with a function that tells people the text, and `printf`.
fn is_told(before: &str) -> bool {
    let function =
        before.trim_end().trim_end_matches("printf").trim_end_matches(|c: char| c.is_whitespace() || c == '(');
    TELLING.iter().any(|telling| function.ends_with(telling))
}

/// Returns the text of a format behind a `%`, without the verb.
fn without_verb(part: &str, behind_percent: bool) -> &str {
    let verb = |c: char| c.is_ascii_digit() || "+-# .".contains(c);
    if !behind_percent {
        return part;
    }
    let part = part.trim_start_matches(verb);
    part.strip_prefix(char::is_alphabetic).unwrap_or(part)
}

/// Returns the end of a literal that begins with its quote.
pub(super) fn end_of_literal(quoted: &str) -> usize {
    let quote = quoted.as_bytes()[0];
    let mut escaped = false;
    for (at, byte) in quoted.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quote == b'"' => escaped = true,
            byte if byte == quote => return at + 1,
            _ => {}
        }
    }
    quoted.len()
}
