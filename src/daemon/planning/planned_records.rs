//! The records of a plan: one for each planned manifest, and one for each that can't be read.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::daemon::repository::desired_state::DesiredState;
use crate::daemon::repository::head_change::HeadChange;
use crate::daemon::shared::context::Context;
use belay_core::manifest::{Complaint, ObjectKey};
use belay_core::rollout::{Commit, PlanStep, Planned, Reason, ReasonCode, Record, Wanted};

impl Context {
    /// Returns the record of a planned manifest.
    pub fn planned_record(&self, planned: &Planned) -> Record {
        let wanted = &planned.wanted;
        let (reason, complaints) = match &planned.step {
            PlanStep::Rejected(reason, complaints) => (Some(reason.clone()), complaints.clone()),
            _ => (None, Vec::new()),
        };
        let Wanted { key, manifest, hash, commit, trigger, .. } = wanted;
        Record {
            trigger: trigger.told(&planned.step),
            reason,
            manifest_hash: Some(hash.clone()),
            rolls_out: matches!(&planned.step, PlanStep::Apply(apply) if apply.rolls_out),
            complaints,
            ..Record::planned(&self.config.name, &commit.id, key.clone(), self.clock.now())
                .written_in(manifest.place.clone(), manifest.file())
        }
    }

    /// Returns records for unreadable manifests: one for each object that is complained about, or for the file.
    pub fn rejections(&self, desired: &DesiredState, news: &HeadChange) -> Vec<Record> {
        let mut by_object: BTreeMap<ObjectKey, (Arc<Commit>, Vec<Complaint>)> = BTreeMap::new();
        let new = |complaint: &Complaint| {
            let places = complaint.also.iter().map(|note| &note.place).chain([&complaint.place]);
            places.clone().any(|place| news.paths.contains(&*place.path))
        };
        let duplicates =
            desired.contradictions().into_iter().filter(new).map(|complaint| (complaint, Arc::clone(&news.head)));
        for (complaint, commit) in news.complaints.iter().cloned().chain(duplicates) {
            let key = complaint.object.clone().unwrap_or_else(|| file_key(&complaint));
            by_object.entry(key).or_insert_with(|| (commit, Vec::new())).1.push(complaint);
        }
        let record = |(object, (commit, complaints)): (ObjectKey, (Arc<Commit>, Vec<Complaint>))| Record {
            place: complaints.first().map(|complaint| complaint.place.clone()),
            reason: complaints.first().map(|first| Reason::new(ReasonCode::InvalidManifest, first.to_string())),
            complaints,
            ..Record::planned(&self.config.name, &commit.id, object, self.clock.now())
        };
        by_object.into_iter().map(record).collect()
    }
}

/// Returns the key for complaints about a file from which no object could be read.
fn file_key(complaint: &Complaint) -> ObjectKey {
    ObjectKey { group: String::new(), kind: "File".to_owned(), namespace: None, name: complaint.place.path.to_string() }
}
