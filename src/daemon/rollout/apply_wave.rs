//! The order of applies: the objects of one rank side by side, rank after rank.

use std::cmp::Reverse;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

use belay_core::rollout::{PlanStep, Planned, Rank};

/// The place of an object in a plan: applies go by rank, and deletions come after them, the other way round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// The place among the applies.
    Apply(Rank),
    /// The place among the deletions.
    Prune(Reverse<Rank>),
}

impl Place {
    /// Returns the place of a planned object.
    pub fn of(planned: &Planned) -> Place {
        match planned.step {
            PlanStep::Prune => Place::Prune(Reverse(planned.rank())),
            _ => Place::Apply(planned.rank()),
        }
    }
}

impl From<Rank> for Place {
    fn from(rank: Rank) -> Place {
        Place::Apply(rank)
    }
}

/// The ranks of one plan: how many objects of each are not through yet.
#[derive(Clone, Debug)]
pub struct Ranks(Arc<WaveCounts>);

/// Not a watch channel: that wakes those who wait in any order, and a run would not repeat.
#[derive(Debug)]
struct WaveCounts {
    waiting: Mutex<Vec<(Place, usize)>>,
    moved: Notify,
}

impl Ranks {
    /// Returns the ranks of a plan whose objects have these places.
    pub fn new<P: Into<Place>>(places: impl IntoIterator<Item = P>) -> Ranks {
        let mut waiting: Vec<(Place, usize)> = Vec::new();
        for rank in places.into_iter().map(Into::into) {
            match waiting.iter_mut().find(|(known, _)| *known == rank) {
                Some((_, count)) => *count += 1,
                None => waiting.push((rank, 1)),
            }
        }
        Ranks(Arc::new(WaveCounts { waiting: Mutex::new(waiting), moved: Notify::new() }))
    }

    /// Lets later objects pass the one at that place.
    pub fn pass(&self, place: Place) {
        // Only the last of a rank wakes those who wait, or each of thousands would be woken by each of thousands.
        let mut waiting = self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((_, count)) = waiting.iter_mut().find(|(rank, _)| *rank == place) else { return };
        *count = count.saturating_sub(1);
        if *count == 0 {
            self.0.moved.notify_waiters();
        }
    }

    fn are_through_before(&self, place: Place) -> bool {
        let waiting = self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.iter().all(|(rank, count)| *rank >= place || *count == 0)
    }

    /// Returns the turn of one object at that place.
    pub fn turn(&self, place: impl Into<Place>) -> WaveTurn {
        WaveTurn { ranks: self.clone(), rank: place.into(), through: AtomicBool::new(false) }
    }
}

/// The turn of one object. It is through when it has been applied, or will not be for now; at the latest when dropped.
#[derive(Debug)]
pub struct WaveTurn {
    ranks: Ranks,
    rank: Place,
    through: AtomicBool,
}

impl WaveTurn {
    /// Waits until every object of the ranks before is through.
    pub async fn comes(&self) {
        loop {
            // It subscribes before it checks: later moves are heard.
            let moved = self.ranks.0.moved.notified();
            if self.ranks.are_through_before(self.rank) {
                return;
            }
            moved.await;
        }
    }

    /// Lets later ranks pass the object.
    pub fn through(&self) {
        if !self.through.swap(true, Ordering::Relaxed) {
            self.ranks.pass(self.rank);
        }
    }
}

impl Drop for WaveTurn {
    fn drop(&mut self) {
        self.through();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn a_rank_waits_for_all_of_the_one_before() {
        let ranks = Ranks::new([Rank::Definitions, Rank::Definitions, Rank::Workloads]);
        let first = ranks.turn(Rank::Definitions);
        let second = ranks.turn(Rank::Definitions);
        let workload = ranks.turn(Rank::Workloads);
        let waits = |turn: &WaveTurn| {
            let comes = turn.ranks.turn(turn.rank);
            async move {
                let waits = tokio::time::timeout(Duration::from_secs(1), comes.comes()).await.is_err();
                // This probe was never counted in.
                std::mem::forget(comes);
                waits
            }
        };
        assert!(!waits(&second).await);
        assert!(waits(&workload).await);
        first.through();
        first.through();
        assert!(waits(&workload).await, "through counts once");
        drop(second);
        assert!(!waits(&workload).await);
    }
}
