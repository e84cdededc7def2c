//! The files of a repository on this machine, checked before libgit2 opens them.
//!
//! libgit2 opens any file that it finds. A pipe in the place of a file keeps it waiting for ever, a device never ends,
//! and a link, a list of alternates or a `commondir` brings in objects of another repository, which the owner of this one may
//! not be able to read; so may it not be able to read a file that its configuration includes. So only folders and regular files are let through. Somebody may still exchange a file afterwards, and
//! a disk may be away: opening has a limit of time.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::iter;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::git::error::{GitError, with_file};
use crate::git::mirror::memory;
use crate::regular_file::{check_regular, read_regular, read_regular_text};
use crate::systemd_unit::hidden_by_systemd;

/// The longest time to open a repository.
pub(in crate::git) const OPEN_TIMEOUT: Duration = Duration::from_secs(15);
/// The number of attempts to open one repository that may hang at once. A further one fails at once.
const AT_ONCE: usize = 2;
/// The largest number of files of a repository's references, or objects.
const FILES: usize = 1_000_000;
/// The depth to which folders of references may stand inside each other.
const DEPTH: usize = 64;
/// The largest configuration of a repository, in bytes.
const CONFIG: u64 = 1 << 20;
/// The longest file that names a folder, in bytes.
const FOLDER_NAME: u64 = 8 << 10;
/// The reason against a file that leads to another repository.
const OTHER_REPOSITORY: &str =
    "it brings in another repository, whose working tree this is not; name that repository in its place";
/// The files of a repository that libgit2 opens, beside its references and objects.
const OPENED: [&str; 7] =
    ["HEAD", "config", "config.worktree", "packed-refs", "shallow", "info/grafts", "info/attributes"];

/// The folders with the files of a repository. The folder of a linked working tree differs from the common one.
struct Folders {
    path: PathBuf,
    own: PathBuf,
    common: PathBuf,
}

/// Checks that the files which libgit2 opens to read references are regular, and that all objects are the repository's
/// own.
pub(in crate::git) fn check_references(path: &Path) -> Result<(), GitError> {
    let folders = Folders::of(path)?;
    let common = (folders.common != folders.own).then_some(&folders.common);
    for folder in iter::once(&folders.own).chain(common) {
        for name in OPENED {
            folders.check_file(&folder.join(name))?;
        }
        folders.walk(&folder.join("refs"), DEPTH, Links::ToFiles)?;
    }
    folders.check_config()?;
    folders.check_alternates()
}

/// Checks that all objects are regular files of the repository's own.
pub(in crate::git) fn check_objects(path: &Path) -> Result<(), GitError> {
    let folders = Folders::of(path)?;
    folders.check_config()?;
    folders.check_alternates()?;
    folders.walk(&folders.objects(), 2, Links::None)
}

/// The links that are let through.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Links {
    /// None.
    None,
    /// Links that lead to regular files, as older versions of Git wrote `HEAD`.
    ToFiles,
}

impl Folders {
    /// Finds them as libgit2 does where it does not search upwards.
    fn of(path: &Path) -> Result<Folders, GitError> {
        let path = path.to_owned();
        let dot_git = path.join(".git");
        let own = match fs::metadata(&dot_git) {
            Err(_) => path.clone(),
            Ok(metadata) if metadata.is_dir() => dot_git,
            Ok(_) => match named_folder(&path, &dot_git)? {
                Some(named) => path.join(named.strip_prefix("gitdir:").unwrap_or(&named).trim()),
                None => path.clone(),
            },
        };
        let common = match named_folder(&path, &own.join("commondir"))? {
            Some(named) => own.join(named.trim()),
            None => own.clone(),
        };
        let folders = Folders { path, own, common };
        folders.check_own()?;
        folders.check_common()?;
        Ok(folders)
    }

