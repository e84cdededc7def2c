//! The states that users see: one word for an object at a commit, one for a source. Command line, JSON, page, metrics and
//! systemd's status line all write these words and no others.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::rollout::Outcome;
use crate::rollout::judge::health::Standing;

/// The state of an object at a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ObjectState {
    /// Planned, not applied yet.
    Pending,
    /// Not applied: it waits for a definition, a namespace, another object or another source.
    Waiting,
    /// Applied; its rollout is being watched.
    Progressing,
    /// Complete, and watched for the bake time.
    Baking,
    /// Applied, and complete where it rolls out.
    Complete,
    /// Its manifest is invalid, or the API server refuses it.
    Rejected,
    /// It failed, and was left as it is.
    Failed,
    /// It failed; the workload is on its way back.
    RollingBack,
    /// It failed, and is back on its last good revision.
    RolledBack,
    /// It failed, and so did the way back.
    RollbackFailed,
    /// It failed before, and is kept from being applied again.
    Held,
    /// Somebody asked belay to leave it alone.
    Suspended,
    /// A newer commit took its place.
    Superseded,
    /// There was nothing to do.
    Unchanged,
    /// Deleted, because its manifest left the repository.
    Pruned,
    /// Its manifest left the repository, and the object stays: pruning is off, or was refused.
    Orphaned,
    /// Not known any more: the history was lost.
    Unknown,
}

/// The known facts about an object, from which its state follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObjectFacts {
    /// The state of its rollout, if one is open.
    pub open: Option<ObjectState>,
    /// The end of its newest rollout.
    pub ended: Option<ObjectState>,
    /// True when a hold is on it.
    pub held: bool,
    /// True when somebody asked belay to leave it alone.
    pub suspended: bool,
    /// The standing in the live object's status; `None` if there is none.
    pub live: Option<Standing>,
}

impl ObjectState {
    /// All of them.
    pub const ALL: [ObjectState; 17] = [
        ObjectState::Pending,
        ObjectState::Waiting,
        ObjectState::Progressing,
        ObjectState::Baking,
        ObjectState::Complete,
        ObjectState::Rejected,
        ObjectState::Failed,
        ObjectState::RollingBack,
        ObjectState::RolledBack,
        ObjectState::RollbackFailed,
        ObjectState::Held,
        ObjectState::Suspended,
        ObjectState::Superseded,
        ObjectState::Unchanged,
        ObjectState::Pruned,
        ObjectState::Orphaned,
        ObjectState::Unknown,
    ];

    /// Returns the state that follows from what is known. An open record comes before an ended one, and that before the
    /// live object's status: a workload that is healthy at an older commit is not complete while its newest manifest is
    /// rejected.
    #[must_use]
    pub fn of(known: &ObjectFacts) -> ObjectState {
        if let Some(open) = known.open {
            return open;
        }
        // A hold says the same of what went back, as long as it lasts.
        let ended = known.ended.filter(|ended| !matches!(ended, ObjectState::RolledBack | ObjectState::Held));
        match ended {
            Some(ended) if ended.is_wrong() => return ended,
            Some(ObjectState::Waiting) => return ObjectState::Waiting,
            _ => {}
        }
        let suspended = known.suspended || known.ended == Some(ObjectState::Suspended);
        match (suspended, known.held, known.live) {
            (true, ..) => ObjectState::Suspended,
            (_, true, Some(Standing::Failed)) if known.ended.is_none() => ObjectState::RollbackFailed,
            (_, true, Some(Standing::Moving)) if known.ended.is_none() => ObjectState::RollingBack,
            (_, true, _) => ObjectState::Held,
            _ => match (known.ended, known.live) {
                (Some(ended), _) if ended.is_wrong() || ended == ObjectState::Orphaned => ended,
                (_, Some(Standing::Failed)) => ObjectState::Failed,
                (_, Some(Standing::Moving | Standing::Paused)) => ObjectState::Progressing,
                (_, Some(Standing::Complete) | None) => ObjectState::Complete,
            },
        }
    }

    /// Returns true when its end is still to come.
    #[must_use]
    pub fn is_open(self) -> bool {
        matches!(
            self,
            ObjectState::Pending
                | ObjectState::Waiting
                | ObjectState::Progressing
                | ObjectState::Baking
                | ObjectState::RollingBack
        )
    }

