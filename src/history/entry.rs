//! The daemon's words about a record: new facts, steps and its end.

use jiff::Timestamp;

use super::baselines::{JudgedBake, JudgedBaseline};
use super::drift::Drifted;
use super::templates::KeptTemplate;
use belay_core::manifest::{Complaint, ObjectKey};
use belay_core::rollout::analysis::Measurement;
use belay_core::rollout::{CommitId, Evidence, Outcome, Reason, RecordId, Step, Trigger};

/// The longest text of a step or a reason, in bytes. Longer ones are cut.
const TEXT: usize = 4096;

/// The facts that may become known about a record before it ends. A field that is `None` stays as it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Update {
    /// The trigger, if it has turned out to be another one.
    pub trigger: Option<Trigger>,
    /// The present outcome; not an end: `History::finish` writes that.
    pub outcome: Option<Outcome>,
    /// The reason.
    pub reason: Option<Reason>,
    /// The hash of the manifest.
    pub manifest_hash: Option<String>,
    /// True when the pod template changed.
    pub rolls_out: Option<bool>,
    /// The revision that the cluster gave to the new template.
    pub revision: Option<i64>,
    /// The commit whose template the workload goes back to.
    pub back_to: Option<CommitId>,
    /// The revision that it goes back to.
    pub back_to_revision: Option<i64>,
    /// The observations at its failure.
    pub evidence: Option<Evidence>,
    /// The complaints about the manifest.
    pub complaints: Option<Vec<Complaint>>,
    /// The baseline of a write's rollout.
    pub baseline: Option<JudgedBaseline>,
    /// The bake time that began.
    pub bake: Option<JudgedBake>,
    /// The steps by which it became known, which are written down with it.
    pub steps: Vec<Step>,
}

/// Returns a text as it is kept.
pub(in crate::history) fn cut(text: &str) -> &str {
    if text.len() <= TEXT {
        return text;
    }
    &text[..text.floor_char_boundary(TEXT)]
}

/// One thing to be written down.
#[derive(Clone, Debug)]
pub enum HistoryEntry {
    /// A step of a record.
    Step(RecordId, Step),
    /// A measurement of an analysis of a record's rollout.
    Measured(RecordId, Box<Measurement>),
    /// A new fact about a record.
    Update(RecordId, Box<Update>),
    /// The template of a workload that was seen complete.
    Kept(KeptTemplate),
    /// The end of a record, and when it was.
    End(RecordId, Outcome, Option<Reason>, Timestamp),
    /// An object of a source that has drifted and is left so. An earlier note stays.
    Drifted(String, Drifted),
    /// An object of a source that is as it should be again.
    PutRight(String, ObjectKey),
}
