//! The tasks beside a source's loop. Their log lines name the source, like those of the loop itself.

use tokio::task::{AbortHandle, JoinError, JoinSet};
use tracing::Instrument as _;

/// The tasks of one source; each has a result.
pub struct Tasks<R>(JoinSet<R>);

impl<R> Default for Tasks<R> {
    fn default() -> Tasks<R> {
        Tasks(JoinSet::default())
    }
}

impl<R: Send + 'static> Tasks<R> {
    /// Runs something beside the loop.
    pub fn spawn(&mut self, task: impl Future<Output = R> + Send + 'static) -> AbortHandle {
        self.0.spawn(task.in_current_span())
    }

    /// Returns the next that is through; `None` if nothing runs.
    pub async fn join_next(&mut self) -> Option<Result<R, JoinError>> {
        self.0.join_next().await
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Ends all of them.
    pub async fn shutdown(&mut self) {
        self.0.shutdown().await;
    }
}
