//! One session with a Git server: whose it is, how long it may last, and why it failed.
//!
//! libgit2 hands through no error but a text. So the transports note the error itself here, and [`ServerSession::explain`]
//! prefers it.
#![allow(clippy::disallowed_methods, reason = "a real server is waited for, beside any runtime with a paused clock")]

use std::cell::RefCell;
use std::error::Error;
use std::io;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use git2::{ErrorCode, RemoteCallbacks, Repository};
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

use super::credentials::Credentials;
use super::location::Location;
use crate::git::error::{GitError, with_file};
use crate::git::mirror::damage::of_the_machine;
use crate::git::read::limits::Limits;
use crate::git::read::user_config;

/// The longest time for which a server may say nothing.
const SILENCE: Duration = Duration::from_mins(1);

/// The message of an error of libgit2 that has none.
const NO_MESSAGE: &str = "no error";

/// One session with a Git server.
pub(in crate::git) struct ServerSession {
    pub(super) location: Location,
    pub(super) credentials: Credentials,
    pub(super) settings: GitSettings,
    fetch_bytes: u64,
    /// The folder into which libgit2 writes.
    folder: PathBuf,
    stop: CancellationToken,
    state: Mutex<SessionState>,
}

/// The settings of Git's configuration that a session heeds.
pub(in crate::git) struct GitSettings {
    /// `core.sshCommand`.
    pub(super) ssh_command: Option<String>,
    /// `http.proxy`.
    pub(super) proxy: Option<String>,
}

struct SessionState {
    began: Instant,
    limit: Duration,
    received: u64,
    problem: Option<GitError>,
    /// The reason for which the server said no more, if it ended in the middle: it is told where libgit2 names none.
    end: Option<GitError>,
}

thread_local! {
    /// The session of this thread: libgit2 makes a transport from an address alone.
    static CURRENT: RefCell<Option<Arc<ServerSession>>> = const { RefCell::new(None) };
}

/// Makes a session that of this thread, until it is dropped.
pub(in crate::git) struct CurrentSession(());

impl Drop for CurrentSession {
    fn drop(&mut self) {
        CURRENT.set(None);
    }
}

/// Returns the session of this thread.
pub(super) fn current() -> Option<Arc<ServerSession>> {
    CURRENT.with_borrow(Clone::clone)
}

impl ServerSession {
    /// Begins a session of at most `limits.fetch_time`, for an operation of `repository`.
    pub(in crate::git) fn begin(
        location: &Location,
        credentials: &Credentials,
        limits: &Limits,
        repository: &Repository,
        stop: &CancellationToken,
    ) -> (Arc<ServerSession>, CurrentSession) {
        let began = Instant::now();
        let state = SessionState { began, limit: limits.fetch_time, received: 0, problem: None, end: None };
        let session = Arc::new(ServerSession {
            location: location.clone(),
            credentials: credentials.clone(),
            settings: GitSettings {
                ssh_command: user_config::get(repository, "core.sshCommand"),
                proxy: user_config::get(repository, "http.proxy"),
            },
            fetch_bytes: limits.fetch_bytes,
            folder: repository.path().to_owned(),
            stop: stop.clone(),
            state: Mutex::new(state),
        });
        CURRENT.set(Some(Arc::clone(&session)));
        (session, CurrentSession(()))
    }

    /// Gives the session this time, from now on.
    pub(in crate::git) fn allow(&self, limit: Duration) {
        let mut state = self.state();
        state.began = Instant::now();
        state.limit = limit;
    }