    /// Checks that the folder which `.git` names or links to, where it is elsewhere, is that of this working tree.
    fn check_own(&self) -> Result<(), GitError> {
        let dot_git = self.path.join(".git");
        let is_link = || fs::symlink_metadata(&dot_git).is_ok_and(|metadata| metadata.is_symlink());
        if self.own == self.path || (self.own == dot_git && !is_link()) {
            return Ok(());
        }
        let real = |file: &Path| fs::canonicalize(file).ok();
        let is_below = real(&self.path).zip(real(&self.own)).is_some_and(|(path, own)| own.starts_with(path));
        // `git worktree add` notes there where the working tree is.
        let back = read_regular_text(&self.own.join("gitdir"), FOLDER_NAME).ok();
        let back = back.and_then(|named| real(&self.own.join(named.trim())));
        // A folder that is not there is reported by libgit2.
        if is_below || real(&self.own).is_none() || (back.is_some() && back == real(&dot_git) && !is_link()) {
            return Ok(());
        }
        Err(self.unsupported(&dot_git, OTHER_REPOSITORY))
    }

    /// Checks that the common folder, where it is another one, is that of the repository which the working tree is linked to.
    fn check_common(&self) -> Result<(), GitError> {
        if self.common == self.own {
            return Ok(());
        }
        let file = self.own.join("commondir");
        let real =
            |folder: &Path| fs::canonicalize(folder).map_err(|error| self.unsupported(&file, &error.to_string()));
        let (own, common) = (real(&self.own)?, real(&self.common)?);
        if own == common || own.parent() == Some(common.join("worktrees").as_path()) {
            return Ok(());
        }
        Err(self.unsupported(&file, OTHER_REPOSITORY))
    }

    fn objects(&self) -> PathBuf {
        self.common.join("objects")
    }

    fn check_file(&self, file: &Path) -> Result<(), GitError> {
        match fs::metadata(file) {
            Ok(metadata) => check_regular(&metadata).map_err(|error| self.unsupported(file, &error.to_string())),
            // An unreadable file is reported by libgit2, which knows if it is needed.
            Err(_) => Ok(()),
        }
    }

    /// Checks that the configuration includes no other file, which libgit2 would open whatever it is.
    fn check_config(&self) -> Result<(), GitError> {
        for file in [&self.own, &self.common].iter().flat_map(|of| [of.join("config"), of.join("config.worktree")]) {
            let bytes = match read_regular(&file, CONFIG) {
                Ok(bytes) => bytes,
                Err(error) if matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::FileTooLarge) => {
                    return Err(self.unsupported(&file, &error.to_string()));
                }
                // An unreadable file is reported by libgit2, which knows if it is needed.
                Err(_) => continue,
            };
            if includes(&String::from_utf8_lossy(&bytes)) {
                return Err(self.unsupported(&file, "it includes another file; write what that says into it"));
            }
        }
        Ok(())
    }

    fn check_alternates(&self) -> Result<(), GitError> {
        let objects = self.objects();
        if fs::symlink_metadata(&objects).is_ok_and(|metadata| metadata.is_symlink()) {
            return Err(self.unsupported(&objects, "it is a link, which would bring in objects of another repository"));
        }
        let file = objects.join("info/alternates");
        let text = match read_regular_text(&file, FOLDER_NAME) {
            Ok(text) => text,
            Err(error) if is_absent(&error) => return Ok(()),
            Err(error) => return Err(self.unsupported(&file, &error.to_string())),
        };
        if text.lines().all(|line| line.trim().is_empty() || line.starts_with('#')) {
            return Ok(());
        }
        let why = "it borrows objects from another repository; to have them here as well: git repack -a -d, then delete that file";
        Err(self.unsupported(&file, why))
    }

    /// Checks that below a folder there are only folders and regular files.
    fn walk(&self, root: &Path, depth: usize, links: Links) -> Result<(), GitError> {
        let mut folders = vec![(root.to_owned(), depth)];
        let mut files = 0;
        while let Some((folder, depth)) = folders.pop() {
            let entries = match fs::read_dir(&folder) {
                Ok(entries) => entries,
                Err(error) if is_absent(&error) => continue,
                Err(error) => {
                    return Err(match hidden_by_systemd(&folder) {
                        Some(why) => GitError::NoRepository { path: self.path.clone(), why },
                        None => with_file("list", &folder)(error),
                    });
                }
            };
            for entry in entries {
                let entry = entry.map_err(with_file("list", &folder))?;
                let (path, kind) = (entry.path(), entry.file_type().map_err(with_file("look at", entry.path()))?);
                files += 1;
                if files > FILES {
                    let what = format!("files in {}; join them with: git gc", root.display());
                    return Err(GitError::TooMany { what, limit: FILES });
                }
                if kind.is_dir() {
                    let Some(below) = depth.checked_sub(1) else {
                        return Err(self.unsupported(&path, "folders stand too deep inside each other"));
                    };
                    folders.push((path, below));
                } else if kind.is_symlink() && links == Links::None {
                    return Err(self.unsupported(&path, "it is a link"));
                } else if !kind.is_file() {
                    self.check_file(&path)?;
                }
            }
        }
        Ok(())
    }

    fn unsupported(&self, file: &Path, why: &str) -> GitError {
        let name = file.strip_prefix(&self.path).unwrap_or(file).display();
        GitError::Unsupported { repository: self.path.display().to_string(), what: format!("{name}: {why}") }
    }
}

