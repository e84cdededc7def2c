//! The cluster's traces of rollouts whose records are lost: the marks on a workload and on its revisions.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;

use crate::manifest::ObjectKey;
use crate::rollout::judge::health::{Standing, was_complete};
use crate::rollout::{
    CommitId, Hold, Outcome, Reason, ReasonCode, Record, RecordId, Revision, TemplateMarks, Trigger, health, marks,
    same_template, template,
};

/// The records that were rebuilt from a workload and its revisions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rebuilt {
    /// One record for each commit that is named, the oldest first. Unknown facts are left out of them.
    pub records: Vec<Record>,
    /// The commits' change-causes.
    pub causes: BTreeMap<CommitId, String>,
    /// The pod templates of those that are complete, to go back to.
    pub templates: Vec<(ObjectKey, CommitId, Value)>,
    /// The number of revisions that name no commit: others made them.
    pub nameless: usize,
}

impl Rebuilt {
    /// Takes up what was made of another workload.
    pub fn extend(&mut self, other: Rebuilt) {
        self.records.extend(other.records);
        self.causes.extend(other.causes);
        self.templates.extend(other.templates);
        self.nameless += other.nameless;
    }
}

/// The effect of one commit on a workload, as far as its revisions tell.
struct CommitRevisions<'r> {
    began: Timestamp,
    revisions: Vec<&'r Revision>,
}

/// Makes records of what a workload and its revisions say. Those of commits that are still under way have no end.
///
/// A commit whose revision is neither the present one nor marked as failed is [`Outcome::Unknown`]: nobody says whether
/// it was seen complete.
#[must_use]
pub fn rebuilt(source: &str, key: &ObjectKey, live: &Value, revisions: &[Revision]) -> Rebuilt {
    let mut rebuilt = Rebuilt::default();
    let mut by_commit: BTreeMap<CommitId, CommitRevisions<'_>> = BTreeMap::new();
    let own = own_revision(live);
    let all = if revisions.is_empty() { own.as_slice() } else { revisions };
    for revision in all {
        let commit = revision.marks.commit.as_deref().and_then(|commit| commit.parse::<CommitId>().ok());
        let (Some(commit), Some(created)) = (commit, revision.created) else {
            rebuilt.nameless += 1;
            continue;
        };
        if let Some(cause) = &revision.marks.change_cause {
            rebuilt.causes.insert(commit.clone(), cause.clone());
        }
        let told = by_commit.entry(commit).or_insert(CommitRevisions { began: created, revisions: Vec::new() });
        told.began = told.began.min(created);
        told.revisions.push(revision);
    }
    let hold = Hold::on(live);
    let back = hold.as_ref().and_then(|hold| all.iter().find(|one| hold.is_about(&one.template)));
    for (commit, told) in by_commit {
        let mut record = blank(source, key, &commit, told.began);
        record.revision = told.revisions.iter().map(|revision| revision.number).max().filter(|number| *number > 0);
        let held = hold.as_ref().filter(|hold| hold.commit == commit);
        end(&mut record, key, live, &told, held);
        if let Some(hold) = held {
            keep_hold(&mut record, hold, back);
        }
        if let Some(template) = template(live).filter(|_| record.outcome == Outcome::Complete) {
            rebuilt.templates.push((key.clone(), commit, template.clone()));
        }
        rebuilt.records.push(record);
    }
    if let Some(hold) = hold.filter(|hold| rebuilt.records.iter().all(|record| record.commit != hold.commit)) {
        // Its revision is gone already: the hold itself is what is left of it.
        let mut record = blank(source, key, &hold.commit, hold.since);
        record.outcome = way_back(key, live);
        record.reason = Some(failed(&hold.reason));
        keep_hold(&mut record, &hold, back);
        rebuilt.records.push(record);
    }
    rebuilt.records.sort_by(|one, other| (one.started, &one.commit).cmp(&(other.started, &other.commit)));
    rebuilt
}

fn blank(source: &str, key: &ObjectKey, commit: &CommitId, began: Timestamp) -> Record {
    Record {
        id: RecordId(0),
        source: source.to_owned(),
        commit: commit.clone(),
        object: key.clone(),
        place: None,
        rendered_by: None,
        trigger: Trigger::Rebuilt,
        outcome: Outcome::Unknown,
        reason: None,
        manifest_hash: None,
        rolls_out: true,
        revision: None,
        back_to: None,
        back_to_revision: None,
        complaints: Vec::new(),
        evidence: None,
        started: began,
        ended: None,
    }
}

