//! The facts about a commit, the commit that a few digits mean, and the relation of two.

use git2::{ErrorCode, Repository};
use jiff::Timestamp;

use super::limits::PARENTS;
use crate::git::error::GitError;
use crate::git::mirror::{Mirror, commit_id, oid};
use belay_core::manifest::is_hidden;
use belay_core::rollout::{Commit, CommitId, Person};

/// The longest subject that is kept, in characters. A commit's message can have any size.
const SUBJECT: usize = 1000;
/// The longest name or address that is kept, in characters.
const NAME: usize = 200;
/// The largest part of a message that is read, in bytes: later text, trailers among it, is not seen.
const MESSAGE: usize = 1 << 20;
/// The number of trailers that are kept, and the longest one.
const TRAILERS: usize = 100;
/// The number of digits that libgit2 resolves by itself.
const DIGITS: usize = 4;
/// The number of candidates that are named when digits fit several commits.
const CANDIDATES: usize = 20;

/// The commit that some digits mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResolvedRevision {
    /// This one.
    One(CommitId),
    /// Several begin so; the first few, by id.
    Several(Vec<CommitId>),
    /// None.
    None,
}

/// The relation of a branch's head to the one before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Relation {
    /// It is the same.
    Same,
    /// It comes from it: commits were added.
    Forward,
    /// It is one that the earlier head comes from: commits were taken away.
    Back,
    /// Each has commits that the other has not: history was rewritten after the last common commit, if there is one.
    Rewritten(Option<CommitId>),
}

impl Mirror {
    /// Returns the facts about a commit.
    ///
    /// # Errors
    ///
    /// [`GitError::NoCommit`] when the mirror does not have it.
    pub fn commit(&self, id: &CommitId) -> Result<Commit, GitError> {
        self.with(|repository| match repository.find_commit(oid(id)?) {
            Ok(commit) => Ok(told(&commit)),
            Err(error) if error.code() == ErrorCode::NotFound => {
                Err(GitError::NoCommit { repository: self.location.to_string(), commit: id.clone() })
            }
            Err(error) => Err(self.damaged(&error)),
        })
    }

