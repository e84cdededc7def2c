//! The daemon's clock: the wall clock in production, tokio's clock (which tests pause) from a fixed start otherwise.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// Tells the time. Cheap to clone; everything that needs the time is given one.
#[derive(Clone, Debug)]
pub struct Clock(ClockSource);

#[derive(Clone, Debug)]
enum ClockSource {
    /// The time of day and the uptime when the clock was made.
    System {
        began: Timestamp,
        uptime: Duration,
    },
    Tokio {
        epoch: Timestamp,
        started: Instant,
        set: Arc<AtomicI64>,
        slept: Arc<AtomicU64>,
    },
    Fast {
        epoch: Timestamp,
        started: std::time::Instant,
        speed: f64,
    },
}

impl Clock {
    /// Returns the machine's own clock.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this is the clock")]
    pub fn system() -> Clock {
        Clock(ClockSource::System { began: Timestamp::now(), uptime: uptime().unwrap_or_default() })
    }

    /// Returns a clock that shows `epoch` now and moves with tokio's clock: with `tokio::time::pause`, only as far as
    /// the test lets it. Needs a running tokio runtime.
    #[must_use]
    pub fn tokio(epoch: Timestamp) -> Clock {
        Clock(ClockSource::Tokio { epoch, started: Instant::now(), set: Arc::default(), slept: Arc::default() })
    }

    /// Returns a clock that shows the machine's time now and goes `speed` times as fast from here on.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this is the clock")]
    pub fn fast(speed: f64) -> Clock {
        Clock(ClockSource::Fast { epoch: Timestamp::now(), started: std::time::Instant::now(), speed })
    }

    /// Sets a clock that moves with tokio's, and its clones, forward by so many seconds, or back if they are negative, as
    /// happens to a machine's clock. Other clocks stay as they are: they are not ours to set.
    pub fn jump(&self, seconds: i64) {
        if let ClockSource::Tokio { set, .. } = &self.0 {
            set.fetch_add(seconds, Ordering::Relaxed);
        }
    }

    /// Lets so many seconds pass on a clock that moves with tokio's, and its clones, that tokio's does not count: as when a
    /// machine is suspended. Other clocks stay as they are.
    pub fn suspend(&self, seconds: u32) {
        if let ClockSource::Tokio { slept, .. } = &self.0 {
            slept.fetch_add(u64::from(seconds), Ordering::Relaxed);
            self.jump(i64::from(seconds));
        }
    }

    /// Returns the time since some fixed moment, unaffected by settings of the clock; it includes the time of a
    /// suspended machine, which tokio's clock does not count.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        match &self.0 {
            // If the machine does not say, the time of day does; a person who sets it forward makes belay stop writing
            // for a moment.
            ClockSource::System { .. } => uptime().unwrap_or_else(|| self.since_1970()),
            ClockSource::Tokio { started, slept, .. } => {
                started.elapsed() + Duration::from_secs(slept.load(Ordering::Relaxed))
            }
            ClockSource::Fast { started, .. } => started.elapsed(),
        }
    }

    /// Returns the present moment by a clock that nobody sets: durations of minutes are measured by it, so that a
    /// correction of the machine's clock fails no rollout.
    #[must_use]
    pub fn steady(&self) -> Timestamp {
        let passed = |began: Timestamp, passed: Duration| {
            let passed = SignedDuration::try_from(passed).unwrap_or(SignedDuration::MAX);
            began.saturating_add(passed).unwrap_or(began)
        };
        match &self.0 {
            ClockSource::System { began, uptime: at_first } => match uptime() {
                Some(now) => passed(*began, now.saturating_sub(*at_first)),
                None => self.now(),
            },
            ClockSource::Tokio { epoch, .. } => passed(*epoch, self.elapsed()),
            ClockSource::Fast { .. } => self.now(),
        }
    }

    /// Returns the time of day at a moment of [`Clock::steady`].
    #[must_use]
    pub fn shown(&self, steady: Timestamp) -> Timestamp {
        steady.saturating_add(self.now().duration_since(self.steady())).unwrap_or(steady)
    }

    fn since_1970(&self) -> Duration {
        Duration::try_from(self.now().duration_since(Timestamp::UNIX_EPOCH)).unwrap_or_default()
    }

    /// Returns the present moment.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            #[expect(clippy::disallowed_methods, reason = "this is the clock")]
            ClockSource::System { .. } => Timestamp::now(),
            ClockSource::Tokio { epoch, started, set, .. } => {
                let elapsed = SignedDuration::try_from(started.elapsed()).unwrap_or(SignedDuration::MAX);
                let elapsed = elapsed.saturating_add(SignedDuration::from_secs(set.load(Ordering::Relaxed)));
                epoch.saturating_add(elapsed).unwrap_or(*epoch)
            }
            ClockSource::Fast { epoch, started, speed } => {
                let elapsed = Duration::try_from_secs_f64(started.elapsed().as_secs_f64() * speed);
                let elapsed = elapsed.ok().and_then(|elapsed| SignedDuration::try_from(elapsed).ok());
                epoch.saturating_add(elapsed.unwrap_or(SignedDuration::MAX)).unwrap_or(*epoch)
            }
        }
    }
}

