//! The bake time: a workload that is complete is watched on, and fails when its new pods do.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::health::{Fault, PodAccount};
use crate::rollout::{Reason, ReasonCode, marks};
use crate::span::Span;

/// The beginning of a bake time, as the history keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BakeStart {
    /// When it ends.
    pub ends: Timestamp,
    /// The restarts of each pod before it, by the pod's name.
    pub restarts: BTreeMap<String, i32>,
}

/// The longest bake time. A longer one counts as this.
const LONGEST: SignedDuration = SignedDuration::from_hours(7 * 24);

/// Returns the bake time of a workload: its manifest's own, else that of its source.
#[must_use]
pub fn bake_time(manifest: &Value, of_source: Span) -> SignedDuration {
    let own = marks::annotation(manifest, marks::BAKE).and_then(|text| text.parse::<Span>().ok());
    SignedDuration::try_from(own.unwrap_or(of_source).0).map_or(LONGEST, |time| time.min(LONGEST))
}

/// Watches the pods of a complete workload until its bake time ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bake {
    ends: Timestamp,
    pods: BTreeMap<String, BakingPod>,
}

/// The past of a pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct BakingPod {
    /// The restarts that are not counted.
    restarts: i32,
    /// True when it was ready within the bake time.
    was_ready: bool,
}

impl Bake {
    /// Begins a bake time at `now`. The restarts of before are part of the rollout.
    #[must_use]
    pub fn begin(time: SignedDuration, pods: &[PodAccount], now: Timestamp) -> Bake {
        let restarts = pods.iter().map(|pod| (pod.seen.name.clone(), pod.seen.restarts)).collect();
        Bake::resume(BakeStart { ends: now.checked_add(time).unwrap_or(Timestamp::MAX), restarts })
    }

    /// Goes on with a bake time that began before belay was restarted.
    #[must_use]
    pub fn resume(start: BakeStart) -> Bake {
        let pod = |(name, restarts)| (name, BakingPod { restarts, was_ready: true });
        Bake { ends: start.ends, pods: start.restarts.into_iter().map(pod).collect() }
    }

    /// Returns its beginning, for the history.
    #[must_use]
    pub fn start(&self) -> BakeStart {
        let restarts = self.pods.iter().map(|(name, pod)| (name.clone(), pod.restarts)).collect();
        BakeStart { ends: self.ends, restarts }
    }

    /// Returns when it ends.
    #[must_use]
    pub fn ends(&self) -> Timestamp {
        self.ends
    }

    /// Looks at the pods of the present template. Returns the failure, if one of them has restarted, or is not ready any
    /// more, by no fault of the infrastructure.
    pub fn look(&mut self, pods: &[PodAccount]) -> Option<Reason> {
        for pod in pods {
            let known = self.pods.entry(pod.seen.name.clone()).or_default();
            known.was_ready |= pod.fault == Fault::None && pod.seen.state == "Running";
        }
        let failed = pods.iter().any(|pod| self.has_restarted(pod) || self.is_lost(pod));
        failed.then(|| Reason::new(ReasonCode::BakeFailed, "it failed within its bake time, after it was complete"))
    }

    /// Blames the commit for the pods that have restarted, also where they are ready again.
    pub fn blame_restarted(&self, pods: &mut [PodAccount]) {
        for pod in pods.iter_mut().filter(|pod| self.has_restarted(pod) && pod.fault == Fault::None) {
            pod.fault = Fault::Commit;
            "Restarted".clone_into(&mut pod.seen.state);
        }
    }

    /// Returns true when a container of a pod has ended within the bake time. A pod that came later has no restarts of before.
    /// A restart that names no container was its node's.
    fn has_restarted(&self, pod: &PodAccount) -> bool {
        let before = self.pods.get(&pod.seen.name).map_or(0, |known| known.restarts);
        let is_blamed = matches!(pod.fault, Fault::None | Fault::Commit) && pod.seen.container.is_some();
        is_blamed && pod.seen.restarts > before
    }

