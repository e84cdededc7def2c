//! belay's own copy of a repository: bare, in the state folder, never checked out.

use std::fs::{self, File, TryLockError};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use git2::{Oid, Repository};

use super::credentials::Credentials;
use super::error::{GitError, while_doing, with_file};
use super::graph::Graph;
use super::limits::Limits;
use super::location::Location;
use super::settings;

/// How many open handles are kept. Each has its own view of the packs; one is enough for a daemon that asks one thing
/// after the other.
const HANDLES: usize = 3;
/// Under which name the mirror remembers whose copy it is.
const WHOSE: &str = "belay.repository";

/// belay's own copy of a repository.
///
/// It is bare and nothing of it is ever checked out: what is in it is read object by object, so that no path, link or
/// submodule of a repository can touch the file system. All functions block, on the disk or on the network; call them
/// from `spawn_blocking`. The mirror can be shared between threads: reading goes on while a fetch is under way.
///
/// What was fetched is never thrown away, so that a commit that history names stays readable after a force-push.
pub struct Mirror {
    folder: PathBuf,
    pub(super) location: Location,
    pub(super) credentials: Credentials,
    pub(super) limits: Limits,
    handles: Mutex<Vec<Repository>>,
    writing: Mutex<()>,
    graph: Mutex<Graph>,
}

/// How a mirror was found when it was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Opened {
    /// As it was left.
    Existing,
    /// There was none.
    Fresh,
    /// There was one of another repository. It has been set aside.
    OtherRepository {
        /// Whose it was.
        was: String,
        /// Where it is now.
        set_aside: PathBuf,
    },
    /// It could not be read. It has been set aside.
    Damaged {
        /// What was wrong.
        why: String,
        /// Where it is now.
        set_aside: PathBuf,
    },
}

impl Mirror {
    /// Opens the mirror of a repository in `folder`, which is its own, or makes an empty one. One that is damaged, or of
    /// another repository, is set aside, and the answer says so; an older one that was set aside goes.
    ///
    /// # Errors
    ///
    /// When the folder can't be written, when another process is just making the mirror, and when the credentials are for
    /// another server than `location`'s.
    pub fn open(
        folder: &Path,
        location: Location,
        credentials: Credentials,
        limits: Limits,
    ) -> Result<(Mirror, Opened), GitError> {
        settings::apply();
        if credentials.origin().is_some() && credentials.origin() != location.origin() {
            return Err(GitError::Refused {
                repository: location.to_string(),
                message: "the credentials are for another server".to_owned(),
            });
        }
        let mirror = Mirror::over(folder, location, credentials, limits);
        if !folder.is_dir() {
            fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(folder)
                .map_err(with_file("make the folder", folder))?;
        }
        let opened = match mirror.look() {
            Found::Fine => Opened::Existing,
            _ => {
                let _lock = mirror.lock()?;
                // Somebody else may have made it meanwhile.
                mirror.make(mirror.look())?
            }
        };
        Ok((mirror, opened))
    }

    /// Opens a mirror that is there, for commands that only read beside a running daemon. Nothing is written.
    ///
    /// # Errors
    ///
    /// When there is none in `folder`, or it is another repository's.
    pub fn read_only(folder: &Path, location: Location, limits: Limits) -> Result<Mirror, GitError> {
        settings::apply();
        let mirror = Mirror::over(folder, location, Credentials::default(), limits);
        let path = mirror.path();
        match mirror.look() {
            Found::Fine => Ok(mirror),
            Found::Nothing => Err(GitError::NoRepository { path, why: "nothing has been fetched yet".to_owned() }),
            Found::Other(was) => Err(GitError::NoRepository { path, why: format!("this is a copy of {was}") }),
            Found::Damaged(message) => Err(GitError::DamagedMirror { path, message }),
        }
    }

    /// Opens the mirror that is in `folder`, whosever it is, for commands that read beside a running daemon. Nothing is
    /// written. `None` where there is none.
    ///
    /// # Errors
    ///
    /// When it is damaged.
    pub fn kept(folder: &Path, limits: Limits) -> Result<Option<Mirror>, GitError> {
        settings::apply();
        let path = folder.join("repository.git");
        if fs::symlink_metadata(&path).is_err() {
            return Ok(None);
        }
        let whose = Repository::open_bare(&path).and_then(|repository| repository.config()?.get_string(WHOSE));
        let damaged = |message: String| GitError::DamagedMirror { path: path.clone(), message };
        let location: Location = whose
            .map_err(|error| damaged(error.message().to_owned()))?
            .parse()
            .map_err(|error: super::location::InvalidLocation| damaged(error.to_string()))?;
        Mirror::read_only(folder, location, limits).map(Some)
    }

    /// Sets the mirror aside and begins an empty one, for when something in it turned out to be unreadable. The next
    /// fetch fills it. Returns where the old one is.
    ///
    /// # Errors
    ///
    /// When the folder can't be written, or another process holds the mirror.
    pub fn start_over(&self) -> Result<PathBuf, GitError> {
        let _lock = self.lock()?;
        self.make(Found::Damaged("started over".to_owned()))?;
        self.unpoisoned_handles().clear();
        *self.graph.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Graph::default();
        Ok(self.beside("damaged"))
    }

    /// The repository that it is a copy of.
    #[must_use]
    pub fn location(&self) -> &Location {
        &self.location
    }

