//! The part of a repository that is followed: a branch, the newest tag of a pattern, or one commit.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;

use git2::Oid;

use super::wildcard::matches;
use crate::git::error::GitError;
use belay_core::rollout::CommitId;

/// The part of a repository that is followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Follow {
    /// The branch that the repository's `HEAD` names.
    DefaultBranch,
    /// A branch, by its name without `refs/heads/`.
    Branch(String),
    /// The newest of the tags that a pattern with `*` and `?` fits. Newest is the highest version, number by number
    /// (`v1.10.0` after `v1.9.3`), a release after its candidates (`v2.0.0` after `v2.0.0-rc.1`); clocks play no part.
    Tag(String),
    /// One commit.
    Commit(CommitId),
}

impl fmt::Display for Follow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Follow::DefaultBranch => f.write_str("the default branch"),
            Follow::Branch(name) => write!(f, "branch {name}"),
            Follow::Tag(pattern) => write!(f, "tag {pattern}"),
            Follow::Commit(id) => write!(f, "commit {}", id.short()),
        }
    }
}

/// The offer of a repository: its references, and the branch that its `HEAD` names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::git) struct Offer {
    pub(in crate::git) references: BTreeMap<String, Oid>,
    pub(in crate::git) default_branch: Option<String>,
}

/// The references to fetch of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::git) struct Choice {
    /// The references, by their whole names, that the mirror is to have too.
    pub(in crate::git) references: BTreeMap<String, Oid>,
    /// The one of them that is followed; `None` for a commit.
    pub(in crate::git) head: Option<String>,
}

impl Offer {
    /// Returns the references of this offer that `follow` needs.
    pub(in crate::git) fn choose(&self, follow: &Follow, repository: &str) -> Result<Choice, GitError> {
        let branches = self.names("refs/heads/");
        if branches.is_empty() && self.names("refs/tags/").is_empty() {
            return Err(GitError::Empty { repository: repository.to_owned() });
        }
        let no_branch = |branch: &str| GitError::NoBranch {
            repository: repository.to_owned(),
            branch: branch.to_owned(),
            others: branches.clone(),
        };
        match follow {
            Follow::DefaultBranch => match &self.default_branch {
                Some(branch) => self.one(branch).ok_or_else(|| no_branch(branch)),
                None => Err(no_branch("at its HEAD")),
            },
            Follow::Branch(name) => self.one(name).ok_or_else(|| no_branch(name)),
            Follow::Tag(pattern) => self.tags(pattern, repository),
            Follow::Commit(_) => {
                let wanted = |name: &String| name.starts_with("refs/heads/") || name.starts_with("refs/tags/");
                let references = self.references.iter().filter(|(name, _)| wanted(name));
                Ok(Choice { references: references.map(|(name, id)| (name.clone(), *id)).collect(), head: None })
            }
        }
    }

    fn one(&self, branch: &str) -> Option<Choice> {
        let name = format!("refs/heads/{branch}");
        let id = *self.references.get(&name)?;
        Some(Choice { references: BTreeMap::from([(name.clone(), id)]), head: Some(name) })
    }

    fn tags(&self, pattern: &str, repository: &str) -> Result<Choice, GitError> {
        let tags = self.names("refs/tags/");
        let newest = newest(pattern, &tags).ok_or_else(|| GitError::NoTag {
            repository: repository.to_owned(),
            pattern: pattern.to_owned(),
            others: tags.clone(),
        })?;
        let name = format!("refs/tags/{newest}");
        let id = self.references[&name];
        Ok(Choice { references: BTreeMap::from([(name.clone(), id)]), head: Some(name) })
    }

    fn names(&self, under: &str) -> Vec<String> {
        self.references.keys().filter_map(|name| name.strip_prefix(under)).map(str::to_owned).collect()
    }
}

/// Returns the newest of the tags that a pattern fits.
fn newest<'a>(pattern: &str, tags: &'a [String]) -> Option<&'a String> {
    let fitting = tags.iter().filter(|tag| matches(pattern.as_bytes(), tag.as_bytes()));
    fitting.max_by(|one, other| by_version(one, other))
}

/// Compares as versions: numbers as numbers, and a version with a `-` suffix before the same one without.
fn by_version(one: &str, other: &str) -> Ordering {
    let halves = |text: &str| match text.split_once('-') {
        Some((release, candidate)) => (pieces(release), Some(pieces(candidate))),
        None => (pieces(text), None),
    };
    let ((release, candidate), (other_release, other_candidate)) = (halves(one), halves(other));
    let by_candidate = match (candidate, other_candidate) {
        (None, None) => Ordering::Equal,
        (None, Some(_)) => Ordering::Greater,
        (Some(_), None) => Ordering::Less,
        (Some(candidate), Some(other)) => candidate.cmp(&other),
    };
    release.cmp(&other_release).then(by_candidate).then_with(|| one.cmp(other))
}

/// A piece of a version. A number of any length: its digits without leading zeros, the longer one being larger.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Piece {
    Number(usize, String),
    Text(String),
}

fn pieces(text: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let of_one_kind = |c: char| c.is_ascii_digit() == first.is_ascii_digit();
        let end = rest.find(|c| !of_one_kind(c)).unwrap_or(rest.len());
        let (piece, after) = rest.split_at(end);
        let digits = piece.trim_start_matches('0');
        pieces.push(if first.is_ascii_digit() {
            Piece::Number(digits.len(), digits.to_owned())
        } else {
            Piece::Text(piece.to_owned())
        });
        rest = after;
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn newest_of(pattern: &str, tags: &[&str]) -> Option<String> {
        let tags: Vec<String> = tags.iter().map(|tag| (*tag).to_owned()).collect();
        newest(pattern, &tags).cloned()
    }

    #[test]
    fn the_newest_tag_is_the_highest_version() {
        let tags = ["v1.9.3", "v1.10.0", "v1.10.0-rc.2", "v1.2.0", "nightly", "v01.3"];
        assert_eq!(newest_of("v*", &tags).as_deref(), Some("v1.10.0"));
        assert_eq!(newest_of("v1.2*", &tags).as_deref(), Some("v1.2.0"));
        assert_eq!(newest_of("*-rc.*", &tags).as_deref(), Some("v1.10.0-rc.2"));
        assert_eq!(newest_of("nightly", &tags).as_deref(), Some("nightly"));
        assert_eq!(newest_of("w*", &tags), None);
        assert_eq!(newest_of("v*", &["v2.0.0-rc.10", "v2.0.0-rc.9"]).as_deref(), Some("v2.0.0-rc.10"));
        let huge = "v99999999999999999999999999999999";
        assert_eq!(newest_of("v*", &["v100", huge]).as_deref(), Some(huge));
    }

    proptest! {
        #[test]
        fn versions_have_one_order(a in "[v.0-9a-c-]{0,8}", b in "[v.0-9a-c-]{0,8}", c in "[v.0-9a-c-]{0,8}") {
            prop_assert_eq!(by_version(&a, &b), by_version(&b, &a).reverse());
            if by_version(&a, &b).is_le() && by_version(&b, &c).is_le() {
                prop_assert!(by_version(&a, &c).is_le());
            }
        }
    }
}
