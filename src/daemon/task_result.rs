//! What ran beside the loop of a source, and what came of it.

use std::sync::Arc;

use super::desired_state::DesiredState;
use super::head_change::HeadChange;
use super::planner::Prepared;
use super::rollout_task::RolloutEnd;
use crate::cluster::Served;
use crate::git::GitError;
use belay_core::manifest::ObjectKey;
use belay_core::rollout::CommitId;

/// What ran beside the loop, and is through.
pub(super) enum TaskResult {
    /// The repository was looked at.
    Looked(LookEnd),
    /// A plan is ready: its number, what it is for, and what it is.
    Planned(u64, Box<HeadChange>, HeadPlan),
    /// The cluster serves these kinds, and autoscalers.
    Served(Vec<Served>, Option<Served>),
    /// A live object, with this digest, was compared with its manifest: whether it is as that says.
    Compared(ObjectKey, u64, bool),
    /// What was planned first is applied, or takes long.
    Calm,
    /// Doubtful objects were checked, under the plan of this number.
    Checked(u64, Vec<Prepared>),
    /// Something was kept or forgotten, or what was in the way of it.
    Kept(Option<String>),
    /// A rollout ended.
    RolledOut(ObjectKey, RolloutEnd),
    /// There is time to tell of completions.
    Gathered,
    /// Completions were told.
    ToldComplete,
    /// A workload that had failed is complete after all.
    Recovered(ObjectKey),
    /// Something else was told.
    Told,
}

/// The plan for a head.
pub(super) struct HeadPlan {
    pub prepared: Vec<Prepared>,
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
