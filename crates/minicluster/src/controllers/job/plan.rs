//! The pods that a Job makes and deletes next. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::Job;

use super::backoff::{ended_at, pause_after};
use super::indexes::{self, Indexes};
use super::is_indexed;
use super::per_index::PerIndex;
use crate::controllers::pod::Pod;
use crate::controllers::replica_set::{Candidate, choose};

/// All that counts.
pub struct JobView<'a> {
    /// The Job.
    pub job: &'a Job,
    /// Its pods that are neither finished nor going.
    pub active: &'a [Arc<Pod>],
    /// Its pods that are going and have not ended.
    pub leaving: &'a [Arc<Pod>],
    /// The number of successes.
    pub succeeded: i32,
    /// The indexes that have succeeded, if there are indexes.
    pub done: &'a Indexes,
    /// The indexes, if each has a limit of its own.
    pub per_index: Option<&'a PerIndex>,
    /// The wait after failures before the next pod is made.
    pub pause: SignedDuration,
    /// The present moment.
    pub now: Timestamp,
}

/// The changes.
#[derive(Debug, Default)]
pub struct JobChanges {
    /// The number of pods to make.
    pub create: usize,
    /// Their indexes, if there are indexes.
    pub indexes: Vec<i32>,
    /// Pods that go.
    pub delete: Vec<Arc<Pod>>,
    /// The time of the next reconciliation.
    pub again: Option<SignedDuration>,
}

impl JobView<'_> {
    /// Returns the next changes.
    pub fn changes(&self) -> JobChanges {
        let Some(spec) = &self.job.spec else { return JobChanges::default() };
        if spec.suspend == Some(true) {
            return JobChanges { delete: self.active.to_vec(), ..JobChanges::default() };
        }
        let active = count(self.active.len());
        let parallelism = spec.parallelism.unwrap_or(1);
        let wanted = match spec.completions {
            // A queue of unknown length: once one has succeeded, none is made any more.
            None if self.succeeded > 0 => active,
            None => parallelism,
            Some(completions) => completions.saturating_sub(self.succeeded).min(parallelism).max(0),
        };
        let delete = self.too_many(active.saturating_sub(wanted).max(0));
        if !delete.is_empty() {
            return JobChanges { delete, ..JobChanges::default() };
        }
        // Pods that are going may have to be gone before others come in their place.
        let waits_for_failed = spec.pod_replacement_policy.as_deref() == Some("Failed");
        let going = if waits_for_failed { count(self.leaving.len()) } else { 0 };
        let missing = wanted.saturating_sub(active).saturating_sub(going);
        if missing <= 0 {
            return JobChanges::default();
        }
        if self.per_index.is_none() && self.pause > SignedDuration::ZERO {
            return JobChanges { again: Some(self.pause), ..JobChanges::default() };
        }
        let create = usize::try_from(missing).unwrap_or(0);
        let Some(completions) = spec.completions.filter(|_| is_indexed(self.job)) else {
            return JobChanges { create, ..JobChanges::default() };
        };
        let leaving = if waits_for_failed { self.leaving } else { &[] };
        let mut taken = self.done.clone();
        let pods = self.active.iter().chain(leaving);
        pods.filter_map(|pod| indexes::of(pod, completions)).for_each(|index| taken.add(index));
        if let Some(per_index) = self.per_index {
            taken.merge(&per_index.failed);
        }
        let wanted = taken.missing(create, completions);
        let (indexes, again) = self.per_index.map_or((wanted.clone(), None), |limits| limits.due(&wanted, self.now));
        JobChanges { create: indexes.len(), indexes, again, ..JobChanges::default() }
    }

    /// Returns pods that share an index, and `more`; pods without an index go first.
    fn too_many(&self, more: i32) -> Vec<Arc<Pod>> {
        let more = usize::try_from(more).unwrap_or(0);
        let completions = self.job.spec.as_ref().and_then(|spec| spec.completions).unwrap_or(0);
        let mut delete: Vec<Arc<Pod>> = Vec::new();
        let mut left: Vec<Arc<Pod>> = Vec::new();
        if is_indexed(self.job) {
            let mut by_index: BTreeMap<Option<i32>, Vec<Arc<Pod>>> = BTreeMap::new();
            for pod in self.active {
                by_index.entry(indexes::of(pod, completions)).or_default().push(pod.clone());
            }
            for (index, pods) in by_index {
                let superfluous = if index.is_none() { pods.len() } else { pods.len() - 1 };
                let gone = self.first(&pods, superfluous);
                left.extend(pods.into_iter().filter(|pod| !gone.iter().any(|one| Arc::ptr_eq(one, pod))));
                delete.extend(gone);
            }
        } else {
            left = self.active.to_vec();
        }
        let rest = more.saturating_sub(delete.len());
        delete.extend(self.first(&left, rest));
        delete
    }

    fn first(&self, pods: &[Arc<Pod>], count: usize) -> Vec<Arc<Pod>> {
        let candidates = pods.iter().map(|pod| Candidate { pod: pod.clone(), neighbours: 0 }).collect();
        choose(candidates, count, self.now)
    }
}

