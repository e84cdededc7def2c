//! The repositories at hand: the daemon's mirrors where its state folder is here, and the working copy that one is in.

use std::path::Path;

use crate::git::{GitError, Limits, Mirror, ResolvedRevision, WorkingCopy};
use belay_core::rollout::{Commit, CommitId};

/// The number of digits that the beginning of a commit's id must have.
const DIGITS: usize = 4;

/// The Git repositories at hand.
pub(in crate::cli) struct Repositories {
    /// The mirrors by their sources' names.
    pub mirrors: Vec<(String, Mirror)>,
    here: Option<WorkingCopy>,
}

impl Repositories {
    /// Returns those below a state folder, and the one here. A repository that can't be read counts as missing.
    pub(in crate::cli) fn at_hand(state: &Path) -> Repositories {
        let folders = std::fs::read_dir(state.join("sources")).into_iter().flatten().flatten();
        let mut mirrors: Vec<(String, Mirror)> = folders
            .filter_map(|entry| {
                let mirror = Mirror::kept(&entry.path(), Limits::default()).ok().flatten()?;
                Some((entry.file_name().to_string_lossy().into_owned(), mirror))
            })
            .collect();
        mirrors.sort_by(|(one, _), (other, _)| one.cmp(other));
        Repositories { mirrors, here: WorkingCopy::open(Path::new(".")).ok() }
    }

    /// Returns true when there is none.
    pub(in crate::cli) fn is_empty(&self) -> bool {
        self.mirrors.is_empty() && self.here.is_none()
    }

    /// Returns the known facts about a commit.
    pub(in crate::cli) fn commit(&self, id: &CommitId) -> Option<Commit> {
        let mirrored = self.mirrors.iter().find_map(|(_, mirror)| mirror.commit(id).ok());
        mirrored.or_else(|| self.here.as_ref()?.look_up(id.as_str()).ok().flatten())
    }

    /// Returns the commit that somebody means.
    ///
    /// # Errors
    /// Fails when several begin so: the error names all of them, as far as they are known.
    pub(in crate::cli) fn look_up(&self, digits: &str) -> anyhow::Result<Option<Commit>> {
        for (_, mirror) in self.mirrors.iter().filter(|_| digits.len() >= DIGITS) {
            match mirror.resolve(digits)? {
                ResolvedRevision::One(id) => return Ok(Some(mirror.commit(&id)?)),
                ResolvedRevision::Several(ids) => return Err(ambiguous(digits, &ids, |id| mirror.commit(id).ok())),
                ResolvedRevision::None => {}
            }
        }
        Ok(self.here.as_ref().map(|here| here.look_up(digits)).transpose()?.flatten())
    }

    /// Returns the commit that a name means; `None` if it is the beginning of an id that nobody here knows.
    pub(in crate::cli) fn named(&self, name: &str) -> anyhow::Result<Option<CommitId>> {
        if let Ok(id) = name.parse() {
            return Ok(Some(id));
        }
        let is_id = name.bytes().all(|digit| digit.is_ascii_hexdigit());
        match self.look_up(name) {
            Ok(Some(commit)) => Ok(Some(commit.id)),
            Ok(None) | Err(_) if is_id => Ok(None),
            Ok(None) => anyhow::bail!("there is no commit {name:?} in a working copy here; name it by its id"),
            Err(error) => Err(error),
        }
    }

    /// Returns the paths that a commit changed against its first parent, from the root; a few of them.
    pub(in crate::cli) fn paths(&self, commit: &Commit) -> Result<Vec<String>, GitError> {
        for (_, mirror) in &self.mirrors {
            if mirror.contains(&commit.id)? {
                let changes = mirror.changes(commit.parents.first(), &commit.id, "")?;
                return Ok(changes.changes.into_iter().map(|change| change.path).collect());
            }
        }
        Ok(Vec::new())
    }
}

/// Returns the commit that a name means to a command without the daemon's mirrors: an id, or a revision of the working copy
/// here. `None` if it is the beginning of an id that nobody here knows.
pub(in crate::cli) fn working_copy_commit(name: &str) -> anyhow::Result<Option<CommitId>> {
    let here = WorkingCopy::open(Path::new(".")).ok();
    Repositories { mirrors: Vec::new(), here }.named(name)
}

/// Returns the error for digits that fit several commits, with the facts about each of them.
pub(in crate::cli) fn ambiguous(
    digits: &str,
    ids: &[CommitId],
    told: impl Fn(&CommitId) -> Option<Commit>,
) -> anyhow::Error {
    let line = |id: &CommitId| {
        let subject = told(id).map(|commit| format!("  {} ({})", commit.subject, commit.author.name));
        format!("  {}{}", &id.as_str()[..12], crate::cli::output::plain(&subject.unwrap_or_default()))
    };
    let lines: Vec<String> = ids.iter().map(line).collect();
    anyhow::anyhow!("{digits:?} is the beginning of several commits; write more of it:\n{}", lines.join("\n"))
}
