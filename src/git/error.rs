//! The errors of a repository, for the person who runs belay: the event, the place, advice.

use std::path::PathBuf;
use std::time::Duration;

use belay_core::manifest::is_hidden;
use belay_core::rollout::CommitId;

/// The reason for which an operation on a repository failed. None of the texts has a credential in it.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    /// There is no repository at that path.
    #[error("there is no Git repository at {}: {why}", path.display())]
    NoRepository {
        /// The path, as configured.
        path: PathBuf,
        /// The thing found instead.
        why: String,
    },
    /// The repository on this machine belongs to another user, who could make belay run or read anything.
    #[error(
        "the repository {} belongs to another user than belay runs as; if you trust that user, tell Git so: git config \
         --system --add safe.directory '{}'",
        path.display(), path.display()
    )]
    ForeignOwner {
        /// The path, as configured.
        path: PathBuf,
    },
    /// The repository uses a feature that libgit2 does not know.
    #[error("the repository {repository} can't be read: {what}")]
    Unsupported {
        /// The repository.
        repository: String,
        /// The feature, and advice.
        what: String,
    },
    /// A shallow clone has no history that names the author of a change.
    #[error(
        "the repository {repository} is a shallow clone: its history is cut off; complete it with: git fetch --unshallow"
    )]
    Shallow {
        /// The repository.
        repository: String,
    },
    /// Nothing has been pushed yet.
    #[error("the repository {repository} is empty: push a first commit")]
    Empty {
        /// The repository.
        repository: String,
    },
    /// The branch to follow is not there.
    #[error("the repository {repository} has no branch {branch}; it has {}", listed(others, "no branch at all"))]
    NoBranch {
        /// The repository.
        repository: String,
        /// The branch.
        branch: String,
        /// The branches that there are.
        others: Vec<String>,
    },
    /// No tag matches.
    #[error("the repository {repository} has no tag that matches {pattern}; it has {}", listed(others, "no tags"))]
    NoTag {
        /// The repository.
        repository: String,
        /// The pattern.
        pattern: String,
        /// The tags that there are.
        others: Vec<String>,
    },
    /// The commit is not there, or not reachable from any branch or tag.
    #[error("the repository {repository} has no commit {commit} on any branch or tag")]
    NoCommit {
        /// The repository.
        repository: String,
        /// The commit.
        commit: CommitId,
    },
    /// A branch or tag does not lead to a commit.
    #[error("{reference} of the repository {repository} is not a commit but a {kind}")]
    NotACommit {
        /// The repository.
        repository: String,
        /// The branch or tag.
        reference: String,
        /// Its kind.
        kind: String,
    },
    /// The folder to follow is not in that commit.
    #[error("commit {} has no folder {folder}; it has {}", commit.short(), listed(others, "no folders at all"))]
    NoFolder {
        /// The commit.
        commit: CommitId,
        /// The folder.
        folder: String,
        /// The folders that there are, as deep as the path could be followed.
        others: Vec<String>,
    },
    /// One of several folders to follow is not in that commit.
    #[error("commit {} has no folder {path}, which the source follows", commit.short())]
    NothingFollowed {
        /// The commit.
        commit: CommitId,
        /// The folder, or the pattern that none matches.
        path: String,
    },
    /// The path to follow is something else than a folder.
    #[error("{folder} in commit {} is not a folder but a {kind}", commit.short())]
    NotAFolder {
        /// The commit.
        commit: CommitId,
        /// The path.
        folder: String,
        /// Its kind.
        kind: &'static str,
    },
    /// A newer head came while this one was read.
    #[error("commit {} was given up for a newer one", commit.short())]
    GivenUp {
        /// The commit.
        commit: CommitId,
    },
    /// The server could not be reached, or it broke off. It is worth trying again.
    #[error("failed to fetch from {repository}: {message}")]
    Unreachable {
        /// The repository.
        repository: String,
        /// The event.
        message: String,
    },
    /// The server wants other credentials, or any at all.
    #[error("{repository} refused belay: {message}")]
    Refused {
        /// The repository.
        repository: String,
        /// The event, and advice.
        message: String,
    },
    /// The server can't prove that it is the one.
    #[error("{repository} is not trusted: {message}")]
    Untrusted {
        /// The repository.
        repository: String,
        /// The fault of its key or certificate, and advice.
        message: String,
    },
    /// A file with a credential can't be used.
    #[error("failed to read the {what} {}: {why}", path.display())]
    Credential {
        /// The credential.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The reason; never the content.
        why: String,
    },
    /// Something is larger than belay reads.
    #[error("{what} has {size} bytes; the limit is {limit}")]
    TooLarge {
        /// The thing.
        what: String,
        /// Its size.
        size: u64,
        /// The limit.
        limit: u64,
    },
    /// There is more of something than belay reads.
    #[error("{what}: more than {limit}")]
    TooMany {
        /// The thing.
        what: String,
        /// The limit.
        limit: usize,
    },
    /// Reading the repository takes more memory than belay gives it.
    #[error(
        "reading {repository} takes more memory than belay gives a repository: {wanted} bytes more were wanted, and the limit \
         is {} MiB in all; keep large files out of its history, or have Git store them whole: git -c \
         core.bigFileThreshold=16m repack -a -d -F, in the repository",
        limit >> 20
    )]
    TooMuchMemory {
        /// The repository.
        repository: String,
        /// The size of the last request.
        wanted: usize,
        /// The limit.
        limit: usize,
    },
    /// A fetch took longer than it may.
    #[error("fetching from {repository} took longer than {} s", after.as_secs())]
    TooSlow {
        /// The repository.
        repository: String,
        /// The limit.
        after: Duration,
    },
    /// A fetch was given up because belay stops.
    #[error("fetching was given up because belay stops")]
    Cancelled,
    /// An object of the repository that is followed can't be read.
    #[error("the repository {repository} is damaged: {message}; git fsck tells more")]
    DamagedSource {
        /// The repository.
        repository: String,
        /// The fault.
        message: String,
    },
    /// belay's own copy can't be read. [`super::Mirror::start_over`] helps.
    #[error("belay's copy of the repository in {} is damaged: {message}", path.display())]
    DamagedMirror {
        /// The folder of the copy.
        path: PathBuf,
        /// The fault.
        message: String,
    },
    /// Another process holds the mirror.
    #[error("another belay is using {}; wait for it, or give this one a --state-dir of its own", path.display())]
    Busy {
        /// The folder.
        path: PathBuf,
    },
    /// The working copy is not in a state in which belay edits it.
    #[error("{why}")]
    WorkingCopy {
        /// The fault, and advice.
        why: String,
    },
    /// A push was refused.
    #[error("{repository} did not take the push: {message}")]
    PushRefused {
        /// The repository.
        repository: String,
        /// Its message.
        message: String,
    },
    /// The file system refused something.
    #[error("failed to {doing} {}: {source}", path.display())]
    Io {
        /// The action of belay.
        doing: &'static str,
        /// The path.
        path: PathBuf,
        /// The reason of the failure.
        source: std::io::Error,
    },
    /// libgit2 refused something.
    #[error("failed to {doing}: {message}")]
    Git {
        /// The action of belay.
        doing: String,
        /// The message of libgit2.
        message: String,
    },
}

