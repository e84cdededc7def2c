//! The time that a thread has had of a processor, however many others want it: a bound for what would take minutes of it.

use std::time::Duration;

/// The bound.
pub const FEW: Duration = Duration::from_secs(30);

/// Returns the time that this thread has had so far.
pub fn of_this_thread() -> Duration {
    let times = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux tells it");
    let nanoseconds = times.split(' ').next().and_then(|time| time.parse().ok());
    Duration::from_nanos(nanoseconds.expect("the first number is the time on a processor"))
}
