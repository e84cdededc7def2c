//! The back-off of a Job: the pauses after failed pods. Pure.

use jiff::{SignedDuration, Timestamp};

use crate::controllers::pod::{Pod, PodContainerStatus};

/// The pause after the first failure; it doubles with each further one up to the longest.
const FIRST_PAUSE: SignedDuration = SignedDuration::from_secs(10);
const LAST_PAUSE: SignedDuration = SignedDuration::from_mins(10);

/// Returns how much is left of the pause after so many failures, the last of them then.
pub fn pause_after(failures: i32, last: Timestamp, now: Timestamp) -> SignedDuration {
    let doublings = u32::try_from(failures.saturating_sub(1)).unwrap_or(0).min(10);
    let pause = (FIRST_PAUSE * 2_i32.pow(doublings)).min(LAST_PAUSE);
    (pause - now.duration_since(last)).max(SignedDuration::ZERO)
}

/// Returns the end of the last of a pod's containers, or the nearest known time.
pub fn ended_at(pod: &Pod) -> Option<Timestamp> {
    let of_container =
        |status: &PodContainerStatus| status.state.terminated.as_ref()?.finished_at.as_ref().map(|time| time.0);
    let latest = pod.status.container_statuses.iter().filter_map(of_container).max();
    let changed = || pod.condition("Ready").and_then(|ready| ready.last_transition_time.as_ref()).map(|time| time.0);
    let asked = || pod.metadata.deletion_timestamp.as_ref().map(|time| time.0);
    latest.or_else(changed).or_else(asked)
}
