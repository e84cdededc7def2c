//! Counting pods, each exactly once: first the status names those that have ended, then they lose their finalizer, then
//! the status counts them.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::future::join_all;
use k8s_openapi::api::batch::v1::{Job, JobStatus, UncountedTerminatedPods};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::indexes::{self, Indexes};
use super::per_index::PerIndex;
use super::policy::{self, FailureAction, has_failed};
use super::{Jobs, has_finalizer, is_indexed};
use crate::controllers::error::Error;
use crate::controllers::key::{Key, is_terminating, uid_of, version_of};
use crate::controllers::pod::Pod;

/// At most so many pods are counted in one go.
const AT_ONCE: usize = 500;

/// The facts about the pods that have ended.
#[derive(Debug)]
pub struct Tally {
    /// Pods that may lose their finalizer.
    pub ended: Vec<Arc<Pod>>,
    /// Indexes that have succeeded.
    pub done: Indexes,
    /// The indexes, if each has a limit of its own.
    pub per_index: Option<PerIndex>,
    /// The number of successes, those included that the status only names so far.
    pub succeeded: i32,
    /// The number of failures, likewise.
    pub failed: i32,
    /// True when more have ended than can be counted in one go.
    pub more: bool,
}

/// Moves those that the status names and that have lost their finalizers into its numbers.
pub fn settle(status: &mut JobStatus, held: &BTreeSet<&str>) {
    let uncounted = status.uncounted_terminated_pods.get_or_insert_default();
    let count = |named: &mut Option<Vec<String>>| {
        let before = named.as_ref().map_or(0, Vec::len);
        if let Some(uids) = named {
            uids.retain(|uid| held.contains(uid.as_str()));
        }
        let after = named.as_ref().map_or(0, Vec::len);
        *named = named.take().filter(|uids| !uids.is_empty());
        i32::try_from(before - after).unwrap_or(0)
    };
    let succeeded = count(&mut uncounted.succeeded);
    let failed = count(&mut uncounted.failed);
    status.succeeded = added(status.succeeded, succeeded);
    status.failed = added(status.failed, failed);
}

/// The choice if the Job itself has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// No: only pods that have ended count.
    NotYet,
    /// It has succeeded: pods that still run are released and not counted.
    Succeeded,
    /// It has failed: pods that still run count as failed.
    Failed,
}

/// Names in the status the pods that have ended; once the Job has, all of them have.
pub fn name_ended(job: &Job, status: &mut JobStatus, pods: &[Arc<Pod>], over: Over) -> Tally {
    let completions = job.spec.as_ref().and_then(|spec| spec.completions).unwrap_or(0);
    let mut done = Indexes::read(status.completed_indexes.as_deref().unwrap_or_default(), completions);
    let known = done.count();
    let succeeded = pods.iter().filter(|pod| has_finalizer(pod) && pod.phase() == "Succeeded");
    let mut all_done = done.clone();
    succeeded.filter_map(|pod| indexes::of(pod, completions)).for_each(|index| all_done.add(index));
    let per_index = PerIndex::of(job, pods, &all_done).filter(|_| is_indexed(job));
    let is_over = over != Over::NotYet || is_terminating(&job.metadata);
    let mut kept = 0;
    let mut named = status.uncounted_terminated_pods.take().unwrap_or_default();
    let mut ended = Vec::new();
    let mut more = false;
    for pod in pods.iter().filter(|pod| has_finalizer(pod)) {
        // A pod that goes because the Job has succeeded has not failed, however long it keeps its finalizer.
        let is_let_go = over == Over::Succeeded && is_terminating(&pod.metadata);
        let failed = has_failed(job, pod) && !is_let_go;
        if !pod.is_finished() && !failed && over == Over::NotYet {
            continue;
        }
        if !is_over && per_index.as_ref().is_some_and(|limits| limits.keeps(pod)) {
            kept += i32::from(policy::failure_action(job, pod) != FailureAction::Ignored);
            continue;
        }
        if ended.len() >= AT_ONCE {
            more = true;
            break;
        }
        ended.push(pod.clone());
        let counts_as_failed = failed || over == Over::Failed;
        if !counts_as_failed || policy::failure_action(job, pod) != FailureAction::Ignored {
            name_one(job, pod, counts_as_failed, completions, &mut done, &mut named);
        }
    }
    let indexed = is_indexed(job);
    if indexed && done.count() != known {
        status.completed_indexes = Some(done.to_string()).filter(|text| !text.is_empty());
        status.succeeded = Some(done.count());
    }
    let waiting = |uids: &Option<Vec<String>>| i32::try_from(uids.as_ref().map_or(0, Vec::len)).unwrap_or(0);
    let succeeded = if indexed { done.count() } else { status.succeeded.unwrap_or(0) + waiting(&named.succeeded) };
    let failed = status.failed.unwrap_or(0) + waiting(&named.failed) + kept;
    status.failed_indexes = per_index.as_ref().map(|limits| limits.failed.to_string());
    status.uncounted_terminated_pods = Some(named);
    Tally { ended, done, per_index, succeeded, failed, more }
}

fn name_one(
    job: &Job,
    pod: &Pod,
    counts_as_failed: bool,
    completions: i32,
    done: &mut Indexes,
    named: &mut UncountedTerminatedPods,
) {
    let uid = uid_of(&pod.metadata);
    let has = |uids: &Option<Vec<String>>| uids.iter().flatten().any(|known| known == uid);
    if pod.phase() == "Succeeded" {
        if is_indexed(job) {
            if let Some(index) = indexes::of(pod, completions) {
                done.add(index);
            }
        } else if !has(&named.succeeded) {
            named.succeeded.get_or_insert_default().push(uid.to_owned());
        }
    } else if counts_as_failed && !has(&named.failed) {
        let belongs = !is_indexed(job) || indexes::of(pod, completions).is_some();
        if belongs {
            named.failed.get_or_insert_default().push(uid.to_owned());
        }
    }
}

/// Returns true when the server removed an object, because nothing held it any more.
fn is_gone(metadata: &ObjectMeta) -> bool {
    is_terminating(metadata)
        && metadata.deletion_grace_period_seconds.unwrap_or(0) == 0
        && metadata.finalizers.as_ref().is_none_or(Vec::is_empty)
}

impl Jobs {
    /// Takes the finalizers off. Returns the uids of the pods that kept theirs because it failed, with the first error.
    pub(super) async fn release(&self, key: &Key, ended: &[Arc<Pod>]) -> (BTreeSet<String>, Option<Error>) {
        let outcomes = join_all(ended.iter().map(|pod| self.remove_finalizer(pod))).await;
        let (mut kept, mut errors) = (BTreeSet::new(), Vec::new());
        for (pod, outcome) in ended.iter().zip(outcomes) {
            match outcome {
                Ok(Some(written)) if is_gone(&written.metadata) => {
                    self.expectations.removed(key, Key::of(&pod.metadata), uid_of(&pod.metadata));
                }
                Ok(Some(written)) => self.expectations.wrote(key, version_of(&written.metadata)),
                Ok(None) => {}
                Err(error) => {
                    kept.insert(uid_of(&pod.metadata).to_owned());
                    errors.push(error);
                }
            }
        }
        (kept, Error::first_of(errors))
    }
}

fn added(number: Option<i32>, more: i32) -> Option<i32> {
    Some(number.unwrap_or(0).saturating_add(more)).filter(|number| *number != 0)
}
