//! The templates of a workload by commit, and those to which it can go back.

use jiff::Timestamp;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::error::HistoryError;
use super::fallback_template::checked;
use belay_core::manifest::{ObjectKey, hex};
use belay_core::rollout::{CommitId, Outcome, Record, Trigger};

/// The newest commit whose manifest of a workload was seen complete.
#[derive(Clone, Debug, PartialEq)]
pub struct LastGood {
    /// Its record: commit, revision, manifest hash.
    pub record: Record,
    /// The pod template that was applied then, if it was kept.
    pub template: Option<Value>,
}

/// A pod template that may be kept.
#[derive(Clone, Debug)]
pub struct KeptTemplate {
    pub(in crate::history) source: String,
    pub(in crate::history) object: ObjectKey,
    pub(in crate::history) commit: CommitId,
    pub(in crate::history) text: String,
    pub(in crate::history) at: Timestamp,
}

impl KeptTemplate {
    /// Returns the template that was applied for a commit.
    ///
    /// # Errors
    ///
    /// [`HistoryError::Secret`] for a Secret, and [`HistoryError::TooLarge`] beyond 512 KiB.
    pub fn of(
        source: &str,
        object: &ObjectKey,
        commit: &CommitId,
        template: &Value,
        at: Timestamp,
    ) -> Result<KeptTemplate, HistoryError> {
        let text = checked(object, template)?;
        Ok(KeptTemplate { source: source.to_owned(), object: object.clone(), commit: commit.clone(), text, at })
    }

    /// Returns the name under which the same template is kept once.
    pub(in crate::history) fn hash(&self) -> String {
        hex(&Sha256::digest(&self.text))
    }
}

/// A record that was seen complete or unwell.
struct RevisionRecord {
    record: Record,
    /// The number of newer records of rollouts that only the configuration set off.
    turns: u32,
    unwell: bool,
}

impl RevisionRecord {
    /// Returns true when an older record is of the same commit, or of the same manifest and configuration.
    fn is_same(&self, older: &Record, turns: u32) -> bool {
        let same_manifest = older.manifest_hash.is_some() && self.record.manifest_hash == older.manifest_hash;
        self.record.commit == older.commit || same_manifest && self.turns == turns
    }
}

/// A record of a workload's revision that was seen complete, or was not well.
pub(in crate::history) struct SeenRevision {
    pub(in crate::history) record: Record,
    pub(in crate::history) unwell: bool,
    /// True when the template that it went back to was not well.
    pub(in crate::history) way_back: bool,
}

/// Returns the records of revisions that were not well, of records that come the newest first: the newest of those with
/// one commit, or with one manifest and the same configuration, stands for all of them.
pub(in crate::history) fn unwell_among(read: Vec<SeenRevision>) -> Vec<Record> {
    let mut known: Vec<RevisionRecord> = Vec::new();
    let mut turns = 0;
    for SeenRevision { record, unwell, way_back } in read {
        if let Some(commit) = record.back_to.clone().filter(|_| way_back) {
            let record = Record { commit, manifest_hash: None, ..record.clone() };
            let newer = known.iter().find(|newer| newer.is_same(&record, turns)).map(|newer| newer.unwell);
            known.push(RevisionRecord { record, turns, unwell: newer.unwrap_or(true) });
        }
        let turned = record.trigger == Trigger::ConfigChange;
        if unwell || record.outcome == Outcome::Complete {
            let newer = known.iter().find(|newer| newer.is_same(&record, turns)).map(|newer| newer.unwell);
            known.push(RevisionRecord { record, turns, unwell: newer.unwrap_or(unwell) });
        }
        turns += u32::from(turned);
    }
    known.into_iter().filter(|seen| seen.unwell).map(|seen| seen.record).collect()
}