impl GitError {
    /// Returns the same error, if it says that a repository is beyond a limit of reading: reading it again says the
    /// same.
    #[must_use]
    pub fn of_limits(&self) -> Option<GitError> {
        match self {
            GitError::TooLarge { what, size, limit } => {
                Some(GitError::TooLarge { what: what.clone(), size: *size, limit: *limit })
            }
            GitError::TooMany { what, limit } => Some(GitError::TooMany { what: what.clone(), limit: *limit }),
            GitError::TooMuchMemory { repository, wanted, limit } => {
                Some(GitError::TooMuchMemory { repository: repository.clone(), wanted: *wanted, limit: *limit })
            }
            _ => None,
        }
    }

    /// Returns true when reading was given up for a newer head, which is to be read instead.
    #[must_use]
    pub fn is_given_up(&self) -> bool {
        matches!(self, GitError::GivenUp { .. })
    }

    /// Returns true when trying again later may help without an action of anybody.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        matches!(
            self,
            GitError::Unreachable { .. } | GitError::TooSlow { .. } | GitError::Io { .. } | GitError::Busy { .. }
        )
    }

    /// Returns true when [`super::Mirror::start_over`] helps.
    #[must_use]
    pub fn wants_a_new_mirror(&self) -> bool {
        matches!(self, GitError::DamagedMirror { .. })
    }
}

/// Turns an error of libgit2 into one of ours that names the operation.
pub(super) fn while_doing(doing: impl Into<String>) -> impl FnOnce(git2::Error) -> GitError {
    move |error| GitError::Git { doing: doing.into(), message: error.message().to_owned() }
}

/// Turns an error of the file system into one of ours.
pub(super) fn with_file(doing: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> GitError {
    move |source| GitError::Io { doing, path: path.into(), source }
}

/// Returns `a, b and 17 more`.
fn listed(names: &[String], none: &str) -> String {
    const SHOWN: usize = 8;
    if names.is_empty() {
        return none.to_owned();
    }
    let shown: Vec<String> =
        names.iter().take(SHOWN).map(|name| name.chars().filter(|c| !is_hidden(*c)).take(100).collect()).collect();
    match names.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// Returns an error for a faulty working copy.
pub(super) fn wrong(why: String) -> GitError {
    GitError::WorkingCopy { why }
}
