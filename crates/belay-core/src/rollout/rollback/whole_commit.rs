//! The plan for an object that a commit touched when another object of it fails and all of the commit goes back.

use crate::rollout::{Outcome, Record, Trigger};

/// The effect of a commit on one object, by its records of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitPart {
    /// It failed: the others go back with it.
    Failed,
    /// It is under way: it is given up.
    UnderWay,
    /// It is complete, whatever was done about it since: it goes back.
    Complete,
    /// It was as the commit says when belay came to it. It goes back where the commit has changed it.
    AsItWas,
    /// Nothing of the commit is live.
    Nothing,
}

impl CommitPart {
    /// Returns the part that these records, of one object and commit, are about, with the record that says so. A
    /// restart, a number of pods or a correction that went well leaves it as it was.
    #[must_use]
    pub fn of<'a>(records: impl IntoIterator<Item = &'a Record>) -> Option<(CommitPart, &'a Record)> {
        let mut records: Vec<&Record> = records.into_iter().collect();
        records.sort_by_key(|record| std::cmp::Reverse(record.id));
        if !records.iter().any(|record| record.trigger.is_commit() || record.trigger == Trigger::Rebuilt) {
            return None;
        }
        let decisive = |record: &&&Record| !is_in_passing(record);
        let newest = records.iter().find(decisive).or_else(|| records.first())?;
        Some((CommitPart::of_newest(newest), newest))
    }

    fn of_newest(record: &Record) -> CommitPart {
        let goes_back = matches!(record.trigger, Trigger::Together(_));
        match record.outcome {
            // An object that has gone back with another failed only because of that one.
            _ if goes_back => CommitPart::Nothing,
            Outcome::Failed | Outcome::RolledBack | Outcome::RollbackFailed => match record.trigger {
                Trigger::UndoByHand(_) => CommitPart::Nothing,
                _ => CommitPart::Failed,
            },
            Outcome::Planned | Outcome::Waiting | Outcome::UnderWay | Outcome::Baking | Outcome::RollingBack => {
                CommitPart::UnderWay
            }
            // Somebody has let it in.
            Outcome::Complete if record.trigger == Trigger::Retry => CommitPart::Nothing,
            Outcome::Complete => CommitPart::Complete,
            Outcome::Unchanged => CommitPart::AsItWas,
            Outcome::Superseded
            | Outcome::Rejected
            | Outcome::Held
            | Outcome::Suspended
            | Outcome::Skipped
            | Outcome::Pruned
            | Outcome::Orphaned
            | Outcome::Unknown => CommitPart::Nothing,
        }
    }
}

/// Returns true when a record is of a change that leaves the commit's effect on the object as it was.
fn is_in_passing(record: &Record) -> bool {
    let by_others = matches!(
        record.trigger,
        Trigger::Drift(_) | Trigger::Restart(Some(_)) | Trigger::Autoscaler(_) | Trigger::RollingUpdate(_)
    );
    by_others && record.outcome == Outcome::Complete
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::ObjectKey;
    use crate::rollout::{CommitId, RecordId};
    use jiff::Timestamp;

    fn object() -> ObjectKey {
        ObjectKey { group: "apps".to_owned(), kind: "Deployment".to_owned(), namespace: None, name: "web".to_owned() }
    }

    fn records(of: Vec<(Trigger, Outcome)>) -> Vec<Record> {
        let commit: CommitId = "0123456789abcdef0123456789abcdef01234567".parse().unwrap();
        let record = |(number, (trigger, outcome))| Record {
            id: RecordId(number),
            trigger,
            outcome,
            ..Record::planned("shop", &commit, object(), Timestamp::UNIX_EPOCH)
        };
        (1..).zip(of).map(record).collect()
    }

    #[test]
    fn all_that_a_commit_has_made_goes_back() {
        use Outcome::{Complete, Failed, Held, Planned, RolledBack, Superseded, Unchanged, UnderWay};
        let commit = |outcome| (Trigger::Commit, outcome);
        let drift = |outcome| (Trigger::Drift("kubectl".to_owned()), outcome);
        let restart = || (Trigger::Restart(Some("kubectl".to_owned())), Complete);
        let together = |outcome| (Trigger::Together(object()), outcome);
        let undo = || (Trigger::UndoByHand("ann".to_owned()), RolledBack);
        for (case, of, expected) in [
            ("it is complete", vec![commit(Complete)], Some(CommitPart::Complete)),
            ("it was restarted since", vec![commit(Complete), restart()], Some(CommitPart::Complete)),
            ("it was put right since", vec![commit(Complete), drift(Complete)], Some(CommitPart::Complete)),
            ("it is being put right", vec![commit(Complete), drift(UnderWay)], Some(CommitPart::UnderWay)),
            ("it was rebuilt", vec![(Trigger::Rebuilt, Complete)], Some(CommitPart::Complete)),
            ("another daemon applied it", vec![commit(Unchanged)], Some(CommitPart::AsItWas)),
            ("another applied it, and it was restarted", vec![commit(Unchanged), restart()], Some(CommitPart::AsItWas)),
            ("it is under way", vec![commit(UnderWay)], Some(CommitPart::UnderWay)),
            ("it is tried again", vec![commit(RolledBack), (Trigger::Retry, Planned)], Some(CommitPart::UnderWay)),
            ("a person let it in", vec![commit(RolledBack), (Trigger::Retry, Complete)], Some(CommitPart::Nothing)),
            ("it failed", vec![commit(RolledBack)], Some(CommitPart::Failed)),
            ("it stays back", vec![commit(RolledBack), drift(Complete)], Some(CommitPart::Failed)),
            ("putting it right failed", vec![commit(Complete), drift(Failed)], Some(CommitPart::Failed)),
            ("it has gone back", vec![commit(Complete), together(RolledBack)], Some(CommitPart::Nothing)),
            ("it goes back", vec![commit(Complete), together(Planned)], Some(CommitPart::Nothing)),
            ("a person took it back", vec![commit(Complete), undo()], Some(CommitPart::Nothing)),
            ("it was held", vec![commit(Held)], Some(CommitPart::Nothing)),
            ("it was superseded", vec![commit(Superseded)], Some(CommitPart::Nothing)),
            ("the commit has not touched it", vec![restart()], None),
        ] {
            let records = records(of);
            assert_eq!(CommitPart::of(&records).map(|(part, _)| part), expected, "{case}");
        }
    }
}
