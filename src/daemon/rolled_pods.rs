//! What is to be seen of the pods of a ReplicationController while it is rolled, and when that is reason to give up.

use super::health_monitor::{Cancelled, LOOK_AT_PODS};
use super::replication_controller::begun;
use super::rollout_task::RolloutTask;
use crate::cluster::{Backoff, Scene};
use belay_core::manifest::ObjectKey;
use belay_core::rollout::rolling_update::{Begun, To};
use belay_core::rollout::{FailFast, Outcome, Reason};

/// What is to be seen of the pods that are to come: of the next controller's, or, on the way back and where there is none,
/// of those of the controller itself.
pub(super) async fn scene(work: &RolloutTask, to: &To) -> Result<Scene, Cancelled> {
    let (context, key) = (&work.context, &work.planned.wanted.key);
    let (key, live) = match begun(work).await? {
        (Begun::Growing { next, .. }, _) if !matches!(to, To::Back) => {
            let name = next["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            (ObjectKey { name, ..key.clone() }, *next)
        }
        (_, live) => (key.clone(), live.unwrap_or_default()),
    };
    let look = Backoff::insist(context.in_the_way(&key), || context.cluster.scene(&key, &live));
    Ok(work.unless_cancelled(look).await?.unwrap_or_default())
}

/// Waits until there is a reason to give up before the deadline: the source's, or what the pods show.
pub(super) async fn given_up(work: &RolloutTask, outcome: Outcome, to: &To) -> Reason {
    if outcome == Outcome::RollingBack {
        return std::future::pending().await;
    }
    let mut asked = work.give_up.clone();
    let asked = async {
        match asked.wait_for(Option::is_some).await {
            Ok(reason) => reason.clone(),
            Err(_) => None,
        }
    };
    let seen = async {
        let mut fail_fast = FailFast::default();
        loop {
            tokio::time::sleep(LOOK_AT_PODS).await;
            // That another's pods fail, or those of before, says nothing about this commit.
            if !work.context.config.fail_fast || matches!(to, To::Back) {
                continue;
            }
            let Ok(scene) = scene(work, to).await else { continue };
            if let Some(reason) = fail_fast.look(&scene.sight.pods, work.context.clock.now()) {
                return reason;
            }
        }
    };
    tokio::select! {
        biased;
        Some(reason) = asked => reason,
        reason = seen => reason,
    }
}
