//! The search for objects that have left the repository: when it is due, and how far it is.

use std::time::Duration;

use tokio::time::Instant;

use crate::backoff::Backoff;

/// The waits before kinds that could not be searched for objects that have left the repository are searched again.
const SEARCH_AGAIN: Backoff = Backoff::between(Duration::from_secs(30), Duration::from_mins(10));

/// The search for objects that have left the repository.
#[derive(Debug, Default)]
pub struct PruneSearch {
    /// The time of the next search for objects that have left the repository before.
    due: Option<Instant>,
    /// True when all kinds of the cluster have been searched since the start.
    is_complete: bool,
    /// True while they are searched.
    is_under_way: bool,
    /// The number of times in a row that not all kinds could be searched.
    failures: u32,
}

impl PruneSearch {
    /// Searches then, whatever was planned before.
    pub fn search_at(&mut self, at: Instant) {
        self.due = Some(at);
    }

    /// Searches then, unless a search is planned already.
    pub fn search_by(&mut self, at: Instant) {
        self.due.get_or_insert(at);
    }

    /// Searches all kinds of the cluster again.
    pub fn search_all_again(&mut self) {
        self.is_complete = false;
    }

    /// Plans a search of the kinds that could not be searched.
    pub fn search_on(&mut self, now: Instant) {
        if !self.is_complete && !self.is_under_way {
            let wait = self.failures.checked_sub(1).map_or(Duration::ZERO, |waits| SEARCH_AGAIN.wait_number(waits));
            self.search_by(now + wait);
        }
    }

    /// Begins the search if it is due. Returns true if it does.
    pub fn begin_if_due(&mut self, now: Instant) -> bool {
        let begins = !self.is_under_way && self.due.take_if(|due| *due <= now).is_some();
        self.is_under_way |= begins;
        begins
    }

    /// Ends the search. `is_complete` tells whether all kinds were searched; `None` if they were not to be.
    pub fn end(&mut self, is_complete: Option<bool>) {
        self.is_under_way = false;
        self.note_complete(is_complete);
        self.failures = if is_complete == Some(false) { self.failures.saturating_add(1) } else { 0 };
    }

    /// Ends the search without a result: nothing is deleted for now.
    pub fn put_off(&mut self) {
        self.is_under_way = false;
        self.failures = self.failures.saturating_add(1);
    }

    /// Notes whether all kinds were searched for a plan; `None` if they were not to be.
    pub fn note_complete(&mut self, is_complete: Option<bool>) {
        self.is_complete = is_complete.unwrap_or(self.is_complete);
    }

    /// Returns true when all kinds of the cluster have been searched since the start.
    pub fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Returns the time of the next search.
    pub fn next(&self) -> Option<Instant> {
        self.due.filter(|_| !self.is_under_way)
    }

    /// Returns true when the search is under way, or is due.
    pub fn is_awaited(&self, now: Instant) -> bool {
        self.is_under_way || self.due.is_some_and(|due| due <= now)
    }

    /// Returns true when no search has ended since the start.
    pub fn is_new(&self) -> bool {
        !self.is_complete && self.failures == 0
    }
}
