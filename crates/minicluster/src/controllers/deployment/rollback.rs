//! Going back by annotation, as old clients ask for it.

use super::new_set::ReplicaSetCreation;
use super::revision::{self, ROLLBACK_TO};
use super::rollout::Rollout;
use super::sets::has_template;
use crate::controllers::error::Error;
use crate::controllers::events::EventType;
use crate::controllers::key::{annotation, name_of};
use crate::controllers::template::{HASH_LABEL, Template};
use crate::controllers::templated::{Deployment, ReplicaSet};

/// Returns the revision that the Deployment shall go back to, if it asks for one; 0 for the one before.
pub fn wished(deployment: &Deployment) -> Option<i64> {
    annotation(&deployment.metadata, ROLLBACK_TO)?.parse().ok()
}

impl Rollout<'_> {
    /// Goes back to a revision. Whatever comes of it, the request is taken off the Deployment.
    pub async fn roll_back(&mut self, wished: i64) -> Result<(), Error> {
        self.find_new_set(ReplicaSetCreation::Yes).await?;
        let wished = match wished {
            0 => revision::second_greatest(self.sets.all().map(|set| &set.metadata)),
            revision => revision,
        };
        let not_found = |rollout: &Rollout<'_>, message: &str| {
            rollout.say(EventType::Warning, "DeploymentRollbackRevisionNotFound", message.to_owned());
        };
        if wished == 0 {
            not_found(self, "Unable to find last revision.");
            return self.clear_wish().await;
        }
        let target = self.sets.all().find(|set| revision::number(&set.metadata) == Some(wished)).cloned();
        let Some(target) = target else {
            not_found(self, "Unable to find the revision to rollback to.");
            return self.clear_wish().await;
        };
        let name = name_of(&self.deployment.metadata).to_owned();
        if has_template(&target, self.deployment.spec.template.canonical()?) {
            let message = format!("The rollback revision contains the same template as current deployment \"{name}\"");
            self.say(EventType::Warning, "DeploymentRollbackTemplateUnchanged", message);
            return self.clear_wish().await;
        }
        self.take_template_of(&target)?;
        self.clear_wish().await?;
        let message = format!("Rolled back deployment \"{name}\" to revision {wished}");
        self.say(EventType::Normal, "DeploymentRollback", message);
        Ok(())
    }

    fn take_template_of(&mut self, set: &ReplicaSet) -> Result<(), Error> {
        let mut template = set.spec.template.as_ref().map(Template::read).transpose()?.unwrap_or_default();
        if let Some(labels) = template.metadata.as_mut().and_then(|metadata| metadata.labels.as_mut()) {
            labels.remove(HASH_LABEL);
        }
        self.deployment.spec.template = Template::of(&template)?;
        let annotations = revision::annotations_after_rollback(&self.deployment.metadata, &set.metadata);
        self.deployment.metadata.annotations = Some(annotations);
        Ok(())
    }

    async fn clear_wish(&mut self) -> Result<(), Error> {
        if let Some(annotations) = &mut self.deployment.metadata.annotations {
            annotations.remove(ROLLBACK_TO);
        }
        self.write_deployment().await
    }
}
