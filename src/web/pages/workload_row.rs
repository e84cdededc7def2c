//! A row of the overview: one workload, or another object that is not as the head says.

use jiff::Timestamp;

use super::components::{DiffersSince, Link, Mark, PodsPicture};
use super::in_address;
use super::known_commits::KnownCommits;
use super::next_step::{NextStep, next_steps};
use crate::daemon::Status;
use crate::history::query::answers::{CommitInfo, WorkloadAnswer};
use crate::history::query::harm::Harm;
use belay_core::manifest::{ObjectKey, shortened};
use belay_core::rollout::{Counters, ObjectState, Workload};

/// The number of characters of a message in a row that has no cause.
const MESSAGE: usize = 160;

/// A row.
pub(super) struct WorkloadRow {
    pub object: ObjectKey,
    pub link: Option<String>,
    pub mark: Mark,
    pub pods: Option<PodsPicture>,
    pub source: String,
    /// The reason in a line.
    pub cause: String,
    /// All of it, where that is more.
    pub whole: Option<String>,
    /// The time since which Git and the cluster differ by a rollback.
    pub differs_since: Option<DiffersSince>,
    pub steps: Vec<NextStep>,
    pub since: Option<Timestamp>,
    pub deadline: Option<Timestamp>,
    pub commit: CommitCell,
}

/// The commit of a row: the one that failed, and the one that runs where that is another.
pub(super) struct CommitCell {
    pub runs: Option<Link>,
    pub wants: Option<Link>,
    /// The known facts about the commit that is wanted.
    pub told: Option<CommitInfo>,
}

impl WorkloadRow {
    /// Returns a row; `told` has facts about its commits.
    pub(super) fn of(row: WorkloadAnswer, status: &Status, told: &KnownCommits) -> WorkloadRow {
        let live = status.sources.get(&row.source).and_then(|source| source.workloads.get(&row.object));
        let is_workload = Workload::of(&row.object).is_some();
        let counters = live.map_or(Counters { desired: row.desired, ..Counters::default() }, |live| live.counters);
        let is_down = Harm::of_row(&row) == Harm::Unavailable;
        let cause = row.cause.clone().unwrap_or_else(|| of_message(&row, is_down));
        let says_more = !cause.is_empty() && row.message != cause;
        WorkloadRow {
            link: is_workload.then(|| address(&row.source, &row.object)),
            mark: if is_down { Mark::unavailable(row.state) } else { Mark::of(row.state) },
            pods: is_workload.then_some(PodsPicture(counters)),
            steps: next_steps(&row.object, row.state, row.failed_commit.as_ref()),
            whole: says_more.then(|| row.message.clone()),
            differs_since: row.since.filter(|_| row.state == ObjectState::Held).map(DiffersSince),
            since: row.since,
            deadline: row.deadline,
            commit: CommitCell::of(&row, told),
            cause,
            source: row.source,
            object: row.object,
        }
    }

    /// Returns the same with no more to unfold.
    pub(super) fn in_a_line(self) -> WorkloadRow {
        WorkloadRow { whole: None, steps: Vec::new(), ..self }
    }

    /// Returns true when there is more to unfold than the line.
    pub(super) fn unfolds(&self) -> bool {
        self.whole.is_some() || !self.steps.is_empty()
    }
}

impl CommitCell {
    fn of(row: &WorkloadAnswer, told: &KnownCommits) -> CommitCell {
        let runs = row.commit.parse().ok();
        let wanted = row.failed_commit.clone().or_else(|| runs.clone());
        let runs = runs.filter(|runs| wanted.as_ref() != Some(runs));
        CommitCell {
            told: wanted.as_ref().and_then(|commit| told.get(commit).cloned()),
            runs: runs.map(Link),
            wants: wanted.map(Link),
        }
    }
}

/// Returns the address of a workload's page.
pub(super) fn address(source: &str, key: &ObjectKey) -> String {
    let parts = [source, &key.kind, key.namespace.as_deref().unwrap_or("-"), &key.name];
    format!("/workloads/{}", parts.map(in_address).join("/"))
}

/// Returns a message as it fits in a row. A row shows anyway that all pods are there.
fn of_message(row: &WorkloadAnswer, is_down: bool) -> String {
    if row.state == ObjectState::Complete && !is_down && row.drifted_by.is_none() {
        String::new()
    } else {
        shortened(&row.message, MESSAGE).into_owned()
    }
}
