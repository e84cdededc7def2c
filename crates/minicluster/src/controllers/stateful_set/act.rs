//! Making, mending and deleting the pods of a StatefulSet, and their claims.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, PodTemplateSpec};
use kube::api::{DeleteParams, Patch};
use serde_json::json;

use super::plan::{Act, REVISION_LABEL};
use super::revisions::StatefulSetVersions;
use super::{StatefulSets, claims, ordinal};
use crate::controllers::error::Error;
use crate::controllers::events::EventType;
use crate::controllers::history;
use crate::controllers::key::{Key, label, name_of, uid_of, version_of};
use crate::controllers::owner::controller_reference;
use crate::controllers::pod::Pod;
use crate::controllers::pod_control::{NewPod, metadata_from};
use crate::controllers::requests::{Ignored, Written};

/// The label with a pod's name.
const NAME_LABEL: &str = "statefulset.kubernetes.io/pod-name";
/// The label with a pod's number.
const INDEX_LABEL: &str = "apps.kubernetes.io/pod-index";

/// The result of an act.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActionResult {
    /// The act was needed.
    Act,
    /// Nothing: an earlier pod's claim has to go first.
    Waits,
}

impl StatefulSets {
    /// Carries out the plan for one pod.
    pub async fn act(
        &self,
        set: &StatefulSet,
        versions: &StatefulSetVersions,
        act: &Act,
    ) -> Result<ActionResult, Error> {
        match act {
            Act::Create(number) => return self.create(set, versions, *number).await,
            Act::Mend(pod) => self.mend(set, pod).await?,
            Act::Condemn(pod) => {
                self.hand_claims_over(set, pod).await?;
                self.delete(set, pod).await?;
            }
            Act::Recreate(pod) | Act::Update(pod) => self.delete(set, pod).await?,
        }
        Ok(ActionResult::Act)
    }

    async fn create(
        &self,
        set: &StatefulSet,
        versions: &StatefulSetVersions,
        number: i32,
    ) -> Result<ActionResult, Error> {
        let name = ordinal::pod_name(set, number);
        for claim in claims::of(set, number) {
            if self.claim(&Key::of(&claim.metadata)).is_some_and(|claim| claims::is_stale(&claim, &name, None)) {
                return Ok(ActionResult::Waits);
            }
        }
        if let Err(error) = self.make_claims(set, number).await {
            self.tell(set, "Create", &name, Some(&error));
            return Err(error);
        }
        let is_current = is_of_current_revision(set, number);
        let revision = if is_current { &versions.current } else { &versions.update };
        let template = if is_current { history::template_of(revision)? } else { set.spec.template.clone() };
        let made = self.make_pod(set, &template, name_of(&revision.metadata), number).await;
        match made {
            Ok(pod) => {
                self.expectations.wrote(&Key::of(&set.metadata), version_of(&pod.metadata));
                self.tell(set, "Create", &name, None);
                Ok(ActionResult::Act)
            }
            // Made before, and not seen since.
            Err(error) if error.is_already_exists() => Err(error),
            Err(error) => {
                if !error.is_namespace_terminating() {
                    self.tell(set, "Create", &name, Some(&error));
                }
                Err(error)
            }
        }
    }

    async fn make_pod(
        &self,
        set: &StatefulSet,
        template: &PodTemplateSpec,
        revision: &str,
        number: i32,
    ) -> Result<Pod, Error> {
        let name = ordinal::pod_name(set, number);
        let reference = controller_reference::<StatefulSet>(&set.metadata);
        let mut metadata = metadata_from(template, &set.metadata, reference);
        metadata.name = Some(name.clone());
        let labels = metadata.labels.get_or_insert_default();
        labels.insert(NAME_LABEL.to_owned(), name.clone());
        labels.insert(INDEX_LABEL.to_owned(), number.to_string());
        labels.insert(REVISION_LABEL.to_owned(), revision.to_owned());
        let mut spec = template.spec.clone().unwrap_or_default();
        spec.hostname = Some(name);
        spec.subdomain = set.spec.service_name.clone().filter(|name| !name.is_empty());
        claims::mount(set, number, &mut spec);
        let body = NewPod::new(&metadata, Some(&spec));
        self.context.requests.create_from::<Pod, _, _>(&Key::of(&metadata), &body).await
    }

