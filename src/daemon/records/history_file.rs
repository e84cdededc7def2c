//! The history's file while belay runs: one that somebody deletes is made again, and if that fails, it is said of every
//! source.

use std::time::Duration;

use tokio::sync::watch;
use tracing::error;

use crate::daemon::publish::obstacle::Obstacle;
use crate::daemon::publish::status::{SourceStatus, Status, put_or_remove};
use crate::history::History;

/// The period between two checks that the file is in its place. Each write checks too.
const CHECK: Duration = Duration::from_secs(5);

/// Keeps the history's file in its place for as long as it is polled.
pub async fn keep_history(history: History, status: watch::Sender<Status>) {
    let mut said: Option<String> = None;
    loop {
        tokio::time::sleep(CHECK).await;
        let trouble = history.keep().err().map(|error| error.to_string());
        if trouble == said {
            continue;
        }
        if let Some(trouble) = &trouble {
            error!(trouble, "outcomes of commits are not written down");
        }
        status.send_if_modified(|status| {
            let say = |source: &mut SourceStatus| match (&trouble, &said) {
                (Some(_), _) => put_or_remove(&mut source.obstacles.trouble, &Obstacle::History, trouble.clone()),
                (None, Some(said)) => source.take_back(&Obstacle::History, said),
                (None, None) => false,
            };
            status.sources.values_mut().map(say).fold(false, |news, one| news | one)
        });
        said = trouble;
    }
}
