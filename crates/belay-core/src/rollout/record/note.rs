//! Notes of people about their requests to belay: written on the object, and from there taken into the history.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::manifest::is_hidden;
use crate::rollout::marks;

/// The most characters of a note.
const LIMIT: usize = 400;

/// The note of a person about a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// When.
    pub at: Timestamp,
    /// The person.
    pub by: String,
    /// The text.
    pub text: String,
}

impl Note {
    /// Returns the note on a live object. One that can't be read is none.
    #[must_use]
    pub fn on(live: &Value) -> Option<Note> {
        serde_json::from_str(marks::annotation(live, marks::NOTE)?).ok()
    }

    /// Returns its text on the object.
    #[must_use]
    pub fn to_annotation(&self) -> String {
        serde_json::to_string(self).expect("texts and a time are JSON")
    }

    /// Returns its text in the history: one line.
    #[must_use]
    pub fn line(&self) -> String {
        one_line(&format!("{}: {}", self.by, self.text))
    }
}

/// Returns a text as one line that shows all of what it is, of at most 400 characters.
#[must_use]
pub fn one_line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").chars().filter(|c| !is_hidden(*c) && !c.is_control()).take(LIMIT).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn it_is_read_again_and_is_one_line() {
        let text = format!("mended\nthe \u{202e}registry{}", "!".repeat(LIMIT));
        let note = Note { at: Timestamp::UNIX_EPOCH, by: "ada".to_owned(), text };
        let on = |text: &str| Note::on(&json!({"metadata": {"annotations": {marks::NOTE: text}}}));
        assert_eq!(on(&note.to_annotation()).as_ref(), Some(&note));
        assert!(note.line().starts_with("ada: mended the registry!!"), "{}", note.line());
        assert_eq!(note.line().chars().count(), LIMIT);
        assert_eq!(on("mended"), None);
        assert_eq!(Note::on(&json!({})), None);
    }
}