    /// Returns true when the mirror has a commit.
    ///
    /// # Errors
    ///
    /// When the mirror can't be read.
    pub fn contains(&self, id: &CommitId) -> Result<bool, GitError> {
        match self.commit(id) {
            Ok(_) => Ok(true),
            Err(GitError::NoCommit { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Returns the commit of the mirror that begins with these digits.
    ///
    /// # Errors
    ///
    /// When the mirror can't be read, or has more commits than [`crate::git::Limits::history`].
    pub fn resolve(&self, digits: &str) -> Result<ResolvedRevision, GitError> {
        let digits = digits.to_ascii_lowercase();
        if digits.is_empty() || digits.len() > 40 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Ok(ResolvedRevision::None);
        }
        self.with(|repository| {
            if digits.len() >= DIGITS {
                match repository.find_commit_by_prefix(&digits) {
                    Ok(commit) => return Ok(ResolvedRevision::One(commit_id(commit.id()))),
                    Err(error) if error.code() == ErrorCode::NotFound => return Ok(ResolvedRevision::None),
                    // Perhaps only one of them is a commit.
                    Err(error) if error.code() == ErrorCode::Ambiguous => {}
                    Err(error) => return Err(self.damaged(&error)),
                }
            }
            let mut found = self.all_commits(repository)?;
            found.retain(|id| id.as_str().starts_with(&digits));
            found.sort();
            found.truncate(CANDIDATES);
            Ok(match found.len() {
                0 => ResolvedRevision::None,
                1 => ResolvedRevision::One(found.remove(0)),
                _ => ResolvedRevision::Several(found),
            })
        })
    }

    /// Returns the relation of `to` to `from`. Exact, whatever the commits' clocks say.
    ///
    /// # Errors
    ///
    /// When one of them is not in the mirror, or the history is longer than [`crate::git::Limits::history`].
    pub fn relation(&self, from: &CommitId, to: &CommitId) -> Result<Relation, GitError> {
        if from == to {
            return Ok(Relation::Same);
        }
        self.with(|repository| {
            if self.comes_from_soon(repository, oid(to)?, oid(from)?) {
                return Ok(Relation::Forward);
            }
            self.with_graph(|graph| {
                let mut load = |id: &CommitId| {
                    graph.load(repository, oid(id)?, self.limits.history, |error| self.missing(id, error))
                };
                let (from, to) = (load(from)?, load(to)?);
                Ok(match graph.common(from, to) {
                    Some(common) if common == from => Relation::Forward,
                    Some(common) if common == to => Relation::Back,
                    common => Relation::Rewritten(common.map(|common| commit_id(graph.id(common)))),
                })
            })
        })
    }

    /// Returns the commits that `to` comes from and `from` does not, `to` first, each before all that it comes from;
    /// the first `limit` of them.
    ///
    /// # Errors
    ///
    /// As for [`Mirror::relation`].
    pub fn between(&self, from: Option<&CommitId>, to: &CommitId, limit: usize) -> Result<Vec<CommitId>, GitError> {
        self.with(|repository| {
            self.with_graph(|graph| {
                let mut load = |id: &CommitId| {
                    graph.load(repository, oid(id)?, self.limits.history, |error| self.missing(id, error))
                };
                let from = from.map(&mut load).transpose()?;
                let to_node = load(to)?;
                let between = graph.between(from, to_node, limit);
                Ok(between.into_iter().map(|node| commit_id(graph.id(node))).collect())
            })
        })
    }

    /// Returns the error for a commit that could not be loaded: it, or one that it comes from, is missing.
    pub(in crate::git) fn missing(&self, id: &CommitId, error: &git2::Error) -> GitError {
        if error.code() == ErrorCode::NotFound && error.message().contains(id.as_str()) {
            return GitError::NoCommit { repository: self.location.to_string(), commit: id.clone() };
        }
        self.damaged(error)
    }

    fn all_commits(&self, repository: &Repository) -> Result<Vec<CommitId>, GitError> {
        let references = self.references(repository)?;
        self.with_graph(|graph| {
            for tip in references.values() {
                if let Ok(commit) = repository.find_object(*tip, None).and_then(|object| object.peel_to_commit()) {
                    graph.load(repository, commit.id(), self.limits.history, |error| self.damaged(error))?;
                }
            }
            Ok(graph.ids().map(commit_id).collect())
        })
    }
}

pub(in crate::git) fn told(commit: &git2::Commit<'_>) -> Commit {
    let message = commit.message_bytes();
    let message = if message.len() > MESSAGE { message.get(..MESSAGE).unwrap_or_default() } else { message };
    let message = String::from_utf8_lossy(message);
    let subject = message.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let author = commit.author();
    Commit {
        id: commit_id(commit.id()),
        subject: clean(subject, SUBJECT),
        author: Person {
            name: clean(&String::from_utf8_lossy(author.name_bytes()), NAME),
            email: clean(&String::from_utf8_lossy(author.email_bytes()), NAME),
        },
        authored: time(author.when()),
        committed: time(commit.committer().when()),
        parents: commit.parent_ids().take(PARENTS).map(commit_id).collect(),
        trailers: trailers(&message),
    }
}

/// Returns the trailers as Git reads them: `Key: value` lines at the end of the message.
fn trailers(message: &str) -> Vec<(String, String)> {
    // Without NUL, at which libgit2 would stop.
    let message = message.replace('\0', " ");
    let Ok(trailers) = git2::message_trailers_bytes(message) else { return Vec::new() };
    let text = |bytes: &[u8], limit| clean(&String::from_utf8_lossy(bytes), limit);
    trailers.iter().take(TRAILERS).map(|(key, value)| (text(key, NAME), text(value, SUBJECT))).collect()
}

/// Returns a text without control characters, which would let a commit write to the terminal of its reader, and not too
/// long.
fn clean(text: &str, limit: usize) -> String {
    let visible = text.chars().filter(|c| !is_hidden(*c));
    visible.take(limit).collect::<String>().trim().to_owned()
}

/// Returns the time, or the nearest one that a [`Timestamp`] can be.
fn time(when: git2::Time) -> Timestamp {
    Timestamp::from_second(when.seconds()).unwrap_or(if when.seconds() < 0 { Timestamp::MIN } else { Timestamp::MAX })
}
