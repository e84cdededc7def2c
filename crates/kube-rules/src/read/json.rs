//! JSON with the errors that Go gives for it.

use super::node::{MAX_DEPTH, Node};

/// Reads one JSON value.
///
/// # Errors
/// In Go's words: `invalid character '}' looking for beginning of value`.
pub fn parse(text: &[u8]) -> Result<Node, String> {
    let mut parser = Parser { text, at: 0 };
    let value = parser.value(0)?;
    parser.skip_space();
    if parser.at < text.len() {
        return Err(parser.unexpected("after top-level value"));
    }
    Ok(value)
}

/// Returns a byte as Go's errors quote it.
fn quoted(byte: u8) -> String {
    match byte {
        b'\'' => r"'\''".to_owned(),
        b'"' => "'\"'".to_owned(),
        other => {
            let quoted = super::super::words::quote(&char::from(other).to_string());
            format!("'{}'", &quoted[1..quoted.len() - 1])
        }
    }
}

struct Parser<'a> {
    text: &'a [u8],
    at: usize,
}

type Parsed<T> = Result<T, String>;

impl Parser<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    fn unexpected(&self, place: &str) -> String {
        match self.peek() {
            Some(byte) => format!("invalid character {} {place}", quoted(byte)),
            None => "unexpected end of JSON input".to_owned(),
        }
    }

    fn value(&mut self, depth: usize) -> Parsed<Node> {
        self.skip_space();
        if depth > MAX_DEPTH {
            return Err("exceeded max depth".to_owned());
        }
        match self.peek() {
            Some(b'{') => self.map(depth),
            Some(b'[') => self.list(depth),
            Some(b'"') => self.string().map(Node::Text),
            Some(b'-' | b'0'..=b'9') => self.number().map(Node::Number),
            Some(b't') => self.literal("true", Node::Bool(true)),
            Some(b'f') => self.literal("false", Node::Bool(false)),
            Some(b'n') => self.literal("null", Node::Null),
            _ => Err(self.unexpected("looking for beginning of value")),
        }
    }

    fn map(&mut self, depth: usize) -> Parsed<Node> {
        self.at += 1;
        let mut entries = Vec::new();
        self.skip_space();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Node::Map(entries));
        }
        loop {
            self.skip_space();
            if self.peek() != Some(b'"') {
                return Err(self.unexpected("looking for beginning of object key string"));
            }
            let key = self.string()?;
            self.skip_space();
            if self.peek() != Some(b':') {
                return Err(self.unexpected("after object key"));
            }
            self.at += 1;
            let value = self.value(depth + 1)?;
            entries.push((key, value));
            self.skip_space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(Node::Map(entries));
                }
                _ => return Err(self.unexpected("after object key:value pair")),
            }
        }
    }

    fn list(&mut self, depth: usize) -> Parsed<Node> {
        self.at += 1;
        let mut items = Vec::new();
        self.skip_space();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Node::List(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            self.skip_space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return Ok(Node::List(items));
                }
                _ => return Err(self.unexpected("after array element")),
            }
        }
    }

    fn literal(&mut self, word: &str, value: Node) -> Parsed<Node> {
        for expected in word.bytes() {
            if self.peek() != Some(expected) {
                return Err(self.unexpected(&format!("in literal {word} (expecting {})", quoted(expected))));
            }
            self.at += 1;
        }
        Ok(value)
    }

    fn digits(&mut self, place: &str) -> Parsed<()> {
        if !matches!(self.peek(), Some(b'0'..=b'9')) {
            return Err(self.unexpected(place));
        }
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        Ok(())
    }

    fn number(&mut self) -> Parsed<String> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits("in numeric literal")?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits("after decimal point in numeric literal")?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits("in exponent of numeric literal")?;
        }
        Ok(String::from_utf8_lossy(&self.text[start..self.at]).into_owned())
    }

    fn string(&mut self) -> Parsed<String> {
        self.at += 1;
        let mut bytes = Vec::new();
        loop {
            let rest = self.text.get(self.at..).unwrap_or_default();
            let ends = |byte: &u8| matches!(byte, b'"' | b'\\') || *byte < 0x20;
            let plain = &rest[..rest.iter().position(ends).unwrap_or(rest.len())];
            bytes.extend_from_slice(plain);
            self.at += plain.len();
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    // Go puts the replacement character where bytes are not UTF-8.
                    let lossy =
                        |bytes: std::string::FromUtf8Error| String::from_utf8_lossy(bytes.as_bytes()).into_owned();
                    return Ok(String::from_utf8(bytes).unwrap_or_else(lossy));
                }
                Some(b'\\') => {
                    self.at += 1;
                    self.escape(&mut bytes)?;
                }
                _ => return Err(self.unexpected("in string literal")),
            }
        }
    }

    fn escape(&mut self, bytes: &mut Vec<u8>) -> Parsed<()> {
        let simple = match self.peek() {
            Some(byte @ (b'"' | b'\\' | b'/')) => byte,
            Some(b'b') => 8,
            Some(b'f') => 12,
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b't') => b'\t',
            Some(b'u') => {
                self.at += 1;
                let unit = self.hexadecimal()?;
                let character = self.code_point(unit)?;
                bytes.extend(character.to_string().bytes());
                return Ok(());
            }
            _ => return Err(self.unexpected("in string escape code")),
        };
        bytes.push(simple);
        self.at += 1;
        Ok(())
    }

    /// Returns a code point from its first UTF-16 unit and, if that is half of one, from the next.
    fn code_point(&mut self, unit: u32) -> Parsed<char> {
        if let Some(character) = char::from_u32(unit) {
            return Ok(character);
        }
        let follows = self.text.get(self.at..self.at + 2) == Some(b"\\u");
        if unit < 0xdc00 && follows {
            let start = self.at;
            self.at += 2;
            let low = self.hexadecimal()?;
            if (0xdc00..0xe000).contains(&low) {
                let joined = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
                return Ok(char::from_u32(joined).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            self.at = start;
        }
        Ok(char::REPLACEMENT_CHARACTER)
    }

    fn hexadecimal(&mut self) -> Parsed<u32> {
        let mut value = 0;
        for _ in 0..4 {
            let Some(digit) = self.peek().and_then(|byte| char::from(byte).to_digit(16)) else {
                return Err(self.unexpected("in \\u hexadecimal character escape"));
            };
            value = value * 16 + digit;
            self.at += 1;
        }
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn errors_are_gos() {
        let cases = [
            ("", "unexpected end of JSON input"),
            ("{", "unexpected end of JSON input"),
            ("{a", "invalid character 'a' looking for beginning of object key string"),
            ("{\"a\":1]", "invalid character ']' after object key:value pair"),
            ("[1 2]", "invalid character '2' after array element"),
            ("not", "invalid character 'o' in literal null (expecting 'u')"),
            ("01", "invalid character '1' after top-level value"),
            ("-", "unexpected end of JSON input"),
            ("1.x", "invalid character 'x' after decimal point in numeric literal"),
            ("\"\n\"", "invalid character '\\n' in string literal"),
            ("{\"a\"=1}", "invalid character '=' after object key"),
            ("\u{e9}", "invalid character 'Ã' looking for beginning of value"),
        ];
        for (text, error) in cases {
            assert_eq!(parse(text.as_bytes()).unwrap_err(), error, "{text}");
        }
    }

    #[test]
    fn depth_is_limited() {
        let deep = "[".repeat(10_000);
        assert_eq!(parse(deep.as_bytes()).unwrap_err(), "exceeded max depth");
    }

    #[test]
    fn texts_are_decoded() {
        let text = "[\"\\u00e9\\ud83d\\ude00\\ud83d\\n\", 1.50, -0]";
        let value = parse(text.as_bytes()).unwrap().to_value();
        assert_eq!(value[0], "é😀\u{fffd}\n");
        assert_eq!(value[1], 1.5);
        assert_eq!(value[2], 0);
    }
}
