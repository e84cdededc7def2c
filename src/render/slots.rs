//! The slots of tools that run at once: as many as there are processors, over all sources, and each source its share.
#![allow(clippy::disallowed_methods, reason = "a tool lives in the machine's own time")]

use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use std::{fs, thread};

use tokio_util::sync::CancellationToken;

use super::child::ChildLimits;

/// The period between two checks if a waiting tool is given up.
const LOOK: Duration = Duration::from_millis(50);

/// The slots of this process.
static SLOTS: Slots = Slots::new();

/// The next number of a renderer.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// The asker for slots: one for each renderer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Asking(u64);

impl Asking {
    /// Returns an asker that has not asked yet.
    pub(super) fn new() -> Asking {
        Asking(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// Waits for a slot; `None` if it is given up meanwhile, or it takes longer than `patience`.
    pub(super) fn wait(self, given_up: &CancellationToken, patience: Duration) -> Option<ToolSlot<'static>> {
        let patience = Instant::now().checked_add(patience);
        let given_up = || given_up.is_cancelled() || patience.is_some_and(|end| Instant::now() >= end);
        SLOTS.wait(self, at_once(), given_up)
    }
}

/// The memory that belay itself takes of its limit, in bytes.
const OWN_MEMORY: u64 = 256 << 20;

/// Returns how many tools may run at once in this process.
fn at_once() -> usize {
    static AT_ONCE: OnceLock<usize> = OnceLock::new();
    *AT_ONCE.get_or_init(|| {
        let processors = thread::available_parallelism().map_or(1, NonZero::get);
        with_room(processors, memory_limit(), ChildLimits::default().memory)
    })
}

/// Returns how many tools that take so much memory there is room for: one in any case.
fn with_room(processors: usize, memory: Option<u64>, tool: u64) -> usize {
    let room = memory.map_or(u64::MAX, |memory| memory.saturating_sub(OWN_MEMORY) / tool);
    processors.min(usize::try_from(room).unwrap_or(usize::MAX)).max(1)
}

/// Returns the memory that the control group of this process may have, in bytes; `None` if there is no limit.
fn memory_limit() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = groups.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or("/");
    let limit = |folder: &str| fs::read_to_string(format!("/sys/fs/cgroup{folder}/memory.max")).ok();
    limit(own.trim_end_matches('/')).or_else(|| limit(""))?.trim().parse().ok()
}

/// The right to run one tool, until it is dropped.
#[derive(Debug)]
pub(super) struct ToolSlot<'s> {
    slots: &'s Slots,
    of: Asking,
}

impl Drop for ToolSlot<'_> {
    fn drop(&mut self) {
        let mut queue = self.slots.queue();
        queue.ended(self.of);
        drop(queue);
        self.slots.freed.notify_all();
    }
}

#[derive(Debug)]
struct Slots {
    queue: Mutex<Queue>,
    freed: Condvar,
}

