//! Hooks of charts that do not run themselves, and that their policy deletes: after the Jobs and Pods of their events.

use std::cmp::Reverse;
use std::sync::Arc;

use serde_json::Value;
use tracing::{info, warn};

use crate::cluster::{Backoff, ClusterError};
use crate::daemon::repository::desired_state::DesiredState;
use crate::daemon::rollout::rollout_task::RolloutTask;
use crate::daemon::shared::context::Context;
use belay_core::manifest::{Manifest, ONCE, ObjectKey};
use belay_core::rollout::{HookUntil, Outcome, Prunable, has_succeeded, is_job, is_pod, marks, prunable};

impl RolloutTask {
    /// Deletes the hooks of a chart that nobody needs any more, now that this one has succeeded. One that can't be deleted stays
    /// until its next run.
    pub async fn delete_hooks_that_are_over(&self, outcome: Outcome) {
        if outcome != Outcome::Complete || !self.apply.body.text().contains(marks::HOOK_RUN) {
            return;
        }
        let (context, key) = (Arc::clone(&self.context), self.planned.wanted.key.clone());
        let over = self.context.repository.blocking_pool.run(move || context.hooks_that_are_over(&key)).await;
        for hook in over {
            let delete =
                Backoff::until_answered(self.context.in_the_way(&hook.key), || self.context.delete_hook(&hook));
            match self.unless_cancelled(delete).await {
                Ok(Ok(true)) => {
                    info!(object = %hook.key, "nobody needs the hook any more: it is deleted, as its policy says");
                    self.context.remember_finished(&hook.key, &hook.hash.to_string()).await;
                }
                Ok(Ok(false)) => {}
                Ok(Err(error)) => {
                    self.context.status.object_trouble(&hook.key, None);
                    warn!(object = %hook.key, %error, "the hook can't be deleted; it stays until its next run");
                }
                Err(_) => return,
            }
        }
    }
}

impl Context {
    /// Returns true when a hook is deleted after others, and those have succeeded. It blocks.
    pub fn is_needed_by_none(&self, hook: &ObjectKey) -> bool {
        let desired = self.repository.desired();
        desired.hook_until(hook).is_some_and(|until| until.is_over(|name| self.has_succeeded(&desired, name)))
    }

    /// Notes in the Lease that a Job was complete, or that a hook was deleted after it had done its work.
    pub async fn remember_finished(&self, key: &ObjectKey, hash: &str) {
        let desired = self.repository.desired();
        let goes = |key: &&ObjectKey| is_job(key) || is_pod(key) || desired.hook_until(key).is_some();
        let names = desired.keys().filter(goes).map(ToString::to_string).collect();
        self.finished_jobs.remember(&self.cluster, &names, key, hash).await;
    }

    /// Returns the hooks that nobody needs any more, of those that need this one or are it, the newest first. It blocks.
    fn hooks_that_are_over(&self, ended: &ObjectKey) -> Vec<Manifest> {
        let desired = self.repository.desired();
        let hooks = desired.hooks_until_beside(ended).iter();
        let over = hooks.filter(|(_, until)| {
            let is_about = until.object == *ended || until.names.contains(ended);
            is_about
                && self.has_succeeded(&desired, &until.object)
                && until.is_over(|name| self.has_succeeded(&desired, name))
        });
        let mut over: Vec<&(usize, HookUntil)> = over.collect();
        over.sort_by_key(|(at, _)| Reverse(*at));
        over.iter().filter_map(|(_, until)| self.read_manifest(&desired, &until.object)).collect()
    }

    /// Returns true when a hook has succeeded for the manifest that the repository has.
    fn has_succeeded(&self, desired: &DesiredState, key: &ObjectKey) -> bool {
        let Some(manifest) = self.read_manifest(desired, key) else { return !desired.mentions(key) };
        let once = marks::annotation(&manifest.value(), marks::HOOK_RUN).is_some_and(|run| run.starts_with(ONCE));
        let (newest, remembered) = (self.newest_record(key), self.finished_jobs.recalled(key));
        has_succeeded(newest.as_ref(), remembered.as_deref(), &manifest.hash.to_string(), once)
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
