//! Characters that are not shown as they are written.

/// Returns true when a character is not shown as it is written: a control character, one that turns the direction of
/// the text after it, one of no width, or one that ends a line. A name or a text that has one can write to the terminal
/// of its reader, or show another text than its own. Nothing that comes from a repository is shown with one.
#[must_use]
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{AD}' | '\u{34F}' | '\u{061C}' | '\u{115F}' | '\u{1160}' | '\u{17B4}' | '\u{17B5}' | '\u{3164}' | '\u{FFA0}' | '\u{180E}' | '\u{200B}' | '\u{200E}' | '\u{200F}' | '\u{2028}'..='\u{202E}'
            | '\u{2060}'..='\u{206F}' | '\u{FEFF}' | '\u{FFF9}'..='\u{FFFB}' | '\u{E0000}'..='\u{E007F}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_write_is_shown() {
        assert!("größe-価格 عربي नमस्ते 🙂 e\u{301}".chars().all(|c| !is_hidden(c)));
        assert!(
            "\u{ad}\u{34f}\u{3164}\u{1b}\u{7f}\u{85}\u{202E}\u{2066}\u{2069}\u{200B}\u{2028}\u{FEFF}\u{E0041}"
                .chars()
                .all(is_hidden)
        );
    }
}