impl Slots {
    const fn new() -> Slots {
        Slots { queue: Mutex::new(Queue::new()), freed: Condvar::new() }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait(&self, of: Asking, most: usize, given_up: impl Fn() -> bool) -> Option<ToolSlot<'_>> {
        let mut queue = self.queue();
        let ticket = queue.ask(of);
        loop {
            if given_up() {
                queue.waiting.remove(&ticket);
                drop(queue);
                // It may have been its turn.
                self.freed.notify_all();
                return None;
            }
            if queue.begin(ticket, most) {
                drop(queue);
                self.freed.notify_all();
                return Some(ToolSlot { slots: self, of });
            }
            queue = self.freed.wait_timeout(queue, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// The queue of those that run tools, and of those that wait. The next is of who runs the fewest, then of who began one
/// longest ago.
#[derive(Debug)]
struct Queue {
    running: BTreeMap<Asking, usize>,
    /// By ticket, in the order of asking.
    waiting: BTreeMap<u64, Asking>,
    /// The number of the beginning that was the last of each who waits or runs.
    began: BTreeMap<Asking, u64>,
    tickets: u64,
    beginnings: u64,
}

impl Queue {
    const fn new() -> Queue {
        Queue { running: BTreeMap::new(), waiting: BTreeMap::new(), began: BTreeMap::new(), tickets: 0, beginnings: 0 }
    }

    fn ask(&mut self, of: Asking) -> u64 {
        self.tickets += 1;
        self.waiting.insert(self.tickets, of);
        self.tickets
    }

    /// Returns the ticket whose turn it is.
    fn next(&self) -> Option<u64> {
        let rank = |(ticket, of): &(&u64, &Asking)| {
            let count = |counts: &BTreeMap<Asking, u64>| counts.get(of).copied().unwrap_or(0);
            (self.running.get(of).copied().unwrap_or(0), count(&self.began), **ticket)
        };
        self.waiting.iter().min_by_key(rank).map(|(ticket, _)| *ticket)
    }

    /// Begins the work that a ticket waits for, if it is its turn and there is room. Returns whether it did.
    fn begin(&mut self, ticket: u64, most: usize) -> bool {
        if self.running.values().sum::<usize>() >= most || self.next() != Some(ticket) {
            return false;
        }
        let Some(of) = self.waiting.remove(&ticket) else { return false };
        self.beginnings += 1;
        self.began.insert(of, self.beginnings);
        *self.running.entry(of).or_default() += 1;
        true
    }

    fn ended(&mut self, of: Asking) {
        if let Some(running) = self.running.get_mut(&of) {
            *running -= 1;
        }
        self.running.retain(|_, running| *running > 0);
        let Queue { running, waiting, began, .. } = self;
        began.retain(|of, _| running.contains_key(of) || waiting.values().any(|waiting| waiting == of));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One source asks for a hundred tools before others ask for one each: those are next all the same.
    #[test]
    fn sources_take_turns() {
        let mut queue = Queue::new();
        let [many, one, other] = [Asking(0), Asking(1), Asking(2)];
        let tickets: Vec<u64> = (0..100).map(|_| queue.ask(many)).collect();
        assert!(queue.begin(tickets[0], 2) && queue.begin(tickets[1], 2) && !queue.begin(tickets[2], 2));
        let later = [queue.ask(one), queue.ask(other)];
        queue.ended(many);
        assert!(!queue.begin(tickets[2], 2) && queue.begin(later[0], 2));
        queue.ended(many);
        assert!(queue.begin(later[1], 2));
        queue.ended(one);
        assert!(queue.begin(tickets[2], 2));
        queue.ended(other);
        // If all run the same number, the one that began one longest ago is next.
        let again = queue.ask(one);
        assert!(queue.begin(again, 2) && !queue.begin(tickets[3], 2));
    }

    #[test]
    fn memory_bounds_how_many_run() {
        let mib = |count: u64| Some(count << 20);
        for (memory, tools) in
            [(None, 8), (mib(768), 1), (mib(256), 1), (mib(64), 1), (mib(1791), 2), (mib(100_000), 8)]
        {
            assert_eq!(with_room(8, memory, 512 << 20), tools, "{memory:?}");
        }
    }

    #[test]
    fn who_gives_up_is_in_nobodys_way() {
        let slots = Slots::new();
        let slot = slots.wait(Asking(0), 1, || false).unwrap();
        assert!(slots.wait(Asking(1), 1, || true).is_none());
        drop(slot);
        assert!(slots.wait(Asking(2), 1, || false).is_some());
        assert!(slots.queue().running.is_empty() && slots.queue().waiting.is_empty());
    }

    #[test]
    fn no_more_run_than_there_is_room_for() {
        let slots = Slots::new();
        let (running, most) = (AtomicU64::new(0), AtomicU64::new(0));
        thread::scope(|scope| {
            for source in 0..8 {
                let (slots, running, most) = (&slots, &running, &most);
                scope.spawn(move || {
                    for _ in 0..50 {
                        let _slot = slots.wait(Asking(source), 3, || false).unwrap();
                        most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        thread::yield_now();
                        running.fetch_sub(1, Ordering::SeqCst);
                    }
                });
            }
        });
        assert!((1..=3).contains(&most.into_inner()));
    }
}
