//! A leaf: texts from elsewhere, as they stand in messages and logs.

use belay_core::manifest::{is_hidden, shortened};

/// Returns a text in one line, without characters that could steer a terminal or hide a part of it, of at most so many
/// characters.
pub fn plain_line(text: &str, longest: usize) -> String {
    let plain: String = text.chars().map(|c| if is_hidden(c) || c.is_whitespace() { ' ' } else { c }).collect();
    shortened(plain.trim(), longest).into_owned()
}
