//! Time that goes faster: a runtime whose clock stands still, and is moved on as the wall clock goes, many times as far.

use std::time::Duration;

use anyhow::Context as _;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::clock::Clock;

/// The period between two steps of time.
const TICK: Duration = Duration::from_millis(1);

/// A runtime whose time goes faster. It stops when this is dropped.
pub(in crate::cli) struct ClockPace {
    handle: Handle,
    clock: Clock,
    _stop: DropGuard,
}

impl ClockPace {
    /// Starts it: `speed` seconds pass there in each second. It has no sockets, which would wait in real time.
    pub(in crate::cli) async fn start(speed: f64) -> anyhow::Result<ClockPace> {
        let stop = CancellationToken::new();
        let (started, ready) = oneshot::channel();
        let stopped = stop.clone();
        std::thread::Builder::new()
            .name("pace".to_owned())
            .spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
                match runtime {
                    Ok(runtime) => runtime.block_on(async move {
                        let clock = Clock::fast(speed);
                        // Nobody waits for it any more if this fails.
                        drop(started.send(Ok((Handle::current(), clock.clone()))));
                        run(&clock, stopped).await;
                    }),
                    Err(error) => drop(started.send(Err(error))),
                }
            })
            .context("failed to start a thread")?;
        let (handle, clock) = ready.await.context("failed to start a runtime")?.context("failed to start a runtime")?;
        Ok(ClockPace { handle, clock, _stop: stop.drop_guard() })
    }

    /// Returns the runtime in whose time tasks run.
    pub(in crate::cli) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Returns the clock of that time.
    pub(in crate::cli) fn clock(&self) -> Clock {
        self.clock.clone()
    }
}

/// Moves time on until `stop` is cancelled.
async fn run(clock: &Clock, stop: CancellationToken) {
    let (tick, mut ticks) = mpsc::channel(1);
    // A paused clock jumps to the next timer when nothing else is to be done, but not while a blocking task runs.
    let pacer = tokio::task::spawn_blocking(move || {
        while tick.blocking_send(()).is_ok() {
            #[expect(clippy::disallowed_methods, reason = "this is what makes time pass")]
            std::thread::sleep(TICK);
        }
    });
    let mut reached = clock.now();
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => break,
            ticked = ticks.recv() => if ticked.is_none() { break },
        }
        let now = clock.now();
        let passed = Duration::try_from(now.duration_since(reached)).unwrap_or_default();
        // The timers of tokio go in milliseconds; the remainder is left for the next time.
        let whole = Duration::from_millis(u64::try_from(passed.as_millis()).unwrap_or(u64::MAX));
        if !whole.is_zero() {
            tokio::time::advance(whole).await;
            reached = reached.checked_add(whole).unwrap_or(now);
        }
    }
    drop(ticks);
    if let Err(error) = pacer.await {
        tracing::error!(%error, "belay's own fault: the pacer panicked");
    }
}
