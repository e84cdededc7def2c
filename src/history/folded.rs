//! Corrections of an object that somebody keeps changing: which one goes on under the record of the last.

use belay_core::rollout::{Outcome, Record};

/// The newest record of an object, as far as that decides it.
pub(in crate::history) struct NewestRecord {
    /// The word of its trigger.
    pub(in crate::history) trigger: String,
    /// The hand of its trigger.
    pub(in crate::history) who: Option<String>,
    pub(in crate::history) commit: String,
    pub(in crate::history) outcome: Outcome,
    pub(in crate::history) has_ended: bool,
}

impl NewestRecord {
    /// Returns true when a correction goes on under it: it was a successful one of the same commit and of the same manager's
    /// changes.
    pub(in crate::history) fn is_taken_up_by(&self, correction: &Record) -> bool {
        let is_same =
            self.trigger == correction.trigger.word() && self.who.as_deref() == correction.trigger.who().as_deref();
        is_same && self.commit == correction.commit.as_str() && self.outcome == Outcome::Complete && self.has_ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use belay_core::manifest::ObjectKey;
    use belay_core::rollout::Trigger;
    use jiff::Timestamp;

    const COMMIT: &str = "1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d";

    #[test]
    fn only_a_correction_of_the_same_changes_goes_on() {
        let object =
            ObjectKey { group: String::new(), kind: "ConfigMap".to_owned(), namespace: None, name: "a".to_owned() };
        let planned = Record::planned("shop", &COMMIT.parse().unwrap(), object, Timestamp::UNIX_EPOCH);
        let by = |who: &str| Record { trigger: Trigger::Drift(who.to_owned()), ..planned.clone() };
        let newest = |outcome, has_ended| NewestRecord {
            trigger: by("kubectl").trigger.word().to_owned(),
            who: by("kubectl").trigger.who().map(std::borrow::Cow::into_owned),
            commit: COMMIT.to_owned(),
            outcome,
            has_ended,
        };
        assert!(newest(Outcome::Complete, true).is_taken_up_by(&by("kubectl")));
        assert!(!newest(Outcome::Complete, true).is_taken_up_by(&by("helm")), "somebody else's changes");
        assert!(!newest(Outcome::Complete, true).is_taken_up_by(&planned), "no correction");
        assert!(!newest(Outcome::Complete, false).is_taken_up_by(&by("kubectl")), "under way");
        assert!(!newest(Outcome::Failed, true).is_taken_up_by(&by("kubectl")), "it failed");
        let other = NewestRecord { commit: "2".repeat(40), ..newest(Outcome::Complete, true) };
        assert!(!other.is_taken_up_by(&by("kubectl")), "another commit");
    }
}
