//! The work that is counted while tests run.

use std::cell::Cell;

/// The things that are counted while tests run, apart for each thread.
#[derive(Clone, Copy, Debug)]
pub enum Counted {
    /// An object of the store was read as a value.
    Read,
    /// An object of the store was compared with the selector of a list or a watch.
    Selected,
    /// Labels were held against a selector.
    Matched,
    /// All nodes were tried for a pod.
    Placed,
}

thread_local! {
    static COUNTS: [Cell<usize>; 4] = const { [const { Cell::new(0) }; 4] };
}

/// Counts one more.
pub fn count(what: Counted) {
    COUNTS.with(|counts| counts[what as usize].set(counts[what as usize].get() + 1));
}

/// Returns how many were counted on this thread since the last call.
pub fn counted(what: Counted) -> usize {
    COUNTS.with(|counts| counts[what as usize].take())
}
