//! The cause of a failure in a row of a status: in a line, with the evidence where the history has it.

use super::answers::WorkloadAnswer;
use crate::history::{FAILED, History, Query};
use belay_core::rollout::{CommitId, ObjectState, short_cause};

/// The most failures of which the evidence is read for one answer.
const FAILURES: usize = 200;

impl WorkloadAnswer {
    /// Notes that a commit is charged with a failure of it.
    pub(super) fn note_failure(&mut self, commit: &CommitId, reason: &str) {
        self.cause = Some(short_cause(reason, None));
        self.failed_commit = Some(commit.clone());
    }

    /// Takes the cause from the record of the failure, which has the evidence.
    fn read_cause(&mut self, history: &History) {
        let failure = self.failed_commit.as_ref().map(|commit| Query {
            commit: Some(commit.to_string()),
            outcomes: FAILED.into(),
            limit: Some(1),
            ..Query::of(&self.source, &self.object)
        });
        let record = failure.and_then(|query| history.records(&query).ok()?.into_iter().next());
        let told = record.and_then(|record| Some((record.reason?, record.evidence?)));
        if let Some((reason, evidence)) = told {
            self.cause = Some(short_cause(&reason.message, Some(&evidence)));
        }
    }
}

impl WorkloadAnswer {
    /// Returns the message with the cause in the place of the whole reason, where it ends with that of a failure.
    #[must_use]
    pub fn short_message(&self) -> String {
        let (Some(cause), Some(commit)) = (&self.cause, &self.failed_commit) else { return self.message.clone() };
        let begins = [format!("commit {} is held: ", commit.short()), format!("commit {}: ", commit.short())];
        match begins.iter().find(|begin| self.message.starts_with(begin.as_str())) {
            Some(begin) => format!("{begin}{cause}"),
            None if self.state == ObjectState::Held => self.message.clone(),
            None => cause.clone(),
        }
    }
}

/// Reads the evidence of the failures among these rows.
pub(super) fn read_causes(history: &History, rows: &mut [WorkloadAnswer]) {
    let failures = rows.iter_mut().filter(|row| row.failed_commit.is_some());
    failures.take(FAILURES).for_each(|row| row.read_cause(history));
}

#[cfg(test)]
mod tests {
    use super::*;
    use belay_core::manifest::ObjectKey;

    #[test]
    fn a_message_has_the_cause_in_the_place_of_the_reason() {
        let key = ObjectKey {
            group: "apps".to_owned(),
            kind: "Deployment".to_owned(),
            namespace: None,
            name: "web".to_owned(),
        };
        let commit: CommitId = "1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d".parse().unwrap();
        let reason = "the rollout exceeded its progress deadline: pod a is Error (container web, exit code 1)";
        for (state, message, short) in [
            (
                ObjectState::Held,
                format!("commit 1a2b3c4 is held: {reason}"),
                "commit 1a2b3c4 is held: a new pod crashes: exit code 1",
            ),
            (ObjectState::Held, "held again by commit 5d6e7f8".to_owned(), "held again by commit 5d6e7f8"),
            (
                ObjectState::Failed,
                format!("commit 1a2b3c4: {reason}"),
                "commit 1a2b3c4: a new pod crashes: exit code 1",
            ),
            (ObjectState::Failed, reason.to_owned(), "a new pod crashes: exit code 1"),
        ] {
            let mut row = WorkloadAnswer { message, ..WorkloadAnswer::of_object(&key, "shop", state) };
            row.note_failure(&commit, reason);
            assert_eq!(row.short_message(), short);
        }
        let row = WorkloadAnswer {
            message: "2 of 3".to_owned(),
            ..WorkloadAnswer::of_object(&key, "shop", ObjectState::Progressing)
        };
        assert_eq!(row.short_message(), "2 of 3");
    }
}
