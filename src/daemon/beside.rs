//! What blocks (Git, the history's house-keeping) is done beside the loop, on threads of its own. In a run that is to
//! repeat there are none: it is done in its turn, by the runtime's clock.

use std::num::NonZero;
use std::sync::Arc;
use std::time::Duration;

/// Where blocking work is done.
#[derive(Clone, Default)]
pub(super) enum Beside {
    /// On threads that are there for it.
    #[default]
    Threads,
    /// In the runtime's own thread, at once, after as long on tokio's clock as this says.
    InTurn(Arc<dyn Fn() -> Duration + Send + Sync>),
}

impl Beside {
    /// On how many threads at once one piece of work may be done.
    pub(super) fn threads(&self) -> usize {
        match self {
            Beside::InTurn(_) => 1,
            Beside::Threads => std::thread::available_parallelism().map_or(1, NonZero::get),
        }
    }

    /// Does blocking work. A panic in it is the caller's.
    pub(super) async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        match self {
            Beside::InTurn(takes) => {
                tokio::time::sleep(takes()).await;
                work()
            }
            Beside::Threads => match tokio::task::spawn_blocking(work).await {
                Ok(done) => done,
                Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
                // The runtime is going down, and this task with it.
                Err(_) => std::future::pending().await,
            },
        }
    }
}