/// Sets the end of a commit.
fn end(record: &mut Record, key: &ObjectKey, live: &Value, told: &CommitRevisions<'_>, held: Option<&Hold>) {
    let present = template(live);
    let is_present = |revision: &&Revision| present.is_some_and(|now| same_template(now, &revision.template));
    let why = told.revisions.iter().find(|revision| revision.failed).map(|revision| revision.why.as_deref());
    if held.is_none() && told.revisions.iter().copied().any(|revision| is_present(&revision)) {
        (record.outcome, record.reason) = standing(key, live);
        record.ended = completed(live).filter(|_| record.outcome == Outcome::Complete);
    } else if let Some(why) = why {
        // The mark is only written once the workload has gone back.
        record.outcome = Outcome::RolledBack;
        record.reason = Some(failed(why.unwrap_or_default()));
    } else if let Some(hold) = held {
        record.outcome = way_back(key, live);
        record.reason = Some(failed(&hold.reason));
    }
}

/// Returns the outcome of a commit that is held: its workload may be on the way back still.
fn way_back(key: &ObjectKey, live: &Value) -> Outcome {
    match standing(key, live) {
        (Outcome::UnderWay, _) => Outcome::RollingBack,
        _ => Outcome::RolledBack,
    }
}

/// Returns the standing of the present template, by the workload's own status.
fn standing(key: &ObjectKey, live: &Value) -> (Outcome, Option<Reason>) {
    let Some(health) = health(key, live) else { return (Outcome::Unknown, None) };
    match health.standing {
        _ if health.observed_generation < marks::generation(live) => (Outcome::UnderWay, None),
        Standing::Complete => (Outcome::Complete, None),
        // A later change of its pods is no rollout.
        _ if was_complete(key, live) => (Outcome::Complete, None),
        Standing::Failed => (Outcome::Failed, health.failure.map(|failure| failure.reason)),
        Standing::Moving | Standing::Paused => (Outcome::UnderWay, None),
    }
}

/// Returns when a Deployment was complete, by its controller's own condition. No other kind says.
fn completed(live: &Value) -> Option<Timestamp> {
    let conditions = live["status"]["conditions"].as_array()?;
    let available =
        |condition: &&Value| condition["type"] == "Progressing" && condition["reason"] == "NewReplicaSetAvailable";
    conditions.iter().find(available)?["lastUpdateTime"].as_str()?.parse().ok()
}

fn keep_hold(record: &mut Record, hold: &Hold, back: Option<&Revision>) {
    record.manifest_hash = Some(hold.manifest.clone());
    record.ended = Some(hold.since).filter(|since| *since > record.started && record.outcome.is_final());
    record.back_to = back.and_then(|revision| revision.marks.commit.as_deref()?.parse().ok());
    record.back_to_revision = back.map(|revision| revision.number);
}

fn failed(why: &str) -> Reason {
    Reason::new(ReasonCode::Failed, why.to_owned())
}

