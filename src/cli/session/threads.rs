//! The program's threads: how many there may be, whatever the machine has, and whether there is room for them.
//!
//! A runtime that can't start a thread panics, or waits for ever for one that never comes. So it is tried before the runtime
//! is built, and the runtime gets no more than there was room for.

use std::fs;
use std::io;
use std::num::NonZero;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};

/// Threads that run tasks, on a machine with so many processors.
const WORKERS: usize = 4;
/// Threads for blocking work (Git, looking up names), of a command that is soon through.
pub(in crate::cli) const BLOCKING_OF_A_COMMAND: usize = 8;
/// Threads for blocking work of the daemon: a server that does not answer keeps one until the fetch's limit.
pub(in crate::cli) const BLOCKING_OF_THE_DAEMON: usize = 48;
/// Threads for blocking work without which belay does not begin: Git may hold one while a name is looked up.
const FEWEST_BLOCKING: usize = 2;
/// A thread that has nothing to do is kept: where threads are short a new one might not come.
const KEPT: Duration = Duration::from_hours(24);
/// Threads that have ended are gone within this time, on a machine that has other things to do.
const GONE_WITHIN: Duration = Duration::from_secs(5);

/// The reason for which the program can't begin.
#[derive(Debug, thiserror::Error)]
pub(in crate::cli) enum StartError {
    #[error(
        "failed to start: there is room for {found} more threads, and belay needs {needed}: {source}; raise TasksMax= of \
         its unit, the pod's limit of processes, or the user's (ulimit -u)"
    )]
    Threads { found: usize, needed: usize, source: io::Error },
    #[error("failed to start: {0}")]
    Runtime(#[from] io::Error),
}

/// Returns the runtime, with at most so many threads for blocking work.
pub(in crate::cli) fn runtime(blocking: usize) -> Result<Runtime, StartError> {
    let share = share(thread::available_parallelism().map_or(1, NonZero::get), blocking, startable)?;
    let mut builder = Builder::new_multi_thread();
    builder.enable_all().worker_threads(share.workers).max_blocking_threads(share.blocking).thread_keep_alive(KEPT);
    let runtime = builder.build()?;
    // One is there from now on, whatever else takes the room that there is.
    drop(runtime.spawn_blocking(|| ()));
    Ok(runtime)
}

/// The shares of the threads.
#[derive(Debug, PartialEq, Eq)]
struct Share {
    workers: usize,
    blocking: usize,
}

/// Shares out the threads that can be started: `startable` says how many of those wanted, and why no more.
fn share(
    processors: usize,
    blocking: usize,
    startable: impl FnOnce(usize) -> (usize, Option<io::Error>),
) -> Result<Share, StartError> {
    let workers = processors.clamp(1, WORKERS);
    match startable(workers + blocking) {
        (_, None) => Ok(Share { workers, blocking }),
        (found, Some(source)) if found < 1 + FEWEST_BLOCKING => {
            Err(StartError::Threads { found, needed: 1 + FEWEST_BLOCKING, source })
        }
        (found, Some(_)) => {
            let workers = workers.min(found - FEWEST_BLOCKING);
            Ok(Share { workers, blocking: (found - workers).min(blocking) })
        }
    }
}

/// Returns how many of these threads can exist at once, and why no more. It returns when they are gone again.
fn startable(wanted: usize) -> (usize, Option<io::Error>) {
    let before = running();
    let result = start_at_once(wanted);
    wait_until_gone(before);
    result
}

/// Waits until the kernel has taken a joined thread away, which counts against the limits until then. The kernel
/// uncounts it before it leaves /proc.
#[allow(clippy::disallowed_methods, reason = "no runtime is there yet")]
fn wait_until_gone(before: Option<usize>) {
    let began = Instant::now();
    while running() > before && began.elapsed() < GONE_WITHIN {
        thread::sleep(Duration::from_millis(1));
    }
}

/// Returns the number of threads of this program; nothing on a system that does not say.
fn running() -> Option<usize> {
    Some(fs::read_dir("/proc/self/task").ok()?.count())
}

/// Starts so many threads that wait until all are there, or no more can be.
fn start_at_once(wanted: usize) -> (usize, Option<io::Error>) {
    let gate = Mutex::new(());
    thread::scope(|scope| {
        // They end when this has been given back.
        let _closed = gate.lock().unwrap_or_else(PoisonError::into_inner);
        for started in 0..wanted {
            let waits = || drop(gate.lock().unwrap_or_else(PoisonError::into_inner));
            if let Err(error) = thread::Builder::new().spawn_scoped(scope, waits) {
                return (started, Some(error));
            }
        }
        (wanted, None)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_with_many_processors_gets_no_more_threads() {
        for processors in [1, 2, 4, 60, 64, 1024] {
            let shared = share(processors, BLOCKING_OF_THE_DAEMON, |wanted| (wanted, None)).unwrap();
            assert_eq!(shared, Share { workers: processors.min(4), blocking: 48 });
        }
    }

    #[test]
    fn it_makes_do_with_the_room_there_is_and_says_where_there_is_none() {
        let short = |found| move |_| (found, Some(io::Error::from(io::ErrorKind::WouldBlock)));
        assert_eq!(share(64, 48, short(20)).unwrap(), Share { workers: 4, blocking: 16 });
        assert_eq!(share(64, 48, short(3)).unwrap(), Share { workers: 1, blocking: 2 });
        let error = share(64, 48, short(2)).unwrap_err().to_string();
        assert!(error.contains("room for 2 more threads, and belay needs 3") && error.contains("TasksMax="), "{error}");
    }

    #[test]
    fn trying_leaves_nothing_behind() {
        assert!(matches!(startable(40), (40, None)));
        let runtime = runtime(3).unwrap();
        assert!(runtime.metrics().num_workers() <= WORKERS);
        assert_eq!(runtime.block_on(async { tokio::task::spawn_blocking(|| 7).await.unwrap() }), 7);
    }
}
