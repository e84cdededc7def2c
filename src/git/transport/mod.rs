//! Talking to a Git server: what it asks for, what it shows, when it is given up, and what its errors mean.

pub(in crate::git) mod copied_packs;
pub(in crate::git) mod credentials;
pub(in crate::git) mod fetch;
pub(in crate::git) mod host_keys;
pub(in crate::git) mod import;
pub(in crate::git) mod local_files;
pub(in crate::git) mod location;
pub(in crate::git) mod redirect;
pub(in crate::git) mod surplus_parents;
pub(in crate::git) mod wake;
pub(in crate::git) mod watchdog;

use std::cell::RefCell;
use std::path::Path;

use git2::cert::Cert;
use git2::{CertificateCheckStatus, ErrorClass, ErrorCode, ProxyOptions, RemoteCallbacks};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::credentials::{Answers, Credentials};
use self::host_keys::ShownKey;
use self::location::Location;
use self::redirect::RedirectGuard;
use super::error::GitError;
use crate::git::mirror::damage::of_the_machine;
use crate::git::read::limits::Limits;

/// Proxies as Git's configuration and the environment name them.
pub(super) fn proxy() -> ProxyOptions<'static> {
    let mut options = ProxyOptions::new();
    options.auto();
    options
}

/// One talk with a server.
pub(super) struct Talk<'a> {
    location: &'a Location,
    credentials: &'a Credentials,
    limits: &'a Limits,
    /// Where what it sends is written.
    mirror: &'a Path,
    stop: &'a CancellationToken,
    until: Instant,
    said: RefCell<ServerWords<'a>>,
    _redirects: RedirectGuard,
}

/// What was said so far.
struct ServerWords<'a> {
    answers: Answers<'a>,
    untrusted: Option<String>,
    bytes: u64,
}

impl<'a> Talk<'a> {
    pub(super) fn new(
        location: &'a Location,
        credentials: &'a Credentials,
        limits: &'a Limits,
        mirror: &'a Path,
        stop: &'a CancellationToken,
    ) -> Talk<'a> {
        let until = Instant::now() + limits.fetch_time;
        let said = ServerWords { answers: credentials.answers(), untrusted: None, bytes: 0 };
        let redirects = RedirectGuard::new(location.origin());
        let said = RefCell::new(said);
        Talk { location, credentials, limits, mirror, stop, until, said, _redirects: redirects }
    }

    /// What libgit2 calls during the talk.
    pub(super) fn callbacks<'b>(&'b self) -> RemoteCallbacks<'b>
    where
        'a: 'b,
    {
        let mut callbacks = RemoteCallbacks::new();
        callbacks.credentials(|url, _, allowed| self.said.borrow_mut().answers.answer(url, allowed));
        callbacks.certificate_check(|certificate, host| self.check(certificate, host));
        callbacks.transfer_progress(|progress| {
            self.said.borrow_mut().bytes = progress.received_bytes() as u64;
            self.over().is_none()
        });
        callbacks.sideband_progress(|_| self.over().is_none());
        callbacks
    }

    fn check(&self, certificate: &Cert<'_>, host: &str) -> Result<CertificateCheckStatus, git2::Error> {
        let Some(shown) = certificate.as_hostkey() else {
            // Of https: OpenSSL has looked at it, and its judgement stands.
            return Ok(CertificateCheckStatus::CertificatePassthrough);
        };
        let port = self.location.origin().map_or(22, |origin| origin.port);
        let kind = shown.hostkey_type().map_or("unknown", |kind| kind.name());
        let key = ShownKey { host, port, kind, bytes: shown.hostkey().unwrap_or_default() };
        match host_keys::check(&key, self.credentials.known_hosts_file()) {
            Ok(()) => Ok(CertificateCheckStatus::CertificateOk),
            Err(why) => {
                self.said.borrow_mut().untrusted = Some(why);
                Err(git2::Error::new(ErrorCode::Certificate, ErrorClass::Ssh, "the host key is not trusted"))
            }
        }
    }

    /// Why the talk is to be given up.
    fn over(&self) -> Option<GitError> {
        let bytes = self.said.borrow().bytes;
        let repository = self.location.to_string();
        if self.stop.is_cancelled() {
            Some(GitError::Cancelled)
        } else if bytes > self.limits.fetch_bytes {
            let what = format!("what {repository} sends");
            Some(GitError::TooLarge { what, size: bytes, limit: self.limits.fetch_bytes })
        } else if Instant::now() >= self.until {
            Some(GitError::TooSlow { repository, after: self.limits.fetch_time })
        } else {
            None
        }
    }

    /// What an error of libgit2 means, knowing what was said before it.
    pub(super) fn explain(&self, error: &git2::Error) -> GitError {
        if let Some(over) = self.over() {
            return over;
        }
        let repository = self.location.to_string();
        let mut said = self.said.borrow_mut();
        if let Some(message) = said.untrusted.take() {
            return GitError::Untrusted { repository, message };
        }
        if let Some(problem) = said.answers.problem.take() {
            return problem;
        }
        if let Some(short) = of_the_machine(error, self.mirror) {
            return short;
        }
        let message: String =
            error.message().chars().filter(|c| !belay_core::manifest::is_hidden(*c)).take(300).collect();
        let status = |code: &str| message.ends_with(&format!("http status code: {code}"));
        let shown = said.answers.shown();
        match (error.code(), error.class()) {
            (ErrorCode::Owner, _) => {
                let path = self.location.path().unwrap_or_else(|| std::path::Path::new("")).to_owned();
                GitError::ForeignOwner { path }
            }
            (ErrorCode::Auth, _) if shown.is_empty() => {
                let message = "it wants credentials, and none are configured for it".to_owned();
                GitError::Refused { repository, message }
            }
            (ErrorCode::Auth, _) => {
                GitError::Refused { repository, message: format!("it does not take {shown} that is configured") }
            }
            (_, ErrorClass::Ssh) if message.contains("private key") => GitError::Refused {
                repository,
                message: format!("the ssh key that is configured can't be used; is its passphrase right? {message}"),
            },
            (ErrorCode::Certificate, _) | (_, ErrorClass::Ssl) => GitError::Untrusted { repository, message },
            _ if status("401") || status("403") => {
                GitError::Refused { repository, message: "these credentials may not read it".to_owned() }
            }
            _ if status("404") => GitError::Refused {
                repository,
                message: "it knows no such repository, or none that these credentials may read".to_owned(),
            },
            _ if message.contains("redirect") => GitError::Refused {
                repository,
                message: format!("{message}; write the new address into the configuration"),
            },
            _ => GitError::Unreachable { repository, message },
        }
    }
}