/// Returns how long to wait before the next pod is made: after each failure since the last success twice as long.
pub fn pause(finished: &[Arc<Pod>], now: Timestamp) -> SignedDuration {
    let ended = |pod: &Arc<Pod>| ended_at(pod).unwrap_or(now);
    let last_success = finished.iter().filter(|pod| pod.phase() == "Succeeded").map(ended).max();
    let failures: Vec<Timestamp> = finished
        .iter()
        .filter(|pod| pod.phase() == "Failed")
        .map(ended)
        .filter(|at| last_success.is_none_or(|success| *at > success))
        .collect();
    let Some(last) = failures.iter().max() else { return SignedDuration::ZERO };
    pause_after(count(failures.len()), *last, now)
}

fn count(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::{Indexes, JobChanges, JobView, pause};
    use crate::controllers::pod::Pod;
    use jiff::{SignedDuration, Timestamp};
    use serde_json::{Value, json};
    use std::sync::Arc;

    fn pod(name: &str, phase: &str, index: Option<i32>, ended: i64) -> Arc<Pod> {
        let at = Timestamp::from_second(ended).unwrap().to_string();
        let annotations = index.map(|index| json!({ super::indexes::INDEX: index.to_string() }));
        let pod = json!({
            "metadata": { "name": name, "uid": name, "annotations": annotations },
            "status": { "phase": phase, "containerStatuses": [
                { "name": "app", "state": { "terminated": { "exitCode": 1, "finishedAt": at } } },
            ] },
        });
        Arc::new(serde_json::from_value(pod).unwrap())
    }

    fn changes(spec: Value, active: &[Arc<Pod>], succeeded: i32, done: &str) -> JobChanges {
        let mut job = json!({ "metadata": { "name": "job" }, "spec": { "template": {} } });
        job["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        let job = serde_json::from_value(job).unwrap();
        let done = Indexes::read(done, 100);
        let (pause, now) = (SignedDuration::ZERO, Timestamp::UNIX_EPOCH);
        JobView { job: &job, active, leaving: &[], succeeded, done: &done, per_index: None, pause, now }.changes()
    }

    #[test]
    fn as_many_run_as_may_and_are_needed() {
        let running = [pod("a", "Running", None, 0)];
        assert_eq!(changes(json!({ "parallelism": 3, "completions": 5 }), &running, 0, "").create, 2);
        assert_eq!(changes(json!({ "parallelism": 3, "completions": 5 }), &running, 4, "").create, 0);
        assert_eq!(changes(json!({ "parallelism": 0, "completions": 5 }), &running, 0, "").delete.len(), 1);
        assert_eq!(changes(json!({ "parallelism": 2 }), &running, 0, "").create, 1);
        assert_eq!(changes(json!({ "parallelism": 2 }), &running, 1, "").create, 0);
        assert_eq!(changes(json!({ "parallelism": 2, "suspend": true }), &running, 0, "").delete.len(), 1);
    }

    #[test]
    fn each_index_has_one_pod() {
        let indexed = || json!({ "parallelism": 3, "completions": 6, "completionMode": "Indexed" });
        let running = [pod("a", "Running", Some(2), 0)];
        assert_eq!(changes(indexed(), &running, 2, "0,1").indexes, [3, 4]);
        let twice = [pod("a", "Running", Some(2), 0), pod("b", "Running", Some(2), 0), pod("c", "Running", None, 0)];
        assert_eq!(changes(indexed(), &twice, 0, "").delete.len(), 2);
    }

    #[test]
    fn pauses_double_with_failures_since_the_last_success() {
        let now = Timestamp::from_second(100).unwrap();
        let failed = |at: i64| pod("f", "Failed", None, at);
        let secs = |pods: &[Arc<Pod>]| pause(pods, now).as_secs();
        assert_eq!(secs(&[]), 0);
        assert_eq!(secs(&[failed(95)]), 5);
        assert_eq!(secs(&[failed(95), failed(90)]), 15);
        assert_eq!(secs(&[failed(95), failed(90), pod("s", "Succeeded", None, 92)]), 5);
        assert_eq!(secs(&[failed(80)]), 0);
    }
}
