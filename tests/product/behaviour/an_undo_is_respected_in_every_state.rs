//! An undo stays, whatever came before it: on the embedded cluster, in virtual time.

use std::time::Duration;

use belay::config::Span;

use crate::support::daemon::World;
use crate::support::undo_sequence::{KINDS, Time, UndoSequence};

/// The number of sequences of each kind, and the length of each.
const SEEDS: u64 = 4;
const STEPS: u32 = 12;

#[tokio::test(start_paused = true)]
async fn an_undo_stays_and_all_else_is_put_right() {
    for kind in KINDS {
        for seed in 0..SEEDS {
            let mut world = World::embedded().await;
            world.config.interval = Span(Duration::from_secs(15));
            let mut sequence = UndoSequence::new(world, Time::Paused, kind, seed).await;
            for _ in 0..STEPS {
                sequence.step().await;
            }
        }
    }
}

/// On to what failed, when the commit that failed has been reverted: nothing has been rolled out since it went back.
#[tokio::test(start_paused = true)]
async fn also_on_to_what_failed_once_its_commit_is_reverted() {
    for kind in KINDS {
        let mut sequence = UndoSequence::new(World::embedded().await, Time::Paused, kind, 1).await;
        sequence.another("a template that fails", true).await;
        sequence.first_again().await;
        sequence.undo().await;
    }
}
