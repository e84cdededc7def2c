//! Parts of the bytes that a target is given.

/// Splits at lines that begin with `=== `: what stands behind it, and the lines up to the next. The text before the
/// first has an empty heading.
pub fn sections(data: &[u8]) -> Vec<(&[u8], Vec<u8>)> {
    let mut sections: Vec<(&[u8], Vec<u8>)> = Vec::new();
    for line in data.split_inclusive(|byte| *byte == b'\n') {
        match line.strip_prefix(b"=== ") {
            Some(heading) => sections.push((heading.trim_ascii(), Vec::new())),
            None if sections.is_empty() => sections.push((b"", line.to_vec())),
            None => sections.last_mut().expect("one").1.extend_from_slice(line),
        }
    }
    sections
}

/// Returns the line and column of a byte, found in the slow and certain way.
pub fn line_and_column(text: &str, offset: usize) -> (u32, u32) {
    let before = &text[..offset];
    let (mut line, mut column) = (1, 1);
    let mut chars = before.chars().peekable();
    while let Some(c) = chars.next() {
        // A piece that ends here may be the first half of a `\r\n` that goes on behind it.
        let next = chars.peek().copied().or_else(|| text[offset..].chars().next());
        if c == '\n' || (c == '\r' && next != Some('\n')) {
            (line, column) = (line + 1, 1);
        } else {
            column += 1;
        }
    }
    (line, column)
}

/// Returns true when a text could steer a terminal.
pub fn steers(text: &str) -> bool {
    text.chars().any(|c| c.is_control() && c != '\n')
}
