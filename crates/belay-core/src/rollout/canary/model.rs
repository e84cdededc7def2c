//! A small model of a workload with a canary, its controller and its nodes, for the tests of this room: one step of each is taken when
//! a test says so. The controllers know the live object alone.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{CanaryKind, CanaryLock, CanaryMove, CanaryPods, CanarySteps, DaemonPods, next_move, next_replaced};

/// A `minReadySeconds` under which no new pod becomes available here: more than a week.
const NEVER: i64 = 7 * 86_400;

/// A pod. Its place is an ordinal, or a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ModelPod {
    place: i64,
    pub is_new: bool,
    is_ready: bool,
    /// True while it is being deleted.
    is_going: bool,
}

impl ModelPod {
    fn value(self) -> Value {
        let ready = json!([{"type": "Ready", "status": if self.is_ready { "True" } else { "False" }}]);
        let mut pod = json!({"metadata": {"name": self.place.to_string()},
            "spec": {"nodeName": format!("{:03}", self.place)}, "status": {"conditions": ready}});
        if self.is_going {
            pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        }
        pod
    }
}

/// One workload, from the write that begins its canary.
pub(super) struct ModelWorkload {
    pub kind: CanaryKind,
    pub replicas: i64,
    pub manifest: Value,
    pub live: Value,
    steps: CanarySteps,
    /// The step that is under way; `None` once all pods are to be replaced.
    pub lock: Option<CanaryLock>,
    pub pods: Vec<ModelPod>,
    /// The pods that the old and the new ReplicaSet of a Deployment are to have.
    sizes: [i64; 2],
    /// The fewest available pods beside which another available one was taken away.
    pub fewest: i64,
}

impl ModelWorkload {
    /// Returns a workload whose old pods are all ready, with the locks of its first step.
    pub(super) fn with(manifest: Value, steps: CanarySteps, replicas: i64) -> ModelWorkload {
        let kind = CanaryKind::of(&manifest);
        let old = |place| ModelPod { place, is_new: false, is_ready: true, is_going: false };
        let mut world = ModelWorkload {
            kind,
            replicas,
            live: Value::Null,
            lock: Some(CanaryLock::of_step(kind, &steps, 1, replicas)),
            manifest,
            steps,
            pods: (0..replicas).map(old).collect(),
            sizes: [replicas, 0],
            fewest: i64::MAX,
        };
        world.write();
        world
    }

    /// Returns the number of new or old pods that stay.
    pub(super) fn count(&self, is_new: bool) -> i64 {
        number(self.pods.iter().filter(|pod| pod.is_new == is_new && !pod.is_going).count())
    }

    /// Returns the number of pods that serve.
    fn available(&self) -> i64 {
        number(self.pods.iter().filter(|pod| pod.is_ready && !pod.is_going).count())
    }

    /// belay writes the present step, or the manifest.
    fn write(&mut self) {
        self.live = match &self.lock {
            Some(lock) => lock.onto(self.manifest.clone()),
            None => self.manifest.clone(),
        };
    }

    /// belay looks at the workload. `goes_on` says that the time of a step whose pods are ready is over.
    pub(super) fn look(&mut self, goes_on: bool) {
        let Some(lock) = self.lock else { return };
        let ready = self.pods.iter().filter(|pod| pod.is_new && pod.is_ready && !pod.is_going).count();
        let pods = CanaryPods { desired: self.sizes[1], current: self.count(true), ready: number(ready), available: 0 };
        let next = next_move(&lock, pods, lock.is_first_held_by(&self.live), self.live["spec"]["paused"] == true);
        match (next, next.writes_paused()) {
            (_, Some(paused)) => {
                self.lock = Some(CanaryLock { paused, ..lock });
                self.write();
            }
            (CanaryMove::Ready, _) if goes_on => {
                let step = lock.mark.step + 1;
                let is_there = self.steps.step(step).is_some();
                self.lock = is_there.then(|| CanaryLock::of_step(self.kind, &self.steps, step, self.replicas));
                self.write();
            }
            (CanaryMove::Wait, _) if self.kind == CanaryKind::DaemonSet => self.replace(&lock),
            _ => {}
        }
    }

    /// belay deletes the old pods of nodes.
    fn replace(&mut self, lock: &CanaryLock) {
        let of = |is_new| self.pods.iter().filter(|pod| pod.is_new == is_new).map(|pod| pod.value()).collect();
        let pods = DaemonPods { new: of(true), old: of(false) };
        let next = next_replaced(lock, &self.live, &pods, Timestamp::UNIX_EPOCH);
        let names: Vec<String> =
            next.iter().filter_map(|pod| pod["metadata"]["name"].as_str().map(str::to_owned)).collect();
        for pod in 0..self.pods.len() {
            if !self.pods[pod].is_new && names.contains(&self.pods[pod].place.to_string()) {
                self.take_away(pod);
            }
        }
    }

