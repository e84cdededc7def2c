//! Opens the mirror of a source. A folder that can't be used (it belongs to another user, or is no folder) blocks its source
//! alone: the others are followed, and it is tried again.

use std::io;
use std::time::Duration;

use tracing::warn;

use crate::backoff::Backoff;
use crate::daemon::publish::obstacle::Obstacle;
use crate::daemon::publish::status::{Publisher, set};
use crate::daemon::shared::blocking_pool::BlockingPool;
use crate::git::{Credentials, GitError, Limits, Location, Mirror, Opened};
use crate::history::check_owner;
use crate::state_folder::StateFolder;

/// The waits before a mirror is opened again.
const AGAIN: Backoff = Backoff::between(Duration::from_secs(5), Duration::from_mins(5));

/// The place of a source's mirror, and the repository that it is of.
#[derive(Clone)]
pub struct MirrorPlace {
    pub folder: StateFolder,
    pub location: Location,
    pub credentials: Credentials,
}

impl MirrorPlace {
    /// Opens the mirror. It blocks.
    pub fn open(&self) -> Result<Mirror, GitError> {
        self.check_owner()?;
        let (location, credentials) = (self.location.clone(), self.credentials.clone());
        let (mirror, opened) = Mirror::open(self.folder.clone(), location, credentials, Limits::default())?;
        let aside = match opened {
            Opened::OtherRepository { was, set_aside } => Some((format!("it is a copy of {was}"), set_aside)),
            Opened::Damaged { why, set_aside } => Some((why, set_aside)),
            Opened::Existing | Opened::Fresh => None,
        };
        if let Some((why, set_aside)) = aside {
            let folder = self.folder.path().display();
            warn!(%folder, why, set_aside = %set_aside.display(), "the mirror could not be used and was set aside");
        }
        Ok(mirror)
    }

    /// Opens the mirror, unless `tried` has it, again and again until it is open.
    pub async fn opened(
        self,
        tried: Option<Result<Mirror, GitError>>,
        status: &Publisher,
        pool: &BlockingPool,
    ) -> Mirror {
        let place = self.clone();
        let tried = match tried {
            Some(tried) => tried,
            None => pool.run(move || place.open()).await,
        };
        match tried {
            Ok(mirror) => mirror,
            Err(error) => self.opened_after(error, status, pool).await,
        }
    }

    /// Opens the mirror again and again after an error, and publishes what is in the way.
    async fn opened_after(self, mut error: GitError, status: &Publisher, pool: &BlockingPool) -> Mirror {
        let mut backoff = AGAIN;
        loop {
            let message = error.to_string();
            let wait = backoff.wait();
            warn!(error = message, again_in_s = wait.as_secs(), "failed to open the mirror; the other sources go on");
            let lasts = !matches!(error, GitError::Busy { .. });
            status.change(|source| set(&mut source.obstacles.unreadable, lasts.then(|| message.clone())));
            status.trouble(&Obstacle::Repository, Some(message));
            tokio::time::sleep(wait).await;
            let place = self.clone();
            match pool.run(move || place.open()).await {
                Ok(mirror) => {
                    status.forget();
                    return mirror;
                }
                Err(next) => error = next,
            }
        }
    }

    /// Fails when somebody else could change what is in the folder.
    fn check_owner(&self) -> Result<(), GitError> {
        for path in [self.folder.path().to_owned(), self.folder.join("repository.git")] {
            if path.symlink_metadata().is_ok() {
                check_owner(&path).map_err(|error| {
                    let source = io::Error::other(error.to_string());
                    GitError::Io { doing: "use", path: path.clone(), source }
                })?;
            }
        }
        Ok(())
    }
}
