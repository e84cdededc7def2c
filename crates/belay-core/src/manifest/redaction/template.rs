//! Literals in texts that are no YAML: in templates, and in files that can't be read.

use super::super::report::is_name;
use super::{Certainty, Redaction, WITHIN_WORDS};

/// Functions of templates whose first text is a name, or a message for people.
const NAMING: [&str; 7] = ["include", "template", "define", "block", "fail", "required", "printf"];

impl Redaction {
    /// Hides the text behind the keys of a text that can't be read, and its lines without keys.
    pub(super) fn hide_lines(&mut self, text: &str, shown: &[&str]) {
        for line in text.lines() {
            let line = line.trim().trim_start_matches("- ").trim_start();
            let name = |key: &str| is_name(key.trim_matches(['"', '\'']));
            match line
                .split_once(": ")
                .or_else(|| line.split_once(":\t"))
                .or_else(|| Some((line.strip_suffix(':')?, "")))
            {
                Some((key, _)) if shown.contains(&key.trim_matches(['"', '\''])) => {}
                Some((key, value)) if name(key) => self.hide_words(value),
                _ => match line.split_once('=') {
                    Some((key, value)) if name(key) && !value.trim_matches('=').is_empty() => self.hide_words(value),
                    _ => self.hide_words(line),
                },
            }
        }
    }

    /// Hides a text, and the words in it.
    fn hide_words(&mut self, text: &str) {
        let text = text.trim();
        self.hide(text, Certainty::Certain);
        self.hide(text.trim_matches(['"', '\'']), Certainty::Certain);
        let mut rest = text;
        while let Some(at) = rest.find(|c: char| c.is_whitespace() || "\"'{}[],:=|>".contains(c)) {
            let (word, behind) = rest.split_at(at);
            // A word before a colon is a key.
            if word.len() >= WITHIN_WORDS && !behind.trim_start_matches(['"', '\'']).starts_with(':') {
                self.hide(word, Certainty::Certain);
            }
            let separator = behind.chars().next().map_or(0, char::len_utf8);
            rest = &behind[separator..];
        }
        if rest.len() >= WITHIN_WORDS && rest.len() < text.len() {
            self.hide(rest, Certainty::Certain);
        }
    }

    /// Hides the text of a template between its actions, and the texts in these.
    pub(super) fn hide_template(&mut self, text: &str) {
        let mut rest = text;
        let mut between = String::new();
        while let Some((before, behind)) = rest.split_once("{{") {
            between.push_str(before);
            let (action, behind) = behind.split_once("}}").unwrap_or((behind, ""));
            self.hide_literals(action);
            rest = behind;
        }
        between.push_str(rest);
        self.hide_lines(&between, &["apiVersion", "kind", "name", "namespace"]);
    }

    /// Hides the texts in an action of a template.
    fn hide_literals(&mut self, action: &str) {
        let mut rest = action;
        while let Some(at) = rest.find(['"', '`']) {
            let (before, quoted) = rest.split_at(at);
            let naming = before.trim_end().rsplit([' ', '(', '\t', '\n']).next().unwrap_or_default();
            let end = end_of_literal(quoted);
            let literal = quoted[1..end].trim_end_matches(['"', '`']);
            if !NAMING.contains(&naming) {
                self.hide(literal, Certainty::Certain);
            }
            rest = &quoted[end..];
        }
    }
}

/// Returns the end of a literal that begins with its quote.
fn end_of_literal(quoted: &str) -> usize {
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
