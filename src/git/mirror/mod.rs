//! belay's own copy of a repository: bare, in the state folder, never checked out.

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicIsize, Ordering};

use git2::{Oid, Repository};

use self::damage::{clear_leftovers, irregular, of_the_machine, unreadable};
use self::memory::Used;
use super::error::{GitError, while_doing, with_file};
use crate::git::read::graph::Graph;
use crate::git::read::limits::Limits;
use crate::git::transport::credentials::Credentials;
use crate::git::transport::location::Location;
use crate::regular_file::{check_own, make_own};
use crate::state_folder::StateFolder;

/// The setting in which the mirror remembers its repository.
const WHOSE: &str = "belay.repository";

/// The state in which it is found.
enum MirrorFound {
    Fine,
    Nothing,
    Other(String),
    Damaged(String),
}

pub(in crate::git) mod attempt;
pub(in crate::git) mod damage;
pub(in crate::git) mod garbage;
pub(in crate::git) mod memory;
pub(in crate::git) mod packs;
pub(in crate::git) mod pins;
pub(in crate::git) mod settings;
mod state;

/// The number of open handles that are kept. Each has its own view of the packs; one is enough for a daemon that asks
/// one thing after the other.
const HANDLES: usize = 3;
/// belay's own copy of a repository.
///
/// It is bare and nothing of it is ever checked out: its content is read object by object, so that no path, link or
/// submodule of a repository can touch the file system. All functions block, on the disk or on the network; call them
/// from `spawn_blocking`. The mirror can be shared between threads: reading goes on while a fetch is under way.
///
/// A commit that is pinned, because history names it, stays readable after a force-push; unreachable objects are
/// collected.
pub struct Mirror {
    folder: StateFolder,
    pub(super) location: Location,
    pub(super) credentials: Credentials,
    pub(super) limits: Limits,
    handles: Mutex<Vec<Repository>>,
    /// The approximate number of bytes that the handles keep.
    kept: AtomicIsize,
    writing: Mutex<()>,
    graph: Mutex<Graph>,
    /// The number of attempts to read it that are under way, one within the other.
    attempts: Mutex<u32>,
}

