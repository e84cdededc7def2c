//! The bake time: a workload that is complete is watched on, and fails when its new pods do.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::health::{Fault, PodAccount};
use super::reason_texts::RESTARTED;
use crate::rollout::rolling_update::TEMPLATE_LABEL;
use crate::rollout::{Reason, ReasonCode, marks, same_template, without_restart};
use crate::span::Span;

/// The beginning of a bake time, as the history keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BakeStart {
    /// When it ends.
    pub ends: Timestamp,
    /// The restarts of each pod before it, by the pod's uid; `None` if its pods could not be seen.
    pub restarts: Option<BTreeMap<String, i32>>,
}

/// The longest bake time. A longer one counts as this.
const LONGEST: SignedDuration = SignedDuration::from_hours(7 * 24);

/// Returns the bake time of a workload: its manifest's own, else that of its source.
#[must_use]
pub fn bake_time(manifest: &Value, of_source: Span) -> SignedDuration {
    let own = marks::annotation(manifest, marks::BAKE).and_then(|text| text.parse::<Span>().ok());
    own.unwrap_or(of_source).signed().min(LONGEST)
}

/// Returns true when a pod template is one of those that were complete lately, but for the time of a restart and the label of
/// a rolling update.
#[must_use]
pub fn comes_back(template: &Value, lately: &[Value]) -> bool {
    let bare = |template: &Value| {
        let mut template = without_restart(template);
        if let Some(labels) = template.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
            labels.remove(TEMPLATE_LABEL);
        }
        template
    };
    let template = bare(template);
    lately.iter().any(|known| same_template(&bare(known), &template))
}

/// Watches the pods of a complete workload until its bake time ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bake {
    ends: Timestamp,
    /// By uid; `None` as long as they could not be seen.
    pods: Option<BTreeMap<String, BakingPod>>,
}

/// The past of a pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct BakingPod {
    /// The restarts that are not counted.
    restarts: i32,
    /// True when it was ready within the bake time.
    was_ready: bool,
    /// True when it was not ready any more at the last look.
    is_lost: bool,
}

impl Bake {
    /// Begins a bake time at `now`. The restarts of before are part of the rollout. `pods` is `None` if they can't be seen.
    #[must_use]
    pub fn begin(time: SignedDuration, pods: Option<&[PodAccount]>, now: Timestamp) -> Bake {
        let mut bake = Bake { ends: now.checked_add(time).unwrap_or(Timestamp::MAX), pods: None };
        if let Some(pods) = pods {
            bake.look(pods);
        }
        bake
    }

    /// Goes on with a bake time that began before belay was restarted, when the workload was complete.
    #[must_use]
    pub fn resume(start: BakeStart) -> Bake {
        let pod = |(uid, restarts)| (uid, BakingPod { restarts, was_ready: true, is_lost: false });
        Bake { ends: start.ends, pods: start.restarts.map(|pods| pods.into_iter().map(pod).collect()) }
    }

    /// Returns its beginning, for the history.
    #[must_use]
    pub fn start(&self) -> BakeStart {
        let restarts =
            |pods: &BTreeMap<String, BakingPod>| pods.iter().map(|(uid, pod)| (uid.clone(), pod.restarts)).collect();
        BakeStart { ends: self.ends, restarts: self.pods.as_ref().map(restarts) }
    }

    /// Returns when it ends.
    #[must_use]
    pub fn ends(&self) -> Timestamp {
        self.ends
    }

    /// Looks at the pods of the present template. Returns the failure, if one of them has restarted, or is not ready any
    /// more at two looks, by no fault of the infrastructure.
    pub fn look(&mut self, pods: &[PodAccount]) -> Option<Reason> {
        let known = self.pods.get_or_insert_with(|| pods.iter().map(first_seen).collect());
        let mut failed = false;
        for pod in pods {
            let known = known.entry(pod.uid.clone()).or_default();
            let was_lost = std::mem::replace(&mut known.is_lost, known.was_ready && pod.fault == Fault::Commit);
            known.was_ready |= pod.fault == Fault::None && pod.seen.state == "Running";
            failed |= known.has_restarted(pod) || was_lost && known.is_lost;
        }
        failed.then(|| Reason::new(ReasonCode::BakeFailed, "it failed within its bake time, after it was complete"))
    }

    /// Returns true when a pod was not ready any more at the last look, and is to be looked at once more.
    #[must_use]
    pub fn is_unsure(&self) -> bool {
        self.pods.iter().flatten().any(|(_, pod)| pod.is_lost)
    }