/// Returns the only revision of a kind that keeps none, if it still is as it was made: then it was made when its
/// rollout began.
fn own_revision(live: &Value) -> Vec<Revision> {
    let made = live["metadata"]["creationTimestamp"].as_str().and_then(|at| at.parse().ok());
    match template(live) {
        Some(template) if marks::generation(live) <= 1 => vec![Revision {
            number: 0,
            formerly: Vec::new(),
            name: String::new(),
            template: template.clone(),
            marks: TemplateMarks::on(live),
            failed: false,
            why: None,
            created: made,
        }],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::rollout::{IgnoredFields, revisions};

    const FIRST: &str = "1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d";
    const SECOND: &str = "2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d5e";
    const THIRD: &str = "3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d5e6f";

    fn key() -> ObjectKey {
        ObjectKey {
            group: "apps".to_owned(),
            kind: "Deployment".to_owned(),
            namespace: Some("shop".to_owned()),
            name: "web".to_owned(),
        }
    }

    fn pod(image: &str) -> Value {
        json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "app", "image": image}]}})
    }

    fn keeper(number: i64, commit: &str, image: &str, cause: &str) -> Value {
        json!({"metadata": {"name": format!("web-{number}"), "creationTimestamp": format!("2026-01-0{number}T00:00:00Z"),
            "annotations": {marks::REVISION: number.to_string(), marks::COMMIT: commit, marks::CHANGE_CAUSE: cause}},
            "spec": {"template": pod(image)}})
    }

    fn live(image: &str, available: i64, annotations: Value) -> Value {
        json!({"metadata": {"generation": 3, "annotations": annotations},
            "spec": {"replicas": 1, "template": pod(image)},
            "status": {"observedGeneration": 3, "replicas": 1, "updatedReplicas": 1, "readyReplicas": available,
                "availableReplicas": available, "conditions": [{"type": "Progressing", "status": "True",
                    "reason": "NewReplicaSetAvailable", "lastUpdateTime": "2026-01-05T00:00:00Z"}]}})
    }

    fn outcomes(rebuilt: &Rebuilt) -> Vec<(&str, Outcome)> {
        rebuilt.records.iter().map(|record| (record.commit.as_str(), record.outcome)).collect()
    }

    #[test]
    fn only_what_is_known_is_said() {
        let all = revisions(&[
            keeper(1, FIRST, "web:1", "1a2b3c4 One (Ada)"),
            keeper(2, SECOND, "web:2", "2b3c4d5 Two (Ada) — failed: crash"),
            keeper(3, THIRD, "web:3", "3c4d5e6 Three (Ada)"),
            keeper(4, "by hand", "web:4", "x"),
        ]);
        let told = rebuilt("shop", &key(), &live("web:3", 1, json!({})), &all);
        assert_eq!(
            outcomes(&told),
            [(FIRST, Outcome::Unknown), (SECOND, Outcome::RolledBack), (THIRD, Outcome::Complete)]
        );
        assert_eq!(told.records[1].reason.as_ref().unwrap().message, "crash");
        assert_eq!(told.records[2].ended, Some("2026-01-05T00:00:00Z".parse().unwrap()));
        assert_eq!((told.records[0].ended, told.records[1].ended), (None, None));
        assert_eq!(told.records[1].started, "2026-01-02T00:00:00Z".parse().unwrap());
        assert!(told.records.iter().all(|record| record.trigger == Trigger::Rebuilt && record.place.is_none()));
        assert_eq!((told.nameless, told.causes.len()), (1, 3));
        assert_eq!(told.causes[&SECOND.parse::<CommitId>().unwrap()], "2b3c4d5 Two (Ada)", "without the mark");
    }

    #[test]
    fn what_is_not_there_yet_is_under_way() {
        let all = revisions(&[keeper(1, FIRST, "web:1", "1a2b3c4 One (Ada)")]);
        let mut live = live("web:1", 0, json!({}));
        // It was complete: what has become of its pods since is no rollout.
        assert_eq!(outcomes(&rebuilt("shop", &key(), &live, &all)), [(FIRST, Outcome::Complete)]);
        live["status"]["conditions"][0]["reason"] = "ReplicaSetUpdated".into();
        assert_eq!(outcomes(&rebuilt("shop", &key(), &live, &all)), [(FIRST, Outcome::UnderWay)]);
    }

    #[test]
    fn a_hold_says_what_failed_also_when_its_revision_is_gone() {
        let since = "2026-01-02T12:00:00Z".parse().unwrap();
        let hold = Hold::new("abc", None, &SECOND.parse().unwrap(), "no image", since);
        let hold = hold.about(&pod("web:1"), &IgnoredFields::default());
        let live = live("web:1", 1, json!({marks::HOLD: hold.to_annotation()}));
        let all = [keeper(1, FIRST, "web:1", "1a2b3c4 One (Ada)"), keeper(2, SECOND, "web:2", "2b3c4d5 Two (Ada)")];
        for kept in [1, 2] {
            let told = rebuilt("shop", &key(), &live, &revisions(&all[..kept]));
            assert_eq!(outcomes(&told), [(FIRST, Outcome::Complete), (SECOND, Outcome::RolledBack)]);
            let held = &told.records[1];
            assert_eq!(held.reason.as_ref().unwrap().message, "no image");
            assert_eq!((held.manifest_hash.as_deref(), held.back_to_revision), (Some("abc"), Some(1)));
            assert_eq!(held.back_to, Some(FIRST.parse().unwrap()));
        }
        let mut going_back = live;
        going_back["status"]["conditions"][0]["reason"] = "ReplicaSetUpdated".into();
        going_back["status"]["availableReplicas"] = 0.into();
        for kept in [1, 2] {
            let told = rebuilt("shop", &key(), &going_back, &revisions(&all[..kept]));
            assert_eq!(outcomes(&told), [(FIRST, Outcome::UnderWay), (SECOND, Outcome::RollingBack)]);
        }
    }
}
