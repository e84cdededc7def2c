//! An undo stays, whatever came before it: with the controllers of the real control plane, in real time.

use crate::main_job::real_world;
use crate::support::daemon::World;
use crate::support::undo_sequence::{KINDS, Time, UndoSequence};

/// The number of random steps of each kind's sequence: each step takes some ten seconds.
const STEPS: u32 = 4;

#[tokio::test(flavor = "multi_thread")]
async fn an_undo_stays_and_all_else_is_put_right() {
    let Some((plane, nodes, first)) = real_world().await else { return };
    let clock = first.clock.clone();
    for (seed, kind) in (0..).zip(KINDS) {
        let world = World::on(plane.client(), clock.clone(), None);
        let mut sequence = UndoSequence::new(world, Time::Real, kind, seed).await;
        for _ in 0..STEPS {
            sequence.step().await;
        }
        // Whatever the seed has chosen, both are among it.
        sequence.undo().await;
        sequence.belay_undo().await;
        sequence.end().await;
    }
    nodes.stop().await;
}
