//! What ran beside the loop of a source, and what came of it.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;

use super::desired_state::DesiredState;
use super::head_change::{Charged, HeadChange};
use super::prepared::Prepared;
use super::rollout_task::RolloutEnd;
use crate::cluster::Served;
use crate::git::GitError;
use crate::history::HistoryError;
use belay_core::manifest::ObjectKey;
use belay_core::rollout::{CommitId, Reason, Record, RecordId};

/// What ran beside the loop, and is through.
pub(super) enum TaskResult {
    /// The repository was looked at.
    Looked(Box<LookEnd>),
    /// The source that a head waits for is complete, by the number of the wait.
    Awaited(u64),
    /// The plan of this number is ready.
    Planned(u64, Box<FinishedPlan>),
    /// A plan was written down, or could not be.
    PlanRecorded(Box<PlanRecord>),
    /// The cluster was asked which kinds it serves.
    Served(FoundKinds),
    /// A live object, with this digest, was compared with its manifest: whether it is as that says.
    Compared(ObjectKey, u64, bool),
    /// What was planned first is applied, or takes long.
    Idle,
    /// Objects were looked into, under the plan of this number.
    Checked(u64, Vec<Prepared>),
    /// What has left the repository was looked for.
    Searched(CheckResult),
    /// An object was tried again, under this number.
    Retried(ObjectKey, u64, Option<Box<Prepared>>),
    /// The record of a rollout that is taken up again was read.
    Reopened(Box<Record>),
    /// Something was kept or forgotten, or what was in the way of it.
    Kept(Option<String>),
    /// A rollout ended.
    RolledOut(ObjectKey, Box<RolloutEnd>, Option<Box<EndedRecord>>),
    /// A rollout ended, and it was read whether an object of its commit failed, with which the others go back.
    EndRead(Option<Box<ServedCommit>>),
    /// There is time to tell of completions.
    EventsDue,
    /// Completions were told.
    CompletionsSent,
    /// A workload that had failed is complete after all.
    Recovered(ObjectKey),
    /// Something else was told.
    Told,
}

/// The kinds that the cluster serves.
#[derive(Default)]
pub(super) struct FoundKinds {
    /// The number of the plan for which it was asked.
    pub number: u64,
    pub served: Vec<Served>,
    pub autoscalers: Option<Served>,
    /// Kinds about which the cluster said nothing.
    pub missed: BTreeSet<(String, String)>,
}

/// What came of looking for what has left the repository.
pub(super) struct CheckResult {
    /// The number of the plan that was in force when that began.
    pub plan: u64,
    pub prepared: Vec<Prepared>,
    /// Whether all kinds were looked through for what has left, where they were.
    pub searched: Option<bool>,
    /// The kinds of what is suspended and left, to be watched.
    pub suspended: Vec<Served>,
}

/// What a commit touched, of which an object failed; each part that goes back is a `P`.
pub(super) struct FailedCommit<P> {
    pub object: ObjectKey,
    /// Why the other objects go back.
    pub reason: Reason,
    /// What is still rolled out, under which record.
    pub under_way: Vec<(ObjectKey, RecordId)>,
    /// What is complete.
    pub complete: Vec<P>,
}

/// The same, as the history and Git tell it.
pub(super) type UnservedCommit = FailedCommit<Charged>;

/// The same, with the resources that serve what goes back.
pub(super) type ServedCommit = FailedCommit<(Served, Charged)>;

/// What is recorded of a rollout that has ended.
pub(super) struct EndedRecord {
    pub record: Record,
    /// When the commit was written that it is about.
    pub authored: Option<Timestamp>,
}

/// A plan with the head that it is for.
#[derive(Debug)]
pub(super) struct FinishedPlan {
    pub news: HeadChange,
    pub plan: HeadPlan,
}

/// A plan, and its records in the history.
#[derive(Debug)]
pub(super) struct PlanRecord {
    pub number: u64,
    pub news: HeadChange,
    /// The records: first of what can't be read, then of what has left and stays, then of what is planned.
    pub records: Vec<Record>,
    pub rejected: usize,
    pub orphaned: usize,
    /// What is planned, in the order of its records.
    pub new: Vec<Prepared>,
    /// What is planned and goes on under a record that is there.
    pub known: Vec<Prepared>,
    /// The numbers of the records, or why they could not be written.
    pub written: Result<Vec<RecordId>, HistoryError>,
    /// Which history they were written into, by [`crate::history::History::begun`].
    pub history: u32,
}

/// The plan for a head.
#[derive(Debug)]
pub(super) struct HeadPlan {
    pub prepared: Vec<Prepared>,
    /// Whether all kinds were looked through for what has left, where they were.
    pub searched: Option<bool>,
    /// The kinds of what is suspended and left, to be watched.
    pub suspended: Vec<Served>,
    /// The objects of which the manifest or the commit could not be read.
    pub unread: Vec<ObjectKey>,
}

/// How a look at the repository ended.
pub(super) struct LookEnd {
    pub looked: Result<Looked, GitError>,
    /// What the mirror holds, where the repository did not answer and nothing is known of it yet.
    pub kept: Option<Box<HeadChange>>,
    /// What was known of the repository when the look began: what it brought differs from that.
    pub known: Arc<DesiredState>,
}

/// What a look at the repository brought.
pub(super) enum Looked {
    /// Nothing new.
    Same(Option<CommitId>),
    /// A new head.
    New(Box<HeadChange>),
}
