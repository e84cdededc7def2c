//! `[[source]] after`: a source whose rollouts wait until another source of the same daemon is complete at its head.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Notify, watch};
use tracing::info;

use super::sync_now::SyncNow;
use crate::clock::Clock;
use crate::daemon::publish::status::{Publisher, SourceStatus, Status};
use belay_core::manifest::ObjectKey;
use belay_core::rollout::ObjectState;

/// The requests of others to a source.
#[derive(Debug, Default)]
pub struct DependencyRequest {
    /// Requests a fetch at once.
    pub look: Notify,
    /// The same, by a forge that says that something was pushed.
    pub pushed: Notify,
    /// To try objects again.
    pub retry: Notify,
    /// To let the head through that waits for a window.
    pub sync_now: Arc<SyncNow>,
    retries: Mutex<BTreeSet<String>>,
    awaited: AtomicBool,
}

impl DependencyRequest {
    /// Asks for another try of these objects.
    pub fn try_again(&self, objects: BTreeSet<String>) {
        self.retries.lock().unwrap_or_else(PoisonError::into_inner).extend(objects);
        self.retry.notify_one();
    }

    /// Takes the objects that are to be tried again.
    pub fn take_retries(&self) -> BTreeSet<String> {
        std::mem::take(&mut self.retries.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Notes that somebody waits for it, now and then.
    pub fn await_it(&self) {
        self.awaited.store(true, Ordering::Relaxed);
    }

    /// Returns true when anybody waits for the source, so that it must know if it is complete.
    pub fn is_awaited(&self) -> bool {
        self.awaited.load(Ordering::Relaxed)
    }
}

/// Requests a fetch of one source. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct LookRequest(Arc<DependencyRequest>);

impl LookRequest {
    pub(in crate::daemon) fn of(asked: &Arc<DependencyRequest>) -> LookRequest {
        LookRequest(Arc::clone(asked))
    }

    /// Requests a fetch after a possible push: at once, or if there was a fetch less than a second ago, when the second
    /// is over. Several requests meanwhile are one fetch.
    pub fn pushed(&self) {
        self.0.pushed.notify_one();
    }
}

/// The source that another one waits for.
#[derive(Clone, Debug)]
pub struct SourceDependency {
    pub name: String,
    pub asked: Arc<DependencyRequest>,
    pub status: watch::Receiver<Status>,
}

impl SourceDependency {
    /// Waits until the source that `source` comes after is complete at a head fetched from now on: a push to both at
    /// once is in order, too. Says so meanwhile.
    pub async fn until_complete(&self, source: &str, clock: &Clock, publisher: &Publisher) {
        let asked = clock.now();
        self.asked.look.notify_one();
        let mut status = self.status.clone();
        loop {
            let message = match status.borrow_and_update().sources.get(&self.name) {
                Some(source) if source.complete.is_some_and(|as_of| as_of >= asked) => break,
                source => waits(&self.name, source),
            };
            if publisher.says_waiting(&message) {
                info!(source, message);
            }
            if status.changed().await.is_err() {
                // The daemon is ending, and this with it.
                std::future::pending::<()>().await;
            }
        }
        publisher.waits_no_longer();
    }
}

fn waits(name: &str, before: Option<&SourceStatus>) -> String {
    match before.and_then(why_incomplete) {
        Some(why) => format!("waits for source {name} ({why})"),
        None => format!("waits for source {name}"),
    }
}

/// Returns the reason why a source is not complete, if it won't be by itself.
fn why_incomplete(before: &SourceStatus) -> Option<String> {
    /// The most objects that are named.
    const NAMED: usize = 3;
    if let Some(blocked) = before.blocked_by() {
        return Some(format!("blocked: {blocked}"));
    }
    let keys: BTreeSet<&ObjectKey> = before.ended.keys().chain(before.held.keys()).collect();
    let hides_hold =
        |key: &ObjectKey, state: ObjectState| state == ObjectState::Suspended && before.held.contains_key(key);
    let wrong = keys.into_iter().map(|key| (key, before.state_of(key)));
    let wrong = wrong.filter_map(|(key, state)| match state {
        state if state.is_wrong() => Some(format!("{key} is {state}")),
        state => hides_hold(key, state).then(|| format!("{key} is {state} and held")),
    });
    let wrong: Vec<String> = wrong.collect();
    match wrong.len() {
        0 => before
            .settled
            .then_some(())
            .and(before.obstacles.trouble.iter().next())
            .map(|(place, what)| format!("{place}: {what}")),
        count @ ..=NAMED => Some(wrong[..count].join(", ")),
        count => Some(format!("{}, and {} more", wrong[..NAMED].join(", "), count - NAMED)),
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::history::{HeldStatus, ObjectStanding};
    use belay_core::rollout::CommitId;

    #[test]
    fn a_held_object_that_is_suspended_is_named() {
        let key = ObjectKey {
            group: "apps".to_owned(),
            kind: "Deployment".to_owned(),
            namespace: Some("default".to_owned()),
            name: "web".to_owned(),
        };
        let (commit, since) = ("5d6e7f8".repeat(6)[..40].parse::<CommitId>().unwrap(), Timestamp::UNIX_EPOCH);
        let state = ObjectState::Suspended;
        let ended = ObjectStanding { state, commit: commit.clone(), reason: None, place: None, since, in_head: true };
        let mut before = SourceStatus { ended: [(key.clone(), ended)].into(), ..SourceStatus::default() };
        assert_eq!(why_incomplete(&before), None);
        before.held.insert(key, HeldStatus { commit, reason: "it crashes".to_owned(), since });
        assert_eq!(why_incomplete(&before).as_deref(), Some("Deployment default/web is suspended and held"));
    }
}
