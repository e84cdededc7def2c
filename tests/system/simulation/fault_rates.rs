//! The weather on the way between belay and the API server: how often what goes wrong.

use std::time::Duration;

use minicluster::Random;

/// The faults of requests, with their rates in percent; and the longest time of each way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultRates {
    /// The server is there and can't: 500, 503, 504.
    pub fails: u64,
    /// 429, with the time after which to come back.
    pub busy: u64,
    /// A write is answered with 409: somebody else wrote in between, says the server.
    pub conflicts: u64,
    /// No answer ever comes; half of these are done nevertheless.
    pub silent: u64,
    /// The connection breaks: half of these are done nevertheless.
    pub broken: u64,
    /// The answer ends in the middle.
    pub cut: u64,
    /// A watch ends, or is told that its version is too old.
    pub watches: u64,
    /// The longest time of a request and its answer. In fair weather a few milliseconds.
    pub slow: Duration,
}

/// The fate of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fortune {
    /// Nothing.
    Fair,
    /// The server answers with this code instead of doing it.
    Fails(u16),
    /// It answers 429, come back after so many seconds.
    Busy(u64),
    /// No answer comes; whether it is done.
    Silent(bool),
    /// The connection breaks; whether it is done.
    Broken(bool),
    /// It is done, and the answer ends in the middle.
    Cut,
}

impl FaultRates {
    /// Fair weather.
    pub fn fair() -> FaultRates {
        FaultRates { slow: Duration::from_millis(8), ..FaultRates::default() }
    }

    /// Returns the rates of an API server that is away: requests get no answer, or an error.
    pub fn away() -> FaultRates {
        FaultRates { silent: 30, fails: 40, broken: 30, watches: 100, ..FaultRates::fair() }
    }

    /// Returns a storm of one kind or another.
    pub fn random(random: &Random) -> FaultRates {
        let fair = FaultRates::fair();
        match random.below(8) {
            0 => FaultRates { silent: 100, watches: 100, ..fair },
            1 => FaultRates { fails: 100, watches: 100, ..fair },
            2 => FaultRates { busy: 60, ..fair },
            3 => FaultRates { broken: 50, watches: 60, ..fair },
            4 => FaultRates { watches: 100, slow: Duration::from_secs(3), ..fair },
            5 => FaultRates { conflicts: 50, ..fair },
            6 => FaultRates { slow: Duration::from_secs(20), ..fair },
            _ => FaultRates {
                fails: 10,
                busy: 10,
                conflicts: 10,
                silent: 5,
                broken: 10,
                cut: 10,
                watches: 20,
                slow: Duration::from_secs(2),
            },
        }
    }

    /// Draws the fate of a request.
    pub fn fortune(&self, random: &Random, write: bool) -> Fortune {
        let mut roll = random.below(100);
        let coin = random.below(2) == 0;
        let code = [500, 503, 504][usize::try_from(random.below(3)).unwrap_or_default()];
        let seconds = 1 + random.below(15);
        let conflicts = if write { self.conflicts } else { 0 };
        for (percent, fortune) in [
            (self.fails, Fortune::Fails(code)),
            (self.busy, Fortune::Busy(seconds)),
            (conflicts, Fortune::Fails(409)),
            (self.silent, Fortune::Silent(coin)),
            (self.broken, Fortune::Broken(coin)),
            (self.cut, Fortune::Cut),
        ] {
            if roll < percent {
                return fortune;
            }
            roll -= percent;
        }
        Fortune::Fair
    }

    /// Draws the time of one way.
    pub fn delay(&self, random: &Random) -> Duration {
        let most = u64::try_from(self.slow.as_millis()).unwrap_or(u64::MAX);
        Duration::from_millis(random.below(most + 1))
    }
}