/// Returns true when a configuration may have a section that includes other files. In doubt it has one.
fn includes(config: &str) -> bool {
    let lines = config.split(['\n', '\r']).filter(|line| !line.trim_start().starts_with(['#', ';']));
    let mut sections = lines.flat_map(|line| line.split('[').skip(1));
    sections.any(|section| {
        section.trim_start().get(.."include".len()).is_some_and(|name| name.eq_ignore_ascii_case("include"))
    })
}

/// Returns true if there is no such file. libgit2 then says that this is no repository.
fn is_absent(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// Returns the folder that a file names, if there is such a file.
fn named_folder(repository: &Path, file: &Path) -> Result<Option<String>, GitError> {
    match read_regular_text(file, FOLDER_NAME) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::InvalidInput || error.kind() == ErrorKind::FileTooLarge => {
            let what = format!("{}: {error}", file.display());
            Err(GitError::Unsupported { repository: repository.display().to_string(), what })
        }
        Err(_) => Ok(None),
    }
}

/// The number of attempts to open each repository that were given up, and have not ended yet.
static HANGING: Mutex<BTreeMap<PathBuf, usize>> = Mutex::new(BTreeMap::new());

fn hanging() -> MutexGuard<'static, BTreeMap<PathBuf, usize>> {
    HANGING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Opens something of a repository on a thread of its own, which is left behind where that takes longer than `limit`.