    /// Returns true when a pod was ready, and is not any more.
    fn is_lost(&self, pod: &PodAccount) -> bool {
        pod.fault == Fault::Commit && self.pods.get(&pod.seen.name).is_some_and(|known| known.was_ready)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rollout::PodSeen;
    use crate::rollout::health::PodStart;
    use serde_json::json;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// Returns a pod on a node; a state but `Running` names the container.
    fn pod(name: &str, fault: Fault, state: &str, restarts: i32) -> PodAccount {
        let container = (restarts > 0 || state != "Running").then(|| "app".to_owned());
        let (name, node, state) = (name.to_owned(), Some("node-1".to_owned()), state.to_owned());
        let seen = PodSeen { name, node, state, container, restarts, ..PodSeen::default() };
        PodAccount { seen, fault, start: PodStart::default() }
    }

    fn ready(name: &str, restarts: i32) -> PodAccount {
        pod(name, Fault::None, "Running", restarts)
    }

    /// Returns true when a bake that began with one pod, restarted once before, fails when it sees these.
    fn fails(pods: &[PodAccount]) -> bool {
        Bake::begin(SignedDuration::from_secs(60), &[ready("a", 1)], at(0)).look(pods).is_some()
    }

    #[test]
    fn a_restart_and_lost_readiness_are_failures_of_the_commit_alone() {
        let unnamed = |mut pod: PodAccount| {
            pod.seen.container = None;
            pod
        };
        for (what, seen, expected) in [
            ("as it was", ready("a", 1), false),
            ("restarted, and ready again", ready("a", 2), true),
            ("restarted with its node", unnamed(ready("a", 2)), false),
            ("crashes", pod("a", Fault::Commit, "CrashLoopBackOff", 2), true),
            ("not ready any more", pod("a", Fault::Commit, "NotReady", 1), true),
            ("its node is gone", pod("a", Fault::Infrastructure, "NodeNotReady", 1), false),
            ("evicted", pod("a", Fault::Infrastructure, "Evicted", 1), false),
            ("being deleted", pod("a", Fault::None, "Terminating", 1), false),
            ("back after its node", pod("a", Fault::Young, "NotReady", 2), false),
            ("a new pod", pod("b", Fault::Young, "ContainerCreating", 0), false),
            ("a new pod that takes its time", pod("b", Fault::Commit, "NotReady", 0), false),
            ("a new pod that crashes", pod("b", Fault::Commit, "CrashLoopBackOff", 1), true),
            ("a new pod that has restarted", ready("b", 1), true),
        ] {
            assert_eq!(fails(&[seen]), expected, "{what}");
        }
        assert!(!fails(&[]), "pods that went are the workload's own business");
    }

    #[test]
    fn a_pod_that_came_later_is_lost_once_it_was_ready() {
        let mut bake = Bake::begin(SignedDuration::from_secs(60), &[ready("a", 0)], at(0));
        assert_eq!(bake.look(&[ready("a", 0), pod("b", Fault::Commit, "NotReady", 0)]), None);
        assert_eq!(bake.look(&[ready("a", 0), ready("b", 0)]), None);
        assert!(bake.look(&[ready("a", 0), pod("b", Fault::Commit, "NotReady", 0)]).is_some());
    }

    #[test]
    fn a_restart_that_was_not_seen_is_found_after_belay_was_away() {
        let bake = Bake::begin(SignedDuration::from_secs(60), &[ready("a", 1)], at(100));
        let kept = serde_json::to_string(&bake.start()).unwrap();
        let mut resumed = Bake::resume(serde_json::from_str(&kept).unwrap());
        assert_eq!((resumed.ends(), resumed.look(&[ready("a", 1)])), (at(160), None));
        let mut pods = [ready("a", 2), ready("b", 0)];
        assert_eq!(resumed.look(&pods).unwrap().code, ReasonCode::BakeFailed);
        resumed.blame_restarted(&mut pods);
        assert_eq!((pods[0].fault, pods[0].seen.state.as_str()), (Fault::Commit, "Restarted"));
        assert_eq!((pods[1].fault, pods[1].seen.state.as_str()), (Fault::None, "Running"));
    }

    #[test]
    fn the_manifests_own_time_comes_first() {
        let manifest = |time: &str| json!({"metadata": {"annotations": {marks::BAKE: time}}});
        let of = |manifest: &Value| bake_time(manifest, "5m".parse().unwrap()).as_secs();
        assert_eq!(of(&json!({})), 300);
        assert_eq!(of(&manifest("1m30s")), 90);
        assert_eq!(of(&manifest("0s")), 0);
        assert_eq!(of(&manifest("1000000d")), 7 * 86_400);
        assert_eq!(of(&manifest("soon")), 300, "which is a complaint");
    }
}
