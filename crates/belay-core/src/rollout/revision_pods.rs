//! The numbers of a workload's pods of each of its revisions.

use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{CommitId, Revision, Workload, revisions, same_template, template};
use crate::manifest::ObjectKey;
use crate::rollout::judge::health::{is_ready, pod_count};

/// The pods of one revision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RevisionPods {
    /// The number of the revision.
    pub revision: i64,
    /// The object that keeps it: a ReplicaSet or a ControllerRevision.
    pub name: String,
    /// The commit that made it; null if it names none.
    pub commit: Option<CommitId>,
    /// Its change-cause; null if it has none.
    pub change_cause: Option<String>,
    /// True when it has the workload's present template.
    pub present: bool,
    /// The number of pods that are wanted of it.
    pub desired: i64,
    /// The number of its pods with the present template: all, or none.
    pub updated: i64,
    /// The number of its ready pods.
    pub ready: i64,
    /// The number of its pods that are not ready.
    pub not_ready: i64,
    /// The number of its available pods: ready for as long as the workload asks for.
    pub available: i64,
}

impl RevisionPods {
    /// Returns true when it is the present one, or has pods, or is to have some.
    #[must_use]
    pub fn is_in_use(&self) -> bool {
        self.present || self.desired > 0 || self.ready + self.not_ready > 0
    }
}

/// Returns the pods of each revision, the newest first. `keepers` are a Deployment's ReplicaSets, which count their
/// pods themselves, or a StatefulSet's or DaemonSet's ControllerRevisions, whose `pods` are counted here. Pods that are
/// on their way out count for nothing, as with their controllers.
#[must_use]
pub fn revision_pods(
    key: &ObjectKey,
    live: &Value,
    keepers: &[Value],
    pods: &[Value],
    now: Timestamp,
) -> Vec<RevisionPods> {
    let counts_itself = Workload::of(key) == Some(Workload::Deployment);
    let one = |keeper: &Value| {
        let revision = revisions(std::slice::from_ref(keeper)).pop()?;
        let present = template(live).is_some_and(|present| same_template(present, &revision.template));
        let counts = if counts_itself { Counts::told(keeper) } else { Counts::of(live, keeper, pods, now) };
        Some(named(revision, present, &counts))
    };
    let mut all: Vec<RevisionPods> = keepers.iter().filter_map(one).collect();
    if !counts_itself {
        share_what_is_wanted(live, &mut all);
    }
    all.sort_by(|one, other| other.revision.cmp(&one.revision).then_with(|| one.name.cmp(&other.name)));
    all
}

/// The numbers of pods.
#[derive(Default)]
struct Counts {
    desired: i64,
    total: i64,
    ready: i64,
    available: i64,
}

impl Counts {
    /// Returns the counts in a ReplicaSet's status.
    fn told(keeper: &Value) -> Counts {
        let number = |path: &str| keeper.pointer(path).and_then(pod_count).unwrap_or_default();
        Counts {
            desired: number("/spec/replicas"),
            total: number("/status/replicas"),
            ready: number("/status/readyReplicas"),
            available: number("/status/availableReplicas"),
        }
    }

    /// Returns the counts of a ControllerRevision's pods. A StatefulSet labels them with its name, a DaemonSet with its
    /// hash.
    fn of(live: &Value, keeper: &Value, pods: &[Value], now: Timestamp) -> Counts {
        const LABEL: &str = "controller-revision-hash";
        let rest = SignedDuration::from_secs(live["spec"]["minReadySeconds"].as_i64().unwrap_or_default());
        let is_its = |pod: &&Value| {
            let label = &pod["metadata"]["labels"][LABEL];
            label.is_string() && (*label == keeper["metadata"]["name"] || *label == keeper["metadata"]["labels"][LABEL])
        };
        let mut counts = Counts::default();
        for pod in pods.iter().filter(is_its).filter(|pod| is_there(pod)) {
            counts.total += 1;
            if is_ready(pod) {
                counts.ready += 1;
                counts.available += i64::from(is_available(pod, rest, now));
            }
        }
        counts
    }
}

fn is_there(pod: &Value) -> bool {
    let over = ["Succeeded", "Failed"].iter().any(|phase| pod["status"]["phase"] == *phase);
    !over && pod["metadata"].get("deletionTimestamp").is_none()
}

