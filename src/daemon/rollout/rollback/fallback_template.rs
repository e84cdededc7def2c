//! Saves the template that a rollout replaces, if no better rollback target is known: a workload that others made, or
//! whose history is lost, can go back, too.

use serde_json::Value;
use tracing::warn;

use crate::daemon::rollout::rollout_task::{Cancelled, RolloutTask};
use crate::history::{FallbackTemplate, Query};
use belay_core::rollout::{Known, Outcome, TemplateMarks, Workload, health, template};

impl RolloutTask {
    /// Keeps the template that this rollout takes the place of, unless one is known that was seen complete, or it is known
    /// to have failed itself, or not to be well.
    pub async fn keep_fallback_template(&self) -> Result<(), Cancelled> {
        let (context, key) = (&self.context, &self.planned.wanted.key);
        // A template that a drift correction replaces is not one that anybody wants back.
        let replaces = !self.apply.respects_undo && self.apply.replaces_template();
        if !replaces || !Workload::of(key).is_some_and(Workload::can_go_back) || context.last_good(key).is_some() {
            return Ok(());
        }
        let room = self.unless_cancelled(context.requests.room()).await?;
        let Some(live) = self.read().await? else { return Ok(()) };
        drop(room);
        let (Some(template), marks) = (template(&live), TemplateMarks::on(&live)) else { return Ok(()) };
        let failed = health(key, &live).is_some_and(|health| health.failure.is_some());
        if failed || self.has_failed(&marks) || self.unwell().has(&marks) {
            return Ok(());
        }
        let fallback = FallbackTemplate { uid: uid(&live), template: template.clone(), marks };
        if let Err(error) = context.history.keep_fallback_template(&context.config.name, key, &fallback) {
            // The last of four ways back; that is no reason not to go on.
            warn!(object = %key, %error, "failed to keep what the rollout takes the place of");
        }
        Ok(())
    }

    /// Returns the fallback template that was kept of this very object.
    pub fn fallback_template(&self, live: &Value) -> Option<Known> {
        let (context, key) = (&self.context, &self.planned.wanted.key);
        let FallbackTemplate { uid: of, template, marks } =
            match context.history.fallback_template(&context.config.name, key) {
                Ok(kept) => kept?,
                Err(error) => {
                    warn!(object = %key, %error, "failed to ask the history what the rollout took the place of");
                    return None;
                }
            };
        let commit = marks.commit.as_deref().and_then(|commit| commit.parse().ok());
        (of == uid(live)).then_some(Known { commit, template, marks })
    }

    /// Returns true when the history says that a template's commit has failed for this object.
    fn has_failed(&self, marks: &TemplateMarks) -> bool {
        let Some(commit) = &marks.commit else { return false };
        let key = &self.planned.wanted.key;
        let query = Query {
            commit: Some(commit.clone()),
            outcomes: [Outcome::Failed, Outcome::RolledBack, Outcome::RollbackFailed].into(),
            ..Query::of(&self.context.config.name, key)
        };
        // If the history can't be read, nothing could be saved in it either.
        self.context.history.records(&query).is_ok_and(|failed| !failed.is_empty())
    }
}

fn uid(live: &Value) -> String {
    live["metadata"]["uid"].as_str().unwrap_or_default().to_owned()
}
