//! The queue of keys that a controller has to reconcile.
//!
//! A key is in the queue at most once, and only one worker has it at a time: a key that is added while a worker has it
//! comes back when that worker is done. So the queue is never longer than there are objects.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// The first pause after a failure; it doubles with each failure of the same key.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
/// The longest pause after a failure.
const LAST_PAUSE: Duration = Duration::from_secs(1000);

/// A queue of keys. Cheap to clone.
#[derive(Debug)]
pub struct WorkQueue<T>(Arc<QueueShared<T>>);

impl<T> Clone for WorkQueue<T> {
    fn clone(&self) -> WorkQueue<T> {
        WorkQueue(self.0.clone())
    }
}

#[derive(Debug)]
struct QueueShared<T> {
    state: Mutex<QueueState<T>>,
    wake: Notify,
    first_pause: Duration,
    last_pause: Duration,
}

#[derive(Debug)]
struct QueueState<T> {
    ready: VecDeque<T>,
    /// The keys in `ready`, and those that will be there once their worker is done.
    queued: BTreeSet<T>,
    running: BTreeSet<T>,
    later: BTreeMap<(Instant, u64), T>,
    due: BTreeMap<T, (Instant, u64)>,
    failures: BTreeMap<T, u32>,
    /// Orders entries that are due at the same moment.
    sequence: u64,
}

impl<T: Clone + Ord> Default for WorkQueue<T> {
    fn default() -> WorkQueue<T> {
        WorkQueue::with_pauses(FIRST_PAUSE, LAST_PAUSE)
    }
}

impl<T: Clone + Ord> WorkQueue<T> {
    /// Returns a queue with pauses of its own after failures: the first, and the longest.
    pub fn with_pauses(first_pause: Duration, last_pause: Duration) -> WorkQueue<T> {
        let state = QueueState {
            ready: VecDeque::new(),
            queued: BTreeSet::new(),
            running: BTreeSet::new(),
            later: BTreeMap::new(),
            due: BTreeMap::new(),
            failures: BTreeMap::new(),
            sequence: 0,
        };
        WorkQueue(Arc::new(QueueShared { state: Mutex::new(state), wake: Notify::new(), first_pause, last_pause }))
    }

    /// Adds a key, unless it waits already.
    pub fn add(&self, key: T) {
        let mut state = self.lock();
        if state.add(key) {
            drop(state);
            self.0.wake.notify_one();
        }
    }

    /// Adds a key after a while; of several whiles for one key, the soonest counts.
    pub fn add_after(&self, key: T, after: Duration) {
        if after.is_zero() {
            self.add(key);
            return;
        }
        let mut state = self.lock();
        let at = Instant::now() + after;
        match state.due.get(&key) {
            Some((known, _)) if *known <= at => return,
            Some(known) => {
                let known = *known;
                state.later.remove(&known);
            }
            None => {}
        }
        state.sequence += 1;
        let slot = (at, state.sequence);
        state.later.insert(slot, key.clone());
        state.due.insert(key, slot);
        drop(state);
        self.0.wake.notify_one();
    }

    /// Adds a key after a pause that doubles with each failure since it was last forgotten. Returns how many failures
    /// there were before.
    pub fn add_after_failure(&self, key: T) -> u32 {
        let mut state = self.lock();
        let failures = state.failures.entry(key.clone()).or_insert(0);
        let before = *failures;
        *failures = failures.saturating_add(1);
        drop(state);
        let factor = 2_u32.checked_pow(before).unwrap_or(u32::MAX);
        self.add_after(key, self.0.first_pause.saturating_mul(factor).min(self.0.last_pause));
        before
    }

    /// Returns how often the key has failed since it was last forgotten.
    pub fn failures(&self, key: &T) -> u32 {
        self.lock().failures.get(key).copied().unwrap_or(0)
    }

    /// Forgets a key's failures.
    pub fn forget(&self, key: &T) {
        self.lock().failures.remove(key);
    }

    /// Waits for the next key. It belongs to the caller until [`WorkQueue::done`].
    pub async fn take(&self) -> T {
        loop {
            let next = {
                let mut state = self.lock();
                state.promote(Instant::now());
                if let Some(key) = state.ready.pop_front() {
                    state.queued.remove(&key);
                    state.running.insert(key.clone());
                    if !state.ready.is_empty() {
                        // Several may have become due at once, with one waiting worker woken.
                        self.0.wake.notify_one();
                    }
                    return key;
                }
                state.later.keys().next().map(|(at, _)| *at)
            };
            let Some(next) = next else {
                self.0.wake.notified().await;
                continue;
            };
            tokio::select! {
                biased;
                () = self.0.wake.notified() => {}
                () = tokio::time::sleep_until(next) => {}
            }
        }
    }

    /// Notes that the worker is done with the key.
    pub fn done(&self, key: &T) {
        let mut state = self.lock();
        state.running.remove(key);
        if state.queued.contains(key) {
            state.ready.push_back(key.clone());
            drop(state);
            self.0.wake.notify_one();
        }
    }

    /// Returns true when nothing waits and nothing runs; later timers do not count.
    #[cfg(test)]
    pub fn is_idle(&self) -> bool {
        let state = self.lock();
        state.ready.is_empty() && state.running.is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, QueueState<T>> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Clone + Ord> QueueState<T> {
    /// Returns whether there is something to take now that was not there before.
    fn add(&mut self, key: T) -> bool {
        if !self.queued.insert(key.clone()) || self.running.contains(&key) {
            return false;
        }
        self.ready.push_back(key);
        true
    }

    fn promote(&mut self, now: Instant) {
        while let Some(entry) = self.later.first_entry() {
            if entry.key().0 > now {
                return;
            }
            let key = entry.remove();
            self.due.remove(&key);
            self.add(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::WorkQueue;
    use std::time::Duration;
    use tokio::time::Instant;

    #[tokio::test(start_paused = true)]
    async fn a_key_waits_once_and_comes_back_when_it_was_added_meanwhile() {
        let queue = WorkQueue::default();
        queue.add("a");
        queue.add("b");
        queue.add("a");
        assert_eq!(queue.take().await, "a");
        queue.add("a");
        assert_eq!(queue.take().await, "b");
        queue.done(&"b");
        assert!(!queue.is_idle());
        queue.done(&"a");
        assert_eq!(queue.take().await, "a");
        queue.done(&"a");
        assert!(queue.is_idle());
    }

    #[tokio::test(start_paused = true)]
    async fn of_several_whiles_the_soonest_counts() {
        let queue = WorkQueue::default();
        let start = Instant::now();
        queue.add_after("a", Duration::from_secs(9));
        queue.add_after("a", Duration::from_secs(3));
        queue.add_after("a", Duration::from_secs(6));
        assert_eq!(queue.take().await, "a");
        assert_eq!(start.elapsed().as_secs(), 3);
        queue.done(&"a");
        let none = tokio::time::timeout(Duration::from_secs(60), queue.take()).await;
        assert!(none.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_after_failures_double() {
        let queue = WorkQueue::default();
        let mut pauses = Vec::new();
        for _ in 0..4 {
            let start = Instant::now();
            queue.add_after_failure("a");
            assert_eq!(queue.take().await, "a");
            queue.done(&"a");
            pauses.push(start.elapsed().as_millis());
        }
        assert_eq!(pauses, [5, 10, 20, 40]);
        queue.forget(&"a");
        assert_eq!(queue.failures(&"a"), 0);
    }
}
