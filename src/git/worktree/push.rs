//! A working copy's branch on its way to where it is pushed to.

use git2::{ErrorCode, PushOptions};
use tokio_util::sync::CancellationToken;

use super::working_copy::WorkingCopy;
use crate::git::error::{GitError, while_doing, wrong};
use crate::git::read::limits::Limits;
use crate::git::transport::credentials::Credentials;
use crate::git::transport::location::{InvalidLocation, Location};
use crate::git::transport::session::ServerSession;

impl WorkingCopy {
    /// Returns the location to which the present branch is pushed.
    ///
    /// # Errors
    ///
    /// When no remote is configured, or it is somewhere that belay does not go to.
    pub fn destination(&self) -> Result<Location, GitError> {
        let branch = self.branch()?;
        let name = self.setting(&format!("branch.{branch}.remote")).unwrap_or_else(|| "origin".to_owned());
        let remote = self.repository().find_remote(&name).map_err(|_| {
            wrong(format!("{} has no remote {name} to push to; add it with git remote add", self.root().display()))
        })?;
        let url = remote.pushurl().ok().flatten().or(remote.url().ok()).unwrap_or_default().to_owned();
        // Git reads a relative path from the root of the working copy.
        let url = if url.starts_with("../") || url.starts_with("./") {
            self.root().join(url).display().to_string()
        } else {
            url
        };
        url.parse().map_err(|error: InvalidLocation| wrong(error.to_string()))
    }

    /// Pushes the present branch. A branch that has moved on meanwhile is not overwritten.
    ///
    /// # Errors
    ///
    /// [`GitError::PushRefused`] with the answer of the other side, and as for [`crate::git::Mirror::fetch`].
    pub fn push(&self, credentials: &Credentials, stop: &CancellationToken) -> Result<Location, GitError> {
        let branch = self.branch()?;
        let location = self.destination()?;
        let upstream = self.setting(&format!("branch.{branch}.merge"));
        let upstream = upstream.unwrap_or_else(|| format!("refs/heads/{branch}"));
        let limits = Limits::default();
        let (session, _current) = ServerSession::begin(&location, credentials, &limits, self.repository(), stop);
        let url = location.to_string();
        let refused = |message: String| GitError::PushRefused { repository: url.clone(), message };
        let mut remote = self.repository().remote_anonymous(&url).map_err(while_doing(format!("use {url}")))?;
        let mut refusal = None;
        let pushed = {
            let mut callbacks = session.callbacks();
            callbacks.push_update_reference(|_, status| {
                refusal = status.map(|text| {
                    text.chars().filter(|c| !belay_core::manifest::is_hidden(*c)).take(300).collect::<String>()
                });
                Ok(())
            });
            let mut options = PushOptions::new();
            options.remote_callbacks(callbacks);
            options.follow_redirects(git2::RemoteRedirect::None);
            remote.push(&[format!("refs/heads/{branch}:{upstream}")], Some(&mut options))
        };
        match (pushed, refusal) {
            (Ok(()), None) => Ok(location),
            (Ok(()), Some(message)) => Err(refused(message)),
            (Err(error), _) if error.code() == ErrorCode::NotFastForward => Err(refused(
                "somebody has pushed meanwhile; take that over with git pull --rebase, and push again".to_owned(),
            )),
            (Err(error), _) if error.code() == ErrorCode::BareRepo => Err(refused(
                "it has a working copy of its own, and libgit2 pushes to none; push with git, or to a bare one"
                    .to_owned(),
            )),
            (Err(error), _) => Err(session.explain(&error)),
        }
    }
}
