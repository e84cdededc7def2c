//! Events about good ends that wait to be sent.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use belay_core::manifest::ObjectKey;
use belay_core::rollout::Commit;

/// The number of workloads that become complete with one commit up to which each has its own Event.
const FEW: usize = 10;

/// The longest wait until all that a commit rolls out is through, if that is many objects.
const CROWD: Duration = Duration::from_mins(5);

/// An Event about a workload that is complete.
#[derive(Clone, Debug, PartialEq)]
pub struct QueuedEvent {
    pub key: ObjectKey,
    /// The fields of the live object that identify it in an Event.
    pub live: Value,
    pub commit: Arc<Commit>,
    pub since: Instant,
}

impl QueuedEvent {
    /// Returns the Event about a live workload.
    pub fn of(key: &ObjectKey, live: &Value, commit: &Arc<Commit>) -> QueuedEvent {
        QueuedEvent { key: key.clone(), live: about(live), commit: Arc::clone(commit), since: Instant::now() }
    }
}

/// The Events that are still to be sent.
#[derive(Debug, Default)]
pub struct EventQueue {
    pub waiting: VecDeque<QueuedEvent>,
    /// True while an Event is waited for or sent.
    pub busy: bool,
}

impl EventQueue {
    /// Returns the subject of one Event: the oldest, or, if there are many, all of its commit and how many more they
    /// are. `None` if more of them are to come.
    pub fn take(&mut self, all_through: bool) -> Option<(QueuedEvent, usize)> {
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

/// Returns the fields of a live object that identify it in an Event.
pub fn about(live: &Value) -> Value {
    let metadata = &live["metadata"];
    json!({
        "apiVersion": live["apiVersion"],
        "metadata": {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]},
    })
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
    async fn a_few_are_told_one_by_one_and_many_at_once() {
        let mut telling = EventQueue::default();
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
        let mut telling = EventQueue::default();
        telling.waiting.extend((0..20).map(|number| told(number, "b")));
        tokio::time::advance(CROWD).await;
        assert_eq!(telling.take(false).map(|(_, more)| more), Some(19));
    }
}
