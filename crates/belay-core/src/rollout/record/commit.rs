//! Commits, and what is written about them on objects.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The most characters that a change-cause may have: Kubernetes copies it to every revision.
const CHANGE_CAUSE_LIMIT: usize = 200;

/// The id of a commit: 40 hexadecimal digits, lower case.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(extend("pattern" = "^[0-9a-f]{40}$"))]
pub struct CommitId(String);

/// A text that is not a commit id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a commit id (40 hexadecimal digits): {0:?}")]
pub struct InvalidCommitId(String);

impl CommitId {
    /// Returns all 40 digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the first 7 digits, for people.
    #[must_use]
    pub fn short(&self) -> &str {
        &self.0[..7]
    }
}

impl FromStr for CommitId {
    type Err = InvalidCommitId;

    fn from_str(text: &str) -> Result<CommitId, InvalidCommitId> {
        let hexadecimal = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        let id = text.to_ascii_lowercase();
        if id.len() == 40 && id.bytes().all(hexadecimal) {
            Ok(CommitId(id))
        } else {
            Err(InvalidCommitId(text.to_owned()))
        }
    }
}

impl TryFrom<String> for CommitId {
    type Error = InvalidCommitId;

    fn try_from(text: String) -> Result<CommitId, InvalidCommitId> {
        text.parse()
    }
}

impl From<CommitId> for String {
    fn from(id: CommitId) -> String {
        id.0
    }
}

impl fmt::Display for CommitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for CommitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The author of a commit. Texts that are not UTF-8 have been replaced by U+FFFD.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Person {
    /// The name.
    pub name: String,
    /// The address, as written.
    pub email: String,
}

/// The parts of a commit that belay keeps: never its body.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Commit {
    /// Its id.
    pub id: CommitId,
    /// The first line of its message, control characters removed.
    pub subject: String,
    /// Its author.
    pub author: Person,
    /// When it was written.
    pub authored: Timestamp,
    /// When it was committed, which is later after a rebase.
    pub committed: Timestamp,
    /// The commits that it comes from; more than one for a merge.
    pub parents: Vec<CommitId>,
    /// The trailers of its message (`Belay-Allow-Prune: 3`), in order.
    pub trailers: Vec<(String, String)>,
}

impl Commit {
    /// Returns the change-cause, at most 200 characters: `1a2b3c4 Cache headers for images (Ada)`. A long subject is
    /// cut, so that the author stays.
    #[must_use]
    pub fn change_cause(&self) -> String {
        let author: String = self.author.name.chars().take(60).collect();
        let around = self.id.short().chars().count() + author.chars().count() + " ".len() + " ()".len();
        let room = CHANGE_CAUSE_LIMIT - around;
        let subject = if self.subject.chars().count() <= room {
            self.subject.clone()
        } else {
            self.subject.chars().take(room - 1).chain(['…']).collect()
        };
        format!("{} {subject} ({author})", self.id.short())
    }
}

/// Returns subject and author of a commit in a change-cause; `None` if it is not that commit's, or not belay's.
#[must_use]
pub fn read_change_cause<'c>(commit: &CommitId, cause: &'c str) -> Option<(&'c str, &'c str)> {
    let rest = cause.strip_prefix(commit.short())?.strip_prefix(' ')?;
    rest.strip_suffix(')')?.rsplit_once(" (")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commit(subject: &str) -> Commit {
        Commit {
            id: "1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d".parse().unwrap(),
            subject: subject.to_owned(),
            author: Person { name: "Ada".to_owned(), email: "ada@example.com".to_owned() },
            authored: Timestamp::UNIX_EPOCH,
            committed: Timestamp::UNIX_EPOCH,
            parents: Vec::new(),
            trailers: Vec::new(),
        }
    }

    #[test]
    fn a_change_cause_says_commit_subject_and_author() {
        assert_eq!(commit("Cache headers for images").change_cause(), "1a2b3c4 Cache headers for images (Ada)");
    }

    #[test]
    fn a_change_cause_is_never_longer_than_its_limit() {
        let cause = commit(&"ü".repeat(500)).change_cause();
        assert_eq!(cause.chars().count(), CHANGE_CAUSE_LIMIT);
        assert!(cause.ends_with("ü… (Ada)"), "{cause}");
    }

    #[test]
    fn a_change_cause_is_read_back() {
        let commit = commit("Cache headers (again)");
        let cause = commit.change_cause();
        assert_eq!(read_change_cause(&commit.id, &cause), Some(("Cache headers (again)", "Ada")));
        for other in ["", "1a2b3c4", "1a2b3c4 Cache headers", "2b3c4d5 Cache headers (Ada)", "kubectl set image"] {
            assert_eq!(read_change_cause(&commit.id, other), None, "{other}");
        }
    }

    #[test]
    fn ids_have_forty_digits() {
        assert!("1a2b3c4".parse::<CommitId>().is_err());
        assert!("zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz".parse::<CommitId>().is_err());
    }
}
