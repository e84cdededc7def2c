//! What belay may not do in the cluster is a state with a reason: told once, asked again with a back-off, and over as soon
//! as somebody gives it the rights.

use std::collections::BTreeSet;
use std::time::Duration;

use tracing::{info, warn};

use super::repository::Repository;
use super::state::Source;
use super::status::put_or_remove;
use crate::cluster::Served;
use belay_core::rollout::{Planned, Reason, RecordId};

/// The longest wait before something that is blocked is looked at again, while few things are.
const LOOK_AGAIN: Duration = Duration::from_mins(1);
/// So many blocked objects are looked at in that time.
const FEW: u32 = 50;

impl Repository {
    /// The namespaces of the objects that it has.
    pub(super) fn namespaces(&self) -> BTreeSet<String> {
        self.desired().keys().filter_map(|key| key.namespace.clone()).collect()
    }
}

impl Source {
    /// Says in which namespaces the objects are, for where belay may list nowhere else.
    pub(super) fn name_namespaces(&self) {
        let namespaces = self.fetching.repository.namespaces();
        self.watches.watched.in_namespaces(namespaces.clone());
        self.watches.autoscalers.in_namespaces(namespaces);
    }

    /// A kind may not be read, or may be again.
    pub(super) fn saw_denied(&self, served: &Served, message: Option<String>) {
        let place = format!("list {}", served.resource);
        let mut news = false;
        self.context.status.change(|source| {
            news = put_or_remove(&mut source.obstacles.trouble, place.as_str(), message.clone());
            news
        });
        match message {
            Some(message) if news => warn!(kind = served.kind, message, "may not be watched"),
            None if news => info!(kind = served.kind, "may be watched"),
            _ => {}
        }
    }

    /// A manifest waits for something that is not there yet, or that belay may not do: it is looked at again, under the same
    /// record.
    pub(super) fn wait_for(&mut self, id: RecordId, planned: &Planned, reason: &Reason) {
        let key = planned.wanted.key.clone();
        self.let_wait(id, planned, reason.message.clone());
        let few = u32::try_from(self.state.rollouts.resumed.len()).unwrap_or(u32::MAX) / FEW;
        let again = self.state.drift.again(&key).min(LOOK_AGAIN.saturating_mul(few.max(1)));
        self.recheck_after(key, again);
    }
}
