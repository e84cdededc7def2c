//! A person's working copy: manifests edited in it and committed. For the commands only; the daemon has none.
//!
//! Git's hooks are not run, and neither are filters that are programs of their own (as LFS is): libgit2 knows neither.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

use git2::build::TreeUpdateBuilder;
use git2::{ErrorCode, FileMode, Oid, Repository, RepositoryInitOptions, RepositoryOpenFlags, RepositoryState, Status};
use jiff::Timestamp;

use super::identity;
use super::signing::{self, Signing};
use crate::git::error::{GitError, while_doing, with_file, wrong};
use crate::git::mirror::commit_id;
use crate::git::mirror::settings;
use crate::git::read::user_config;
use crate::git::transport::location::Location;
use belay_core::rollout::CommitId;

/// A repository with files checked out, on a branch.
pub struct WorkingCopy {
    repository: Repository,
    root: PathBuf,
}

/// A file to be committed: its path from the root of the working copy, and its new content; `None` deletes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// The path.
    pub path: String,
    /// The new content.
    pub content: Option<Vec<u8>>,
}

impl WorkingCopy {
    /// Opens the working copy that a path lies in.
    ///
    /// # Errors
    ///
    /// When it lies in none, or in one that belongs to another user.
    pub fn open(path: &Path) -> Result<WorkingCopy, GitError> {
        settings::apply();
        // The variables that Git itself reads of its environment, GIT_CONFIG_GLOBAL for one, count here too.
        let flags = RepositoryOpenFlags::FROM_ENV | RepositoryOpenFlags::CROSS_FS;
        let found = Repository::open_ext(path, flags, std::iter::empty::<&Path>());
        let repository = found.map_err(|error| match error.code() {
            ErrorCode::Owner => GitError::ForeignOwner { path: path.to_owned() },
            _ => {
                wrong(format!("{} is not in a Git working copy; go to one, or make one with git clone", path.display()))
            }
        })?;
        WorkingCopy::over(repository, path)
    }

    /// Makes an empty repository with a working copy, whose first commit will be on `branch`. `name` and `email` are those
    /// of its author.
    ///
    /// # Errors
    ///
    /// When the folder can't be written.
    pub fn create(path: &Path, branch: &str, name: &str, email: &str) -> Result<WorkingCopy, GitError> {
        settings::apply();
        let mut options = RepositoryInitOptions::new();
        options.initial_head(branch);
        let making = || while_doing(format!("make a repository in {}", path.display()));
        let repository = Repository::init_opts(path, &options).map_err(making())?;
        let copy = WorkingCopy::over(repository, path)?;
        copy.set_author(name, email)?;
        Ok(copy)
    }

    /// Names the author of the commits from here on, for this working copy alone.
    ///
    /// # Errors
    ///
    /// When the configuration can't be written.
    pub fn set_author(&self, name: &str, email: &str) -> Result<(), GitError> {
        let naming = || while_doing("name the author of commits");
        let mut config = self.repository.config().map_err(naming())?;
        config.set_str("user.name", name).map_err(naming())?;
        config.set_str("user.email", email).map_err(naming())
    }

    /// Names the repository that the present branch is pushed to: a path on this machine, or a URL. From then on a plain
    /// `git push` goes there too, as in a clone.
    ///
    /// # Errors
    ///
    /// When the configuration can't be written, or there is one already.
    pub fn set_origin(&self, location: &Location) -> Result<(), GitError> {
        let naming = || while_doing("name the repository to push to");
        let branch = self.branch()?;
        self.repository.remote("origin", &location.to_string()).map_err(naming())?;
        let mut config = self.repository.config().map_err(naming())?;
        config.set_str(&format!("branch.{branch}.remote"), "origin").map_err(naming())?;
        config.set_str(&format!("branch.{branch}.merge"), &format!("refs/heads/{branch}")).map_err(naming())
    }

    /// Returns the folder that it is in.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns true when Git ignores a file, by its path from the root: it can't be committed by accident, and no
    /// commit has it. A file for which that can't be found out is not ignored.
    #[must_use]
    pub fn ignores(&self, path: &str) -> bool {
        let is_known = || self.repository.index().is_ok_and(|index| index.get_path(Path::new(path), 0).is_some());
        self.repository.is_path_ignored(path).unwrap_or(false) && !is_known()
    }

    /// Returns the repository behind it.
    pub(in crate::git) fn repository(&self) -> &Repository {
        &self.repository
    }