/// Returns how long the machine has been up, the time that it was suspended included; `None` if the machine does not
/// say. Asked of the kernel, not of `/proc/uptime`: under the unit's `ProcSubset=pid` there is none.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "a function of the C library")]
fn uptime() -> Option<Duration> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: it writes one timespec to the given address, and keeps nothing.
    let answer = unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut time) };
    let nanoseconds = u32::try_from(time.tv_nsec).ok()?;
    (answer == 0).then_some(Duration::new(u64::try_from(time.tv_sec).ok()?, nanoseconds))
}

#[cfg(not(target_os = "linux"))]
fn uptime() -> Option<Duration> {
    None
}

/// The embedded cluster's clock shows the same time.
impl From<Clock> for minicluster::Clock {
    fn from(clock: Clock) -> minicluster::Clock {
        minicluster::Clock::new(move || clock.now())
    }
}

#[cfg(test)]
mod tests {
    use super::{Clock, Duration};
    use jiff::{SignedDuration, Timestamp};

    #[tokio::test(start_paused = true)]
    async fn the_tokio_clock_moves_with_paused_time() {
        let clock = Clock::tokio(Timestamp::UNIX_EPOCH);
        tokio::time::advance(Duration::from_secs(90)).await;
        assert_eq!(clock.now().duration_since(Timestamp::UNIX_EPOCH), SignedDuration::from_secs(90));
        clock.clone().jump(-100);
        assert_eq!(clock.now().duration_since(Timestamp::UNIX_EPOCH), SignedDuration::from_secs(-10));
        assert_eq!(clock.elapsed(), Duration::from_secs(90), "nobody sets that");
        clock.clone().suspend(60);
        assert_eq!(clock.elapsed(), Duration::from_secs(150));
        assert_eq!(clock.steady().duration_since(Timestamp::UNIX_EPOCH), SignedDuration::from_secs(150));
        assert_eq!(clock.shown(clock.steady()), clock.now());
    }

    #[test]
    fn the_machine_says_how_long_it_has_been_up() {
        assert!(Clock::system().elapsed() > Duration::ZERO);
        #[cfg(target_os = "linux")]
        {
            let up = super::uptime().expect("Linux tells");
            // The time in /proc has steps of 10 ms; the call is more exact.
            assert!(
                (0..1000)
                    .any(|_| super::uptime().is_some_and(|later| later > up && later < up + Duration::from_millis(9)))
            );
            let text = std::fs::read_to_string("/proc/uptime").expect("no unit hides it here");
            let told: f64 = text.split(' ').next().and_then(|seconds| seconds.parse().ok()).expect("seconds");
            assert!((told - up.as_secs_f64()).abs() < 5.0, "{told} and {up:?}");
        }
    }
}
