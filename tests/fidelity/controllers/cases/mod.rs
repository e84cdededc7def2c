//! The scripts, by the letters of the specification.

mod creation;
mod daemon;
mod deleting;
mod history;
mod pausing;
mod progress;
mod recreating;
mod replicas;
mod rolling;
mod scaling;
mod stateful;

use super::Case;

/// All scripts.
pub fn all() -> Vec<Case> {
    [
        creation::cases(),
        rolling::cases(),
        recreating::cases(),
        scaling::cases(),
        pausing::cases(),
        progress::cases(),
        history::cases(),
        replicas::cases(),
        deleting::cases(),
        stateful::cases(),
        daemon::cases(),
    ]
    .concat()
}
