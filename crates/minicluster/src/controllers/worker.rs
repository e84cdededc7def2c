//! Workers: they take keys from a queue and bring the objects in order.

use std::fmt::Display;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt as _;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::error::Error;
use super::work_queue::WorkQueue;

/// One controller: its work on one key.
pub trait Reconciler: Send + Sync + 'static {
    /// The key of its queue.
    type Key: Clone + Ord + Display + Send + Sync + 'static;

    /// Returns its name, for logs.
    fn name(&self) -> &'static str;

    /// Returns the queue of keys to reconcile.
    fn queue(&self) -> &WorkQueue<Self::Key>;

    /// Brings one object in order. A failure is tried again after a pause.
    fn sync(&self, key: &Self::Key) -> impl Future<Output = Result<(), Error>> + Send;

    /// Returns the number of failures in a row after which a key is dropped until the next change; `None` for never.
    fn tries(&self) -> Option<u32> {
        None
    }
}

/// Starts `count` workers, which run until `stop`. A sync under way is finished first.
pub fn spawn<R: Reconciler>(reconciler: &Arc<R>, count: usize, tracker: &TaskTracker, stop: &CancellationToken) {
    for _ in 0..count {
        let reconciler = reconciler.clone();
        let stop = stop.clone();
        tracker.spawn(async move {
            loop {
                let key = tokio::select! {
                    biased;
                    () = stop.cancelled() => return,
                    key = reconciler.queue().take() => key,
                };
                work(reconciler.as_ref(), &key).await;
                reconciler.queue().done(&key);
            }
        });
    }
}

async fn work<R: Reconciler>(reconciler: &R, key: &R::Key) {
    let queue = reconciler.queue();
    // A fault of ours in one object must not keep the others from being reconciled.
    let started = tokio::time::Instant::now();
    let outcome = AssertUnwindSafe(reconciler.sync(key)).catch_unwind().await;
    tracing::trace!(controller = reconciler.name(), %key, took = ?started.elapsed(), "looked at");
    match outcome {
        Ok(Ok(()) | Err(Error::ComesBack)) => queue.forget(key),
        Ok(Err(error)) if error.is_namespace_terminating() => queue.forget(key),
        Ok(Err(error)) => {
            let tried = queue.failures(key);
            if reconciler.tries().is_some_and(|tries| tried >= tries) {
                tracing::warn!(controller = reconciler.name(), %key, %error, "given up until the next change");
                queue.forget(key);
            } else {
                tracing::debug!(controller = reconciler.name(), %key, %error, "trying again");
                queue.add_after_failure(key.clone());
            }
        }
        Err(_) => {
            tracing::error!(controller = reconciler.name(), %key, "a fault of this program; trying again");
            queue.add_after_failure(key.clone());
        }
    }
}
