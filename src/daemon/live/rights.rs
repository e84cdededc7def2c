//! Missing rights in the cluster are a state with a reason: reported once, asked again with a back-off, and over as
//! soon as somebody grants them.

use std::collections::BTreeSet;

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
        let obstacle = Obstacle::Listing(served.resource.clone());
        let mut news = false;
        self.context.status.change(|source| {
            let told = source.obstacles.trouble.get(&obstacle).map(|told| lasting_words(told));
            news = told != message.as_deref().map(lasting_words);
            put_or_remove(&mut source.obstacles.trouble, &obstacle, message.clone())
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
        let is_given_up = record.reason.as_ref().is_some_and(|reason| reason.code.is_waited_for_with_a_limit());
        if record.outcome == Outcome::Failed && is_given_up && self.desired().has(&record.object) {
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
        if cause != RetryCause::Limited || waited < limit {
            return self.let_wait(id, earlier, planned, reason.message.clone());
        }
        let reason = beyond_limit(reason.clone(), limit);
        warn!(object = %key, %reason, "given up for now");
        self.stop_waiting(&key);
        let going_back = earlier.filter(|record| record.outcome == Outcome::RollingBack);
        let outcome = if going_back.is_some() { Outcome::RollbackFailed } else { Outcome::Failed };
        let reason = match going_back.and_then(|record| record.reason) {
            Some(failure) => failure.and(reason.message),
            None => reason,
        };
        self.finish(id, outcome, Some(&reason));
        self.state.retries.put_off(&key, RetryCause::Refused, now);
        self.recheck_dependents(&key);
    }
}