    /// Returns the functions by which libgit2 asks whether to go on.
    pub(in crate::git) fn callbacks(&self) -> RemoteCallbacks<'_> {
        let mut callbacks = RemoteCallbacks::new();
        callbacks.transfer_progress(|_| self.over().is_none());
        callbacks.sideband_progress(|_| self.over().is_none());
        callbacks
    }

    /// Returns why the session is to be given up.
    pub(super) fn over(&self) -> Option<GitError> {
        let state = self.state();
        if self.stop.is_cancelled() {
            Some(GitError::Cancelled)
        } else if state.received > self.fetch_bytes {
            let what = format!("what {} sends", self.location);
            Some(GitError::TooLarge { what, size: state.received, limit: self.fetch_bytes })
        } else if state.began.elapsed() >= state.limit {
            Some(GitError::TooSlow { repository: self.location.to_string(), after: state.limit })
        } else {
            None
        }
    }

    /// Counts what the server has sent.
    pub(super) fn received(&self, bytes: usize) {
        let mut state = self.state();
        state.received = state.received.saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX));
    }

    /// Waits for the server, within the time of the session.
    pub(super) fn wait<T>(
        &self,
        runtime: &SessionRuntime,
        exchange: impl Future<Output = Result<T, GitError>>,
    ) -> Result<T, GitError> {
        if let Some(over) = self.over() {
            return Err(over);
        }
        let (limit, left) = {
            let state = self.state();
            (state.limit, state.limit.saturating_sub(state.began.elapsed()))
        };
        let too_slow = || GitError::TooSlow { repository: self.location.to_string(), after: limit };
        runtime.block_on(async {
            tokio::select! {
                biased;
                () = self.stop.cancelled() => Err(GitError::Cancelled),
                result = exchange => result,
                () = tokio::time::sleep(left) => Err(too_slow()),
                () = tokio::time::sleep(SILENCE) => {
                    Err(self.unreachable(format!("it said nothing for {} s", SILENCE.as_secs())))
                }
            }
        })
    }

    /// Notes why the session failed. Returns an error for libgit2, which ends the operation.
    pub(super) fn fail(&self, error: GitError) -> io::Error {
        self.state().problem.get_or_insert(error);
        io::Error::other("the session with the server failed")
    }

    /// Notes why the session failed, where libgit2 wants an error of its own.
    pub(super) fn refuse(&self, error: GitError) -> git2::Error {
        git2::Error::from_str(&self.fail(error).to_string())
    }

    /// Notes why the server said no more: that is an error only if something was to come.
    pub(super) fn note_end(&self, error: GitError) {
        self.state().end.get_or_insert(error);
    }

    pub(super) fn unreachable(&self, message: impl Into<String>) -> GitError {
        GitError::Unreachable { repository: self.location.to_string(), message: message.into() }
    }

    pub(super) fn refused(&self, message: impl Into<String>) -> GitError {
        GitError::Refused { repository: self.location.to_string(), message: message.into() }
    }

    pub(super) fn untrusted(&self, message: impl Into<String>) -> GitError {
        GitError::Untrusted { repository: self.location.to_string(), message: message.into() }
    }

    /// Returns what an error of libgit2 means.
    pub(in crate::git) fn explain(&self, error: &git2::Error) -> GitError {
        let problem = self.state().problem.take();
        if let Some(problem) = problem.or_else(|| self.over()).or_else(|| of_the_machine(error, &self.folder)) {
            return problem;
        }
        if error.code() == ErrorCode::Owner {
            let path = self.location.path().unwrap_or_else(|| std::path::Path::new("")).to_owned();
            return GitError::ForeignOwner { path };
        }
        if error.message().contains("unrecoverable internal error") {
            // These are libgit2's words about lines that it can't read.
            return self.unreachable(
                "it answers with something else than Git's protocol, or with objects named by SHA-256, which belay does not read",
            );
        }
        let said = shown(error.message());
        if !said.is_empty() && said != NO_MESSAGE {
            return self.unreachable(said);
        }
        let end = self.state().end.take();
        end.unwrap_or_else(|| {
            let (class, code) = (error.class(), error.code());
            self.unreachable(format!(
                "the exchange with it ended before it was complete, at libgit2's {class:?} ({code:?})"
            ))
        })
    }

    fn state(&self) -> MutexGuard<'_, SessionState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns what a server or a program says as one short line without hidden characters.
pub(super) fn shown(text: &str) -> String {
    text.trim().chars().filter(|c| !belay_core::manifest::is_hidden(*c)).take(300).collect()
}

/// Returns the cause of an error that lies deepest: the others say that there is one.
pub(super) fn innermost(error: &(dyn Error + 'static)) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    shown(&cause.to_string())
}

/// The runtime of one session. It runs on the thread that waits.
pub(super) struct SessionRuntime(Option<Runtime>);

impl SessionRuntime {
    pub(super) fn new(session: &ServerSession) -> Result<SessionRuntime, GitError> {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let built = builder.enable_all().max_blocking_threads(1).build();
        Ok(SessionRuntime(Some(built.map_err(with_file("start a session for", &session.folder))?)))
    }
}

impl Deref for SessionRuntime {
    type Target = Runtime;

    fn deref(&self) -> &Runtime {
        self.0.as_ref().expect("it is there until it is dropped")
    }
}

impl Drop for SessionRuntime {
    fn drop(&mut self) {
        // Looking up a name may still hold a thread; nobody waits for it.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_without_a_message_says_how_the_session_ended() {
        let folder = tempfile::tempdir().unwrap();
        let repository = Repository::init(folder.path()).unwrap();
        let location: Location = "ssh://git.example.com/deploy.git".parse().unwrap();
        let begin = || {
            let (credentials, limits) = (Credentials::new(&location), Limits::default());
            ServerSession::begin(&location, &credentials, &limits, &repository, &CancellationToken::new()).0
        };
        for message in ["", "no error"] {
            let session = begin();
            let said = session.explain(&git2::Error::from_str(message)).to_string();
            assert!(said.contains("ended before it was complete") && !said.contains("no error"), "{said}");
            session.note_end(session.unreachable("Connection to git.example.com closed by remote host."));
            let said = session.explain(&git2::Error::from_str(message)).to_string();
            assert!(said.ends_with("closed by remote host."), "{said}");
        }
        let session = begin();
        session.note_end(session.unreachable("closed"));
        let said = session.explain(&git2::Error::from_str("the pack is broken")).to_string();
        assert!(said.ends_with("the pack is broken"), "{said}");
    }
}