/// Returns true when a ready pod has been so for this long.
pub(in crate::rollout) fn is_available(pod: &Value, rest: SignedDuration, now: Timestamp) -> bool {
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    let since = conditions.filter(|condition| condition["type"] == "Ready").find_map(|condition| {
        let since = condition["lastTransitionTime"].as_str()?;
        since.parse::<Timestamp>().ok()
    });
    rest <= SignedDuration::ZERO || since.is_some_and(|since| now.duration_since(since) >= rest)
}

fn named(revision: Revision, present: bool, counts: &Counts) -> RevisionPods {
    RevisionPods {
        revision: revision.number,
        name: revision.name,
        commit: revision.marks.commit.and_then(|commit| commit.parse().ok()),
        change_cause: revision.marks.change_cause,
        present,
        desired: counts.desired,
        updated: if present { counts.total } else { 0 },
        ready: counts.ready,
        not_ready: (counts.total - counts.ready).max(0),
        available: counts.available,
    }
}

/// Sets how many pods are wanted of each ControllerRevision, which does not say so itself: all of the present one, but
/// for those that a partition, or an update that waits for somebody to delete pods, leaves to the others.
fn share_what_is_wanted(live: &Value, all: &mut [RevisionPods]) {
    let number = |path: &str| live.pointer(path).and_then(pod_count);
    let wanted = number("/spec/replicas").or_else(|| number("/status/desiredNumberScheduled")).unwrap_or_default();
    let strategy = &live["spec"]["updateStrategy"];
    let partition = strategy["rollingUpdate"]["partition"].as_i64().unwrap_or_default().clamp(0, wanted);
    let by_hand = strategy["type"] == "OnDelete";
    let mut left = if by_hand { wanted } else { partition };
    all.sort_by_key(|one| std::cmp::Reverse(one.revision));
    for one in all.iter_mut().filter(|one| !one.present) {
        one.desired = (one.ready + one.not_ready).min(left);
        left -= one.desired;
    }
    let others: i64 = all.iter().map(|one| one.desired).sum();
    if let Some(present) = all.iter_mut().find(|one| one.present) {
        present.desired = wanted - others;
    }
}

#[cfg(test)]
mod tests {
    use super::super::marks;
    use super::*;
    use serde_json::json;

    const COMMIT: &str = "1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d";
    const NOW: &str = "2026-01-01T00:01:00Z";

    fn key(kind: &str) -> ObjectKey {
        ObjectKey { group: "apps".to_owned(), kind: kind.to_owned(), namespace: None, name: "web".to_owned() }
    }

