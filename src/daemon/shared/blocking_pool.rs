//! Blocking work (Git, the history's house-keeping) runs beside the loop, on threads of its own. In a run that is to
//! repeat there are none: it is done in its turn, by the runtime's clock.

use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::Duration;

use tokio::sync::Semaphore;

/// The number of threads on which one piece of work may run at once, whatever the machine has: a unit and a pod bound
/// the threads.
const THREADS: usize = 4;
const ALL_THREADS: u32 = 4;
/// From how many bytes on a text is large.
const LARGE_TEXT: usize = 256 * 1024;
/// How many threads that help with such work there may be in the whole program.
const HELPERS: usize = 8;
/// The number of pieces of work that a daemon may have under way on threads at once. The runtime has a few threads
/// more, so that sources whose servers do not answer never keep the rest from resolving a name.
const AT_ONCE: usize = 40;

/// The place where blocking work runs.
#[derive(Clone)]
pub enum BlockingPool {
    /// On threads that are there for it: as many at once as there is room for.
    Threads(ThreadRoom),
    /// In the runtime's own thread, at once, after as long on tokio's clock as this says.
    InTurn(Arc<dyn Fn() -> Duration + Send + Sync>),
}

/// The limits of a daemon's blocking work that is under way at once.
#[derive(Clone)]
pub struct ThreadRoom {
    all: Arc<Semaphore>,
    /// The limit for work that thousands of objects ask for at once. A thread that was started stays, with the memory
    /// that the allocators keep for it.
    many: Arc<Semaphore>,
}

impl Default for BlockingPool {
    fn default() -> BlockingPool {
        let room = |pieces| Arc::new(Semaphore::new(pieces));
        BlockingPool::Threads(ThreadRoom { all: room(AT_ONCE), many: room(THREADS) })
    }
}

impl BlockingPool {
    /// Returns the number of threads on which one piece of work may be done at once.
    pub fn threads(&self) -> usize {
        match self {
            BlockingPool::InTurn(_) => 1,
            BlockingPool::Threads(_) => thread::available_parallelism().map_or(1, NonZero::get).min(THREADS),
        }
    }

    /// Does blocking work that is done for an object, of which there may be thousands: a few at once. A panic in it is the
    /// caller's.
    pub async fn run_for_object<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        self.run_for_text(0, work).await
    }

    /// The same for work that reads an object's text of so many bytes: with a large one, nothing else is done for an object at
    /// that moment, for its values take many times as much memory.
    pub async fn run_for_text<T: Send + 'static>(&self, bytes: usize, work: impl FnOnce() -> T + Send + 'static) -> T {
        let places = if bytes > LARGE_TEXT { ALL_THREADS } else { 1 };
        let _places = match self {
            BlockingPool::InTurn(_) => None,
            // It is never closed.
            BlockingPool::Threads(room) => room.many.acquire_many(places).await.ok(),
        };
        self.run(work).await
    }

    /// Does blocking work. A panic in it is the caller's.
    pub async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        match self {
            BlockingPool::InTurn(takes) => {
                tokio::time::sleep(takes()).await;
                work()
            }
            BlockingPool::Threads(room) => {
                // It is never closed.
                let _place = room.all.acquire().await;
                match tokio::task::spawn_blocking(in_this_span(work)).await {
                    Ok(done) => done,
                    Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
                    // The runtime is going down, and this task with it.
                    Err(_) => std::future::pending().await,
                }
            }
        }
    }
}

/// Does work on a thread of its own beside the caller's. `None` if there are enough of them, or no more can be started:
/// the caller does it itself then.
pub fn helper<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> Option<ScopedJoinHandle<'scope, T>> {
    let place = PoolPlace::take()?;
    let work = move || {
        let _place = place;
        work()
    };
    thread::Builder::new().spawn_scoped(scope, work).ok()
}

/// One of the helpers that there may be. Given back when it is dropped, also by a panic.
struct PoolPlace;

static TAKEN: AtomicUsize = AtomicUsize::new(0);

impl PoolPlace {
    fn take() -> Option<PoolPlace> {
        let more = |taken| (taken < HELPERS).then_some(taken + 1);
        TAKEN.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok().map(|_| PoolPlace)
    }
}

impl Drop for PoolPlace {
    fn drop(&mut self) {
        TAKEN.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Log lines of another thread name the same source, too.
fn in_this_span<T>(work: impl FnOnce() -> T) -> impl FnOnce() -> T {
    let span = tracing::Span::current();
    move || span.in_scope(work)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_thousands_of_objects_ask_for_is_done_on_few_threads() {
        let pool = BlockingPool::default();
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..1000 {
            let (pool, now, most) = (pool.clone(), Arc::clone(&now), Arc::clone(&most));
            tasks.spawn(async move {
                let work = move || {
                    most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    thread::yield_now();
                    now.fetch_sub(1, Ordering::SeqCst);
                };
                pool.run_for_object(work).await;
            });
        }
        tasks.join_all().await;
        let most = most.load(Ordering::SeqCst);
        assert!((1..=THREADS).contains(&most), "{most} at once");
    }

    #[test]
    fn there_are_never_more_helpers_than_there_may_be() {
        assert!(BlockingPool::default().threads() <= THREADS);
        let asked_for_all = AtomicUsize::new(0);
        let helped = thread::scope(|scope| {
            let work = || {
                while asked_for_all.load(Ordering::Relaxed) == 0 {
                    thread::yield_now();
                }
            };
            let asked: Vec<_> = (0..100).map(|_| helper(scope, work)).collect();
            asked_for_all.store(1, Ordering::Relaxed);
            asked.into_iter().flatten().map(|helper| helper.join().unwrap()).count()
        });
        assert_eq!(helped, HELPERS);
        assert_eq!(TAKEN.load(Ordering::Relaxed), 0);
    }
}
