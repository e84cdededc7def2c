//! The requests of people about a canary: to go on with the next step, or back.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::lock::CanaryMark;
use crate::rollout::{CommitId, marks};

/// The request of a person, an annotation of the workload. It counts for one step of one commit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CanaryRequest {
    /// The commit of the canary.
    pub commit: CommitId,
    /// The step that it is about.
    pub step: usize,
    /// The wish.
    pub answer: CanaryAnswer,
    /// The person.
    pub by: String,
    /// The reason that the person gives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// When it was asked.
    pub at: Timestamp,
}

/// The wish of a person about a canary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CanaryAnswer {
    /// To the next step.
    Promote,
    /// Back to the last good revision.
    Abort,
}

/// The reason for which a request is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No canary is under way.
    #[error("no canary of it is under way")]
    NoCanary,
    /// A step has failed, and the workload was left at it.
    #[error("its canary has failed at step {} of {}, where it is left; a newer commit takes its place", .0.step, .0.of)]
    Failed(CanaryMark),
    /// No daemon acts on it.
    #[error("it is suspended ({0}); `belay resume-sync` lets its canary go on")]
    Suspended(String),
    /// Its commit is not known.
    #[error("its annotation belay.dev/commit names no commit")]
    NoCommit,
}

impl CanaryRequest {
    /// Returns the request on a live workload, if it is about the step and the commit that are under way.
    #[must_use]
    pub fn on(live: &Value) -> Option<CanaryRequest> {
        let asked: CanaryRequest = marks::read(live, marks::CANARY_REQUEST)?;
        let is_of_it = CanaryMark::on(live)?.step == asked.step
            && marks::annotation(live, marks::COMMIT) == Some(asked.commit.as_str());
        is_of_it.then_some(asked)
    }

    /// Returns the person, with the reason that they give.
    #[must_use]
    pub fn person(&self) -> String {
        let why = self.why.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
        format!("{}{why}", self.by)
    }
}

/// Returns the request about the step that is under way on a live workload.
///
/// # Errors
///
/// When no canary is under way, or no daemon would act on the request.
pub fn request(
    live: &Value,
    answer: CanaryAnswer,
    (by, why): (String, Option<String>),
    at: Timestamp,
) -> Result<CanaryRequest, Refusal> {
    let mark = CanaryMark::on(live).ok_or(Refusal::NoCanary)?;
    if mark.failed {
        return Err(Refusal::Failed(mark));
    }
    if let Some(why) = marks::suspension(live) {
        return Err(Refusal::Suspended(why.to_owned()));
    }
    let commit = marks::annotation(live, marks::COMMIT).and_then(|commit| commit.parse().ok());
    Ok(CanaryRequest { commit: commit.ok_or(Refusal::NoCommit)?, step: mark.step, answer, by, why, at })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rollout::canary::{CanaryKind, CanaryLock};
    use serde_json::json;

    const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

    fn live(step: usize, commit: &str) -> Value {
        let (kind, mark) = (CanaryKind::Deployment, CanaryMark::at(step, 2));
        let lock = CanaryLock { kind, mark, pods: 1, replicas: 4, paused: true };
        lock.onto(json!({"metadata": {"annotations": {marks::COMMIT: commit}}, "spec": {}}))
    }

    #[test]
    fn a_request_counts_for_its_step_of_its_commit_alone() {
        let asked =
            |live: &Value| request(live, CanaryAnswer::Promote, ("ada".to_owned(), None), Timestamp::UNIX_EPOCH);
        let first = asked(&live(1, COMMIT)).unwrap();
        let with_it = |mut live: Value| {
            live["metadata"]["annotations"][marks::CANARY_REQUEST] = json!(marks::written(&first));
            CanaryRequest::on(&live)
        };
        assert_eq!(with_it(live(1, COMMIT)), Some(first.clone()));
        assert_eq!(with_it(live(2, COMMIT)), None, "it went on already");
        assert_eq!(with_it(live(1, &COMMIT.replace('0', "1"))), None, "a newer commit");
        assert_eq!(with_it(json!({})), None);
        assert_eq!(asked(&json!({})), Err(Refusal::NoCanary));
        assert_eq!(asked(&live(1, "main")), Err(Refusal::NoCommit));
        let mut failed = live(1, COMMIT);
        let mark = CanaryMark { failed: true, ..CanaryMark::at(1, 2) };
        failed["metadata"]["annotations"][marks::CANARY_STEP] = json!(marks::written(&mark));
        assert_eq!(asked(&failed), Err(Refusal::Failed(mark)));
        let mut suspended = live(1, COMMIT);
        suspended["metadata"]["annotations"][marks::SUSPEND] = json!("a fair");
        assert_eq!(asked(&suspended), Err(Refusal::Suspended("a fair".to_owned())));
    }
}
