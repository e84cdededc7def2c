//! The tasks beside the loop of a source, and their results.

use std::collections::BTreeSet;

use crate::cluster::Served;
use crate::daemon::live::standing::EndedRecord;
use crate::daemon::repository::head_change::HeadChange;
use crate::daemon::repository::look::LookEnd;
use crate::daemon::repository::prepared::Prepared;
use crate::daemon::rollout::rollback::commit_rollback::ServedCommit;
use crate::daemon::rollout::rollout_task::RolloutEnd;
use crate::history::HistoryError;
use belay_core::manifest::ObjectKey;
use belay_core::rollout::{Outcome, Record, RecordId};

/// The result of a task beside the loop.
pub enum TaskResult {
    /// The repository was fetched.
    Looked(Box<LookEnd>),
    /// The source that a head waits for is complete, by the number of the wait.
    Awaited(u64, Option<String>),
    /// The plan of this number is ready.
    Planned(u64, Box<FinishedPlan>),
    /// A plan was written down, or could not be.
    PlanRecorded(Box<PlanRecord>),
    /// The cluster was asked which kinds it serves.
    Served(FoundKinds),
    /// The cluster was asked how it serves namespaces and definitions, of which one is missing.
    MissingServed(Vec<Served>),
    /// A live object, with this digest, was compared with its manifest: whether it is as that says.
    Compared(ObjectKey, u64, bool),
    /// The first objects of a plan are applied, or take long.
    Idle,
    /// Objects were compared, under the plan of this number.
    Checked(u64, Vec<Prepared>),
    /// The search for objects that have left the repository is done.
    Searched(CheckResult),
    /// An object was tried again, under this number.
    Retried(ObjectKey, u64, Option<Box<Prepared>>),
    /// The record of a rollout that is taken up again was read.
    Reopened(Box<Record>),
    /// Records or commits were kept or forgotten, or that failed.
    Kept(Option<String>),
    /// A rollout ended.
    RolledOut(ObjectKey, Box<RolloutEnd>, Option<Box<EndedRecord>>),
    /// A rollout ended, and it was read whether an object of its commit failed, with which the others go back.
    EndRead(Option<Box<ServedCommit>>),
    /// The ends of records that could not be written before were written.
    EndsWritten(Vec<(RecordId, Outcome)>),
    /// There is time to send Events about completions.
    EventsDue,
    /// Events about completions were sent.
    CompletionsSent,
    /// The pods of workloads without a rollout were inspected: the trouble with those of each.
    PodsInspected(Vec<(ObjectKey, Option<String>)>),
    /// A workload that had failed is complete after all.
    Recovered(ObjectKey),
    /// Another Event was sent.
    Told,
}

/// The kinds that the cluster serves.
#[derive(Default)]
pub struct FoundKinds {
    /// The number of the plan for which it was asked.
    pub number: u64,
    pub served: Vec<Served>,
    pub autoscalers: Option<Served>,
    /// Kinds about which the cluster said nothing.
    pub missed: BTreeSet<(String, String)>,
}

/// The result of the search for objects that have left the repository.
pub struct CheckResult {
    /// The number of the plan that was in force when that began.
    pub plan: u64,
    pub prepared: Vec<Prepared>,
    /// True when all kinds were searched; `None` if they were not to be.
    pub searched: Option<bool>,
    /// The kinds of suspended objects that have left, to be watched.
    pub suspended: Vec<Served>,
}

/// A plan with the head that it is for.
#[derive(Debug)]
pub struct FinishedPlan {
    pub news: HeadChange,
    pub plan: HeadPlan,
}

/// A plan, and its records in the history.
#[derive(Debug)]
pub struct PlanRecord {
    pub number: u64,
    pub news: HeadChange,
    /// The records: first of unreadable objects, then of those that have left and stay, then of planned ones.
    pub records: Vec<Record>,
    pub rejected: usize,
    pub orphaned: usize,
    /// The new rollouts, in the order of their records.
    pub new: Vec<Prepared>,
    /// The rollouts that continue under an existing record.
    pub known: Vec<Prepared>,
    /// The numbers of the records, or why they could not be written.
    pub written: Result<Vec<RecordId>, HistoryError>,
    /// The history into which they were written, by [`crate::history::History::begun`].
    pub history: u32,
}

/// The plan for a head.
#[derive(Debug)]
pub struct HeadPlan {
    pub prepared: Vec<Prepared>,
    /// True when all kinds were searched; `None` if they were not to be.
    pub searched: Option<bool>,
    /// The kinds of suspended objects that have left, to be watched.
    pub suspended: Vec<Served>,
    /// The objects of which the manifest or the commit could not be read.
    pub unread: Vec<ObjectKey>,
}
