//! Events about what went well are told when nothing else is to be done: they are for people who look, and nobody waits
//! for them. One request at a time is under way for them, only while none of the source's others is, and where many
//! workloads become complete with one commit, one Event tells of all of them: so a first apply of thousands holds up
//! nothing that comes after it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;
use tracing::warn;

use super::context::about;
use super::source::{Done, Source};
use crate::cluster::EventKind;
use belay_core::manifest::ObjectKey;
use belay_core::rollout::Commit;

/// How long is waited before each Event, in which others may come that are told by the same one.
const GATHER: Duration = Duration::from_secs(1);
/// Up to how many workloads that become complete with one commit are told of one by one.
const FEW: usize = 10;
/// The longest wait until all that a commit rolls out is through, where that is a crowd.
const CROWD: Duration = Duration::from_mins(5);
/// The most that wait; of more, the oldest are left out.
const WAITING: usize = 20_000;

/// What is told about a workload that is complete.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct QueuedEvent {
    key: ObjectKey,
    /// Of the live object, what an event says about which one it is.
    live: Value,
    commit: Arc<Commit>,
    since: Instant,
}

impl QueuedEvent {
    /// What is told about a live workload.
    pub(super) fn of(key: &ObjectKey, live: &Value, commit: &Arc<Commit>) -> QueuedEvent {
        QueuedEvent { key: key.clone(), live: about(live), commit: Arc::clone(commit), since: Instant::now() }
    }
}

/// What is still to be told.
#[derive(Debug, Default)]
pub(super) struct Telling {
    waiting: VecDeque<QueuedEvent>,
    /// Whether something is waited for or sent.
    busy: bool,
}

impl Telling {
    /// What one Event tells of: the oldest, or, of a crowd, all of its commit and how many more they are. `None` where
    /// more of the crowd are to come.
    fn take(&mut self, all_through: bool) -> Option<(QueuedEvent, usize)> {
        let first = self.waiting.front()?;
        let (commit, since) = (first.commit.id.clone(), first.since);
        let of_it = self.waiting.iter().filter(|told| told.commit.id == commit).count();
        if of_it <= FEW {
            return self.waiting.pop_front().map(|told| (told, 0));
        }
        if !all_through && since.elapsed() < CROWD {
            return None;
        }
        let first = self.waiting.pop_front()?;
        self.waiting.retain(|told| told.commit.id != commit);
        Some((first, of_it - 1))
    }
}

impl Source {
    /// Tells of it when there is time for it.
    pub(super) fn tell_later(&mut self, told: QueuedEvent) {
        if self.events.waiting.len() >= WAITING {
            warn!(limit = WAITING, "too many events wait to be told; the oldest is left out");
            self.events.waiting.pop_front();
        }
        self.events.waiting.push_back(told);
        self.gather();
    }

    /// One has been told.
    pub(super) fn told(&mut self) {
        self.events.busy = false;
        self.gather();
    }

    /// Waits until nothing else is to be done.
    fn gather(&mut self) {
        if self.events.waiting.is_empty() || std::mem::replace(&mut self.events.busy, true) {
            return;
        }
        let context = Arc::clone(&self.context);
        self.tasks.spawn(async move {
            tokio::time::sleep(GATHER).await;
            context.requests.idle().await;
            Done::Gathered
        });
    }

    /// Sends the next one.
    pub(super) fn tell_next(&mut self) {
        let Some((QueuedEvent { key, live, commit, .. }, more)) = self.events.take(self.rollouts.under_way.is_empty())
        else {
            return self.told();
        };
        let context = Arc::clone(&self.context);
        let cause = commit.change_cause();
        let message = match more {
            0 => format!("{cause} is complete"),
            _ => format!("{cause} is complete, here and at {more} other workloads of that commit"),
        };
        self.tasks.spawn(async move {
            context.tell_at_once(&key, &live, EventKind::Normal, "RolloutComplete", message).await;
            Done::ToldComplete
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use belay_core::rollout::Person;
    use serde_json::json;

    fn told(number: usize, commit: &str) -> QueuedEvent {
        let key = ObjectKey {
            group: "apps".to_owned(),
            kind: "Deployment".to_owned(),
            namespace: None,
            name: number.to_string(),
        };
        let epoch = jiff::Timestamp::UNIX_EPOCH;
        let commit = Commit {
            id: commit.repeat(40).parse().unwrap(),
            subject: "First".to_owned(),
            author: Person { name: "Ada".to_owned(), email: String::new() },
            authored: epoch,
            committed: epoch,
            parents: Vec::new(),
            trailers: Vec::new(),
        };
        QueuedEvent::of(&key, &json!({}), &Arc::new(commit))
    }

    #[tokio::test(start_paused = true)]
    async fn a_few_are_told_one_by_one_and_a_crowd_at_once() {
        let mut telling = Telling::default();
        telling.waiting.extend((0..FEW).map(|number| told(number, "a")));
        telling.waiting.extend((0..3000).map(|number| told(number, "b")));
        for number in 0..FEW {
            let (one, more) = telling.take(false).unwrap();
            assert_eq!((one.key.name, more), (number.to_string(), 0));
        }
        assert_eq!(telling.take(false), None, "more are to come");
        assert_eq!(telling.take(true).map(|(one, more)| (one.key.name, more)), Some(("0".to_owned(), 2999)));
        assert_eq!(telling.take(true), None);
    }

    #[tokio::test(start_paused = true)]
    async fn what_never_ends_is_told_of_after_a_while() {
        let mut telling = Telling::default();
        telling.waiting.extend((0..20).map(|number| told(number, "b")));
        tokio::time::advance(CROWD).await;
        assert_eq!(telling.take(false).map(|(_, more)| more), Some(19));
    }
}
