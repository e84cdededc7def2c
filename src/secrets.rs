//! A leaf: the texts that are never shown of an answer: a receiver's address, a token, a password, also if an answer repeats
//! only a part of one, or repeats it with escapes.

use std::collections::HashSet;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};

/// The number of common characters of an answer and a secret from which on they are hidden, wherever they stand.
const PART: usize = 8;
/// The number of characters from which on a part between separators is hidden if it stands as a word.
const WORD: usize = 4;
/// The longest escape of HTML, in bytes after its `&`.
const ENTITY: usize = 10;

/// The secrets of one message.
#[derive(Clone, Default)]
pub struct Secrets {
    /// In the form that [`plain`] makes of a text, and as they are written.
    whole: Vec<Vec<char>>,
}

impl Secrets {
    /// Adds a secret, also in base64.
    pub fn add(&mut self, secret: &str) {
        let secret = secret.trim();
        self.add_form(secret);
        let read: String = unescaped(secret).into_iter().map(|(c, _)| c).collect();
        let forms = if read == secret { vec![secret] } else { vec![secret, &read] };
        for form in forms {
            self.add_base64(form);
            parts(form).filter(|part| part.len() >= WORD && *part != form).for_each(|part| self.add_base64(part));
        }
    }

    fn add_form(&mut self, secret: &str) {
        let read: Vec<char> = plain(secret).into_iter().map(|(c, _)| c).collect();
        let written: Vec<char> = secret.to_ascii_lowercase().chars().collect();
        // A repeated part of a text with escapes may begin in the middle of an escape.
        let forms = if read == written { vec![read] } else { vec![read, written] };
        self.whole.extend(forms.into_iter().filter(|form| !form.is_empty()));
    }

    /// Adds the base64 of a text: alone, and as the text is a part of a longer one, with each number of bytes before it.
    fn add_base64(&mut self, text: &str) {
        for alphabet in [&STANDARD, &URL_SAFE] {
            self.add_form(&alphabet.encode(text));
            for before in 0..3 {
                let padded = [&[0; 3][..before], text.as_bytes()].concat();
                // Characters that bytes beside the text have a part in are left out.
                let (from, to) = ((before * 8).div_ceil(6), padded.len() * 8 / 6);
                let encoded = alphabet.encode(&padded);
                self.add_form(encoded.get(from..to).filter(|form| form.len() >= WORD).unwrap_or_default());
            }
        }
    }

    /// Adds a password, also in the forms in which SMTP sends it.
    pub fn add_password(&mut self, user: &str, password: &str) {
        self.add(password);
        self.add_form(&STANDARD.encode(format!("\0{user}\0{password}")));
    }

    /// Adds everything behind the host in an address.
    pub fn add_path(&mut self, path: &str) {
        if path != "/" {
            self.add(path);
        }
    }

    /// Returns a text with `…` in the place of each secret, and of each part of one.
    #[must_use]
    pub fn hide(&self, text: &str) -> String {
        let read = plain(text);
        let characters: Vec<char> = read.iter().map(|(c, _)| *c).collect();
        let hidden = self.hidden(&characters);
        let mut shown = String::new();
        let mut from = 0;
        for (at, (_, end)) in read.iter().enumerate() {
            match hidden[at] {
                false => shown.push_str(&text[from..*end]),
                true if at == 0 || !hidden[at - 1] => shown.push('…'),
                true => {}
            }
            from = *end;
        }
        shown
    }

    /// Returns the characters that belong to a secret.
    fn hidden(&self, text: &[char]) -> Vec<bool> {
        let mut hidden = vec![false; text.len()];
        let parts: HashSet<&[char]> = self.whole.iter().flat_map(|secret| secret.windows(PART)).collect();
        for at in (0..text.len()).filter(|at| text.get(*at..*at + PART).is_some_and(|part| parts.contains(part))) {
            hidden[at..at + PART].fill(true);
        }
        let is_end = |c: Option<&char>| c.is_none_or(|c| !c.is_alphanumeric());
        for secret in &self.whole {
            // A short secret is hidden wherever it stands.
            for at in occurrences(text, secret) {
                hidden[at..at + secret.len()].fill(true);
            }
            let words = secret.split(|c| separates(*c));
            for word in words.filter(|word| word.len() >= WORD && word.len() < PART) {
                for at in occurrences(text, word) {
                    let before = at.checked_sub(1).and_then(|before| text.get(before));
                    if is_end(before) && is_end(text.get(at + word.len())) {
                        hidden[at..at + word.len()].fill(true);
                    }
                }
            }
        }
        hidden
    }
}

/// Returns true for a character between the parts of a secret.
fn separates(c: char) -> bool {
    "/?&=#;,:".contains(c) || c.is_whitespace()
}

fn parts(secret: &str) -> impl Iterator<Item = &str> {
    secret.split(separates)
}

/// Returns the places at which one text stands in another.
fn occurrences<'t>(text: &'t [char], part: &'t [char]) -> impl Iterator<Item = usize> + 't {
    text.windows(part.len().max(1)).enumerate().filter(move |(_, window)| *window == part).map(|(at, _)| at)
}

/// Reads a text without its escapes, in lower case.
fn plain(text: &str) -> Vec<(char, usize)> {
    unescaped(text).into_iter().map(|(c, end)| (c.to_ascii_lowercase(), end)).collect()
}

/// Reads a text without its escapes: each character with the place at which it ends in the text.
fn unescaped(text: &str) -> Vec<(char, usize)> {
    let mut read = Vec::new();
    let mut at = 0;
    while let Some(next) = text[at..].chars().next() {
        let (c, length) = escape(&text[at..]).unwrap_or((next, next.len_utf8()));
        at += length;
        read.push((c, at));
    }
    read
}