/// The state of a mirror when it was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Opened {
    /// As it was left.
    Existing,
    /// There was none.
    Fresh,
    /// There was one of another repository. It has been set aside.
    OtherRepository {
        /// Its former repository.
        was: String,
        /// Its present path.
        set_aside: PathBuf,
    },
    /// It could not be read. It has been set aside.
    Damaged {
        /// The fault.
        why: String,
        /// Its present path.
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
        folder: impl Into<StateFolder>,
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
        let mirror = Mirror::over(folder.into(), location, credentials, limits);
        let opened = mirror.find_or_make().map_err(with_advice)?;
        Ok((mirror, opened))
    }

    fn find_or_make(&self) -> Result<Opened, GitError> {
        self.make_folder()?;
        for name in ["lock", "attempt", "test"] {
            let path = self.folder.join(name);
            check_own(&path).map_err(with_file("use", path))?;
        }
        match self.look_before_writing()? {
            MirrorFound::Fine => Ok(Opened::Existing),
            _ => {
                let _lock = self.lock()?;
                // Somebody else may have made it meanwhile, or was just writing it.
                self.make(self.look_before_writing()?)
            }
        }
    }

    /// Opens a mirror that is there, for commands that only read beside a running daemon. Nothing is written.
    ///
    /// # Errors
    ///
    /// When there is none in `folder`, or it is another repository's.
    pub fn read_only(folder: &Path, location: Location, limits: Limits) -> Result<Mirror, GitError> {
        settings::apply();
        let mirror = Mirror::over(folder.into(), location, Credentials::default(), limits);
        let path = mirror.path();
        match mirror.look()? {
            MirrorFound::Fine => Ok(mirror),
            MirrorFound::Nothing => {
                Err(GitError::NoRepository { path, why: "nothing has been fetched yet".to_owned() })
            }
            MirrorFound::Other(was) => Err(GitError::NoRepository { path, why: format!("this is a copy of {was}") }),
            MirrorFound::Damaged(message) => Err(GitError::DamagedMirror { path, message }),
        }
    }

    /// Opens the mirror that is in `folder`, whosever it is, for commands that read beside a running daemon. Nothing is
    /// written. `None` if there is none.
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
        if let Some(irregular) = irregular(&path)? {
            return Err(GitError::DamagedMirror { path, message: irregular });
        }
        let whose = Repository::open_bare(&path).and_then(|repository| repository.config()?.get_string(WHOSE));
        let damaged = |message: String| GitError::DamagedMirror { path: path.clone(), message };
        let location: Location = whose
            .map_err(|error| damaged(error.message().to_owned()))?
            .parse()
            .map_err(|error: crate::git::transport::location::InvalidLocation| damaged(error.to_string()))?;
        Mirror::read_only(folder, location, limits).map(Some)
    }

    /// Sets the mirror aside and begins an empty one, for when something in it turned out to be unreadable. The next
    /// fetch fills it. Returns where the old one is.
    ///
    /// # Errors
    ///
    /// When the folder can't be written, or another process holds the mirror.
    pub fn start_over(&self) -> Result<PathBuf, GitError> {
        self.make_folder()?;
        let _lock = self.lock()?;
        // A disk without room, or a file that belay may not read, is no damage: what is there is good once that is mended.
        unreadable(self.folder.path())?;
        let there = fs::symlink_metadata(self.path()).is_ok();
        self.make(if there { MirrorFound::Damaged("started over".to_owned()) } else { MirrorFound::Nothing })?;
        self.close_handles();
        *self.graph.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Graph::default();
        Ok(self.beside("damaged"))
    }

    /// Returns true when the copy's folders exist. Somebody may have deleted them while belay runs.
    pub(super) fn is_there(&self) -> bool {
        let path = self.path();
        path.join("HEAD").is_file() && path.join("objects").is_dir() && path.join("refs").is_dir()
    }

    /// Closes the handles that nobody uses just now. A handle keeps the packs open that it has read, also those that were
    /// joined and deleted since.
    pub(super) fn close_handles(&self) {
        self.unpoisoned_handles().clear();
        self.kept.store(0, Ordering::Relaxed);
    }

    /// Sees to it that its folder is there, and in the state folder that belay has used so far.
    fn make_folder(&self) -> Result<(), GitError> {
        self.folder.make().map_err(with_file("write into", self.folder.path()))
    }

    /// Returns the path of the note that the repository is being read.
    pub(super) fn attempt_file(&self) -> PathBuf {
        self.folder.join("attempt")
    }

    /// Returns how many attempts are under way.
    pub(super) fn attempts_under_way(&self) -> std::sync::MutexGuard<'_, u32> {
        self.attempts.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Returns the repository that it is a copy of.
    #[must_use]
    pub fn location(&self) -> &Location {
        &self.location
    }

    /// Returns the folder of the copy itself, a bare repository like any other.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.folder.join("repository.git")
    }

    /// The folder that it is in.
    #[must_use]
    pub fn state_folder(&self) -> &StateFolder {
        &self.folder
    }

    fn over(folder: StateFolder, location: Location, credentials: Credentials, limits: Limits) -> Mirror {
        Mirror {
            folder,
            location,
            credentials,
            limits,
            handles: Mutex::new(Vec::new()),
            kept: AtomicIsize::new(0),
            writing: Mutex::new(()),
            graph: Mutex::new(Graph::default()),
            attempts: Mutex::new(0),
        }
    }

    /// Runs `work` with a handle on the copy, within the limits of memory. Handles can't be shared between threads, so each
    /// caller gets its own.
    pub(super) fn with<T>(&self, work: impl FnOnce(&Repository) -> Result<T, GitError>) -> Result<T, GitError> {
        let kept = self.unpoisoned_handles().pop();
        let (result, used) = memory::bounded(|| {
            let handle = match kept {
                Some(handle) => handle,
                None => Repository::open_bare(self.path()).map_err(|error| self.damaged(&error))?,
            };
            let result = work(&handle)?;
            // A handle that has seen an error may hold on to files that are gone.
            Ok((result, handle))
        });
        match result {
            Ok((result, handle)) => {
                let mut handles = self.unpoisoned_handles();
                if handles.len() < HANDLES {
                    handles.push(handle);
                }
                drop(handles);
                self.free_memory(&used, false);
                Ok(result)
            }
            Err(error) => {
                self.free_memory(&used, true);
                Err(self.out_of_memory(error, used.refused))
            }
        }
    }

    /// Closes the handles after a failed operation, or if more than the bound is kept, and gives freed memory back to
    /// the system: packing takes memory for each object.
    pub(super) fn free_memory(&self, used: &Used, failed: bool) {
        let kept = self.kept.fetch_add(used.kept, Ordering::Relaxed) + used.kept;
        let mut freed = used.peak;
        if failed || memory::is_too_much(kept) {
            self.close_handles();
            freed = freed.max(kept.unsigned_abs());
        }
        memory::give_back(freed);
    }

    /// Returns an error, or its cause: a request for memory that was refused.
    pub(super) fn out_of_memory(&self, error: GitError, refused: Option<usize>) -> GitError {
        match refused {
            Some(wanted) if !matches!(error, GitError::Cancelled | GitError::TooMuchMemory { .. }) => {
                let (repository, limit) = (self.location.to_string(), memory::OPERATION);
                GitError::TooMuchMemory { repository, wanted, limit }
            }
            _ => error,
        }
    }

    /// Runs `work` with the graph of the commits known so far.
    pub(super) fn with_graph<T>(&self, work: impl FnOnce(&mut Graph) -> Result<T, GitError>) -> Result<T, GitError> {
        // A panic inside leaves the graph incomplete at worst, never wrong: nodes are added last.
        work(&mut self.graph.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    /// Returns the error for an unreadable object of the copy.
    pub(super) fn damaged(&self, error: &git2::Error) -> GitError {
        let path = self.path();
        of_the_machine(error, &path)
            .unwrap_or_else(|| GitError::DamagedMirror { path, message: error.message().to_owned() })
    }

    /// Keeps everybody else from writing the copy. Other threads of this process wait for each other; another process
    /// that is writing is an error.
    pub(super) fn lock(&self) -> Result<Lock<'_>, GitError> {
        let threads = self.writing.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        self.make_folder()?;
        let path = self.folder.join("lock");
        let file = make_own(&path).map_err(|error| with_advice(with_file("open", &path)(error)))?;
        match file.try_lock() {
            Ok(()) => {
                let lock = Lock { file, _threads: threads };
                // The former holder may have been killed.
                if self.path().is_dir() {
                    clear_leftovers(&self.path())?;
                }
                Ok(lock)
            }
            Err(TryLockError::WouldBlock) => Err(GitError::Busy { path: self.folder.path().to_owned() }),
            Err(TryLockError::Error(source)) => Err(GitError::Io { doing: "lock", path, source }),
        }
    }

    fn unpoisoned_handles(&self) -> std::sync::MutexGuard<'_, Vec<Repository>> {
        self.handles.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn beside(&self, what: &str) -> PathBuf {
        self.folder.join(&format!("repository.git.{what}"))
    }
}

/// Adds the advice for rights that are missing: the file belongs to belay's state.
fn with_advice(error: GitError) -> GitError {
    match error {
        GitError::Io { doing, path, source } if source.kind() == ErrorKind::PermissionDenied => {
            let user = rustix::process::geteuid().as_raw();
            let words = format!("{source}; it is part of belay's state: give it to user {user}, as whom belay runs");
            GitError::Io { doing, path, source: io::Error::new(ErrorKind::PermissionDenied, words) }
        }
        error => error,
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

/// Returns the id that libgit2 knows a commit by.
pub(super) fn oid(id: &belay_core::rollout::CommitId) -> Result<Oid, GitError> {
    Oid::from_str(id.as_str()).map_err(while_doing("read a commit id"))
}

/// Returns the id that the other rooms know a commit by.
pub(super) fn commit_id(oid: Oid) -> belay_core::rollout::CommitId {
    oid.to_string().parse().expect("libgit2 without SHA-256 writes 40 hexadecimal digits")
}
