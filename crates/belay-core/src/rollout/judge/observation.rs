//! The observation of a workload whose rollout seems to fail.

use super::health::PodAccount;
use crate::rollout::PodSeen;

/// The observation of a workload whose rollout seems to fail.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observation {
    /// The pods of the present template.
    pub pods: Vec<PodAccount>,
    /// The reason for which pods can't be created, if the workload's status says so.
    pub cannot_make_pods: Option<String>,
    /// A pod of another revision that its controller waits for before it goes on.
    pub held_up_by: Option<Box<PodSeen>>,
    /// The reason for which its pods can't be seen.
    pub hidden: Option<String>,
}
