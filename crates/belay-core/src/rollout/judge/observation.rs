//! What is to be seen of a workload whose rollout looks like failure.

use super::health::PodAccount;
use crate::rollout::PodSeen;

/// What is to be seen of a workload whose rollout looks like failure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observation {
    /// The pods of the present template.
    pub pods: Vec<PodAccount>,
    /// Why pods can't be made, where the workload says so.
    pub cannot_make_pods: Option<String>,
    /// A pod of another revision that its controller waits for before it goes on.
    pub held_up_by: Option<Box<PodSeen>>,
    /// Why its pods can't be seen.
    pub hidden: Option<String>,
}
