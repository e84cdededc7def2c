//! Limits for single indexes: how often each may fail, which have failed for good, and when that fails the Job. Pure.
//!
//! The number of an index's failures stands on its pods: each pod names the number before it. So the last failed pod of
//! an index is kept until the one in its place is there and counts one more.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::Job;

use super::backoff;
use super::has_finalizer;
use super::indexes::{self, Indexes};
use super::outcome::JobOutcome;
use super::policy::{self, FailureAction, has_failed};
use crate::controllers::key::annotation;
use crate::controllers::pod::Pod;

/// The number of pods of the index that failed before this one, as far as failures count.
pub const FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";
/// The number of pods of the index that failed before this one in a way that the Job's rules ignore.
pub const IGNORED: &str = "batch.kubernetes.io/job-index-ignored-failure-count";

/// The failures of an index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Failures {
    /// Failures that count.
    pub counted: i32,
    /// Failures that the Job's rules ignore.
    pub ignored: i32,
}

impl Failures {
    /// Returns the failures before a pod.
    fn before(pod: &Pod) -> Failures {
        let number = |name: &str| {
            let number = annotation(&pod.metadata, name).and_then(|number| number.parse().ok());
            number.filter(|number: &i32| *number >= 0).unwrap_or(0)
        };
        Failures { counted: number(FAILURES), ignored: number(IGNORED) }
    }

    /// Returns the failures that the pod in the place of a failed one names; none if it is in nobody's place.
    pub fn after(job: &Job, failed: Option<&Pod>) -> Failures {
        let Some(pod) = failed else { return Failures::default() };
        let before = Failures::before(pod);
        match policy::failure_action(job, pod) {
            FailureAction::Ignored => Failures { ignored: before.ignored.saturating_add(1), ..before },
            _ => Failures { counted: before.counted.saturating_add(1), ..before },
        }
    }

    fn all(self) -> i32 {
        self.counted.saturating_add(self.ignored)
    }
}

/// The indexes of a Job with a limit for each of them.
#[derive(Clone, Debug, Default)]
pub struct PerIndex {
    /// Indexes that have failed for good.
    pub failed: Indexes,
    /// The last failed pods of those indexes whose next pods are not there yet.
    pub kept: BTreeMap<i32, Arc<Pod>>,
}

/// Returns how often each index may fail; `None` for a Job without such a limit.
pub fn limit(job: &Job) -> Option<i32> {
    job.spec.as_ref()?.backoff_limit_per_index
}

impl PerIndex {
    /// Looks at a Job's pods, `done` being the indexes that have succeeded; `None` for a Job without such limits.
    pub fn of(job: &Job, pods: &[Arc<Pod>], done: &Indexes) -> Option<PerIndex> {
        let limit = limit(job)?;
        let completions = job.spec.as_ref()?.completions.unwrap_or(0);
        let known = job.status.as_ref().and_then(|status| status.failed_indexes.as_deref()).unwrap_or_default();
        let mut failed = Indexes::read(known, completions);
        let ended: Vec<(i32, &Arc<Pod>)> = pods
            .iter()
            .filter(|pod| has_finalizer(pod) && has_failed(job, pod))
            .filter_map(|pod| Some((indexes::of(pod, completions)?, pod)))
            .collect();
        for (index, pod) in &ended {
            let is_last = match policy::failure_action(job, pod) {
                FailureAction::FailsIndex => true,
                FailureAction::Ignored => false,
                FailureAction::Counts | FailureAction::FailsJob(_) => Failures::before(pod).counted >= limit,
            };
            if is_last {
                failed.add(*index);
            }
        }
        let mut running = Indexes::default();
        let active = pods.iter().filter(|pod| pod.is_active());
        active.filter_map(|pod| indexes::of(pod, completions)).for_each(|index| running.add(index));
        let mut kept: BTreeMap<i32, Arc<Pod>> = BTreeMap::new();
        for (index, pod) in ended {
            if [done, &failed, &running].iter().any(|indexes| indexes.has(index)) {
                continue;
            }
            let is_later = kept.get(&index).is_none_or(|last| {
                Failures::before(last).all() <= Failures::before(pod).all()
                    && backoff::ended_at(last) <= backoff::ended_at(pod)
            });
            if is_later {
                kept.insert(index, pod.clone());
            }
        }
        Some(PerIndex { failed, kept })
    }

    /// Returns how the Job ends because of them: too many have failed, or all have ended and some failed.
    pub fn verdict(&self, job: &Job, done: &Indexes) -> Option<JobOutcome> {
        let spec = job.spec.as_ref()?;
        if spec.max_failed_indexes.is_some_and(|most| self.failed.count() > most) {
            return Some(JobOutcome::too_many_indexes());
        }
        let ended = self.failed.count().saturating_add(done.count());
        (self.failed.count() > 0 && ended >= spec.completions.unwrap_or(0)).then(JobOutcome::failed_indexes)
    }

    /// Returns which of these indexes get a pod now, and the time of the next try if none does: each waits twice as
    /// long after each of its own failures.
    pub fn due(&self, wanted: &[i32], now: Timestamp) -> (Vec<i32>, Option<SignedDuration>) {
        let pause = |index: &i32| {
            let Some(pod) = self.kept.get(index) else { return SignedDuration::ZERO };
            let failures = Failures::before(pod).all().saturating_add(1);
            backoff::pause_after(failures, backoff::ended_at(pod).unwrap_or(now), now)
        };
        let (due, later): (Vec<i32>, Vec<i32>) = wanted.iter().partition(|index| pause(index) <= SignedDuration::ZERO);
        let again = if due.is_empty() { later.iter().map(pause).min() } else { None };
        (due, again)
    }

