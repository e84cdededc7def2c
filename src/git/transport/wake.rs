//! Noticing at once that somebody has pushed to a repository on this machine.
//!
//! A notice from the file system says no more than "fetch again": which reference moved is read from the repository.
//! And it may never come: on network file systems, when the kernel's queue overflows, when the repository's folder was
//! replaced. So the daemon goes on polling, and after each poll calls [`Wake::mend`] to watch the present repository.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use notify::event::{AccessKind, AccessMode};
use notify::{Config, Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::Notify;

use super::local_files::{OPEN_TIMEOUT, check_references, within};
use super::location::Location;
use crate::git::error::while_doing;

/// The wait after the first notice for the rest of a push: it writes a lock, renames it, and writes a log.
const CALM: Duration = Duration::from_millis(200);

/// Wakes the followers of a repository on this machine when something in it moves. Costs nothing while nothing happens.
pub struct Wake {
    signal: Arc<Signal>,
    watched: Mutex<Option<WatchedFolder>>,
    path: PathBuf,
}

/// The answer if a repository is being watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Watching {
    /// It is: a push is noticed within a second.
    Yes,
    /// It is not, and why; only polling notices a push.
    No(String),
}

/// The signal of the watcher's own thread.
#[derive(Default)]
struct Signal {
    notify: Notify,
    /// The watched folder itself has changed, so that it must be watched again.
    broken: AtomicBool,
}

/// A watcher, and its folder.
struct WatchedFolder {
    /// Stops when it is dropped.
    _watcher: RecommendedWatcher,
    identity: FileIdentity,
}

/// The identity of the watched folders, to distinguish them from later ones of the same name.
#[derive(PartialEq, Eq)]
struct FileIdentity(Vec<(PathBuf, u64, u64)>);

impl Wake {
    /// Returns a watcher of a repository on this machine; `None` for one that is elsewhere. Nothing is opened, or
    /// watched, before the first call of [`Wake::mend`].
    #[must_use]
    pub fn new(location: &Location) -> Option<Wake> {
        let path = location.path()?.to_owned();
        Some(Wake { signal: Arc::default(), watched: Mutex::new(None), path })
    }

    /// Waits until something has moved in the repository, and then until it is calm again. Several moves that come
    /// together are one. A call that is given up half way loses nothing: the next one ends at once.
    pub async fn moved(&self) {
        self.signal.notify.notified().await;
        let again = Again(&self.signal.notify);
        tokio::time::sleep(CALM).await;
        std::mem::forget(again);
        // Notices that came meanwhile are answered by the same fetch.
        let mut rest = std::pin::pin!(self.signal.notify.notified());
        rest.as_mut().enable();
    }

    /// Watches the present repository, if it is another one than before, or the watch was lost. Meant for after each
    /// poll: costs a few reads of folders when all is well. Blocks, on the disk.
    pub fn mend(&self) -> Watching {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        let broken = self.signal.broken.swap(false, Ordering::AcqRel);
        let mended = Folders::of(&self.path).and_then(|folders| {
            let identity = folders.identity().map_err(|error| error.to_string())?;
            if !broken && watched.as_ref().is_some_and(|watched| watched.identity == identity) {
                return Ok(());
            }
            let fresh = folders.watch(&self.signal, identity).map_err(|error| error.to_string())?;
            if watched.replace(fresh).is_some() {
                // A push while nothing was watched is found by a fetch.
                self.signal.notify.notify_one();
            }
            Ok(())
        });
        match mended {
            Ok(()) => Watching::Yes,
            Err(why) => {
                *watched = None;
                Watching::No(why)
            }
        }
    }
}

/// Says that something has moved when it is dropped.
struct Again<'a>(&'a Notify);

impl Drop for Again<'_> {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

/// The folders to watch: the folder of the repository, with the packed references in it; the one that it lies in, for
/// when it is replaced; and all below the branches and tags.
struct Folders {
    /// The path that is followed.
    path: PathBuf,
    /// The folder in which the references are: of a working copy, `.git`.
    repository: PathBuf,
    folders: Vec<(PathBuf, RecursiveMode)>,
}

impl Folders {
    fn of(path: &Path) -> Result<Folders, String> {
        crate::git::mirror::settings::apply();
        check_references(path).map_err(|error| error.to_string())?;
        let owned = path.to_owned();
        let opened = within(OPEN_TIMEOUT, path, move || {
            let flags = git2::RepositoryOpenFlags::NO_SEARCH;
            let opened = git2::Repository::open_ext(&owned, flags, std::iter::empty::<&Path>());
            Ok(opened.map_err(while_doing("open it"))?.commondir().to_owned())
        });
        // Through links, so that the paths of notices can be compared.
        let repository = opened.map_err(|error| error.to_string())?;
        let repository = fs::canonicalize(repository).map_err(|error| error.to_string())?;
        let mut folders = vec![(repository.clone(), RecursiveMode::NonRecursive)];
        if let Some(parent) = path.parent() {
            folders.push((parent.to_owned(), RecursiveMode::NonRecursive));
        }
        for name in ["refs/heads", "refs/tags", "reftable"] {
            let folder = repository.join(name);
            if fs::symlink_metadata(&folder).is_ok_and(|metadata| metadata.is_dir()) {
                folders.push((folder, RecursiveMode::Recursive));
            }
        }
        Ok(Folders { path: path.to_owned(), repository, folders })
    }

    /// Returns the present identity of these folders.
    fn identity(&self) -> io::Result<FileIdentity> {
        let identify = |(path, _): &(PathBuf, RecursiveMode)| {
            let metadata = fs::metadata(path)?;
            Ok((path.clone(), metadata.dev(), metadata.ino()))
        };
        self.folders.iter().map(identify).collect::<io::Result<_>>().map(FileIdentity)
    }

    fn watch(&self, signal: &Arc<Signal>, identity: FileIdentity) -> notify::Result<WatchedFolder> {
        let (path, repository, signal) = (self.path.clone(), self.repository.clone(), Arc::clone(signal));
        let told = move |told: notify::Result<Event>| {
            match told {
                Ok(event) if event.need_rescan() => signal.broken.store(true, Ordering::Release),
                Ok(event) if !is_move(&event, &path, &repository) => return,
                Ok(_) => {}
                Err(_) => signal.broken.store(true, Ordering::Release),
            }
            signal.notify.notify_one();
        };
        let mut watcher = RecommendedWatcher::new(told, Config::default().with_follow_symlinks(false))?;
        for (folder, mode) in &self.folders {
            watcher.watch(folder, *mode)?;
        }
        Ok(WatchedFolder { _watcher: watcher, identity })
    }
}

/// Returns true when a notice may mean that a reference has moved. Reading the repository gives notices too, of files
/// that are opened; and a working copy writes its index whenever somebody runs a command in it.
fn is_move(event: &Event, path: &Path, repository: &Path) -> bool {
    let writes = match event.kind {
        EventKind::Access(kind) => kind == AccessKind::Close(AccessMode::Write),
        _ => true,
    };
    let counts = |moved: &PathBuf| {
        if moved == path {
            return true;
        }
        let Ok(inside) = moved.strip_prefix(repository) else { return false };
        let lock = inside.extension().is_some_and(|extension| extension == "lock");
        let first = inside.components().next().map(|first| first.as_os_str().to_owned());
        !lock && first.is_none_or(|first| ["HEAD", "packed-refs", "refs", "reftable"].iter().any(|name| first == *name))
    };
    writes && event.paths.iter().any(counts)
}
