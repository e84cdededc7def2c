//! When the API server did not answer. Nothing moves meanwhile, and nobody reports earlier moves, so that a deadline
//! which ends during an outage, or right after it, says nothing about the commit.

use std::collections::VecDeque;

use jiff::{SignedDuration, Timestamp};

/// The most outages that are remembered; of older ones no rollout is under way any more that they could matter to.
const KEPT: usize = 1024;

/// The newest outages of one API server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outages {
    over: VecDeque<(Timestamp, Timestamp)>,
    since: Option<Timestamp>,
    answered: Option<Timestamp>,
}

impl Outages {
    /// Notes that a request that was sent at `began` got no answer.
    pub fn silent(&mut self, began: Timestamp) {
        // Others may have been answered since it was sent.
        let began = self.answered.map_or(began, |answered| answered.max(began));
        self.since.get_or_insert(began);
    }

    /// Notes that the server has answered at `now`.
    pub fn answered(&mut self, now: Timestamp) {
        if let Some(since) = self.since.take().filter(|since| *since < now) {
            self.over.push_back((since, now));
            if self.over.len() > KEPT {
                self.over.pop_front();
            }
        }
        self.answered = Some(self.answered.map_or(now, |before| before.max(now)));
    }

    /// Returns how long the server did not answer, from `from` until `now`.
    #[must_use]
    pub fn within(&self, from: Timestamp, now: Timestamp) -> SignedDuration {
        let all = self.over.iter().copied().chain(self.since.map(|since| (since, now)));
        all.map(|(begin, end)| end.min(now).duration_since(begin.max(from)).max(SignedDuration::ZERO))
            .fold(SignedDuration::ZERO, SignedDuration::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn seconds(outages: &Outages, from: i64, now: i64) -> i64 {
        outages.within(at(from), at(now)).as_secs()
    }

    #[test]
    fn outages_are_added_up() {
        let mut outages = Outages::default();
        outages.answered(at(5));
        outages.silent(at(10));
        outages.silent(at(20));
        assert_eq!(seconds(&outages, 0, 30), 20, "it goes on");
        outages.answered(at(40));
        assert_eq!(seconds(&outages, 0, 100), 30);
        assert_eq!((seconds(&outages, 25, 100), seconds(&outages, 50, 100)), (15, 0), "only what falls into the time");
        outages.silent(at(60));
        outages.answered(at(61));
        assert_eq!(seconds(&outages, 0, 100), 31);
    }

    #[test]
    fn a_request_that_is_never_answered_among_others_that_are_is_no_outage() {
        let mut outages = Outages::default();
        outages.answered(at(29));
        outages.silent(at(0));
        outages.answered(at(31));
        assert_eq!(seconds(&outages, 0, 100), 2);
    }
}
