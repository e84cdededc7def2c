//! The waits between tries: each is a multiple of the one before, up to the longest. Without chance, so that a
//! simulated run repeats.

use std::time::Duration;

/// The waits before something is tried again.
#[derive(Clone, Debug)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
    factor: u32,
    /// The number of waits so far.
    tried: u32,
}

impl Backoff {
    /// Waits that double from the first to the longest.
    #[must_use]
    pub const fn between(first: Duration, longest: Duration) -> Backoff {
        Backoff { first, longest, factor: 2, tried: 0 }
    }

    /// Returns the same with another factor than two.
    #[must_use]
    pub const fn growing_by(self, factor: u32) -> Backoff {
        Backoff { factor, ..self }
    }

    /// Returns the wait that comes after so many others.
    #[must_use]
    pub fn wait_number(&self, waits: u32) -> Duration {
        self.first.saturating_mul(self.factor.saturating_pow(waits)).min(self.longest)
    }

    /// Returns the next wait.
    pub fn wait(&mut self) -> Duration {
        let wait = self.wait_number(self.tried);
        self.tried = self.tried.saturating_add(1);
        wait
    }

    /// Resets after a success: the next wait is the first again.
    pub fn reset(&mut self) {
        self.tried = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first waits, in milliseconds.
    fn waits(mut backoff: Backoff) -> [u128; 6] {
        std::array::from_fn(|_| backoff.wait().as_millis())
    }

    #[test]
    fn waits_grow_to_the_longest() {
        const S: Duration = Duration::from_secs(1);
        let table = [
            (Backoff::between(S / 2, 30 * S), [500, 1000, 2000, 4000, 8000, 16_000]),
            (Backoff::between(S, 5 * S), [1000, 2000, 4000, 5000, 5000, 5000]),
            (Backoff::between(S, 60 * S).growing_by(4), [1000, 4000, 16_000, 60_000, 60_000, 60_000]),
            (Backoff::between(S, S), [1000; 6]),
            // A first wait that is longer than the longest is none.
            (Backoff::between(9 * S, S), [1000; 6]),
            (Backoff::between(Duration::ZERO, S), [0; 6]),
        ];
        for (backoff, expected) in table {
            assert_eq!(waits(backoff.clone()), expected, "{backoff:?}");
            let counted: [u128; 6] =
                std::array::from_fn(|waits| backoff.wait_number(waits.try_into().unwrap()).as_millis());
            assert_eq!(counted, expected, "by number: {backoff:?}");
        }
    }

    #[test]
    fn it_never_overflows_and_begins_again() {
        let mut backoff = Backoff::between(Duration::from_millis(100), Duration::MAX);
        assert!(backoff.wait_number(u32::MAX) >= backoff.wait_number(31));
        backoff.tried = u32::MAX;
        assert_eq!(backoff.wait(), backoff.wait());
        backoff.reset();
        assert_eq!(backoff.wait(), Duration::from_millis(100));
    }
}
