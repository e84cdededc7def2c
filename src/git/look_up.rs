//! A commit of a person's working copy, as they name it.

use super::commits::told;
use super::error::GitError;
use super::working_copy::WorkingCopy;
use crate::rollout::Commit;

impl WorkingCopy {
    /// The commit that somebody means: digits, a branch, a tag, `HEAD~1`.
    ///
    /// # Errors
    ///
    /// When there is none, or several begin so.
    pub fn commit_named(&self, name: &str) -> Result<Commit, GitError> {
        let found = self.repository().revparse_single(name).and_then(|object| object.peel_to_commit());
        match found {
            Ok(commit) => Ok(told(&commit)),
            Err(error) => Err(GitError::WorkingCopy {
                why: format!("{} has no commit {name:?}: {}", self.root().display(), error.message()),
            }),
        }
    }
}
