//! The rules of each kind for a write: seen on the reference, kind by kind.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::super::Definition;

/// When `metadata.generation` moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    /// There is none.
    Never,
    /// 1 from the start, for ever.
    Fixed,
    /// With anything but metadata and status.
    Spec,
    /// Like `Spec`, but there is none before the first change.
    SpecFromZero,
    /// With the spec and with annotations.
    SpecAndAnnotations,
    /// With the spec and with labels.
    SpecAndLabels,
}

/// The fields besides the status that a write of `/status` may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusWrites {
    /// There is no status of its own.
    Nothing,
    /// Metadata.
    Metadata,
    /// Metadata without labels.
    NoLabels,
    /// Metadata without owners.
    NoOwners,
    /// Only the status.
    OnlyStatus,
}

/// The choice if a PUT must name the version that it replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Versions {
    /// It may.
    Optional,
    /// It must.
    Required,
}

/// The rules of a kind.
#[derive(Clone, Copy, Debug)]
pub struct StrategyRules {
    /// When the generation moves.
    pub generation: Generation,
    /// The fields that a write of the status may change.
    pub status: StatusWrites,
    /// The choice if a PUT must name a version.
    pub versions: Versions,
}

/// Kind, generation, status, versions. A kind that is not here has neither generation nor status.
const TABLE: &str = "
MutatingWebhookConfiguration.admissionregistration.k8s.io     spec        -         required
ValidatingWebhookConfiguration.admissionregistration.k8s.io   spec        -         required
ValidatingAdmissionPolicy.admissionregistration.k8s.io        spec        only      required
ValidatingAdmissionPolicyBinding.admissionregistration.k8s.io spec        -         required
MutatingAdmissionPolicy.admissionregistration.k8s.io          spec        -         required
MutatingAdmissionPolicyBinding.admissionregistration.k8s.io   spec        -         required
CustomResourceDefinition.apiextensions.k8s.io                 spec        only      required
APIService.apiregistration.k8s.io                             -           only      required
DaemonSet.apps                                                spec        metadata  optional
Deployment.apps                                               annotations nolabels  optional
ReplicaSet.apps                                               spec        metadata  optional
StatefulSet.apps                                              spec        metadata  optional
HorizontalPodAutoscaler.autoscaling                           -           metadata  optional
CronJob.batch                                                 spec        metadata  optional
Job.batch                                                     spec        metadata  optional
CertificateSigningRequest.certificates.k8s.io                 -           only      optional
Lease.coordination.k8s.io                                     -           -         required
EndpointSlice.discovery.k8s.io                                labels      -         optional
FlowSchema.flowcontrol.apiserver.k8s.io                       spec        only      optional
PriorityLevelConfiguration.flowcontrol.apiserver.k8s.io       spec        only      optional
Ingress.networking.k8s.io                                     spec        metadata  optional
IngressClass.networking.k8s.io                                spec        -         optional
NetworkPolicy.networking.k8s.io                               spec        -         optional
ServiceCIDR.networking.k8s.io                                 -           only      optional
RuntimeClass.node.k8s.io                                      -           -         required
PodDisruptionBudget.policy                                    spec        metadata  required
DeviceClass.resource.k8s.io                                   spec        -         optional
ResourceClaim.resource.k8s.io                                 -           only      optional
ResourceSlice.resource.k8s.io                                 spec        -         optional
PriorityClass.scheduling.k8s.io                               fixed       -         optional
CSIDriver.storage.k8s.io                                      zero        -         required
CSINode.storage.k8s.io                                        -           -         required
CSIStorageCapacity.storage.k8s.io                             -           -         required
VolumeAttachment.storage.k8s.io                               -           only      required
Namespace                                                     -           metadata  optional
Node                                                          -           metadata  optional
PersistentVolume                                              -           metadata  optional
PersistentVolumeClaim                                         -           metadata  optional
Pod                                                           spec        noowners  optional
PodTemplate                                                   spec        -         optional
ReplicationController                                         spec        metadata  optional
ResourceQuota                                                 -           metadata  optional
Service                                                       -           metadata  optional
";

/// Returns the rules of a kind; of a custom one by its definition.
pub fn of(definition: &Definition) -> StrategyRules {
    if let Some(custom) = &definition.custom {
        let status = if custom.status { StatusWrites::OnlyStatus } else { StatusWrites::Nothing };
        return StrategyRules { generation: Generation::Spec, status, versions: Versions::Required };
    }
    static READ: LazyLock<BTreeMap<&str, StrategyRules>> = LazyLock::new(|| TABLE.lines().filter_map(line).collect());
    let other =
        StrategyRules { generation: Generation::Never, status: StatusWrites::Nothing, versions: Versions::Optional };
    let found = if definition.group.is_empty() {
        READ.get(definition.kind.as_str())
    } else {
        READ.get(format!("{}.{}", definition.kind, definition.group).as_str())
    };
    found.copied().unwrap_or(other)
}

fn line(line: &'static str) -> Option<(&'static str, StrategyRules)> {
    let mut words = line.split_whitespace();
    let kind = words.next()?;
    let generation = match words.next()? {
        "spec" => Generation::Spec,
        "fixed" => Generation::Fixed,
        "zero" => Generation::SpecFromZero,
        "annotations" => Generation::SpecAndAnnotations,
        "labels" => Generation::SpecAndLabels,
        _ => Generation::Never,
    };
    let status = match words.next()? {
        "metadata" => StatusWrites::Metadata,
        "nolabels" => StatusWrites::NoLabels,
        "noowners" => StatusWrites::NoOwners,
        "only" => StatusWrites::OnlyStatus,
        _ => StatusWrites::Nothing,
    };
    let versions = if words.next()? == "required" { Versions::Required } else { Versions::Optional };
    Some((kind, StrategyRules { generation, status, versions }))
}

#[cfg(test)]
mod tests {
    use super::{TABLE, line};
    use kube_facts::facts;

    #[test]
    fn every_rule_is_of_a_kind() {
        for (name, _) in TABLE.lines().filter_map(line) {
            let (kind, group) = name.split_once('.').unwrap_or((name, ""));
            assert!(facts().kinds.iter().any(|known| known.kind == kind && known.group == group), "{name}");
        }
    }

    #[test]
    fn every_kind_with_a_status_has_a_rule() {
        for kind in facts().kinds.iter().filter(|kind| kind.subresources.iter().any(|sub| sub.name == "status")) {
            let name = if kind.group.is_empty() { kind.kind.clone() } else { format!("{}.{}", kind.kind, kind.group) };
            assert!(TABLE.lines().filter_map(line).any(|(known, _)| known == name), "{name}");
        }
    }
}
