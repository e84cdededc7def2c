//! Steps up and down: arithmetic only.

/// The numbers of pods above and below the wanted one that are allowed on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The number of additional pods.
    pub surge: i64,
    /// The number of pods that may be missing.
    pub unavailable: i64,
}

impl Default for Bounds {
    /// Returns one more, none fewer: the bounds of `rolling-update`.
    fn default() -> Bounds {
        Bounds { surge: 1, unavailable: 0 }
    }
}

/// The sizes of the two controllers on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// The final size of the next one.
    pub desired: i64,
    /// The size of the old one.
    pub old: i64,
    /// The size of the next one.
    pub next: i64,
    /// The number of pods of the next one that serve.
    pub next_ready: i64,
    /// The allowed numbers above and below.
    pub bounds: Bounds,
}

impl Sizes {
    /// Returns how many pods must serve.
    #[must_use]
    pub fn floor(&self) -> i64 {
        (self.desired - self.bounds.unavailable).max(0)
    }

    /// Returns how many pods there may be.
    #[must_use]
    pub fn ceiling(&self) -> i64 {
        self.desired.saturating_add(self.bounds.surge)
    }

    /// Returns true when both have their final sizes.
    #[must_use]
    pub fn are_reached(&self) -> bool {
        self.next == self.desired && self.old == 0
    }

    /// Returns the size to which the next one may grow now, if it may.
    #[must_use]
    pub fn up(&self) -> Option<i64> {
        let room = if self.old == 0 { self.desired - self.next } else { self.ceiling() - (self.old + self.next) };
        let size = self.next.saturating_add(room).min(self.desired);
        (room > 0 && size > self.next).then_some(size)
    }

    /// Returns the size to which the old one may shrink now, if it may. A next one that is larger than it should be
    /// counts as all there.
    #[must_use]
    pub fn down(&self) -> Option<i64> {
        if self.old == 0 {
            return None;
        }
        let waiting = self.next - self.next_ready;
        let spare = (self.old + self.next) - self.floor() - waiting;
        if spare <= 0 {
            return None;
        }
        let all_new_serve = self.next == self.desired && self.next_ready == self.desired;
        Some(if all_new_serve { 0 } else { (self.old - spare).max(0) })
    }
}
