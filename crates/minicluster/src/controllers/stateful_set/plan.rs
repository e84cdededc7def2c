//! The next acts of a StatefulSet on its pods. Pure.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::StatefulSet;

use super::ordinal;
use crate::controllers::deployment::{Rounding, scaled};
use crate::controllers::key::{is_terminating, label};
use crate::controllers::pod::Pod;

/// The label with the name of the revision that a pod was made from.
pub const REVISION_LABEL: &str = "controller-revision-hash";

/// A place for a pod.
#[derive(Clone, Debug)]
pub struct PodPlace {
    /// Its number.
    pub number: i32,
    /// The pod that is there.
    pub pod: Option<Arc<Pod>>,
}

/// An act on one pod.
#[derive(Clone, Debug)]
pub enum Act {
    /// It has ended: it is deleted, so that it can be created again.
    Recreate(Arc<Pod>),
    /// It is missing: it is made.
    Create(i32),
    /// It is there: its labels and claims are mended where they need it.
    Mend(Arc<Pod>),
    /// It is one too many: it is deleted.
    Condemn(Arc<Pod>),
    /// It is of an old revision: it is deleted, to be created again.
    Update(Arc<Pod>),
}

/// All that counts.
pub struct StatefulSetView<'a> {
    /// The set.
    pub set: &'a StatefulSet,
    /// Its places, in order.
    pub places: &'a [PodPlace],
    /// Pods that are too many, the highest number first.
    pub condemned: &'a [Arc<Pod>],
    /// The name of the revision that pods shall have.
    pub update_revision: &'a str,
    /// The present moment.
    pub now: Timestamp,
}

/// One phase of the work: its actions, and whether the next phase has to wait.
#[derive(Debug, Default)]
pub struct Phase {
    /// The acts, in order.
    pub acts: Vec<Act>,
    /// True when this was all that can be done for now.
    pub ends_here: bool,
}

