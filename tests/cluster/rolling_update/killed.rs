//! Killed at any write, before or after the server has done it, the same command ends as without the kill.

use crate::cases::{back, to};
use crate::stage::{Stage, controller};
use crate::support::tap::Fate;

/// Forward, ending under the old name.
pub async fn at_every_write(stage: &Stage, size: usize) {
    for write in 0.. {
        let mut died = false;
        for (fate, letter) in [(Fate::DieBefore, "b"), (Fate::DieAfter, "a")] {
            let name = format!("k{size}{letter}{write}");
            stage.make(&controller(&name, "app:1", size)).await;
            died |= stage.roll_and_die(&to(&name, "app:2"), write, fate).await.is_none();
            let rolled = stage.roll(&to(&name, "app:2")).await;
            assert!(rolled.ended.is_ok(), "{write} {fate:?}: {:?}", rolled.ended);
            stage.assert_ended(&name, &name, "app:2", size).await;
            assert!(rolled.seen.most <= size + 1, "{write} {fate:?}: {:?} {:?}", rolled.seen, rolled.said);
            assert!(rolled.seen.fewest_ready >= Some(size), "{write} {fate:?}: {:?} {:?}", rolled.seen, rolled.said);
            stage.clear(&name).await;
        }
        if !died {
            assert!(write > 10, "{write}");
            return;
        }
    }
}

/// Back again from half way.
pub async fn at_every_write_of_the_way_back(stage: &Stage, size: usize) {
    for write in 0.. {
        let mut died = false;
        for (fate, letter) in [(Fate::DieBefore, "b"), (Fate::DieAfter, "a")] {
            let name = format!("r{size}{letter}{write}");
            stage.make(&controller(&name, "app:1", size)).await;
            let half = size + 6;
            assert!(stage.roll_and_die(&to(&name, "app:2"), half, Fate::DieAfter).await.is_none());
            died |= stage.roll_and_die(&back(&name), write, fate).await.is_none();
            let rolled = stage.roll(&back(&name)).await;
            if let Err(error) = &rolled.ended {
                assert!(error.to_string().contains("nothing to roll back"), "{write} {fate:?}: {error}");
            }
            stage.assert_ended(&name, &name, "app:1", size).await;
            assert!(rolled.seen.most <= size + 1, "{write} {fate:?}: {:?}", rolled.seen);
            stage.clear(&name).await;
        }
        if !died {
            assert!(write > 5, "{write}");
            return;
        }
    }
}