    /// Returns the branch that it is on.
    ///
    /// # Errors
    ///
    /// When it is on none, or in the middle of a merge, rebase or the like.
    pub fn branch(&self) -> Result<String, GitError> {
        if self.repository.state() != RepositoryState::Clean {
            return Err(wrong(format!(
                "{} is in the middle of a merge, rebase or the like; finish it first",
                self.root.display()
            )));
        }
        let head = self.repository.find_reference("HEAD").map_err(while_doing("read HEAD"))?;
        let target = head.symbolic_target().ok().flatten().and_then(|target| target.strip_prefix("refs/heads/"));
        target.map(str::to_owned).ok_or_else(|| {
            wrong(format!("{} is on no branch (detached HEAD); go to one with git switch", self.root.display()))
        })
    }

    /// Refuses a path at which something is that is not committed, or that can't be edited here.
    ///
    /// # Errors
    ///
    /// [`GitError::WorkingCopy`], saying why.
    pub fn check(&self, path: &str) -> Result<(), GitError> {
        self.place(path)?;
        match self.repository.status_file(Path::new(path)) {
            Ok(status) if status.is_empty() => Ok(()),
            Ok(status) if status.contains(Status::IGNORED) => {
                Err(wrong(format!("{path} is ignored by Git (.gitignore)")))
            }
            Ok(status) if status.contains(Status::WT_NEW) => {
                Err(wrong(format!("{path} is not known to Git; commit it first")))
            }
            Ok(_) => Err(wrong(format!("{path} has changes that are not committed; commit or stash them first"))),
            // Neither committed nor on the disk: a new one.
            Err(error) if error.code() == ErrorCode::NotFound => Ok(()),
            Err(error) => Err(while_doing(format!("look at {path}"))(error)),
        }
    }

    /// Writes files and commits them, and nothing else: other staged or changed files stay so. Author and committer are
    /// those of Git's environment and configuration, and so is whether the commit is signed.
    ///
    /// # Errors
    ///
    /// When a file has changes that are not committed, when nothing would change, when no author is configured, when the
    /// commit can't be signed. Then everything is as it was.
    pub fn commit(
        &self,
        edits: &[Edit],
        message: &str,
        signing: Signing,
        now: Timestamp,
    ) -> Result<CommitId, GitError> {
        self.branch()?;
        for edit in edits {
            self.check(&edit.path)?;
        }
        let parent = match self.repository.head() {
            Ok(head) => Some(head.peel_to_commit().map_err(while_doing("read the newest commit"))?),
            Err(_) => None,
        };
        let tree = self.tree(edits, parent.as_ref())?;
        if parent.as_ref().is_some_and(|parent| parent.tree_id() == tree) || (parent.is_none() && edits.is_empty()) {
            return Err(wrong("nothing would change".to_owned()));
        }
        let author = identity::author(&self.repository, now)?;
        let committer = identity::committer(&self.repository, now)?;
        let tree = self.repository.find_tree(tree).map_err(while_doing("read the new tree"))?;
        let parents: Vec<_> = parent.iter().collect();
        let text = self.repository.commit_create_buffer(&author, &committer, message, &tree, &parents);
        let text = text.map_err(while_doing("make a commit"))?;
        let id = signing::write(&self.repository, &text, &committer, signing)?;
        let before = self.read_files(edits)?;
        let done = self
            .write_files(edits)
            .and_then(|()| self.stage(edits))
            .and_then(|()| self.move_branch(id, parent.as_ref().map(git2::Commit::id), message));
        if let Err(error) = done {
            self.write_files(&before)?;
            self.stage(&before)?;
            return Err(error);
        }
        Ok(commit_id(id))
    }

    fn over(repository: Repository, path: &Path) -> Result<WorkingCopy, GitError> {
        let root = repository.workdir().map(Path::to_owned);
        let root = root.ok_or_else(|| wrong(format!("{} is a repository without a working copy", path.display())))?;
        Ok(WorkingCopy { repository, root })
    }

    pub(in crate::git) fn setting(&self, name: &str) -> Option<String> {
        user_config::get(&self.repository, name)
    }

    /// Returns a path's place on the disk, if nothing on the way there leads elsewhere.
    fn place(&self, path: &str) -> Result<PathBuf, GitError> {
        let mut place = self.root.clone();
        for component in Path::new(path).components() {
            match component {
                Component::Normal(name) if !name.eq_ignore_ascii_case(".git") => place.push(name),
                _ => return Err(wrong(format!("{path} is not a path inside the working copy"))),
            }
            if fs::symlink_metadata(&place).is_ok_and(|metadata| metadata.is_symlink()) {
                return Err(wrong(format!("{path} is, or goes through, a symbolic link; edit what it leads to")));
            }
        }
        if place == self.root || place.is_dir() {
            return Err(wrong(format!("{path} is a folder")));
        }
        Ok(place)
    }