impl StatefulSetView<'_> {
    /// Returns true when pods come and go one after the other.
    pub fn is_ordered(&self) -> bool {
        self.set.spec.pod_management_policy.as_deref() != Some("Parallel")
    }

    /// Fills the places. In order, this stops at the first pod that is not available.
    pub fn fill(&self) -> Phase {
        let mut phase = Phase::default();
        for place in self.places {
            let stops = match &place.pod {
                None => {
                    phase.acts.push(Act::Create(place.number));
                    true
                }
                Some(pod) if pod.is_finished() => {
                    if !is_terminating(&pod.metadata) {
                        phase.acts.push(Act::Recreate(pod.clone()));
                    }
                    true
                }
                Some(pod) => {
                    let waits = self.is_unavailable(Some(pod));
                    if !(waits && self.is_ordered()) || pod.phase() == "Pending" {
                        phase.acts.push(Act::Mend(pod.clone()));
                    }
                    waits
                }
            };
            if stops && self.is_ordered() {
                phase.ends_here = true;
                return phase;
            }
        }
        phase
    }

    /// Removes pods that are too many: in order, one at a time, and not past one that is not available, unless that is
    /// the first of all that are not.
    pub fn shrink(&self) -> Phase {
        let mut phase = Phase::default();
        let first_unavailable = self.first_unavailable();
        for pod in self.condemned {
            if is_terminating(&pod.metadata) {
                if self.is_ordered() {
                    phase.ends_here = true;
                    return phase;
                }
                continue;
            }
            if self.is_ordered() {
                let may_go = !self.is_unavailable(Some(pod)) || first_unavailable.as_ref() == Some(&pod.metadata.uid);
                if may_go {
                    phase.acts.push(Act::Condemn(pod.clone()));
                }
                phase.ends_here = true;
                return phase;
            }
            phase.acts.push(Act::Condemn(pod.clone()));
        }
        phase
    }

    /// Replaces pods of old revisions, the highest number first, as many at a time as may be unavailable.
    pub fn update(&self) -> Vec<Act> {
        let strategy = self.set.spec.update_strategy.as_ref();
        if strategy.and_then(|strategy| strategy.type_.as_deref()) == Some("OnDelete") {
            return Vec::new();
        }
        let rolling = strategy.and_then(|strategy| strategy.rolling_update.as_ref());
        let partition = rolling.and_then(|rolling| rolling.partition).unwrap_or(0);
        let places = self.places.iter().skip(usize::try_from(partition).unwrap_or(0)).rev();
        let is_behind = |pod: &Arc<Pod>| {
            label(&pod.metadata, REVISION_LABEL) != Some(self.update_revision) && !is_terminating(&pod.metadata)
        };
        let Some(bound) = rolling.and_then(|rolling| rolling.max_unavailable.as_ref()) else {
            // One at a time: the first that is behind goes, whatever its state, unless one after it is not available.
            let mut pods = places.map(|place| place.pod.as_ref());
            let first = pods.find(|pod| pod.is_some_and(is_behind) || self.is_unavailable(*pod)).flatten();
            return first.filter(|pod| is_behind(pod)).map(|pod| Act::Update(pod.clone())).into_iter().collect();
        };
        let may_be_missing = scaled(Some(bound), ordinal::count(self.set), Rounding::Up).max(1);
        let missing = self.places.iter().filter(|place| self.is_unavailable(place.pod.as_ref())).count();
        let room = usize::try_from(may_be_missing).unwrap_or(0).saturating_sub(missing);
        let pods = places.filter_map(|place| place.pod.as_ref());
        pods.filter(|pod| is_behind(pod)).take(room).map(|pod| Act::Update(pod.clone())).collect()
    }

    /// Returns true when a place has no pod that is available.
    fn is_unavailable(&self, pod: Option<&Arc<Pod>>) -> bool {
        let wait = self.set.spec.min_ready_seconds.unwrap_or(0);
        pod.is_none_or(|pod| {
            is_terminating(&pod.metadata) || pod.phase() != "Running" || !pod.is_available(wait, self.now)
        })
    }

    /// Returns the uid of the first pod that is not available: of those that shall be, then of those that shall not.
    fn first_unavailable(&self) -> Option<Option<String>> {
        if let Some(place) = self.places.iter().find(|place| self.is_unavailable(place.pod.as_ref())) {
            return Some(place.pod.as_ref().and_then(|pod| pod.metadata.uid.clone()));
        }
        let lowest_first = self.condemned.iter().rev();
        lowest_first.into_iter().find(|pod| self.is_unavailable(Some(pod))).map(|pod| pod.metadata.uid.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::{Act, PodPlace, StatefulSet, StatefulSetView};
    use crate::controllers::pod::Pod;
    use jiff::Timestamp;
    use serde_json::{Value, json};
    use std::sync::Arc;

    /// Returns a pod by a short word: its number, then `r` for ready, `u` for not, `f` for failed, then its revision.
    fn pod(word: &str) -> Arc<Pod> {
        let (number, state, revision) = (&word[..1], &word[1..2], &word[2..]);
        let status = if state == "r" { "True" } else { "False" };
        let phase = if state == "f" { "Failed" } else { "Running" };
        let pod = json!({
            "metadata": {
                "name": format!("web-{number}"), "uid": number, "labels": { "controller-revision-hash": revision },
            },
            "status": { "phase": phase, "conditions": [
                { "type": "Ready", "status": status, "lastTransitionTime": "1970-01-01T00:00:00Z" },
            ] },
        });
        Arc::new(serde_json::from_value(pod).unwrap())
    }

    fn name(act: &Act) -> String {
        let of = |pod: &Pod| pod.metadata.name.clone().unwrap();
        match act {
            Act::Recreate(pod) => format!("recreate {}", of(pod)),
            Act::Create(number) => format!("create {number}"),
            Act::Mend(_) => String::new(),
            Act::Condemn(pod) => format!("condemn {}", of(pod)),
            Act::Update(pod) => format!("update {}", of(pod)),
        }
    }

    /// Returns all that is done in one reconciliation, for a set of three.
    fn acts(spec: Value, pods: &[&str]) -> Vec<String> {
        let mut set =
            json!({ "metadata": { "name": "web" }, "spec": { "replicas": 3, "selector": {}, "template": {} } });
        set["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        let set: StatefulSet = serde_json::from_value(set).unwrap();
        let pods: Vec<Arc<Pod>> = pods.iter().map(|word| pod(word)).collect();
        let find = |number: i32| pods.iter().find(|pod| pod.metadata.name == Some(format!("web-{number}"))).cloned();
        let places: Vec<PodPlace> = (0..3).map(|number| PodPlace { number, pod: find(number) }).collect();
        let condemned: Vec<Arc<Pod>> = (3..9).rev().filter_map(find).collect();
        let view = StatefulSetView {
            set: &set,
            places: &places,
            condemned: &condemned,
            update_revision: "new",
            now: Timestamp::from_second(100).unwrap(),
        };
        let mut acts = Vec::new();
        for phase in [view.fill(), view.shrink()] {
            acts.extend(phase.acts);
            if phase.ends_here {
                return acts.iter().map(name).filter(|name| !name.is_empty()).collect();
            }
        }
        acts.extend(view.update());
        acts.iter().map(name).filter(|name| !name.is_empty()).collect()
    }

    #[test]
    fn in_order_one_after_the_other() {
        let ordered = || json!({});
        assert_eq!(acts(ordered(), &[]), ["create 0"]);
        assert_eq!(acts(ordered(), &["0unew"]), [""; 0]);
        assert_eq!(acts(ordered(), &["0rnew", "2rnew"]), ["create 1"]);
        assert_eq!(acts(ordered(), &["0fnew"]), ["recreate web-0"]);
        assert_eq!(acts(ordered(), &["0rnew", "1rnew", "2rnew", "3rnew", "4rnew"]), ["condemn web-4"]);
        assert_eq!(acts(ordered(), &["0rnew", "1unew", "2rnew", "3rnew"]), [""; 0]);
        assert_eq!(acts(ordered(), &["0rnew", "1rnew", "2rnew", "3unew", "4rnew"]), ["condemn web-4"]);
        assert_eq!(acts(ordered(), &["0rnew", "1rnew", "2rnew", "3unew", "4unew"]), [""; 0]);
        assert_eq!(acts(ordered(), &["0rold", "1rold", "2rold"]), ["update web-2"]);
        assert_eq!(acts(ordered(), &["0rold", "1rold", "2unew"]), [""; 0]);
        assert_eq!(acts(ordered(), &["0rold", "1rold", "2rnew"]), ["update web-1"]);
    }

    #[test]
    fn in_parallel_all_at_once() {
        let parallel = || json!({ "podManagementPolicy": "Parallel" });
        assert_eq!(acts(parallel(), &["1unew"]), ["create 0", "create 2"]);
        assert_eq!(acts(parallel(), &["0rold", "1rold", "2ubad"]), ["update web-2"]);
        assert_eq!(acts(parallel(), &["0rold", "1rold", "2unew"]), [""; 0]);
        assert_eq!(acts(parallel(), &["0rold", "1rold"]), ["create 2"]);
        assert_eq!(
            acts(parallel(), &["0rnew", "1rnew", "2rnew", "3unew", "4rnew"]),
            ["condemn web-4", "condemn web-3"]
        );
    }

    #[test]
    fn updates_keep_to_partition_and_bounds() {
        let rolling =
            |rolling: Value| json!({ "updateStrategy": { "type": "RollingUpdate", "rollingUpdate": rolling } });
        let old = ["0rold", "1rold", "2rold"];
        assert_eq!(acts(rolling(json!({ "partition": 2 })), &old), ["update web-2"]);
        assert_eq!(acts(rolling(json!({ "partition": 3 })), &old), [""; 0]);
        assert_eq!(acts(rolling(json!({ "maxUnavailable": 2 })), &old), ["update web-2", "update web-1"]);
        assert_eq!(acts(rolling(json!({ "maxUnavailable": "34%" })), &old), ["update web-2", "update web-1"]);
        assert_eq!(acts(json!({ "updateStrategy": { "type": "OnDelete" } }), &old), [""; 0]);
    }
}
