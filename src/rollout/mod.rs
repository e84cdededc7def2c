//! WHAT TO DO. Pure: no I/O, no clock, no async; facts and the present moment are arguments.

mod commit;
mod record;

pub use commit::{Commit, CommitId, InvalidCommitId, Person};
pub use record::{EventSeen, Evidence, Outcome, PodSeen, Reason, Record, RecordId, Step, StepKind, Trigger};