    /// Returns the tree that the commit is to have: that of the parent, with these files in it.
    fn tree(&self, edits: &[Edit], parent: Option<&git2::Commit<'_>>) -> Result<Oid, GitError> {
        let making = || while_doing("make the new tree");
        let base = match parent {
            Some(parent) => parent.tree().map_err(making())?,
            None => {
                let empty = self.repository.treebuilder(None).and_then(|builder| builder.write()).map_err(making())?;
                self.repository.find_tree(empty).map_err(making())?
            }
        };
        let mut builder = TreeUpdateBuilder::new();
        for edit in edits {
            let there = base.get_path(Path::new(&edit.path)).ok();
            match &edit.content {
                Some(content) => {
                    // With the name, so that line ends are written as Git's configuration wants them.
                    let mut writer = self.repository.blob_writer(Some(Path::new(&edit.path))).map_err(making())?;
                    writer.write_all(content).map_err(with_file("write", &edit.path))?;
                    let blob = writer.commit().map_err(making())?;
                    let executable = there.is_some_and(|there| there.filemode() == i32::from(FileMode::BlobExecutable));
                    let mode = if executable { FileMode::BlobExecutable } else { FileMode::Blob };
                    builder.upsert(edit.path.as_str(), blob, mode);
                }
                None if there.is_some() => drop(builder.remove(edit.path.as_str())),
                None => return Err(wrong(format!("there is no {} to be deleted", edit.path))),
            }
        }
        builder.create_updated(&self.repository, &base).map_err(making())
    }

    /// Returns the present content of the files.
    fn read_files(&self, edits: &[Edit]) -> Result<Vec<Edit>, GitError> {
        let read = |edit: &Edit| {
            let content = match fs::read(self.place(&edit.path)?) {
                Ok(content) => Some(content),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
                Err(error) => return Err(with_file("read", &edit.path)(error)),
            };
            Ok(Edit { path: edit.path.clone(), content })
        };
        edits.iter().map(read).collect()
    }

    /// Writes the files, each as a whole or not at all.
    fn write_files(&self, edits: &[Edit]) -> Result<(), GitError> {
        for edit in edits {
            let place = self.place(&edit.path)?;
            let Some(content) = &edit.content else {
                if place.exists() {
                    fs::remove_file(&place).map_err(with_file("delete", &place))?;
                }
                continue;
            };
            let folder = place.parent().unwrap_or(&self.root);
            fs::create_dir_all(folder).map_err(with_file("make the folder", folder))?;
            let mut file = tempfile::NamedTempFile::new_in(folder).map_err(with_file("write in", folder))?;
            file.write_all(content).map_err(with_file("write", &place))?;
            let mode = fs::metadata(&place).map_or(0o644, |metadata| metadata.permissions().mode());
            let permissions = fs::Permissions::from_mode(mode);
            file.as_file().set_permissions(permissions).map_err(with_file("write", &place))?;
            file.persist(&place).map_err(|error| with_file("write", &place)(error.error))?;
        }
        Ok(())
    }

    fn stage(&self, edits: &[Edit]) -> Result<(), GitError> {
        let staging = || while_doing("write the index");
        let mut index = self.repository.index().map_err(staging())?;
        index.read(false).map_err(staging())?;
        for edit in edits {
            let path = Path::new(&edit.path);
            match edit.content {
                Some(_) => index.add_path(path).map_err(staging())?,
                None => index.remove_path(path).map_err(staging())?,
            }
        }
        index.write().map_err(staging())
    }

    /// Moves the branch from the parent to the commit, unless somebody else has moved it meanwhile.
    fn move_branch(&self, to: Oid, from: Option<Oid>, message: &str) -> Result<(), GitError> {
        let name = format!("refs/heads/{}", self.branch()?);
        let log = format!("commit: {}", message.lines().next().unwrap_or_default());
        let moved = match from {
            Some(from) => self.repository.reference_matching(&name, to, true, from, &log),
            None => self.repository.reference(&name, to, false, &log),
        };
        moved.map(drop).map_err(|error| match error.code() {
            ErrorCode::Modified | ErrorCode::Exists => {
                wrong("somebody has committed here meanwhile; look at it and try again".to_owned())
            }
            _ => while_doing("move the branch")(error),
        })
    }
}

/// Makes an empty bare repository, to be pushed to, whose default branch is `branch`.
///
/// # Errors
///
/// When the folder can't be written.
pub fn create_bare(path: &Path, branch: &str) -> Result<(), GitError> {
    settings::apply();
    let mut options = RepositoryInitOptions::new();
    options.bare(true).initial_head(branch);
    let made = Repository::init_opts(path, &options);
    made.map(drop).map_err(while_doing(format!("make a repository in {}", path.display())))
}
