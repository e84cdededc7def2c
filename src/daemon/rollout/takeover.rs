//! Fields that others own of an object are written over to belay before it is applied.

use serde_json::Value;
use tracing::warn;

use super::rollout_task::{Cancelled, RolloutTask};
use crate::cluster::{Backoff, Mode};
use belay_core::rollout::{Reach, StepKind, before_apply};

impl RolloutTask {
    /// Writes the fields of `kubectl apply`, of a person who created the object again, or of somebody who added to its
    /// pod template, over to belay, so that the apply of `body` removes missing ones.
    pub async fn take_over(&self, body: &Value, reach: Reach) -> Result<(), Cancelled> {
        const TRIES: usize = 5;
        let (mut sent, mut backoff) = (None, Backoff::default());
        for _ in 0..TRIES {
            let Some(live) = self.read().await? else { return Ok(()) };
            let ignored = &self.planned.wanted.ignored_fields;
            let Some(over) = before_apply(&live, body, ignored, reach) else { return Ok(()) };
            let (context, key) = (&self.context, &self.planned.wanted.key);
            if sent.replace(over.clone()).as_ref() == Some(&over) {
                // It was answered, or refused, and nothing has changed.
                self.unless_cancelled(tokio::time::sleep(backoff.wait())).await?;
            }
            let patch = || context.cluster.json_patch(key, &self.served, &over, Mode::Real);
            // After one patch another may be needed: the object is read again.
            if let Err(error) = self.until_served(key, patch).await? {
                // Somebody wrote it in between.
                warn!(object = %key, %error, "not taken over yet");
            }
        }
        self.step(StepKind::Waiting, "not taken over: others keep writing it").await
    }
}