    /// The folder of the copy itself, a bare repository like any other.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.folder.join("repository.git")
    }

    fn over(folder: &Path, location: Location, credentials: Credentials, limits: Limits) -> Mirror {
        Mirror {
            folder: folder.to_owned(),
            location,
            credentials,
            limits,
            handles: Mutex::new(Vec::new()),
            writing: Mutex::new(()),
            graph: Mutex::new(Graph::default()),
        }
    }

    /// Runs `work` with a handle on the copy. Handles can't be shared between threads, so each caller gets its own.
    pub(super) fn with<T>(&self, work: impl FnOnce(&Repository) -> Result<T, GitError>) -> Result<T, GitError> {
        let kept = self.unpoisoned_handles().pop();
        let handle = match kept {
            Some(handle) => handle,
            None => Repository::open_bare(self.path()).map_err(|error| self.damaged(&error))?,
        };
        let result = work(&handle);
        // A handle that has seen an error may hold on to files that are gone.
        if result.is_ok() {
            let mut handles = self.unpoisoned_handles();
            if handles.len() < HANDLES {
                handles.push(handle);
            }
        }
        result
    }

    /// Runs `work` with the graph of the commits known so far.
    pub(super) fn with_graph<T>(&self, work: impl FnOnce(&mut Graph) -> Result<T, GitError>) -> Result<T, GitError> {
        // A panic inside leaves the graph incomplete at worst, never wrong: nodes are added last.
        work(&mut self.graph.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    /// What an unreadable object of the copy means.
    pub(super) fn damaged(&self, error: &git2::Error) -> GitError {
        GitError::DamagedMirror { path: self.path(), message: error.message().to_owned() }
    }

    /// Keeps everybody else from writing the copy. Other threads of this process wait for each other; another process
    /// that is writing is an error.
    pub(super) fn lock(&self) -> Result<Lock<'_>, GitError> {
        let threads = self.writing.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let path = self.folder.join("lock");
        let file = File::create(&path).map_err(with_file("make", &path))?;
        match file.try_lock() {
            Ok(()) => Ok(Lock { file, _threads: threads }),
            Err(TryLockError::WouldBlock) => Err(GitError::Busy { path: self.folder.clone() }),
            Err(TryLockError::Error(source)) => Err(GitError::Io { doing: "lock", path, source }),
        }
    }

    fn unpoisoned_handles(&self) -> std::sync::MutexGuard<'_, Vec<Repository>> {
        self.handles.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn beside(&self, what: &str) -> PathBuf {
        self.folder.join(format!("repository.git.{what}"))
    }

    fn look(&self) -> Found {
        let path = self.path();
        if fs::symlink_metadata(&path).is_err() {
            return Found::Nothing;
        }
        match self.examine(&path) {
            Ok(found) => found,
            Err(error) => Found::Damaged(error.message().to_owned()),
        }
    }

    /// Whose it is, and whether what its references name is there.
    fn examine(&self, path: &Path) -> Result<Found, git2::Error> {
        // Not `open`: the state folder is belay's own, and root may look at it too.
        let repository = Repository::open_bare(path)?;
        let whose = repository.config()?.get_string(WHOSE)?;
        if whose != self.location.to_string() {
            return Ok(Found::Other(whose));
        }
        let odb = repository.odb()?;
        for reference in repository.references()? {
            if let Some(target) = reference?.target() {
                odb.read_header(target)?;
            }
        }
        Ok(Found::Fine)
    }

    fn make(&self, found: Found) -> Result<Opened, GitError> {
        let opened = match found {
            Found::Fine => return Ok(Opened::Existing),
            Found::Nothing => Opened::Fresh,
            Found::Other(was) => Opened::OtherRepository { was, set_aside: self.set_aside("of-another")? },
            Found::Damaged(why) => Opened::Damaged { why, set_aside: self.set_aside("damaged")? },
        };
        // Made under another name, so that a belay that is killed here leaves nothing half made.
        let new = self.beside("new");
        remove(&new)?;
        let made = Repository::init_bare(&new).and_then(|repository| {
            let mut config = repository.config()?;
            // A redirect to another server is an error that says so; to another path of the same one it is followed.
            config.set_bool("http.followRedirects", false)?;
            // Nobody may clean up here: history names commits that no branch has any more.
            config.set_i32("gc.auto", 0)?;
            config.set_str(WHOSE, &self.location.to_string())
        });
        made.map_err(while_doing(format!("make a repository in {}", new.display())))?;
        fs::rename(&new, self.path()).map_err(with_file("rename", new))?;
        Ok(opened)
    }

    fn set_aside(&self, name: &str) -> Result<PathBuf, GitError> {
        let to = self.beside(name);
        remove(&to)?;
        fs::rename(self.path(), &to).map_err(with_file("rename", self.path()))?;
        Ok(to)
    }
}

/// The right to write the copy, until it is dropped.
pub(super) struct Lock<'a> {
    file: File,
    _threads: std::sync::MutexGuard<'a, ()>,
}

impl Drop for Lock<'_> {
    fn drop(&mut self) {
        // Closing it would not do: a process that another thread is just starting has a copy of it for a moment.
        if let Err(error) = self.file.unlock() {
            tracing::warn!(%error, "failed to unlock the mirror");
        }
    }
}

enum Found {
    Fine,
    Nothing,
    Other(String),
    Damaged(String),
}

fn remove(path: &Path) -> Result<(), GitError> {
    let removed = match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(_) => Ok(()),
    };
    removed.map_err(with_file("remove", path))
}

/// The id that libgit2 knows a commit by.
pub(super) fn oid(id: &belay_core::rollout::CommitId) -> Result<Oid, GitError> {
    Oid::from_str(id.as_str()).map_err(while_doing("read a commit id"))
}

/// The id that the other rooms know a commit by.
pub(super) fn commit_id(oid: Oid) -> belay_core::rollout::CommitId {
    oid.to_string().parse().expect("libgit2 without SHA-256 writes 40 hexadecimal digits")
}