    /// Blames the commit for the pods that have restarted, also where they are ready again.
    pub fn blame_restarted(&self, pods: &mut [PodAccount]) {
        for pod in pods.iter_mut().filter(|pod| pod.fault == Fault::None) {
            let known = self.pods.as_ref().and_then(|known| known.get(&pod.uid)).copied().unwrap_or_default();
            if known.has_restarted(pod) {
                pod.fault = Fault::Commit;
                RESTARTED.clone_into(&mut pod.seen.state);
            }
        }
    }
}

impl BakingPod {
    /// Returns true when a container has ended within the bake time. A pod that came later has no restarts of before. A restart
    /// that names no container was its node's.
    fn has_restarted(self, pod: &PodAccount) -> bool {
        let is_blamed = matches!(pod.fault, Fault::None | Fault::Commit) && pod.seen.container.is_some();
        is_blamed && pod.seen.restarts > self.restarts
    }
}

/// Returns a pod whose restarts until now are not counted.
fn first_seen(pod: &PodAccount) -> (String, BakingPod) {
    (pod.uid.clone(), BakingPod { restarts: pod.seen.restarts, ..BakingPod::default() })
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
        let seen = PodSeen { name: name.clone(), node, state, container, restarts, ..PodSeen::default() };
        PodAccount { uid: name, seen, fault, start: PodStart::default() }
    }

    fn ready(name: &str, restarts: i32) -> PodAccount {
        pod(name, Fault::None, "Running", restarts)
    }

    /// Returns true when a bake that began with one pod, restarted once before, fails when it sees these twice.
    fn fails(pods: &[PodAccount]) -> bool {
        let mut bake = Bake::begin(SignedDuration::from_secs(60), Some(&[ready("a", 1)]), at(0));
        bake.look(pods).is_some() || bake.look(pods).is_some()
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
        let mut bake = Bake::begin(SignedDuration::from_secs(60), Some(&[ready("a", 0)]), at(0));
        assert_eq!(bake.look(&[ready("a", 0), pod("b", Fault::Commit, "NotReady", 0)]), None);
        assert_eq!(bake.look(&[ready("a", 0), ready("b", 0)]), None);
        let lost = [ready("a", 0), pod("b", Fault::Commit, "NotReady", 0)];
        assert_eq!((bake.look(&lost), bake.is_unsure()), (None, true), "its node may just have come back");
        assert!(bake.look(&lost).is_some());
        assert_eq!((bake.look(&[ready("a", 0), ready("b", 0)]), bake.is_unsure()), (None, false));
    }

    #[test]
    fn a_pod_that_is_made_again_under_its_name_has_its_time_to_become_ready() {
        let again = PodAccount { uid: "another".to_owned(), ..pod("a", Fault::Commit, "NotReady", 0) };
        assert!(!fails(&[again]));
        let crashes = PodAccount { uid: "another".to_owned(), ..ready("a", 1) };
        assert!(fails(&[crashes]), "as often as the one before it, and within the bake time");
    }

    #[test]
    fn pods_that_could_not_be_seen_at_first_are_measured_from_then_on() {
        let mut bake = Bake::begin(SignedDuration::from_secs(60), None, at(0));
        let kept = serde_json::to_string(&bake.start()).unwrap();
        assert_eq!(Bake::resume(serde_json::from_str(&kept).unwrap()), bake, "nothing is known");
        assert_eq!(bake.look(&[ready("a", 3)]), None);
        assert!(bake.look(&[ready("a", 4)]).is_some());
    }

    #[test]
    fn a_restart_that_was_not_seen_is_found_after_belay_was_away() {
        let bake = Bake::begin(SignedDuration::from_secs(60), Some(&[ready("a", 1)]), at(100));
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
    fn a_template_comes_back_whatever_is_beside_it() {
        let template = |image: &str, label: &str, restart: &str| {
            json!({"metadata": {"labels": {"app": "web", TEMPLATE_LABEL: label}, "annotations": {marks::RESTARTED_AT: restart}},
                "spec": {"containers": [{"name": "a", "image": image}]}})
        };
        let lately = [template("web:1", "1", "monday"), template("web:2", "2", "tuesday")];
        assert!(comes_back(&template("web:2", "9", "friday"), &lately));
        assert!(!comes_back(&template("web:3", "2", "tuesday"), &lately));
        assert!(!comes_back(&template("web:1", "1", "monday"), &[]));
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
