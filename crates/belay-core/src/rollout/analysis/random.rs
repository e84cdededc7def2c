//! Random numbers of a seed, for rollouts that are simulated: the same on every machine.

use super::error_rates::{AnswerSums, Answers};

/// A generator of random numbers (xorshift64).
#[derive(Clone, Copy, Debug)]
pub(super) struct Random(pub u64);

impl Random {
    /// Returns a number from 0 to 1.
    pub fn part(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns a number of independent events of which so many are expected.
    pub fn events(&mut self, mean: f64) -> f64 {
        if mean > 50.0 {
            let (one, other) = (self.part().max(1e-300), self.part());
            let normal = (-2.0 * one.ln()).sqrt() * (std::f64::consts::TAU * other).cos();
            return (mean + mean.sqrt() * normal).round().max(0.0);
        }
        let (limit, mut product, mut events) = ((-mean).exp(), self.part(), 0.0);
        while product > limit {
            product *= self.part();
            events += 1.0;
        }
        events
    }

    /// Returns the answers of so many pods to so many requests each, of which a part is bad, independently of each other.
    pub fn answers(&mut self, pods: i64, requests: f64, error_rate: f64) -> AnswerSums {
        AnswerSums::of((0..pods).map(|_| {
            let total = self.events(requests);
            Answers { bad: self.events(total * error_rate).min(total), total }
        }))
    }
}
