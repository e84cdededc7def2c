//! Complaints: the fault of a manifest, and a better text.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ObjectKey, Place};

/// One thing wrong with a file or a manifest.
///
/// Neither the message, nor the hint, nor an excerpt ever holds a value of a Secret, or of a possible one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Complaint {
    /// The place.
    pub place: Place,
    /// The object that it is about, if that much could be read.
    pub object: Option<ObjectKey>,
    /// The fault: one sentence, no full stop.
    pub message: String,
    /// A better text.
    pub hint: Option<String>,
    /// The line that it is about, for showing it without the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub excerpt: Option<Excerpt>,
    /// Other places that belong to it: where a key was written first, where an object is written as well.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<Note>,
}

/// Another place that belongs to a [`Complaint`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Note {
    /// The place.
    pub place: Place,
    /// The description.
    pub message: String,
    /// The line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub excerpt: Option<Excerpt>,
}

/// A line of a file, and which part of it is meant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Excerpt {
    /// The line, cut if it is long; only the key if it may be secret.
    pub line: String,
    /// The beginning of the part, in characters of `line`.
    pub start: u32,
    /// Behind its end, in characters of `line`.
    pub end: u32,
}

impl Complaint {
    /// Returns a complaint about a file as a whole, or about a place of it.
    #[must_use]
    pub fn of_file(place: Place, message: String, hint: Option<String>) -> Complaint {
        Complaint { place, object: None, message, hint, excerpt: None, also: Vec::new() }
    }

    /// Returns the same about the output of a tool: its place is the file that the object came from, so the message
    /// names the object, and the folder that it is rendered from.
    #[must_use]
    pub fn as_rendered(self, folder: &str) -> Complaint {
        let folder = if folder.is_empty() { "/" } else { folder };
        let note = match &self.object {
            Some(object) => format!("{object}, as rendered from {folder}"),
            None => format!("as rendered from {folder}"),
        };
        Complaint { message: format!("{} ({note})", self.message), ..self }
    }
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)?;
        if let Some(hint) = &self.hint {
            write!(f, " ({hint})")?;
        }
        for note in &self.also {
            write!(f, "; {}: {}", note.place, note.message)?;
        }
        Ok(())
    }
}