    /// Returns true when Git and the cluster differ by a failure: such a state makes a source degraded.
    #[must_use]
    pub fn is_wrong(self) -> bool {
        matches!(
            self,
            ObjectState::Rejected
                | ObjectState::Failed
                | ObjectState::RollingBack
                | ObjectState::RolledBack
                | ObjectState::RollbackFailed
                | ObjectState::Held
        )
    }

    /// Returns the word, the same for people and programs.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            ObjectState::Pending => "pending",
            ObjectState::Waiting => "waiting",
            ObjectState::Progressing => "progressing",
            ObjectState::Baking => "baking",
            ObjectState::Complete => "complete",
            ObjectState::Rejected => "rejected",
            ObjectState::Failed => "failed",
            ObjectState::RollingBack => "rolling-back",
            ObjectState::RolledBack => "rolled-back",
            ObjectState::RollbackFailed => "rollback-failed",
            ObjectState::Held => "held",
            ObjectState::Suspended => "suspended",
            ObjectState::Superseded => "superseded",
            ObjectState::Unchanged => "unchanged",
            ObjectState::Pruned => "pruned",
            ObjectState::Orphaned => "orphaned",
            ObjectState::Unknown => "unknown",
        }
    }
}

impl fmt::Display for ObjectState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl Outcome {
    /// Returns the state that a record with this outcome shows.
    #[must_use]
    pub fn state(self) -> ObjectState {
        match self {
            Outcome::Planned => ObjectState::Pending,
            Outcome::Waiting | Outcome::Skipped => ObjectState::Waiting,
            Outcome::UnderWay => ObjectState::Progressing,
            Outcome::Baking => ObjectState::Baking,
            Outcome::RollingBack => ObjectState::RollingBack,
            Outcome::Complete => ObjectState::Complete,
            Outcome::Failed => ObjectState::Failed,
            Outcome::RolledBack => ObjectState::RolledBack,
            Outcome::RollbackFailed => ObjectState::RollbackFailed,
            Outcome::Superseded => ObjectState::Superseded,
            Outcome::Rejected => ObjectState::Rejected,
            Outcome::Unchanged => ObjectState::Unchanged,
            Outcome::Held => ObjectState::Held,
            Outcome::Suspended => ObjectState::Suspended,
            Outcome::Pruned => ObjectState::Pruned,
            Outcome::Orphaned => ObjectState::Orphaned,
            Outcome::Unknown => ObjectState::Unknown,
        }
    }

    /// Returns the outcome of a record that shows this state.
    #[must_use]
    pub fn of_state(state: ObjectState, has_ended: bool) -> Outcome {
        if state == ObjectState::Waiting && has_ended {
            return Outcome::Skipped;
        }
        Outcome::ALL.into_iter().find(|outcome| outcome.state() == state).unwrap_or(Outcome::Unknown)
    }
}

/// The number of objects in each state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct StateCounts(pub BTreeMap<ObjectState, usize>);

impl StateCounts {
    /// Counts one more.
    pub fn count(&mut self, state: ObjectState) {
        *self.0.entry(state).or_default() += 1;
    }

    /// Returns how many are in a state.
    #[must_use]
    pub fn of(&self, state: ObjectState) -> usize {
        self.0.get(&state).copied().unwrap_or_default()
    }

    /// Returns the counts of a source with so many objects in its head; `told` gives the states of some, each with
    /// whether it is of one of those objects. So many of the rest are pending, and the others complete.
    pub fn of_source(
        objects: usize,
        pending: usize,
        told: impl IntoIterator<Item = (ObjectState, bool)>,
    ) -> StateCounts {
        let mut counts = StateCounts::default();
        let mut in_head = 0;
        for (state, is_in_head) in told {
            counts.count(state);
            in_head += usize::from(is_in_head);
        }
        let rest = objects.saturating_sub(in_head);
        let pending = pending.min(rest);
        *counts.0.entry(ObjectState::Pending).or_default() += pending;
        *counts.0.entry(ObjectState::Complete).or_default() += rest - pending;
        counts.0.retain(|_, count| *count > 0);
        counts
    }

