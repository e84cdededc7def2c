//! The subject that a source follows, and the trouble with it.

use jiff::Timestamp;

/// The subject that a source follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Followed {
    /// The source's name.
    pub source: String,
    /// The folders in its repository; an empty one for all of it.
    pub folders: Vec<String>,
    /// The part of the repository, in words: `branch "main"`.
    pub follow: String,
    /// The trouble with reading its repository, or with planning its content.
    pub trouble: Option<Trouble>,
}

/// A trouble.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// The message, for people.
    pub message: String,
    /// The time of its beginning.
    pub since: Timestamp,
}
