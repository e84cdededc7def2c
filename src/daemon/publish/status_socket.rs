//! The published state, for commands on this machine: a socket in the state folder has the same as page, API and
//! metrics. It needs no room on the disk, and is there while the history can't be written.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tracing::{debug, warn};

use super::status::Status;
use crate::history::PublishedSource;
use crate::state_folder::StateFolder;

/// The socket's name in the state folder.
const SOCKET: &str = "status.sock";
/// The longest path of a socket that every kernel takes.
const LONGEST_PATH: usize = 100;
/// The longest time for an answer, on either side.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);
/// The largest answer that is read, in bytes.
const LARGEST_ANSWER: u64 = 64 << 20;
/// The word of a command that asks for live workloads, too.
const WORKLOADS: &str = "workloads";
/// The number of bytes that are read of a word.
const LONGEST_WORD: u64 = 16;
/// The longest time for the word of a command: one of an older version says none.
const WORD_TIMEOUT: Duration = Duration::from_millis(100);
/// The period between two checks that the socket is still in its folder.
const CHECK: Duration = Duration::from_secs(5);

/// Answers commands with the published state, for as long as the daemon publishes any. A socket that somebody has taken
/// away is made again.
pub async fn answer_commands(status: watch::Receiver<Status>, folder: StateFolder) {
    let mut told = false;
    while status.has_changed().is_ok() {
        let bound = match folder.is_in_place() {
            true => bind(folder.path()),
            false => Err(io::Error::other("it is not there, or something else is in its place")),
        };
        match bound {
            Ok((listener, inode)) => {
                told = false;
                answer_until_gone(&listener, inode, &status, folder.path()).await;
            }
            Err(error) => {
                if !std::mem::replace(&mut told, true) {
                    warn!(folder = %folder.path().display(), %error, "failed to open the socket that answers commands, trying again");
                }
                sleep(CHECK).await;
            }
        }
    }
}

/// Returns the published state of the daemon whose state folder this is; `None` if none answers.
pub async fn ask_daemon(folder: &Path) -> Option<BTreeMap<String, PublishedSource>> {
    ask_with(folder, "").await
}

/// Returns the same with the live workloads of each source.
pub async fn ask_daemon_for_workloads(folder: &Path) -> Option<BTreeMap<String, PublishedSource>> {
    ask_with(folder, WORKLOADS).await
}

async fn ask_with(folder: &Path, word: &str) -> Option<BTreeMap<String, PublishedSource>> {
    let asked = async {
        let (path, _folder) = reachable(folder)?;
        let mut stream = UnixStream::connect(path).await?;
        stream.write_all(word.as_bytes()).await?;
        stream.shutdown().await?;
        let mut text = Vec::new();
        stream.take(LARGEST_ANSWER).read_to_end(&mut text).await?;
        serde_json::from_slice(&text).map_err(io::Error::from)
    };
    match timeout(ANSWER_TIMEOUT, asked).await {
        Ok(Ok(sources)) => Some(sources),
        Ok(Err(error)) => {
            debug!(folder = %folder.display(), %error, "no daemon answers here");
            None
        }
        Err(_) => {
            debug!(folder = %folder.display(), "the daemon does not answer");
            None
        }
    }
}

async fn answer_until_gone(listener: &UnixListener, inode: u64, status: &watch::Receiver<Status>, folder: &Path) {
    let mut check = Instant::now() + CHECK;
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    tokio::spawn(timeout(ANSWER_TIMEOUT, answer(stream, status.clone())));
                }
                Err(error) => {
                    debug!(%error, "a command could not be answered");
                    sleep(Duration::from_millis(100)).await;
                }
            },
            () = sleep_until(check) => {
                let is_there = fs::metadata(folder.join(SOCKET)).is_ok_and(|found| found.ino() == inode);
                if !is_there || status.has_changed().is_err() {
                    return;
                }
                check = Instant::now() + CHECK;
            }
        }
    }
}

async fn answer(mut stream: UnixStream, status: watch::Receiver<Status>) {
    let mut word = String::new();
    let mut asked = (&mut stream).take(LONGEST_WORD);
    let is_read = timeout(WORD_TIMEOUT, asked.read_to_string(&mut word)).await.is_ok_and(|read| read.is_ok());
    let of_workloads = is_read && word == WORKLOADS;
    let published = if of_workloads { status.borrow().published_with_workloads() } else { status.borrow().published() };
    let written = match serde_json::to_vec(&published) {
        Ok(text) => stream.write_all(&text).await,
        Err(error) => Err(error.into()),
    };
    if let Err(error) = written {
        debug!(%error, "a command did not read its answer");
    }
}

/// Makes the socket, in the place of one that an earlier run has left: the folder is this daemon's alone.
fn bind(folder: &Path) -> io::Result<(UnixListener, u64)> {
    let socket = folder.join(SOCKET);
    match fs::remove_file(&socket) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let (path, _folder) = reachable(folder)?;
    let listener = UnixListener::bind(path)?;
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o600))?;
    Ok((listener, fs::metadata(&socket)?.ino()))
}

/// Returns a path of the socket that is short enough for the kernel, and the open folder that it may go through.
fn reachable(folder: &Path) -> io::Result<(PathBuf, Option<fs::File>)> {
    let path = folder.join(SOCKET);
    if path.as_os_str().len() <= LONGEST_PATH {
        return Ok((path, None));
    }
    let open = fs::File::open(folder)?;
    Ok((PathBuf::from(format!("/proc/self/fd/{}/{SOCKET}", open.as_raw_fd())), Some(open)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::{Obstacle, SourceStatus};
    use belay_core::manifest::ObjectKey;
    use belay_core::rollout::LiveWorkload;

    #[tokio::test]
    async fn commands_hear_what_is_published() {
        let folder = tempfile::tempdir().unwrap();
        let deep = folder.path().join("x".repeat(120));
        fs::create_dir(&deep).unwrap();
        for folder in [folder.path(), &deep] {
            assert!(ask_daemon(folder).await.is_none());
            let mut source = SourceStatus::default();
            source.obstacles.trouble.insert(Obstacle::History, "the disk is full".to_owned());
            let key =
                ObjectKey { group: "apps".into(), kind: "Deployment".into(), namespace: None, name: "web".into() };
            let live = LiveWorkload { message: "2 of 3 pods are available".to_owned(), ..LiveWorkload::default() };
            source.workloads.insert(key.clone(), live.clone());
            let (daemon, status) = watch::channel(Status { sources: [("shop".to_owned(), source)].into() });
            let answering = tokio::spawn(answer_commands(status, folder.into()));
            let answer = loop {
                match ask_daemon(folder).await {
                    Some(answer) => break answer,
                    None => tokio::task::yield_now().await,
                }
            };
            assert_eq!(answer["shop"].standing.blocked.as_deref(), Some("the disk is full"));
            assert_eq!(answer["shop"].workloads, []);
            let whole = ask_daemon_for_workloads(folder).await.unwrap();
            assert_eq!(whole["shop"], PublishedSource { workloads: vec![(key, live)], ..answer["shop"].clone() });
            // A command of an older version only reads.
            let (path, _folder) = reachable(folder).unwrap();
            let mut older = Vec::new();
            UnixStream::connect(path).await.unwrap().read_to_end(&mut older).await.unwrap();
            let older: BTreeMap<String, PublishedSource> = serde_json::from_slice(&older).unwrap();
            assert_eq!(older, answer);
            answering.abort();
            drop(daemon);
        }
    }
}
