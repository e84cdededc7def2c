//! Hooks of charts that are no Jobs, and that their policy deletes: when all hooks of their phase have succeeded.

use std::sync::Arc;

use serde_json::Value;
use tracing::{info, warn};

use super::context::Context;
use super::rollout_task::RolloutTask;
use crate::cluster::{Backoff, ClusterError};
use belay_core::manifest::{HookDeletion, Manifest, deletes_hook, succeeded_hooks};
use belay_core::rollout::{Outcome, Prunable, marks, prunable};

impl RolloutTask {
    /// Deletes the hooks of a chart that are to go when this one, the last of its phase, has succeeded. One that can't be deleted
    /// stays until its next run.
    pub(super) async fn delete_succeeded_hooks(&self, outcome: Outcome) {
        let manifest = &self.planned.wanted.manifest;
        let is_rendered = manifest.file() != &*manifest.place.path;
        if outcome != Outcome::Complete || !is_rendered || !self.apply.body.text().contains(marks::HOOK_RUN) {
            return;
        }
        let (context, file) = (Arc::clone(&self.context), manifest.file().to_owned());
        let gone = self.context.repository.blocking_pool.run(move || context.succeeded_hooks(&file)).await;
        for hook in gone {
            let delete =
                Backoff::until_answered(self.context.in_the_way(&hook.key), || self.context.delete_hook(&hook));
            match self.unless_cancelled(delete).await {
                Ok(Ok(true)) => {
                    info!(object = %hook.key, "the hook has done its work, and is deleted, as its policy says")
                }
                Ok(Ok(false)) => {}
                Ok(Err(error)) => {
                    self.context.status.trouble(&hook.key.to_string(), None);
                    warn!(object = %hook.key, %error, "the hook can't be deleted; it stays until its next run");
                }
                Err(_) => return,
            }
        }
    }
}

impl Context {
    /// Returns true when a hook that is not live has done its work, and was deleted as its policy says. It blocks.
    pub(super) fn has_succeeded_and_gone(&self, hook: &Manifest) -> bool {
        deletes_hook(&hook.value(), HookDeletion::Succeeded)
            && self.succeeded_hooks(hook.file()).iter().any(|gone| gone.key == hook.key && gone.hash == hook.hash)
    }

    /// Returns the hooks of a chart that are to go now. It blocks.
    fn succeeded_hooks(&self, file: &str) -> Vec<Manifest> {
        let desired = self.repository.desired();
        let chart: Vec<Manifest> =
            desired.objects_in(file).filter_map(|key| self.read_manifest(&desired, key)).collect();
        let has_succeeded = |hook: &Manifest| {
            let newest = self.newest_record(&hook.key);
            newest.is_some_and(|newest| {
                let is_well = matches!(newest.outcome, Outcome::Complete | Outcome::Unchanged);
                is_well && newest.manifest_hash.as_deref() == Some(&*hook.hash.to_string())
            })
        };
        succeeded_hooks(&chart, has_succeeded).into_iter().cloned().collect()
    }

    /// Asks for the deletion of a hook, if it is this source's, as it was applied, and nothing else keeps it.
    async fn delete_hook(&self, hook: &Manifest) -> Result<bool, ClusterError> {
        let key = &hook.key;
        let served = self.cluster.served(&hook.api_version, &key.kind).await?;
        let Some(live) = self.cluster.get(key, &served).await? else { return Ok(false) };
        let run = |object: &Value| marks::annotation(object, marks::HOOK_RUN).map(str::to_owned);
        let is_it = run(&live) == run(&hook.value()) && marks::annotation(&live, marks::SUSPEND).is_none();
        let may_go = prunable(key, &live, &self.config.name, self.cluster.default_namespace()) == Prunable::Yes;
        if !is_it || !may_go {
            return Ok(false);
        }
        let room = self.requests.room().await;
        self.requests.carry(room, self.cluster.delete(key, &served, marks::uid(&live))).await.map(|()| true)
    }
}
