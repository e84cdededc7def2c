//! The claims of a StatefulSet's pods: made before the pods, and owned by whomever the retention policy says.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, PersistentVolumeClaimVolumeSource, PodSpec, Volume};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use super::ordinal;
use crate::controllers::key::{name_of, uid_of};
use crate::controllers::owner::controller_reference;
use crate::controllers::pod::Pod;

/// The owner of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// Nobody: it stays.
    Nobody,
    /// The set: it goes with the set.
    Set,
    /// The pod: it goes with the pod.
    Pod,
}

/// Returns the owner of the claims of the pod with a number.
pub fn owner_of(set: &StatefulSet, number: i32) -> Owner {
    let policy = set.spec.persistent_volume_claim_retention_policy.as_ref();
    let deletes = |when: Option<&String>| when.map(String::as_str) == Some("Delete");
    let with_set = deletes(policy.and_then(|policy| policy.when_deleted.as_ref()));
    let with_pod = deletes(policy.and_then(|policy| policy.when_scaled.as_ref()));
    match (with_set, with_pod && !ordinal::is_wanted(set, number)) {
        (_, true) => Owner::Pod,
        (true, false) => Owner::Set,
        (false, false) => Owner::Nobody,
    }
}

/// Returns the claims of the pod with a number.
pub fn of(set: &StatefulSet, number: i32) -> Vec<PersistentVolumeClaim> {
    let own = set.spec.selector.match_labels.clone().unwrap_or_default();
    let claim = |template: &PersistentVolumeClaim| {
        let mut labels = template.metadata.labels.clone().unwrap_or_default();
        labels.extend(own.clone());
        let owners = match owner_of(set, number) {
            Owner::Set => Some(vec![controller_reference::<StatefulSet>(&set.metadata)]),
            Owner::Nobody | Owner::Pod => None,
        };
        PersistentVolumeClaim {
            metadata: ObjectMeta {
                name: Some(ordinal::claim_name(set, name_of(&template.metadata), number)),
                namespace: set.metadata.namespace.clone(),
                labels: Some(labels),
                annotations: template.metadata.annotations.clone(),
                owner_references: owners,
                ..ObjectMeta::default()
            },
            spec: template.spec.clone(),
            status: None,
        }
    };
    set.spec.volume_claim_templates.iter().flatten().map(claim).collect()
}

/// Lets a pod's volumes stand for its claims.
pub fn mount(set: &StatefulSet, number: i32, spec: &mut PodSpec) {
    let templates = set.spec.volume_claim_templates.iter().flatten();
    let claims: BTreeMap<String, String> = templates
        .map(|template| name_of(&template.metadata).to_owned())
        .map(|template| (template.clone(), ordinal::claim_name(set, &template, number)))
        .collect();
    if claims.is_empty() {
        return;
    }
    let mut volumes: Vec<Volume> = claims
        .iter()
        .map(|(name, claim)| Volume {
            name: name.clone(),
            persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
                claim_name: claim.clone(),
                // The server leaves out `false`.
                read_only: None,
            }),
            ..Volume::default()
        })
        .collect();
    volumes.extend(spec.volumes.take().into_iter().flatten().filter(|volume| !claims.contains_key(&volume.name)));
    spec.volumes = Some(volumes);
}

/// Returns the owners that a claim should have, if they are not those that it has.
pub fn mended_owners(
    set: &StatefulSet,
    pod: &Pod,
    number: i32,
    claim: &PersistentVolumeClaim,
) -> Option<Vec<OwnerReference>> {
    let present = claim.metadata.owner_references.clone().unwrap_or_default();
    let is_ours = |owner: &OwnerReference| {
        owner.uid == uid_of(&set.metadata) || (owner.kind == "Pod" && owner.name == name_of(&pod.metadata))
    };
    let wanted = match owner_of(set, number) {
        Owner::Nobody => None,
        Owner::Set => Some(controller_reference::<StatefulSet>(&set.metadata)),
        Owner::Pod => Some(controller_reference::<Pod>(&pod.metadata)),
    };
    let mut mended: Vec<OwnerReference> = present.iter().filter(|owner| !is_ours(owner)).cloned().collect();
    // Somebody else controls it: it is not ours to give away.
    if mended.iter().any(|owner| owner.controller == Some(true)) {
        return None;
    }
    mended.extend(wanted);
    (mended != present).then_some(mended)
}

/// Returns true when a claim goes away together with an earlier pod of the same name.
pub fn is_stale(claim: &PersistentVolumeClaim, pod: &str, uid: Option<&str>) -> bool {
    let owners = claim.metadata.owner_references.iter().flatten();
    owners.into_iter().any(|owner| owner.kind == "Pod" && owner.name == pod && Some(owner.uid.as_str()) != uid)
}