pub(in crate::git) fn within<T: Send + 'static>(
    limit: Duration,
    path: &Path,
    open: impl FnOnce() -> Result<T, GitError> + Send + 'static,
) -> Result<T, GitError> {
    let hangs = || GitError::Unreachable {
        repository: path.display().to_string(),
        message: format!(
            "opening it took longer than {} s; see whether its disk answers, and whether each of its files is a regular file",
            limit.as_secs()
        ),
    };
    if hanging().get(path).is_some_and(|hanging| *hanging >= AT_ONCE) {
        return Err(hangs());
    }
    let (repository, owned) = (path.display().to_string(), path.to_owned());
    let (send, opened) = mpsc::channel();
    let given_up = Arc::new(AtomicBool::new(false));
    let was_given_up = Arc::clone(&given_up);
    let work = move || {
        let (result, used) = memory::bounded(open);
        let result = match (result, used.refused) {
            (Err(_), Some(wanted)) => Err(GitError::TooMuchMemory { repository, wanted, limit: memory::OPERATION }),
            (result, _) => result,
        };
        let mut hanging = hanging();
        if was_given_up.load(Ordering::Relaxed)
            && let Some(left) = hanging.get_mut(&owned)
        {
            *left -= 1;
            if *left == 0 {
                hanging.remove(&owned);
            }
        }
        // Nobody may be waiting any more.
        drop(send.send(result));
    };
    let started = thread::Builder::new().name("open-repository".to_owned()).spawn(work);
    started.map_err(with_file("start a thread for", path))?;
    match opened.recv_timeout(limit) {
        Ok(result) => result,
        Err(RecvTimeoutError::Timeout) => {
            let mut hanging = hanging();
            // It may have ended just now.
            if let Ok(result) = opened.try_recv() {
                return result;
            }
            given_up.store(true, Ordering::Relaxed);
            *hanging.entry(path.to_owned()).or_default() += 1;
            Err(hangs())
        }
        Err(RecvTimeoutError::Disconnected) => Err(GitError::Git {
            doing: format!("open {}", path.display()),
            message: "belay's own fault: opening it panicked".to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn git(folder: &Path, args: &[&str]) {
        assert!(Command::new("git").arg("-C").arg(folder).args(args).output().unwrap().status.success(), "{args:?}");
    }

    /// Returns a bare repository with one commit.
    fn repository() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let bare = folder.path().join("deploy.git");
        git2::Repository::init_bare(&bare).unwrap();
        (folder, bare)
    }

    fn pipe(path: &Path) {
        if path.exists() {
            fs::remove_file(path).unwrap();
        }
        assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
    }

    #[test]
    fn each_file_that_is_opened_is_a_regular_one() {
        for name in ["HEAD", "config", "packed-refs", "shallow", "info/grafts", "commondir", "refs/heads/main"] {
            let (_folder, bare) = repository();
            assert!(check_references(&bare).is_ok());
            pipe(&bare.join(name));
            let error = check_references(&bare).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains("a named pipe"), "{error}");
        }
        for name in ["objects/ab/cd", "objects/pack/a.idx", "objects/info/commit-graph", "objects/info/alternates"] {
            let (_folder, bare) = repository();
            assert!(check_objects(&bare).is_ok());
            fs::create_dir_all(bare.join(name).parent().unwrap()).unwrap();
            pipe(&bare.join(name));
            let error = check_objects(&bare).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains("a named pipe"), "{error}");
        }
    }

    #[test]
    fn devices_sockets_and_pipes_behind_links_are_refused() {
        let (folder, bare) = repository();
        std::os::unix::fs::symlink("/dev/zero", bare.join("packed-refs")).unwrap();
        assert!(
            check_references(&bare)
                .unwrap_err()
                .to_string()
                .contains("packed-refs: it is not a regular file but a device")
        );
        fs::remove_file(bare.join("packed-refs")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(bare.join("refs/heads/main")).unwrap();
        assert!(check_references(&bare).unwrap_err().to_string().contains("a socket"));
        // A pipe in the place of `.git`, as of a working copy.
        let copy = folder.path().join("copy");
        fs::create_dir(&copy).unwrap();
        pipe(&copy.join(".git"));
        assert!(check_references(&copy).unwrap_err().to_string().contains("a named pipe"));
    }

    #[test]
    fn a_linked_working_tree_is_looked_at_where_its_files_are() {
        let folder = tempfile::tempdir().unwrap();
        let (main, linked) = (folder.path().join("main"), folder.path().join("linked"));
        fs::create_dir(&main).unwrap();
        git(&main, &["init", "-q"]);
        git(&main, &["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "First"]);
        git(&main, &["worktree", "add", "-q", linked.to_str().unwrap()]);
        assert!(check_references(&linked).is_ok() && check_objects(&linked).is_ok());
        pipe(&main.join(".git/packed-refs"));
        assert!(check_references(&linked).unwrap_err().to_string().contains("packed-refs"));
    }

    #[test]
    fn objects_are_the_repositorys_own() {
        let (folder, bare) = repository();
        let other = folder.path().join("other.git");
        git2::Repository::init_bare(&other).unwrap();
        fs::write(bare.join("objects/info/alternates"), "# none\n\n").unwrap();
        assert!(check_references(&bare).is_ok());
        fs::write(bare.join("objects/info/alternates"), format!("{}\n", other.join("objects").display())).unwrap();
        let error = check_references(&bare).unwrap_err().to_string();
        assert!(error.contains("objects/info/alternates") && error.contains("git repack -a -d"), "{error}");
        fs::remove_file(bare.join("objects/info/alternates")).unwrap();
        std::os::unix::fs::symlink(other.join("objects/pack"), bare.join("objects/ab")).unwrap();
        assert!(check_objects(&bare).unwrap_err().to_string().contains("objects/ab: it is a link"));
        fs::rename(bare.join("objects"), bare.join("former")).unwrap();
        std::os::unix::fs::symlink(other.join("objects"), bare.join("objects")).unwrap();
        assert!(check_references(&bare).unwrap_err().to_string().contains("objects: it is a link"));
    }

    #[test]
    fn a_common_folder_is_that_of_a_linked_working_tree() {
        let (folder, bare) = repository();
        git2::Repository::init_bare(folder.path().join("good.git")).unwrap();
        fs::write(bare.join("commondir"), ".\n").unwrap();
        assert!(check_references(&bare).is_ok());
        for (common, named) in [("../good.git", "another repository"), ("../none.git", "No such file")] {
            fs::write(bare.join("commondir"), format!("{common}\n")).unwrap();
            for error in [check_references(&bare).unwrap_err(), check_objects(&bare).unwrap_err()] {
                let error = error.to_string();
                assert!(error.contains("commondir: ") && error.contains(named), "{error}");
            }
        }
    }

    #[test]
    fn a_working_tree_has_a_repository_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let (copy, other) = (folder.path().join("copy"), folder.path().join("other.git"));
        git2::Repository::init_bare(&other).unwrap();
        fs::create_dir(&copy).unwrap();
        let refused = || {
            let error = check_references(&copy).unwrap_err().to_string();
            assert!(error.contains(".git: it brings in another repository"), "{error}");
        };
        fs::write(copy.join(".git"), "gitdir: ../other.git\n").unwrap();
        refused();
        // It belongs to another working tree.
        fs::write(other.join("gitdir"), folder.path().join("third/.git").display().to_string()).unwrap();
        refused();
        fs::remove_file(copy.join(".git")).unwrap();
        std::os::unix::fs::symlink(&other, copy.join(".git")).unwrap();
        refused();
        fs::remove_file(copy.join(".git")).unwrap();
        git2::Repository::init_bare(copy.join("inside")).unwrap();
        fs::write(copy.join(".git"), "gitdir: inside\n").unwrap();
        assert!(check_references(&copy).is_ok());
    }

    #[test]
    fn a_configuration_includes_no_other_file() {
        let (_folder, bare) = repository();
        let config = fs::read_to_string(bare.join("config")).unwrap();
        for (more, refused) in [
            ("[include]\n\tpath = /etc/shadow\n", true),
            ("[IncludeIf \"gitdir:/\"]\npath = /etc/shadow\n", true),
            ("[core] [include] path = x\n", true),
            ("# [include]\n[remote \"a\"]\n\turl = include\n", false),
            (&"# much\n".repeat(200_000), true),
        ] {
            fs::write(bare.join("config"), format!("{config}{more}")).unwrap();
            for checked in [check_references(&bare), check_objects(&bare)] {
                assert_eq!(checked.is_err(), refused, "{checked:?}");
            }
        }
        fs::write(bare.join("config"), format!("{config}[include]\n")).unwrap();
        let error = check_references(&bare).unwrap_err().to_string();
        assert!(error.contains("config: it includes another file"), "{error}");
    }

    #[test]
    #[allow(clippy::disallowed_methods, reason = "threads of the system, which no paused clock drives")]
    fn opening_that_hangs_is_given_up_and_told() {
        let path = Path::new("/srv/hangs.git");
        let (let_go, held) = mpsc::channel::<()>();
        let held = Arc::new(Mutex::new(held));
        let limit = Duration::from_millis(20);
        for attempt in 0..2 * AT_ONCE {
            let held = Arc::clone(&held);
            let began = std::time::Instant::now();
            let opened = within(limit, path, move || {
                drop(held.lock().map(|held| held.recv()));
                Ok(())
            });
            let error = opened.unwrap_err().to_string();
            assert!(error.contains("/srv/hangs.git") && error.contains("took longer"), "{error}");
            // No attempt is added to one that hangs already.
            assert!(attempt < AT_ONCE || began.elapsed() < limit);
        }
        assert_eq!(within(limit, Path::new("/srv/other.git"), || Ok(7)).unwrap(), 7);
        drop(let_go);
        let until = std::time::Instant::now() + Duration::from_secs(10);
        while within(Duration::from_secs(1), path, || Ok(())).is_err() {
            assert!(std::time::Instant::now() < until);
        }
    }
}
