//! Work that waits for a disk, on a thread of the runtime, and work that takes much memory.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::runtime::{Handle, RuntimeFlavor};

/// Runs `work`, which waits for a disk. The thread's other tasks go on meanwhile on another thread, if the runtime has
/// several; if it has only one, there is nobody to go on.
pub fn blocking<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}

/// The size from which a text is large, in bytes. To read a text takes some forty times its size while it is read.
const LARGE_BYTES: usize = 256 << 10;

/// Held by the one who reads a large text.
static LARGE: Mutex<()> = Mutex::new(());

/// Waits until nobody else in this program reads a large text, if this one is large. Held while it is read.
pub fn turn_to_read(bytes: usize) -> Option<MutexGuard<'static, ()>> {
    (bytes > LARGE_BYTES).then(|| LARGE.lock().unwrap_or_else(PoisonError::into_inner))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    /// The only worker is in `blocking` until another task has run.
    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn other_tasks_go_on() {
        let (tell, told) = mpsc::channel();
        let waits = tokio::spawn(async move {
            let other = tokio::spawn(async move { tell.send(()) });
            let met = blocking(|| told.recv_timeout(Duration::from_secs(60)));
            (other.await, met)
        });
        let (other, met) = waits.await.unwrap();
        assert!(other.is_ok() && met == Ok(()));
    }

    #[test]
    fn it_needs_no_runtime() {
        assert_eq!(blocking(|| 1), 1);
        let one_thread = tokio::runtime::Builder::new_current_thread().build().unwrap();
        assert_eq!(one_thread.block_on(async { blocking(|| 2) }), 2);
        let many = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        assert_eq!(many.block_on(async { tokio::task::spawn_blocking(|| blocking(|| 3)).await.unwrap() }), 3);
    }
}
