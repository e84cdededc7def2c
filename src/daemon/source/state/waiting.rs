//! The end of a wait: only a missing right is waited for without a limit; everything else is given up after `outage_timeout`,
//! and tried again all the same, under another record.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::Instant;

use super::event::Effect;
use super::known::State;
use super::retries::RetryCause;
use super::retry_events::is_definition_of;
use belay_core::manifest::ObjectKey;
use belay_core::rollout::{After, DependencyStanding, Gate, Outcome, Reason, Record, gate};

/// Tries an object again whose rollout was given up because it is not served, or because something is missing or is being
/// deleted.
pub fn record_ended(
    state: &mut State,
    key: &ObjectKey,
    outcome: Outcome,
    reason: Option<&Reason>,
    now: Instant,
) -> Vec<Effect> {
    if is_given_up(outcome, reason) && state.desired.has(key) {
        state.retries.put_off(key, RetryCause::Refused, now);
    }
    Vec::new()
}

/// Tries the objects of a definition at once, when it has changed, or is not going to.
pub fn definition_through(state: &mut State, definition: &ObjectKey, now: Instant) -> Vec<Effect> {
    state.retries.at_once_where(|other| is_definition_of(definition, other), now);
    Vec::new()
}

impl State {
    /// Returns whether the dependencies of an object are complete; `beginning` names those that are about to begin, and
    /// `newest` returns the newest record of one.
    pub fn gate_of(
        &self,
        after: &After,
        beginning: &BTreeSet<ObjectKey>,
        newest: impl Fn(&ObjectKey) -> Option<Record>,
    ) -> Gate {
        gate(after, |name| {
            let known = self.dependency(name);
            DependencyStanding {
                under_way: known.under_way || beginning.contains(name),
                newest: newest(name).map(|record| (record.outcome, record.reason)),
                ..known
            }
        })
    }

    /// Returns true for an object with a rollout, under way or to be taken up, and for one that is tried again.
    pub fn is_open(&self, key: &ObjectKey) -> bool {
        self.rollouts.has(key) || self.retries.cause(key).is_some()
    }

    /// Returns the open record of an object that waits, and is not on its way back.
    pub fn waiting_record(&self, key: &ObjectKey) -> Option<Record> {
        let resumed = self.rollouts.resumed(key).filter(|record| record.outcome != Outcome::RollingBack);
        resumed.filter(|_| self.rollouts.waiting(key).is_some()).cloned()
    }

    /// Puts an object off that waits. Returns for how long it has waited for this cause.
    pub fn put_off_waiting(&mut self, key: &ObjectKey, cause: RetryCause, now: Instant) -> Duration {
        self.retries.put_off(key, cause, now)
    }

    /// Returns true if other words about an object that is tried again are to be told now: at once, and then later each time.
    pub fn tells_other_words(&mut self, key: &ObjectKey, now: Instant) -> bool {
        self.retries.tells_other_words(key, now)
    }

    /// Forgets that an object waits. Returns true if it did.
    pub fn stop_waiting(&mut self, key: &ObjectKey) -> bool {
        self.rollouts.stop_waiting(key)
    }

    /// Returns the objects that wait no longer because a newer commit has taken their place.
    pub fn superseded_waits(&self) -> Vec<ObjectKey> {
        self.rollouts.superseded_waits()
    }

    /// Returns the workloads that get so many free slots.
    pub fn next_for_slots(&self, free: usize) -> Vec<ObjectKey> {
        self.rollouts.next_for_slots(free)
    }
}

/// Returns true for the end of a rollout that was given up while it waited.
fn is_given_up(outcome: Outcome, reason: Option<&Reason>) -> bool {
    outcome == Outcome::Failed && reason.is_some_and(|reason| reason.code.is_waited_for_with_a_limit())
}

/// Returns true when an object is waited for no longer.
pub fn is_too_long(cause: RetryCause, waited: Duration, limit: Duration) -> bool {
    cause == RetryCause::Limited && waited >= limit
}

/// Returns the end of a wait that is given up. On a way back, `failure` has the reason of the failure, as far as it is known.
pub fn end_of_wait(reason: Reason, failure: Option<Option<Reason>>) -> (Outcome, Reason) {
    match failure {
        None => (Outcome::Failed, reason),
        Some(None) => (Outcome::RollbackFailed, reason),
        Some(Some(failure)) => (Outcome::RollbackFailed, failure.and(reason.message)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use belay_core::rollout::ReasonCode;

    const S: Duration = Duration::from_secs(1);

    #[test]
    fn only_what_is_no_missing_right_is_given_up() {
        for (cause, waited, expected) in [
            (RetryCause::Limited, 59 * S, false),
            (RetryCause::Limited, 60 * S, true),
            (RetryCause::Waits, 3600 * S, false),
            (RetryCause::Refused, 3600 * S, false),
        ] {
            assert_eq!(is_too_long(cause, waited, 60 * S), expected, "{cause:?} {waited:?}");
        }
        for (outcome, code, expected) in [
            (Outcome::Failed, ReasonCode::NotServed, true),
            (Outcome::Failed, ReasonCode::Missing, true),
            (Outcome::Failed, ReasonCode::Forbidden, false),
            (Outcome::RollbackFailed, ReasonCode::NotServed, false),
            (Outcome::Complete, ReasonCode::NotServed, false),
        ] {
            assert_eq!(is_given_up(outcome, Some(&Reason::new(code.clone(), ""))), expected, "{outcome} {code:?}");
        }
        assert!(!is_given_up(Outcome::Failed, None));
    }

    #[test]
    fn a_wait_on_the_way_back_ends_with_the_failure() {
        let reason = |message: &str| Reason::new(ReasonCode::NotServed, message);
        for (failure, outcome, message) in [
            (None, Outcome::Failed, "not served"),
            (Some(None), Outcome::RollbackFailed, "not served"),
            (Some(Some(reason("crashed"))), Outcome::RollbackFailed, "crashed; not served"),
        ] {
            let (ended, said) = end_of_wait(reason("not served"), failure);
            assert_eq!((ended, said.message.as_str()), (outcome, message));
        }
    }
}
