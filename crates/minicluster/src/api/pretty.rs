//! JSON with line breaks, for people.

/// Indents JSON by two blanks, without reading more of it than its signs.
#[must_use]
pub fn pretty(json: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(json.len() * 2);
    let mut depth = 0_usize;
    let (mut in_text, mut escaped) = (false, false);
    let mut bytes = json.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        if in_text {
            out.push(byte);
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_text = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => {
                in_text = true;
                out.push(byte);
            }
            b'{' | b'[' => {
                out.push(byte);
                if let Some(closing @ (b'}' | b']')) = bytes.peek().copied() {
                    bytes.next();
                    out.push(closing);
                } else {
                    depth += 1;
                    line(&mut out, depth);
                }
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                line(&mut out, depth);
                out.push(byte);
            }
            b',' => {
                out.push(byte);
                line(&mut out, depth);
            }
            b':' => out.extend_from_slice(b": "),
            other => out.push(other),
        }
    }
    out
}

fn line(out: &mut Vec<u8>, depth: usize) {
    out.push(b'\n');
    out.resize(out.len() + 2 * depth, b' ');
}

#[cfg(test)]
mod tests {
    use super::pretty;

    #[test]
    fn structure_becomes_lines_and_text_stays() {
        let text = br#"{"a":[1,{"b":"x,\"{:"}],"c":{},"d":[]}"#;
        let expected =
            "{\n  \"a\": [\n    1,\n    {\n      \"b\": \"x,\\\"{:\"\n    }\n  ],\n  \"c\": {},\n  \"d\": []\n}";
        assert_eq!(String::from_utf8(pretty(text)).unwrap(), expected);
    }
}
