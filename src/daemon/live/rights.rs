//! Missing rights in the cluster are a state with a reason: reported once, asked again with a back-off, and over as
//! soon as somebody grants them.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::Instant;
use tracing::{info, warn};

use crate::cluster::Served;
use crate::daemon::planning::plan_parts::is_definition;
use crate::daemon::publish::obstacle::Obstacle;
use crate::daemon::publish::status::put_or_remove;
use crate::daemon::repository::source_repository::Repository;
use crate::daemon::rollout::until_served::beyond_limit;
use crate::daemon::source::state::{RetryCause, Source, cause_of, is_definition_of};
use belay_core::manifest::ObjectKey;
use belay_core::rollout::{Outcome, Planned, Reason, ReasonCode, Record, RecordId, lasting_words};

impl Repository {
    /// Returns the namespaces of the objects that it has.
    pub fn namespaces(&self) -> BTreeSet<String> {
        self.desired().keys().filter_map(|key| key.namespace.clone()).collect()
    }
}

impl Source {
    /// Says in which namespaces the objects are, for where belay may list nowhere else.
    pub fn name_namespaces(&self) {
        let namespaces = self.fetching.repository.namespaces();
        self.watches.watched.in_namespaces(namespaces.clone());
        self.watches.autoscalers.in_namespaces(namespaces);
    }

    /// Notes that a kind may not be read, or may be again.
    pub fn saw_denied(&self, served: &Served, message: Option<String>) {
        let address = served.address();
        let obstacle = Obstacle::listing(&address);
        let said = message.clone().or_else(|| self.fault_of_list(&address));
        let mut news = false;
        self.context.status.change(|source| {
            news = is_news(source.obstacles.trouble.get(&obstacle).map(String::as_str), said.as_deref());
            put_or_remove(&mut source.obstacles.trouble, &obstacle, said)
        });
        match message {
            Some(message) if news => warn!(kind = served.kind, message, "may not be watched"),
            None if news => info!(kind = served.kind, "may be watched"),
            _ => {}
        }
    }

    /// Tries an object again whose rollout was given up because it is not served, or because something is missing or is being
    /// deleted.
    pub fn retry_if_given_up(&mut self, record: &Record) {
        if is_given_up(record.outcome, record.reason.as_ref()) && self.desired().has(&record.object) {
            self.state.retries.put_off(&record.object, RetryCause::Refused, Instant::now());
        }
    }

    /// Tries the objects of a definition at once, when it has changed, or is not going to.
    pub fn retry_what_it_defines(&mut self, key: &ObjectKey) {
        if !is_definition(key) {
            return;
        }
        if let Some((_, group)) = key.name.split_once('.') {
            self.context.cluster.forget_group(group);
        }
        self.state.retries.at_once_where(|other| is_definition_of(key, other), Instant::now());
    }

    /// Lets a manifest wait for something that does not exist yet, that belay has no right for, or that the API server
    /// can't serve now: it is tried again by itself, under the same record. Only a missing right is waited for without a
    /// limit; everything else is given up after `outage_timeout`, and tried again all the same, under another record.
    pub fn wait_for(&mut self, id: RecordId, earlier: Option<Record>, planned: &Planned, reason: &Reason) {
        let (key, now) = (planned.wanted.key.clone(), Instant::now());
        let cause = cause_of(reason);
        let waited = self.state.retries.put_off(&key, cause, now);
        if reason.code == ReasonCode::Missing {
            self.watch_for_missing([key.clone()].into());
        }
        let limit = self.context.config.outage_timeout.0;
        if !is_too_long(cause, waited, limit) {
            return self.let_wait(id, earlier, planned, reason.message.clone());
        }
        let reason = beyond_limit(reason.clone(), limit);
        warn!(object = %key, %reason, "given up for now");
        self.stop_waiting(&key);
        let going_back = earlier.filter(|record| record.outcome == Outcome::RollingBack);
        let (outcome, reason) = end_of_wait(reason, going_back.map(|record| record.reason));
        self.finish(id, outcome, Some(&reason));
        self.state.retries.put_off(&key, RetryCause::Refused, now);
        self.recheck_dependents(&key);
    }
}

/// Returns true if something is said of a right that was not told before, but for times and numbers in it.
fn is_news(told: Option<&str>, said: Option<&str>) -> bool {
    told.map(lasting_words) != said.map(lasting_words)
}

/// Returns true for the end of a rollout that was given up while it waited.
fn is_given_up(outcome: Outcome, reason: Option<&Reason>) -> bool {
    outcome == Outcome::Failed && reason.is_some_and(|reason| reason.code.is_waited_for_with_a_limit())
}

/// Returns true when an object is waited for no longer.
fn is_too_long(cause: RetryCause, waited: Duration, limit: Duration) -> bool {
    cause == RetryCause::Limited && waited >= limit
}

/// Returns the end of a wait that is given up. On a way back, `failure` has the reason of the failure, as far as it is known.
fn end_of_wait(reason: Reason, failure: Option<Option<Reason>>) -> (Outcome, Reason) {
    match failure {
        None => (Outcome::Failed, reason),
        Some(None) => (Outcome::RollbackFailed, reason),
        Some(Some(failure)) => (Outcome::RollbackFailed, failure.and(reason.message)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    #[test]
    fn a_missing_right_is_told_once() {
        for (told, said, expected) in [
            (None, None, false),
            (None, Some("denied"), true),
            (Some("denied"), None, true),
            (Some("denied"), Some("denied"), false),
            (Some("denied at 10:00:01"), Some("denied at 10:00:31"), false),
            (Some("denied"), Some("not served"), true),
        ] {
            assert_eq!(is_news(told, said), expected, "{told:?} {said:?}");
        }
    }

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