    fn take_away(&mut self, pod: usize) {
        let was_available = self.pods[pod].is_ready && !self.pods[pod].is_going;
        self.pods[pod].is_going = true;
        if was_available {
            self.fewest = self.fewest.min(self.available());
        }
    }

    /// A pod becomes ready, or is not ready any more.
    pub(super) fn turns(&mut self, pod: usize, is_ready: bool) {
        let count = self.pods.len();
        if let Some(pod) = self.pods.get_mut(pod % count.max(1)) {
            pod.is_ready = is_ready;
        }
    }

    /// All pods become ready.
    pub(super) fn heal(&mut self) {
        self.pods.iter_mut().for_each(|pod| pod.is_ready = true);
    }

    /// Deleted pods go, and the controller takes a step.
    pub(super) fn control(&mut self) {
        if let Some(pod) = self.pods.iter().position(|pod| pod.is_going) {
            self.pods.remove(pod);
        } else {
            match self.kind {
                CanaryKind::Deployment => self.control_deployment(),
                CanaryKind::StatefulSet => self.control_stateful_set(),
                CanaryKind::DaemonSet => self.control_daemon_set(),
            }
        }
    }

    fn number_in_live(&self, path: &str) -> i64 {
        self.live.pointer(path).and_then(Value::as_i64).unwrap_or_default()
    }

    fn make(&mut self, place: i64, is_new: bool) {
        self.pods.push(ModelPod { place, is_new, is_ready: false, is_going: false });
    }

    /// <https://github.com/kubernetes/kubernetes/blob/master/pkg/controller/deployment/rolling.go>
    fn control_deployment(&mut self) {
        if self.count(true) < self.sizes[1] {
            return self.make(number(self.pods.len()), true);
        }
        if self.live["spec"]["paused"] == true {
            return;
        }
        let [surge, unavailable] = ["maxSurge", "maxUnavailable"]
            .map(|name| self.number_in_live(&format!("/spec/strategy/rollingUpdate/{name}")));
        let total = self.sizes[0] + self.sizes[1];
        let room = (self.replicas + surge - total).min(self.replicas - self.sizes[1]);
        if room > 0 {
            self.sizes[1] += room;
            return;
        }
        let counts = self.number_in_live("/spec/minReadySeconds") < NEVER;
        let is_available = |pod: &&ModelPod| pod.is_ready && (counts || !pod.is_new);
        let new = number(self.pods.iter().filter(|pod| pod.is_new).filter(is_available).count());
        let available = number(self.pods.iter().filter(is_available).count());
        let least = self.replicas - unavailable;
        let may_go = (total - least - (self.sizes[1] - new)).min(self.sizes[0]);
        let ill = self.pods.iter().position(|pod| !pod.is_new && !pod.is_ready);
        let well = self.pods.iter().position(|pod| !pod.is_new && pod.is_ready);
        // The unready first; an available one only where enough are left.
        let next = ill.or(well.filter(|_| available > least));
        if let Some(pod) = next.filter(|_| may_go > 0) {
            self.sizes[0] -= 1;
            self.take_away(pod);
        }
    }

    /// <https://github.com/kubernetes/kubernetes/blob/master/pkg/controller/statefulset/stateful_set_control.go>
    fn control_stateful_set(&mut self) {
        let partition = self.number_in_live("/spec/updateStrategy/rollingUpdate/partition");
        if let Some(place) = (0..self.replicas).find(|place| self.pods.iter().all(|pod| pod.place != *place)) {
            return self.make(place, place >= partition);
        }
        // It waits for each pod.
        if self.pods.iter().any(|pod| !pod.is_ready) {
            return;
        }
        let old = (0..self.pods.len()).filter(|pod| !self.pods[*pod].is_new && self.pods[*pod].place >= partition);
        if let Some(pod) = old.max_by_key(|pod| self.pods[*pod].place) {
            self.take_away(pod);
        }
    }

    /// <https://github.com/kubernetes/kubernetes/blob/master/pkg/controller/daemon/update.go>
    fn control_daemon_set(&mut self) {
        if let Some(place) = (0..self.replicas).find(|place| self.pods.iter().all(|pod| pod.place != *place)) {
            return self.make(place, true);
        }
        if self.live["spec"]["updateStrategy"]["type"] == "OnDelete" {
            return;
        }
        let unavailable = self.number_in_live("/spec/updateStrategy/rollingUpdate/maxUnavailable");
        let ill = self.pods.iter().position(|pod| !pod.is_new && !pod.is_ready);
        let well = self.pods.iter().position(|pod| !pod.is_new && pod.is_ready);
        let next = ill.or(well.filter(|_| self.replicas - self.available() < unavailable));
        if let Some(pod) = next {
            self.take_away(pod);
        }
    }
}

fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap()
}
