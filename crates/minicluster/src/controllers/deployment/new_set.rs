//! The new ReplicaSet: found or made, with the right revision.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::conditions::{self, PROGRESSING, reason};
use super::revision::{self, Presence, REVISION};
use super::rollout::Rollout;
use super::sets::{has_template, size};
use super::{sizes, status};
use crate::controllers::error::Error;
use crate::controllers::events::EventType;
use crate::controllers::key::{Key, annotation, name_of};
use crate::controllers::owner::controller_reference;
use crate::controllers::ownership::{Claim, claim};
use crate::controllers::selector::Selector;
use crate::controllers::template::{HASH_LABEL, Template};
use crate::controllers::templated::{Deployment, ReplicaSet, ReplicaSetSpec};

/// A ReplicaSet's name is at most this long.
const LONGEST_NAME: usize = 253;

/// The choice if the new ReplicaSet is made when it is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplicaSetCreation {
    /// It is.
    Yes,
    /// It is not.
    No,
}

impl Rollout<'_> {
    /// Finds the new ReplicaSet and brings its annotations, and the Deployment's revision, up to date.
    pub async fn find_new_set(&mut self, creation: ReplicaSetCreation) -> Result<(), Error> {
        let target = self.sets.greatest_old_revision().saturating_add(1);
        match (self.sets.new.clone(), creation) {
            (Some(set), _) => self.keep(&set, target).await,
            (None, ReplicaSetCreation::Yes) => self.make(target).await,
            (None, ReplicaSetCreation::No) => Ok(()),
        }
    }

    async fn keep(&mut self, set: &Arc<ReplicaSet>, target: i64) -> Result<(), Error> {
        let mut changed = ReplicaSet::clone(set);
        let metadata = &self.deployment.metadata;
        let annotated = revision::annotate(metadata, &mut changed.metadata, target, Presence::There, &self.plan);
        let min_ready = self.deployment.spec.min_ready_seconds.unwrap_or(0);
        if annotated || changed.spec.min_ready_seconds.unwrap_or(0) != min_ready {
            changed.spec.min_ready_seconds = self.deployment.spec.min_ready_seconds;
            // The Deployment's own revision follows when this change is seen.
            let written: ReplicaSet = self.controller.context.requests.replace(&changed).await?;
            self.note_set(&written);
            self.sets.new = Some(Arc::new(written));
            return Ok(());
        }
        let number = annotation(&set.metadata, REVISION).unwrap_or_default().to_owned();
        let mut needed = self.set_revision(&number);
        let conditions = self.deployment.status.as_ref().map(|status| &status.conditions);
        let is_told = conditions.is_some_and(|conditions| conditions::find(conditions, PROGRESSING).is_some());
        if status::deadline(&self.deployment).is_some() && !is_told {
            let message = format!("Found new replica set \"{}\"", name_of(&set.metadata));
            self.set_progressing("True", reason::SET_FOUND, message);
            needed = true;
        }
        if needed { self.write_status().await } else { Ok(()) }
    }

    async fn make(&mut self, target: i64) -> Result<(), Error> {
        let set = self.draft(target)?;
        let key = Key::of(&set.metadata);
        let made: Result<ReplicaSet, Error> = self.controller.context.requests.create(&set).await;
        match made {
            Ok(made) => {
                let wanted = size(&set);
                if wanted > 0 {
                    let message = format!("Scaled up replica set {} from 0 to {wanted}", key.name);
                    self.say(EventType::Normal, "ScalingReplicaSet", message);
                }
                self.note_set(&made);
                self.sets.new = Some(Arc::new(made));
                let mut needed = self.set_revision(&target.to_string());
                if status::deadline(&self.deployment).is_some() {
                    let message = format!("Created new replica set \"{}\"", key.name);
                    self.set_progressing("True", reason::SET_CREATED, message);
                    needed = true;
                }
                if needed { self.write_status().await } else { Ok(()) }
            }
            Err(error) if error.is_already_exists() => self.resolve_clash(&key, target, error).await,
            Err(error) if error.is_namespace_terminating() => Err(error),
            Err(error) => {
                let message = format!("Failed to create new replica set \"{}\": {}", key.name, error.message());
                if status::deadline(&self.deployment).is_some() {
                    self.set_progressing("False", reason::SET_NOT_CREATED, message.clone());
                    if let Err(error) = self.write_status().await {
                        tracing::debug!(%error, "the status will be written at the next try");
                    }
                }
                self.say(EventType::Warning, reason::SET_NOT_CREATED, message);
                Err(error)
            }
        }
    }

    /// Handles a ReplicaSet of the same name. One that can be adopted is waited for; another is a collision of hashes,
    /// and the next try gets another name.
    async fn resolve_clash(&mut self, key: &Key, target: i64, error: Error) -> Result<(), Error> {
        let there: ReplicaSet = self.controller.context.requests.get(key).await?;
        match claim_by_name(&self.deployment, &there)? {
            Claim::Ours | Claim::Release => {
                self.sets.new = Some(Arc::new(there));
                if self.set_revision(&target.to_string()) { self.write_status().await } else { Ok(()) }
            }
            Claim::Adopt => Err(error),
            Claim::Ignore => {
                let status = self.deployment.status.get_or_insert_default();
                status.collision_count = Some(status.collision_count.unwrap_or(0).saturating_add(1));
                self.write_status().await?;
                Err(error)
            }
        }
    }

    fn draft(&self, target: i64) -> Result<ReplicaSet, Error> {
        let metadata = &self.deployment.metadata;
        let spec = &self.deployment.spec;
        let collisions = self.deployment.status.as_ref().and_then(|status| status.collision_count);
        let hash = spec.template.canonical()?.hash(collisions);
        let mut template = spec.template.read()?;
        let labels = template.metadata.get_or_insert_default().labels.get_or_insert_default();
        labels.insert(HASH_LABEL.to_owned(), hash.clone());
        let labels = labels.clone();
        let mut selector = spec.selector.clone();
        selector.match_labels.get_or_insert_default().insert(HASH_LABEL.to_owned(), hash.clone());
        let total = sizes::sum(self.sets.old.iter().map(|set| size(set)));
        let mut set = ReplicaSet {
            metadata: ObjectMeta {
                name: Some(name_with(name_of(metadata), &hash)),
                namespace: metadata.namespace.clone(),
                labels: Some(labels),
                owner_references: Some(vec![controller_reference::<Deployment>(metadata)]),
                ..ObjectMeta::default()
            },
            spec: ReplicaSetSpec {
                min_ready_seconds: spec.min_ready_seconds,
                replicas: Some(self.plan.new_size(total, 0)),
                selector,
                template: Some(Template::of(&template)?),
            },
            status: None,
        };
        revision::annotate(metadata, &mut set.metadata, target, Presence::ToBeMade, &self.plan);
        Ok(set)
    }

    /// Returns whether the Deployment said otherwise.
    fn set_revision(&mut self, number: &str) -> bool {
        let annotations = self.deployment.metadata.annotations.get_or_insert_default();
        if annotations.get(REVISION).map(String::as_str) == Some(number) {
            return false;
        }
        annotations.insert(REVISION.to_owned(), number.to_owned());
        true
    }

    fn set_progressing(&mut self, value: &str, reason: &str, message: String) {
        let condition = conditions::condition(PROGRESSING, value, reason, message, self.controller.context.now().0);
        let status = self.deployment.status.get_or_insert_default();
        conditions::set(&mut status.conditions, condition);
    }
}