/// Reads an escape of URLs, JSON, HTML or C at the beginning of a text: its character and its length.
fn escape(text: &str) -> Option<(char, usize)> {
    let digits = |from: usize, length: usize| {
        let digits =
            text.get(from..from + length).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
        let c = char::from_u32(u32::from_str_radix(digits, 16).ok()?)?;
        Some((c, from + length))
    };
    if text.starts_with('%') {
        return digits(1, 2);
    }
    if let Some(rest) = text.strip_prefix('\\') {
        return match rest.chars().next()? {
            'u' => digits(2, 4),
            'x' => digits(2, 2),
            c @ ('/' | '"' | '\\' | '\'') => Some((c, 2)),
            _ => None,
        };
    }
    let rest = text.strip_prefix('&')?;
    let name = &rest[..rest.bytes().take(ENTITY).position(|byte| byte == b';')?];
    let c = match name {
        "amp" => '&',
        "lt" => '<',
        "gt" => '>',
        "quot" => '"',
        "apos" => '\'',
        name => {
            let number = name.strip_prefix('#')?;
            let number = match number.strip_prefix(['x', 'X']) {
                Some(hexadecimal) => u32::from_str_radix(hexadecimal, 16),
                None => number.parse(),
            };
            char::from_u32(number.ok()?)?
        }
    };
    Some((c, name.len() + 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: &str = "/services/T0AB1CD2E/B0FG3HI4J/x7Yz8Wv9Ut0Sr1Qp2On3Ml4K?t=42abc";

    fn hidden(text: &str) -> String {
        let mut secrets = Secrets::default();
        secrets.add_path(PATH);
        secrets.add_password("belay", "s3cret pass/word");
        secrets.hide(text)
    }

    #[test]
    fn a_part_of_a_secret_is_hidden() {
        for (text, shown) in [
            (format!("no {PATH} here"), "no … here"),
            ("no hook x7Yz8Wv9Ut0Sr1Qp2On3Ml4K".to_owned(), "no hook …"),
            ("no hook 9Ut0Sr1Q.".to_owned(), "no hook …."),
            ("team T0AB1CD2E, channel b0fg3hi4j".to_owned(), "team …, channel …"),
            ("thread 42abc is not 42abcd".to_owned(), "thread … is not 42abcd"),
            ("no_service, invalid_token".to_owned(), "no_service, invalid_token"),
            ("password s3cret pass/word?".to_owned(), "password …?"),
            ("535 AGJlbGF5AHMzY3JldCBwYXNzL3dvcmQ= is wrong".to_owned(), "535 … is wrong"),
            (format!("535 {}", STANDARD.encode("s3cret pass/word")), "535 …"),
        ] {
            assert_eq!(hidden(&text), shown, "{text}");
        }
    }

    #[test]
    fn a_secret_in_base64_is_hidden_wherever_it_stands_in_it() {
        let parts = ["/services/T0AB1CD2E/", "x7Yz8Wv9Ut0Sr1Qp2On3Ml4K", "T0AB1CD2E", "s3cret pass/word"];
        for part in [PATH].iter().chain(&parts) {
            for before in ["", "h", "ht", "htt", "https://hooks.example.com"] {
                for after in ["", "!", "?a"] {
                    for alphabet in [&STANDARD, &URL_SAFE] {
                        let encoded = alphabet.encode(format!("{before}{part}{after}"));
                        let shown = hidden(&encoded);
                        // Bytes beside the secret's have a part in the characters at the ends.
                        let around = before.len() * 8 / 6 + after.len() * 8 / 6 + 4;
                        let left = shown.chars().filter(|c| !matches!(c, '…' | '=')).count();
                        assert!(shown.contains('…') && left <= around, "{before}{part}{after}: {encoded}: {shown}");
                    }
                }
            }
        }
        let exact = hidden(&URL_SAFE.encode("x7Yz8Wv9Ut0Sr1Qp2On3Ml4K"));
        assert_eq!(exact, "…");
        let mut escaped = Secrets::default();
        escaped.add_path("/hooks/a%2Bb%7Ec%3Fd%3Ee");
        assert_eq!(escaped.hide(&STANDARD.encode("/hooks/a+b~c?d>e")), "…");
    }

    #[test]
    fn an_escaped_secret_is_hidden() {
        let each = |escape: &dyn Fn(char) -> String| PATH.chars().map(escape).collect::<String>();
        for text in [
            each(&|c| format!("%{:02X}", u32::from(c))),
            each(&|c| format!("\\u{:04x}", u32::from(c))),
            each(&|c| format!("\\x{:02x}", u32::from(c))),
            each(&|c| format!("&#{};", u32::from(c))),
            each(&|c| format!("&#x{:X};", u32::from(c))),
            PATH.replace('/', "\\/"),
            PATH.replace('/', "%2f"),
            PATH.to_ascii_uppercase(),
        ] {
            assert_eq!(hidden(&format!("<{text}>")), "<…>", "{text}");
        }
    }

    #[test]
    fn everything_else_stays_as_it_is() {
        for text in ["", "é%", "100 % of é; &; &#; &#x; \\", "&amp;&lt; \\u00", "%4", "\\u12é4 &é;", "%é1"] {
            assert_eq!(hidden(text), text);
        }
        let mut none = Secrets::default();
        none.add_path("/");
        none.add(" ");
        assert_eq!(none.hide("a / b"), "a / b");
        let mut short = Secrets::default();
        short.add("pw1");
        assert_eq!(short.hide("the pw1 of apw1b"), "the … of a…b");
    }
}