    /// Returns those whose count is not zero.
    fn there(&self) -> impl Iterator<Item = (ObjectState, usize)> {
        self.0.iter().map(|(state, count)| (*state, *count)).filter(|(_, count)| *count > 0)
    }
}

impl fmt::Display for StateCounts {
    /// Writes `2 rejected, 1 held`: problems first, then open states, then the rest.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut there: Vec<(ObjectState, usize)> = self.there().collect();
        there.sort_by_key(|(state, _)| (!state.is_wrong(), !state.is_open()));
        let words: Vec<String> = there.into_iter().map(|(state, count)| format!("{count} {state}")).collect();
        f.write_str(&words.join(", "))
    }
}

/// The state of a source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SourceState {
    /// Every object of its head is complete or unchanged.
    Synced,
    /// Something is still to become of its head.
    #[default]
    Progressing,
    /// Something is rejected, failed, rolled back, rollback-failed or held.
    Degraded,
    /// Its head waits until another source is complete.
    Waiting,
    /// Its repository or its cluster can't be reached, its history can't be written, another daemon leads, or no daemon
    /// follows it.
    Blocked,
}

/// The known facts about a source besides its objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SourceFacts {
    /// True when its repository or its cluster can't be reached, its history can't be written, or another daemon leads.
    pub blocked: bool,
    /// True when its head waits until another source is complete.
    pub waits: bool,
    /// True when any other obstacle is reported.
    pub troubled: bool,
    /// True when its head was planned, and none of its objects is being checked.
    pub idle: bool,
    /// True when the manifest of a suspended object is held.
    pub hides_hold: bool,
}

impl SourceState {
    /// All of them.
    pub const ALL: [SourceState; 5] = [
        SourceState::Synced,
        SourceState::Progressing,
        SourceState::Degraded,
        SourceState::Waiting,
        SourceState::Blocked,
    ];

    /// Returns the state that follows from the states of the objects. A failure is never hidden by other rollouts.
    #[must_use]
    pub fn of(known: SourceFacts, counts: &StateCounts) -> SourceState {
        let fine = |state: ObjectState| {
            matches!(
                state,
                ObjectState::Complete | ObjectState::Unchanged | ObjectState::Pruned | ObjectState::Orphaned
            )
        };
        if known.blocked {
            SourceState::Blocked
        } else if known.troubled || known.hides_hold || counts.there().any(|(state, _)| state.is_wrong()) {
            SourceState::Degraded
        } else if known.waits {
            SourceState::Waiting
        } else if known.idle && counts.there().all(|(state, _)| fine(state)) {
            SourceState::Synced
        } else {
            SourceState::Progressing
        }
    }

    /// Returns the word, the same for people and programs.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            SourceState::Synced => "synced",
            SourceState::Progressing => "progressing",
            SourceState::Degraded => "degraded",
            SourceState::Waiting => "waiting",
            SourceState::Blocked => "blocked",
        }
    }
}

