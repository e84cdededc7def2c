//! Everything random in the embedded cluster comes from here, so that the same seed gives the same run.

use std::sync::{Arc, Mutex, PoisonError};

/// The letters of generated names: no vowels and none that look like digits, so that no words come about.
const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// A seeded generator, shared by its clones.
#[derive(Clone, Debug)]
pub struct Random(Arc<Mutex<fastrand::Rng>>);

impl Random {
    /// Returns a generator whose answers follow from `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Random {
        Random(Arc::new(Mutex::new(fastrand::Rng::with_seed(seed))))
    }

    /// Returns a generator of its own for another part, so that one part's draws do not shift another's.
    #[must_use]
    pub fn fork(&self) -> Random {
        Random::new(self.with(|rng| rng.u64(..)))
    }

    /// Returns a version 4 UUID.
    #[must_use]
    pub fn uid(&self) -> String {
        let bits = self.with(|rng| rng.u128(..));
        let bits = bits & !(0xf << 76) & !(0x3 << 62) | (0x4 << 76) | (0x2 << 62);
        let hex = format!("{bits:032x}");
        format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
    }

    /// Returns `length` letters for the end of a generated name.
    #[must_use]
    pub fn suffix(&self, length: usize) -> String {
        self.with(|rng| (0..length).map(|_| char::from(LETTERS[rng.usize(..LETTERS.len())])).collect())
    }

    /// Returns a number below `bound`; 0 for a bound of 0.
    #[must_use]
    pub fn below(&self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.with(|rng| rng.u64(..bound)) }
    }

    fn with<T>(&self, draw: impl FnOnce(&mut fastrand::Rng) -> T) -> T {
        draw(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::Random;

    #[test]
    fn the_same_seed_gives_the_same_names() {
        let (one, two) = (Random::new(7), Random::new(7));
        assert_eq!((one.uid(), one.suffix(5)), (two.uid(), two.suffix(5)));
        let uid = one.uid();
        assert_eq!(uid.len(), 36);
        assert_eq!(&uid[14..15], "4");
        assert!("89ab".contains(&uid[19..20]));
    }
}
