//! What is wrong with a manifest, and what to write instead.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{ObjectKey, Place};

/// One thing wrong with a file or a manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Complaint {
    /// Where it is.
    pub place: Place,
    /// The object that it is about, where that much could be read.
    pub object: Option<ObjectKey>,
    /// What is wrong: one sentence, no full stop. Never a value of a Secret.
    pub message: String,
    /// What to write instead.
    pub hint: Option<String>,
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)?;
        if let Some(hint) = &self.hint {
            write!(f, " ({hint})")?;
        }
        Ok(())
    }
}