impl fmt::Display for SourceState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_is_read_from_its_state() {
        for outcome in Outcome::ALL {
            assert_eq!(Outcome::of_state(outcome.state(), outcome.is_final()), outcome);
        }
    }

    const IDLE: SourceFacts =
        SourceFacts { blocked: false, waits: false, troubled: false, idle: true, hides_hold: false };

    fn counts(states: &[ObjectState]) -> StateCounts {
        let mut counts = StateCounts::default();
        states.iter().for_each(|state| counts.count(*state));
        counts
    }

    #[test]
    fn a_word_is_what_programs_read() {
        for state in ObjectState::ALL {
            assert_eq!(serde_json::to_value(state).unwrap(), state.word());
        }
        for state in SourceState::ALL {
            assert_eq!(serde_json::to_value(state).unwrap(), state.word());
        }
        for outcome in Outcome::ALL {
            assert_eq!(outcome.to_string(), outcome.state().word());
        }
    }

    #[test]
    fn a_source_is_synced_only_when_all_of_it_is() {
        use ObjectState::{Complete, Failed, Held, Orphaned, Pending, Rejected, RollbackFailed, RolledBack, Suspended};
        let of = |states: &[ObjectState]| SourceState::of(IDLE, &counts(states));
        assert_eq!(of(&[]), SourceState::Synced);
        assert_eq!(of(&[Complete, ObjectState::Unchanged, Orphaned]), SourceState::Synced);
        for wrong in [Rejected, Failed, Held, RolledBack, RollbackFailed, ObjectState::RollingBack] {
            assert_eq!(of(&[Complete, wrong]), SourceState::Degraded, "{wrong}");
            assert_eq!(of(&[Pending, wrong]), SourceState::Degraded, "{wrong}");
        }
        for open in [Pending, ObjectState::Waiting, ObjectState::Progressing, ObjectState::Baking, Suspended] {
            assert_eq!(of(&[Complete, open]), SourceState::Progressing, "{open}");
        }
        assert_eq!(SourceState::of(SourceFacts::default(), &counts(&[Complete])), SourceState::Progressing);
        assert_eq!(SourceState::of(SourceFacts { troubled: true, ..IDLE }, &counts(&[])), SourceState::Degraded);
        let hides_hold = SourceFacts { hides_hold: true, ..IDLE };
        assert_eq!(SourceState::of(hides_hold, &counts(&[Complete, Suspended])), SourceState::Degraded);
        let waits = |states: &[ObjectState]| SourceState::of(SourceFacts { waits: true, ..IDLE }, &counts(states));
        assert_eq!((waits(&[Complete]), waits(&[Held])), (SourceState::Waiting, SourceState::Degraded));
        assert_eq!(
            SourceState::of(SourceFacts { blocked: true, waits: true, ..IDLE }, &counts(&[])),
            SourceState::Blocked
        );
        assert_eq!(SourceState::of(SourceFacts { blocked: true, ..IDLE }, &counts(&[Held])), SourceState::Blocked);
    }

    #[test]
    fn what_is_wrong_is_said_first() {
        let counts = counts(&[ObjectState::Complete, ObjectState::Pending, ObjectState::Held, ObjectState::Held]);
        assert_eq!(counts.to_string(), "2 held, 1 pending, 1 complete");
    }

    #[test]
    fn the_state_of_an_object_follows_from_what_is_known() {
        use ObjectState::{Complete, Held, Rejected, RollbackFailed, RolledBack, RollingBack};
        let well = ObjectFacts { live: Some(Standing::Complete), ..ObjectFacts::default() };
        let held = ObjectFacts { held: true, ..well };
        for (known, state) in [
            (ObjectFacts::default(), Complete),
            (well, Complete),
            (ObjectFacts { ended: Some(Rejected), ..well }, Rejected),
            (
                ObjectFacts { open: Some(ObjectState::Progressing), ended: Some(Rejected), ..well },
                ObjectState::Progressing,
            ),
            (held, Held),
            (ObjectFacts { ended: Some(RolledBack), ..held }, Held),
            (ObjectFacts { ended: Some(RolledBack), ..well }, RolledBack),
            // A failed rollback never looks like one that goes on, or like a hold that is as it should be.
            (ObjectFacts { ended: Some(RollbackFailed), ..held }, RollbackFailed),
            (ObjectFacts { ended: Some(RollbackFailed), live: Some(Standing::Moving), ..held }, RollbackFailed),
            (ObjectFacts { live: Some(Standing::Moving), ..held }, RollingBack),
            (ObjectFacts { live: Some(Standing::Failed), ..held }, RollbackFailed),
            (ObjectFacts { suspended: true, ..held }, ObjectState::Suspended),
            // The end of the record alone says the same.
            (ObjectFacts { ended: Some(ObjectState::Suspended), ..ObjectFacts::default() }, ObjectState::Suspended),
            (ObjectFacts { live: Some(Standing::Failed), ..well }, ObjectState::Failed),
            (ObjectFacts { live: Some(Standing::Paused), ..well }, ObjectState::Progressing),
            (ObjectFacts { ended: Some(ObjectState::Orphaned), ..well }, ObjectState::Orphaned),
            // Its rollout failed when its manifest had left: nobody is to miss that.
            (ObjectFacts { ended: Some(ObjectState::Orphaned), ..held }, Held),
        ] {
            assert_eq!(ObjectState::of(&known), state, "{known:?}");
        }
    }
}
