//! Lines of bounded length.

use std::io;

use tokio::io::{AsyncBufRead, AsyncBufReadExt as _};

/// The longest line, in bytes.
pub(super) const LINE: usize = 1 << 20;

/// One line, without its end.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum BoundedLine {
    /// Its bytes.
    Text(Vec<u8>),
    /// It was longer than [`LINE`], and was passed over.
    TooLong,
}

/// Reads the next line; `None` at the end. A last line need not end with a newline.
pub(super) async fn next<R: AsyncBufRead + Unpin>(input: &mut R) -> io::Result<Option<BoundedLine>> {
    let (mut text, mut is_too_long) = (Vec::new(), false);
    loop {
        let part = input.fill_buf().await?;
        let (end, taken) = match part.iter().position(|byte| *byte == b'\n') {
            Some(at) => (true, at + 1),
            None => (part.is_empty(), part.len()),
        };
        if taken == 0 && text.is_empty() && !is_too_long {
            return Ok(None);
        }
        is_too_long |= text.len() + taken > LINE;
        match is_too_long {
            true => text.clear(),
            false => text.extend_from_slice(part.get(..taken).unwrap_or_default()),
        }
        input.consume(taken);
        if end {
            return Ok(Some(if is_too_long { BoundedLine::TooLong } else { BoundedLine::Text(text) }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lines_end_and_are_bounded() {
        let long = "x".repeat(LINE + 1);
        let whole = "y".repeat(LINE - 1);
        let text = format!("one\n\n{long}\ntwo\n{whole}\n{long}");
        let mut input = tokio::io::BufReader::with_capacity(1000, text.as_bytes());
        let mut lines = Vec::new();
        while let Some(line) = next(&mut input).await.unwrap() {
            lines.push(match line {
                BoundedLine::Text(text) => text.len(),
                BoundedLine::TooLong => usize::MAX,
            });
        }
        assert_eq!(lines, [4, 1, usize::MAX, 4, LINE, usize::MAX]);
        assert_eq!(next(&mut &b"end"[..]).await.unwrap(), Some(BoundedLine::Text(b"end".to_vec())));
        assert_eq!(next(&mut &b""[..]).await.unwrap(), None);
    }
}
