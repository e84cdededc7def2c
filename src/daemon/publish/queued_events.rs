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
    /// The oldest commit first.
    waiting: VecDeque<QueuedEvents>,
    /// True while an Event is waited for or sent.
    pub busy: bool,
}

/// The Events about the workloads that became complete with one commit.
#[derive(Debug)]
struct QueuedEvents {
    /// The oldest first. Of more than a few, only the oldest is kept.
    events: VecDeque<QueuedEvent>,
    /// The number of workloads.
    count: usize,
}

impl EventQueue {
    /// Adds an Event. Returns the number of commits whose Events wait.
    pub fn add(&mut self, event: QueuedEvent) -> usize {
        let is_of_it =
            |queued: &&mut QueuedEvents| queued.events.front().is_some_and(|told| told.commit.id == event.commit.id);
        if let Some(queued) = self.waiting.iter_mut().find(is_of_it) {
            queued.count += 1;
            if queued.count > FEW {
                queued.events.truncate(1);
            } else {
                queued.events.push_back(event);
            }
        } else {
            self.waiting.push_back(QueuedEvents { events: VecDeque::from([event]), count: 1 });
        }
        self.waiting.len()
    }

    /// Leaves out the Events of the oldest commit.
    pub fn leave_out_oldest(&mut self) {
        self.waiting.pop_front();
    }

    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns the subject of one Event: the oldest, or, if there are many, all of its commit and how many more they
    /// are. `None` if more of them are to come.
    pub fn take(&mut self, all_through: bool) -> Option<(QueuedEvent, usize)> {
        let first = self.waiting.front_mut()?;
        let more = if first.count <= FEW {
            first.count -= 1;
            0
        } else if all_through || first.events.front()?.since.elapsed() >= CROWD {
            std::mem::take(&mut first.count) - 1
        } else {
            return None;
        };
        let event = first.events.pop_front()?;
        if first.count == 0 {
            self.waiting.pop_front();
        }
        Some((event, more))
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
        for event in (0..FEW).map(|number| told(number, "a")).chain((0..3000).map(|number| told(number, "b"))) {
            telling.add(event);
        }
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
        for event in (0..20).map(|number| told(number, "b")) {
            telling.add(event);
        }
        tokio::time::advance(CROWD).await;
        assert_eq!(telling.take(false).map(|(_, more)| more), Some(19));
    }
}