/// Returns the claim of a Deployment on a ReplicaSet that has the name of its new one. One with another template is
/// ignored.
fn claim_by_name(deployment: &Deployment, there: &ReplicaSet) -> Result<Claim, Error> {
    if !has_template(there, deployment.spec.template.canonical()?) {
        return Ok(Claim::Ignore);
    }
    let selector = Selector::read(&deployment.spec.selector)?;
    Ok(claim(&deployment.metadata, &selector, &there.metadata))
}

/// Returns `<deployment>-<hash>`, the Deployment's part cut so that the whole is not too long.
fn name_with(deployment: &str, hash: &str) -> String {
    let room = LONGEST_NAME.saturating_sub(hash.len() + 1);
    let cut: String = deployment.chars().take(room).collect();
    format!("{cut}-{hash}")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn deployment() -> Deployment {
        let spec = json!({
            "selector": { "matchLabels": { "app": "web" } },
            "template": { "metadata": { "labels": { "app": "web" } }, "spec": { "containers": [{ "name": "app", "image": "v1" }] } },
        });
        serde_json::from_value(json!({ "metadata": { "name": "web", "uid": "new" }, "spec": spec })).unwrap()
    }

    fn set(app: &str, image: &str, metadata: Value) -> ReplicaSet {
        let labels = json!({ "app": app, HASH_LABEL: "abc" });
        let template =
            json!({ "metadata": { "labels": labels }, "spec": { "containers": [{ "name": "app", "image": image }] } });
        let mut set =
            json!({ "metadata": metadata, "spec": { "selector": { "matchLabels": labels }, "template": template } });
        set["metadata"]["labels"] = labels;
        serde_json::from_value(set).unwrap()
    }

    #[test]
    fn a_set_that_can_be_adopted_is_no_collision() {
        let owned = |uid: &str| json!({ "ownerReferences": [{ "apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": uid, "controller": true }] });
        let leaving = json!({ "deletionTimestamp": "2026-01-01T00:00:00Z" });
        for (about, there, expected) in [
            ("its own", set("web", "v1", owned("new")), Claim::Ours),
            ("released by a Deployment that was deleted", set("web", "v1", json!({})), Claim::Adopt),
            ("still of that Deployment", set("web", "v1", owned("old")), Claim::Ignore),
            ("being deleted", set("web", "v1", leaving), Claim::Ignore),
            ("with other labels", set("api", "v1", json!({})), Claim::Ignore),
            ("with another template", set("web", "v2", json!({})), Claim::Ignore),
        ] {
            assert_eq!(claim_by_name(&deployment(), &there).unwrap(), expected, "{about}");
        }
    }
}
