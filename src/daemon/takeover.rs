//! Fields that others own of an object are written over to belay before it is applied.

use serde_json::Value;
use tracing::warn;

use super::rollout_task::{Cancelled, RolloutTask};
use crate::cluster::Backoff;
use belay_core::rollout::{StepKind, before_apply};

impl RolloutTask {
    /// Writes the fields that `kubectl apply` owns, or an undo with it, or who made the object anew, over to belay, so that
    /// the apply of `body` removes what that lacks.
    pub(super) async fn take_over(&self, body: &Value) -> Result<(), Cancelled> {
        const TRIES: usize = 5;
        for _ in 0..TRIES {
            let Some(live) = self.read().await? else { return Ok(()) };
            let Some(over) = before_apply(&live, body) else { return Ok(()) };
            let (context, key) = (&self.context, &self.planned.wanted.key);
            let patch = || context.cluster.json_patch(key, &self.served, &over);
            match self.unless_cancelled(Backoff::retry(context.in_the_way(key), patch)).await? {
                Ok(_) => return Ok(()),
                // Somebody wrote it in between.
                Err(error) => warn!(object = %key, %error, "not taken over yet"),
            }
        }
        self.step(StepKind::Waiting, "not taken over from kubectl: others keep writing it").await
    }
}