    /// Returns true when a failed pod has to stay until the next of its index is there.
    pub fn keeps(&self, pod: &Arc<Pod>) -> bool {
        self.kept.values().any(|kept| kept.metadata.uid == pod.metadata.uid)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jiff::{SignedDuration, Timestamp};
    use k8s_openapi::api::batch::v1::Job;
    use serde_json::{Value, json};

    use super::{FAILURES, Failures, IGNORED, PerIndex};
    use crate::controllers::job::FINALIZER;
    use crate::controllers::job::indexes::{INDEX, Indexes};
    use crate::controllers::pod::Pod;

    fn job(more: Value) -> Job {
        let mut spec = json!({
            "completions": 4, "parallelism": 4, "completionMode": "Indexed", "backoffLimitPerIndex": 1, "template": {},
        });
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(json!({ "metadata": { "name": "job" }, "spec": spec })).unwrap()
    }

    fn pod(index: i32, failures: i32, phase: &str, code: i32, ended: i64) -> Arc<Pod> {
        let at = Timestamp::from_second(ended).unwrap().to_string();
        let pod = json!({
            "metadata": {
                "name": format!("job-{index}-{failures}"), "uid": format!("{index}-{failures}"),
                "finalizers": [FINALIZER],
                "annotations": { INDEX: index.to_string(), FAILURES: failures.to_string() },
            },
            "status": { "phase": phase, "containerStatuses": [
                { "name": "app", "state": { "terminated": { "exitCode": code, "finishedAt": at } } },
            ] },
        });
        Arc::new(serde_json::from_value(pod).unwrap())
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    #[test]
    fn an_index_fails_when_its_own_limit_is_reached() {
        let pods = [pod(0, 0, "Failed", 1, 5), pod(1, 1, "Failed", 1, 5), pod(2, 1, "Running", 0, 0)];
        let indexes = PerIndex::of(&job(json!({})), &pods, &Indexes::default()).unwrap();
        assert_eq!(indexes.failed.to_string(), "1");
        assert_eq!(indexes.kept.keys().copied().collect::<Vec<i32>>(), [0]);
        assert!(indexes.keeps(&pods[0]) && !indexes.keeps(&pods[1]));
        assert!(PerIndex::of(&job(json!({ "backoffLimitPerIndex": null })), &pods, &Indexes::default()).is_none());
    }

    #[test]
    fn the_next_pod_tells_of_those_before_it() {
        let rules = json!({ "podFailurePolicy": { "rules": [
            { "action": "Ignore", "onExitCodes": { "operator": "In", "values": [7] } },
            { "action": "FailIndex", "onExitCodes": { "operator": "In", "values": [9] } },
        ] } });
        let (plain, ruled) = (job(json!({})), job(rules));
        assert_eq!(Failures::after(&plain, None), Failures::default());
        assert_eq!(Failures::after(&plain, Some(&pod(0, 2, "Failed", 7, 5))), Failures { counted: 3, ignored: 0 });
        assert_eq!(Failures::after(&ruled, Some(&pod(0, 2, "Failed", 7, 5))), Failures { counted: 2, ignored: 1 });
        let pods = [pod(0, 5, "Failed", 7, 5), pod(1, 0, "Failed", 9, 5)];
        let indexes = PerIndex::of(&ruled, &pods, &Indexes::default()).unwrap();
        assert_eq!(indexes.failed.to_string(), "1", "ignored failures never fail an index, and a rule does at once");
        assert!(IGNORED.starts_with("batch.kubernetes.io/"));
    }

    #[test]
    fn the_job_fails_when_too_many_indexes_have_or_all_have_ended() {
        let (job, most) = (job(json!({})), job(json!({ "maxFailedIndexes": 1 })));
        let failed = |text: &str| PerIndex { failed: Indexes::read(text, 4), ..PerIndex::default() };
        let reason = |job: &Job, text: &str, done: &str| {
            failed(text).verdict(job, &Indexes::read(done, 4)).map(|outcome| outcome.reason)
        };
        assert_eq!(reason(&job, "", "0-3"), None);
        assert_eq!(reason(&job, "1", "0,2"), None);
        assert_eq!(reason(&job, "1", "0,2,3").as_deref(), Some("FailedIndexes"));
        assert_eq!(reason(&most, "1", "").as_deref(), None);
        assert_eq!(reason(&most, "1,2", "").as_deref(), Some("MaxFailedIndexesExceeded"));
    }

    #[test]
    fn each_index_waits_for_itself() {
        let pods = [pod(0, 0, "Failed", 1, 95), pod(1, 1, "Failed", 1, 95)];
        let job = job(json!({ "backoffLimitPerIndex": 5 }));
        let indexes = PerIndex::of(&job, &pods, &Indexes::default()).unwrap();
        assert_eq!(indexes.due(&[0, 1, 2], at(100)), (vec![2], None));
        assert_eq!(indexes.due(&[0, 1], at(100)), (vec![], Some(SignedDuration::from_secs(5))));
        assert_eq!(indexes.due(&[0, 1], at(105)), (vec![0], None));
        assert_eq!(indexes.due(&[0, 1], at(115)), (vec![0, 1], None));
    }
}