    fn template(image: u32) -> Value {
        json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "app", "image": format!("web:{image}")}]}})
    }

    fn told(kind: &str, live: &Value, keepers: &[Value], pods: &[Value]) -> Vec<[i64; 6]> {
        revision_pods(&key(kind), live, keepers, pods, NOW.parse().unwrap())
            .into_iter()
            .map(|one| [one.revision, one.desired, one.updated, one.ready, one.not_ready, one.available])
            .collect()
    }

    #[test]
    fn a_set_that_wants_fewer_pods_than_none_wants_none() {
        let revision =
            json!({"metadata": {"name": "web-1"}, "revision": 1, "data": {"spec": {"template": template(1)}}});
        for wanted in [-1, i64::MIN, i64::MAX] {
            let live = json!({"spec": {"replicas": wanted, "template": template(1)},
                "status": {"currentRevision": "web-1", "updateRevision": "web-1"}});
            let told = told("StatefulSet", &live, std::slice::from_ref(&revision), &[]);
            assert_eq!(told.iter().map(|one| one[1]).collect::<Vec<_>>(), [wanted.clamp(0, i64::from(i32::MAX))]);
        }
    }

    #[test]
    fn three_revisions_under_way_are_told_apart() {
        let set = |number: u32, [desired, total, ready, available]: [u32; 4]| {
            json!({"metadata": {"name": format!("web-{number}"), "annotations": {
                marks::REVISION: number.to_string(), marks::COMMIT: COMMIT, marks::CHANGE_CAUSE: format!("cause {number}")}},
                "spec": {"template": template(number), "replicas": desired},
                "status": {"replicas": total, "readyReplicas": ready, "availableReplicas": available}})
        };
        let live = json!({"spec": {"template": template(4), "replicas": 10}});
        let sets = [set(1, [0, 0, 0, 0]), set(2, [4, 4, 4, 4]), set(4, [3, 2, 1, 0]), set(3, [3, 3, 0, 0])];
        assert_eq!(
            told("Deployment", &live, &sets, &[]),
            [[4, 3, 2, 1, 1, 0], [3, 3, 0, 0, 3, 0], [2, 4, 0, 4, 0, 4], [1, 0, 0, 0, 0, 0]]
        );
        let mut all = revision_pods(&key("Deployment"), &live, &sets, &[], NOW.parse().unwrap());
        let in_use: Vec<i64> = all.iter().filter(|one| one.is_in_use()).map(|one| one.revision).collect();
        assert_eq!(in_use, [4, 3, 2], "the first has no pods and is to have none");
        let first = all.remove(0);
        assert_eq!((first.commit.unwrap().as_str(), first.change_cause.as_deref()), (COMMIT, Some("cause 4")));
        assert_eq!((first.name.as_str(), first.present), ("web-4", true));
    }

    fn kept(number: u32, name: &str, hash: &str) -> Value {
        json!({"revision": number, "metadata": {"name": name, "labels": {"controller-revision-hash": hash}},
            "data": {"spec": {"template": template(number)}}})
    }

    /// Returns a pod of a revision; ready since that second, or not.
    fn pod(label: &str, ready: Option<u32>) -> Value {
        let ready = ready.map(|second| {
            json!({"type": "Ready", "status": "True",
            "lastTransitionTime": format!("2026-01-01T00:00:{second:02}Z")})
        });
        json!({"metadata": {"labels": {"controller-revision-hash": label}},
            "status": {"phase": "Running", "conditions": ready.into_iter().collect::<Vec<_>>()}})
    }

    #[test]
    fn pods_of_a_stateful_set_are_counted_by_the_name_of_their_revision() {
        let mut live = json!({"spec": {"template": template(2), "replicas": 3, "minReadySeconds": 30,
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}}});
        let kept = [kept(1, "web-one", "one"), kept(2, "web-two", "two")];
        let mut leaving = pod("web-one", Some(0));
        leaving["metadata"]["deletionTimestamp"] = json!(NOW);
        let pods = [pod("web-one", Some(0)), pod("web-two", Some(40)), pod("web-two", None), leaving];
        assert_eq!(told("StatefulSet", &live, &kept, &pods), [[2, 3, 2, 1, 1, 0], [1, 0, 0, 1, 0, 1]]);
        live["spec"]["updateStrategy"]["rollingUpdate"]["partition"] = json!(1);
        assert_eq!(told("StatefulSet", &live, &kept, &pods), [[2, 2, 2, 1, 1, 0], [1, 1, 0, 1, 0, 1]]);
        live["spec"]["updateStrategy"] = json!({"type": "OnDelete"});
        let pods = [pod("web-one", Some(0)), pod("web-one", Some(0)), pod("web-two", Some(0))];
        assert_eq!(told("StatefulSet", &live, &kept, &pods), [[2, 1, 1, 1, 0, 1], [1, 2, 0, 2, 0, 2]]);
    }

    #[test]
    fn pods_of_a_daemon_set_are_counted_by_the_hash_of_their_revision() {
        let live = json!({"spec": {"template": template(2)}, "status": {"desiredNumberScheduled": 2}});
        let kept = [kept(1, "web-one", "one"), kept(2, "web-two", "two")];
        let mut over = pod("one", None);
        over["status"]["phase"] = json!("Failed");
        let pods = [pod("two", Some(0)), pod("one", None), over, pod("three", None)];
        assert_eq!(told("DaemonSet", &live, &kept, &pods), [[2, 2, 1, 1, 0, 1], [1, 0, 0, 0, 1, 0]]);
        // Its controller has not seen the present template yet.
        assert_eq!(told("DaemonSet", &live, &kept[..1], &pods), [[1, 0, 0, 0, 1, 0]]);
    }
}
