//! When belay gives up before the deadline, if a source asks for it (`fail_fast`): once pods show that they can't
//! start.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::health::{Fault, PodAccount};
use crate::rollout::Reason;

/// States that nothing but another manifest heals: given up at once.
const AT_ONCE: [&str; 4] =
    ["InvalidImageName", "CreateContainerConfigError", "ErrImageNeverPull", "SignatureValidationFailed"];
/// States that may heal by themselves, and the seconds after which they are given up when they have lasted.
const AFTER: [(&str, i64); 5] = [
    ("ErrImagePull", 60),
    ("ImagePullBackOff", 60),
    ("ImageInspectError", 60),
    ("CreateContainerError", 30),
    ("RunContainerError", 30),
];
/// The restarts of one pod after which it is given up.
const RESTARTS: i32 = 3;

/// Returns true for the state of a container for which a rollout is given up before its deadline.
pub(super) fn is_given_up_for(state: &str) -> bool {
    state == "CrashLoopBackOff" || AT_ONCE.contains(&state) || AFTER.iter().any(|(known, _)| *known == state)
}

/// Returns true when a pod of a revision that was complete says that its revision is unhealthy now: it crashes, can't
/// start again, or is not ready, and neither its node nor a lack of room for it is to blame. A pod that has only just
/// begun may still become ready.
#[must_use]
pub fn is_unwell(pod: &PodAccount) -> bool {
    let fails = pod.fault == Fault::Commit && pod.seen.node.is_some();
    // Between two crashes it is ready for a moment.
    fails || pod.fault == Fault::None && pod.seen.state == "Running" && pod.seen.restarts >= RESTARTS
}

/// The observations of a rollout's pods so far.
#[derive(Clone, Debug, Default)]
pub struct FailFast {
    /// The time since which some pod has been in a group of states that may heal.
    since: BTreeMap<i64, Timestamp>,
}

impl FailFast {
    /// Looks at the pods of the present template. Returns why the rollout is given up at once, or `None` if it goes on.
    pub fn look(&mut self, pods: &[PodAccount], now: Timestamp) -> Option<Reason> {
        let stuck = || pods.iter().filter(|pod| pod.fault.blames_the_commit());
        let gives_up =
            |code: &str, why: String| Reason::new(code.into(), format!("given up before its deadline, {why}"));
        for pod in stuck() {
            let state = pod.seen.state.as_str();
            if AT_ONCE.contains(&state) {
                return Some(gives_up(state, "because nothing but another manifest helps".to_owned()));
            }
            if pod.seen.restarts >= RESTARTS {
                return Some(gives_up("CrashLoopBackOff", format!("after {} restarts", pod.seen.restarts)));
            }
        }
        let waiting: BTreeMap<i64, &str> = stuck()
            .filter_map(|pod| AFTER.iter().find(|(state, _)| *state == pod.seen.state))
            .map(|(state, seconds)| (*seconds, *state))
            .collect();
        // A pod that has healed meanwhile begins again.
        self.since.retain(|seconds, _| waiting.contains_key(seconds));
        for (seconds, state) in waiting {
            let since = *self.since.entry(seconds).or_insert(now);
            if now.duration_since(since) >= SignedDuration::from_secs(seconds) {
                return Some(gives_up(state, format!("after {seconds} s of {state}")));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rollout::PodSeen;
    use crate::rollout::health::PodStart;

    fn pod(state: &str, restarts: i32) -> PodAccount {
        let seen = PodSeen { state: state.to_owned(), restarts, ..PodSeen::default() };
        PodAccount { uid: String::new(), seen, fault: Fault::Commit, start: PodStart::default() }
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    #[test]
    fn some_states_are_given_up_at_once() {
        for state in AT_ONCE {
            assert_eq!(FailFast::default().look(&[pod(state, 0)], at(0)).unwrap().code.as_str(), state);
        }
    }

    #[test]
    fn pulls_get_a_minute_and_heal() {
        let mut impatience = FailFast::default();
        assert_eq!(impatience.look(&[pod("ErrImagePull", 0)], at(0)), None);
        assert_eq!(impatience.look(&[pod("ImagePullBackOff", 0)], at(59)), None);
        let healed = PodAccount { fault: Fault::None, ..pod("Running", 0) };
        assert_eq!(impatience.look(&[healed], at(60)), None);
        assert_eq!(impatience.look(&[pod("ErrImagePull", 0)], at(61)), None, "from the beginning");
        assert!(impatience.look(&[pod("ImagePullBackOff", 0)], at(121)).is_some());
    }

    #[test]
    fn what_was_well_may_stop_being_so() {
        let on_a_node = |fault: Fault, state: &str, restarts: i32| {
            let seen = PodSeen { node: Some("node-1".to_owned()), ..pod(state, restarts).seen };
            is_unwell(&PodAccount { uid: String::new(), seen, fault, start: PodStart::default() })
        };
        assert!(on_a_node(Fault::Commit, "CrashLoopBackOff", 1));
        assert!(on_a_node(Fault::Commit, "NotReady", 0));
        assert!(on_a_node(Fault::None, "Running", 3), "ready for a moment");
        assert!(!on_a_node(Fault::None, "Running", 2));
        assert!(!on_a_node(Fault::None, "Terminating", 9));
        assert!(!on_a_node(Fault::Infrastructure, "NodeNotReady", 9));
        assert!(!on_a_node(Fault::Young, "NotReady", 0));
        assert!(!is_unwell(&pod("Unschedulable", 0)), "there is no room for it");
    }

    #[test]
    fn three_restarts_are_enough() {
        let mut impatience = FailFast::default();
        assert_eq!(impatience.look(&[pod("CrashLoopBackOff", 2)], at(0)), None);
        assert!(impatience.look(&[pod("CrashLoopBackOff", 3)], at(1)).is_some());
    }

    #[test]
    fn what_is_not_ready_may_take_its_time_and_the_world_is_not_to_blame() {
        let mut impatience = FailFast::default();
        assert_eq!(impatience.look(&[pod("NotReady", 0)], at(0)), None);
        assert_eq!(impatience.look(&[pod("NotReady", 0)], at(100_000)), None);
        let world = PodAccount { fault: Fault::Infrastructure, ..pod("ErrImageNeverPull", 9) };
        assert_eq!(impatience.look(&[world], at(100_001)), None);
    }
}
