//! The last and the next fetch of the repository, and its trouble.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use crate::history::Trouble;
use belay_core::rollout::CommitId;

/// The shortest time between two fetches that forges ask for.
const BETWEEN_PUSHES: Duration = Duration::from_secs(1);

/// The repository: the last and the next fetch, and its trouble.
#[derive(Clone, Debug, PartialEq)]
pub struct FetchState {
    /// The trouble with reading the repository.
    pub trouble: Option<Trouble>,
    /// A head that was refused, and why.
    pub refused: Option<(CommitId, String)>,
    /// The beginning of the fetch that is under way.
    pub looking: Option<Timestamp>,
    /// The beginning of the newest fetch that reached the repository.
    pub looked: Option<Timestamp>,
    pub next_look: Instant,
    /// The beginning of the last fetch.
    pub look_began: Option<Instant>,
    /// The time until which the repository is left alone, because reading it has brought belay down.
    pub rests_until: Option<Instant>,
    /// True when all knowledge comes from the mirror, since the repository has not answered yet.
    pub is_away: bool,
}

impl FetchState {
    /// Returns a repository that is fetched at once.
    pub fn new(now: Instant) -> FetchState {
        FetchState {
            trouble: None,
            refused: None,
            looking: None,
            looked: None,
            next_look: now,
            look_began: None,
            rests_until: None,
            is_away: false,
        }
    }

    /// Leaves the repository alone until then.
    pub fn rest(&mut self, until: Instant) {
        self.next_look = until;
        self.rests_until = Some(until);
    }

    /// Looks at once, unless the repository is left alone.
    pub fn look_soon(&mut self, now: Instant) {
        self.next_look = self.rests_until.map_or(now, |until| until.max(now));
    }

    /// Requests a fetch after a forge's report of a push; at most once a second, so that a thousand pushes are no
    /// thousand fetches.
    pub fn look_for_a_push(&mut self, now: Instant) {
        let scheduled = self.next_look;
        self.look_soon(now);
        let due = self.look_began.map_or(self.next_look, |began| self.next_look.max(began + BETWEEN_PUSHES));
        self.next_look = due.min(scheduled);
    }
}
