//! An undo stays, whatever came before it: on the embedded cluster, in virtual time.

use crate::world::daemon::World;
use crate::world::undo_sequence::{KINDS, Time, UndoSequence};

/// How many sequences of each kind, and how long each is.
const SEEDS: u64 = 4;
const STEPS: u32 = 12;

#[tokio::test(start_paused = true)]
async fn an_undo_stays_and_all_else_is_put_right() {
    for kind in KINDS {
        for seed in 0..SEEDS {
            let mut sequence = UndoSequence::new(World::embedded().await, Time::Paused, kind, seed).await;
            for _ in 0..STEPS {
                sequence.step().await;
            }
        }
    }
}