    async fn make_claims(&self, set: &StatefulSet, number: i32) -> Result<(), Error> {
        let pod = ordinal::pod_name(set, number);
        for claim in claims::of(set, number) {
            if self.claim(&Key::of(&claim.metadata)).is_some() {
                continue;
            }
            let name = name_of(&claim.metadata);
            let set_name = name_of(&set.metadata);
            match self.context.requests.create::<PersistentVolumeClaim, Ignored>(&claim).await {
                Ok(_) => {
                    let message = format!("Create Claim {name} Pod {pod} in StatefulSet {set_name} success");
                    self.recorder.say(set, EventType::Normal, "SuccessfulCreate", message);
                }
                Err(error) if error.is_already_exists() => {}
                Err(error) => {
                    let why = error.message();
                    let message =
                        format!("Create Claim {name} for Pod {pod} in StatefulSet {set_name} failed error: {why}");
                    self.recorder.say(set, EventType::Warning, "FailedCreate", message);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Gives a pod the labels that it lost, and makes claims that it lacks.
    async fn mend(&self, set: &StatefulSet, pod: &Arc<Pod>) -> Result<(), Error> {
        let Some(number) = ordinal::of(set, pod) else { return Ok(()) };
        self.make_claims(set, number).await?;
        self.hand_claims_over(set, pod).await?;
        let name = name_of(&pod.metadata);
        if label(&pod.metadata, NAME_LABEL) == Some(name) {
            return Ok(());
        }
        let labels = json!({ NAME_LABEL: name, INDEX_LABEL: number.to_string() });
        let patch = Patch::Strategic(json!({ "metadata": { "uid": pod.metadata.uid, "labels": labels } }));
        let mended = self.context.requests.patch::<Pod, _, Written>(&Key::of(&pod.metadata), &patch).await;
        self.tell(set, "Update", name, mended.as_ref().err());
        let written = mended?;
        self.expectations.wrote(&Key::of(&set.metadata), version_of(&written.metadata));
        Ok(())
    }

    /// Gives a pod's claims to whom the retention policy says.
    async fn hand_claims_over(&self, set: &StatefulSet, pod: &Arc<Pod>) -> Result<(), Error> {
        let Some(number) = ordinal::of(set, pod) else { return Ok(()) };
        for claim in claims::of(set, number) {
            let Some(mut there) = self.claim(&Key::of(&claim.metadata)).map(|claim| claim.as_ref().clone()) else {
                continue;
            };
            if let Some(owners) = claims::mended_owners(set, pod, number, &there) {
                there.metadata.owner_references = Some(owners);
                let _: Ignored = self.context.requests.replace(&there).await?;
            }
        }
        Ok(())
    }

    async fn delete(&self, set: &StatefulSet, pod: &Arc<Pod>) -> Result<(), Error> {
        let key = Key::of(&pod.metadata);
        let deleted = self.context.requests.delete::<Pod>(&key, &DeleteParams::default()).await;
        if deleted.as_ref().is_err_and(Error::is_not_found) {
            return Ok(());
        }
        self.tell(set, "Delete", &key.name, deleted.as_ref().err());
        deleted?;
        self.expectations.deleted(&Key::of(&set.metadata), key, uid_of(&pod.metadata));
        Ok(())
    }

    fn claim(&self, key: &Key) -> Option<Arc<PersistentVolumeClaim>> {
        self.context.informers.persistent_volume_claims.get(key)
    }

    fn tell(&self, set: &StatefulSet, verb: &str, pod: &str, error: Option<&Error>) {
        let name = name_of(&set.metadata);
        let (gravity, outcome) = match error {
            None => (EventType::Normal, "successful".to_owned()),
            Some(error) => (EventType::Warning, format!("failed error: {}", error.message())),
        };
        let reason = match (verb, error.is_some()) {
            ("Create", false) => "SuccessfulCreate",
            ("Create", true) => "FailedCreate",
            ("Delete", false) => "SuccessfulDelete",
            ("Delete", true) => "FailedDelete",
            (_, false) => "SuccessfulUpdate",
            (_, true) => "FailedUpdate",
        };
        self.recorder.say(set, gravity, reason, format!("{verb} Pod {pod} in StatefulSet {name} {outcome}"));
    }
}

/// Returns true when the pod with a number is made from the revision that pods had before: as long as the update has
/// not come to it, or is kept from it.
fn is_of_current_revision(set: &StatefulSet, number: i32) -> bool {
    let strategy = set.spec.update_strategy.as_ref();
    if strategy.and_then(|strategy| strategy.type_.as_deref()) == Some("OnDelete") {
        return false;
    }
    let place = number - ordinal::first(set);
    match strategy.and_then(|strategy| strategy.rolling_update.as_ref()) {
        None => place < set.status.as_ref().and_then(|status| status.current_replicas).unwrap_or(0),
        Some(rolling) => place < rolling.partition.unwrap_or(0),
    }
}
