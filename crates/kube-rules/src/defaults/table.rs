//! Defaults that depend on nothing else: type, field, value.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::Value;

/// One line a type: its name, then each field and its default in JSON.
const TABLE: &str = r#"
admissionregistration.v1.MutatingWebhook failurePolicy="Fail" matchPolicy="Equivalent" namespaceSelector={} objectSelector={} timeoutSeconds=10 reinvocationPolicy="Never"
admissionregistration.v1.ValidatingWebhook failurePolicy="Fail" matchPolicy="Equivalent" namespaceSelector={} objectSelector={} timeoutSeconds=10
admissionregistration.v1.RuleWithOperations scope="*"
admissionregistration.v1.NamedRuleWithOperations scope="*"
admissionregistration.v1.ServiceReference port=443
admissionregistration.v1.ValidatingAdmissionPolicySpec failurePolicy="Fail"
admissionregistration.v1.MutatingAdmissionPolicySpec failurePolicy="Fail"
admissionregistration.v1.MatchResources matchPolicy="Equivalent" namespaceSelector={} objectSelector={}
kube-aggregator.pkg.apis.apiregistration.v1.ServiceReference port=443
apiextensions-apiserver.pkg.apis.apiextensions.v1.ServiceReference port=443
apps.v1.DeploymentSpec replicas=1 revisionHistoryLimit=10 progressDeadlineSeconds=600
apps.v1.DeploymentStrategy type="RollingUpdate"
apps.v1.DaemonSetSpec revisionHistoryLimit=10
apps.v1.DaemonSetUpdateStrategy type="RollingUpdate"
apps.v1.ReplicaSetSpec replicas=1
apps.v1.StatefulSetSpec replicas=1 revisionHistoryLimit=10 podManagementPolicy="OrderedReady" persistentVolumeClaimRetentionPolicy={}
apps.v1.StatefulSetPersistentVolumeClaimRetentionPolicy whenDeleted="Retain" whenScaled="Retain"
autoscaling.v1.HorizontalPodAutoscalerSpec minReplicas=1
autoscaling.v2.HorizontalPodAutoscalerSpec minReplicas=1
batch.v1.PodFailurePolicyOnPodConditionsPattern status="True"
batch.v1.CronJobSpec concurrencyPolicy="Allow" suspend=false successfulJobsHistoryLimit=3 failedJobsHistoryLimit=1
core.v1.AzureDiskVolumeSource cachingMode="ReadWrite" kind="Shared" fsType="ext4" readOnly=false
core.v1.ConfigMapVolumeSource defaultMode=420
core.v1.Container terminationMessagePath="/dev/termination-log" terminationMessagePolicy="File"
core.v1.EphemeralContainer terminationMessagePath="/dev/termination-log" terminationMessagePolicy="File"
core.v1.ContainerPort protocol="TCP"
core.v1.DownwardAPIVolumeSource defaultMode=420
core.v1.EndpointPort protocol="TCP"
core.v1.GRPCAction service=""
core.v1.HostPathVolumeSource type=""
core.v1.HTTPGetAction path="/" scheme="HTTP"
core.v1.ISCSIVolumeSource iscsiInterface="default"
core.v1.ISCSIPersistentVolumeSource iscsiInterface="default"
core.v1.NamespaceStatus phase="Active"
core.v1.ObjectFieldSelector apiVersion="v1"
core.v1.PersistentVolumeStatus phase="Pending"
core.v1.PersistentVolumeClaimSpec volumeMode="Filesystem"
core.v1.PersistentVolumeClaimStatus phase="Pending"
core.v1.PodSpec dnsPolicy="ClusterFirst" restartPolicy="Always" securityContext={} terminationGracePeriodSeconds=30 schedulerName="default-scheduler"
core.v1.Probe timeoutSeconds=1 periodSeconds=10 successThreshold=1 failureThreshold=3
core.v1.ProjectedVolumeSource defaultMode=420
core.v1.RBDVolumeSource pool="rbd" user="admin" keyring="/etc/ceph/keyring"
core.v1.RBDPersistentVolumeSource pool="rbd" user="admin" keyring="/etc/ceph/keyring"
core.v1.ReplicationControllerSpec replicas=1
core.v1.ScaleIOVolumeSource storageMode="ThinProvisioned" fsType="xfs"
core.v1.ScaleIOPersistentVolumeSource storageMode="ThinProvisioned" fsType="xfs"
core.v1.Secret type="Opaque"
core.v1.SecretVolumeSource defaultMode=420
core.v1.FileKeySelector optional=false
core.v1.ServiceAccountTokenProjection expirationSeconds=3600
core.v1.ServicePort protocol="TCP"
core.v1.ServiceSpec sessionAffinity="None" type="ClusterIP"
discovery.v1.EndpointPort name="" protocol="TCP"
flowcontrol.v1.FlowSchemaSpec matchingPrecedence=1000
flowcontrol.v1.ExemptPriorityLevelConfiguration nominalConcurrencyShares=0 lendablePercent=0
flowcontrol.v1.LimitedPriorityLevelConfiguration nominalConcurrencyShares=30 lendablePercent=0
flowcontrol.v1.QueuingConfiguration queues=64 handSize=8 queueLengthLimit=50
networking.v1.IngressClassParametersReference scope="Cluster"
networking.v1.NetworkPolicyPort protocol="TCP"
resource.v1.DeviceToleration operator="Equal"
scheduling.v1.PriorityClass preemptionPolicy="PreemptLowerPriority"
storage.v1.StorageClass reclaimPolicy="Delete" volumeBindingMode="Immediate"
storage.v1.CSIDriverSpec attachRequired=true podInfoOnMount=false volumeLifecycleModes=["Persistent"] storageCapacity=false fsGroupPolicy="ReadWriteOnceWithFSType" requiresRepublish=false seLinuxMount=false
"#;

/// Returns the defaults of a type, `core.v1.PodSpec`.
pub fn of(name: &str) -> &'static [(String, Value)] {
    static READ: LazyLock<BTreeMap<String, Vec<(String, Value)>>> =
        LazyLock::new(|| TABLE.lines().filter_map(line).collect());
    READ.get(name).map_or(&[], Vec::as_slice)
}

fn line(line: &str) -> Option<(String, Vec<(String, Value)>)> {
    let mut words = line.split_whitespace();
    let name = words.next()?.to_owned();
    let default = |word: &str| {
        let (field, json) = word.split_once('=').expect("each default of the table has its field");
        (field.to_owned(), serde_json::from_str(json).expect("each default of the table is JSON"))
    };
    Some((name, words.map(default).collect()))
}

#[cfg(test)]
mod tests {
    use super::{TABLE, line};
    use kube_facts::{Type, facts};

    #[test]
    fn every_default_is_of_a_field() {
        for (name, defaults) in TABLE.lines().filter_map(line) {
            let full = [format!("io.k8s.api.{name}"), format!("io.k8s.{name}")];
            let ty = full.iter().find_map(|name| facts().named(name)).unwrap_or_else(|| panic!("{name} is no type"));
            let Type::Struct(inner) = ty else { panic!("{name} has no fields") };
            for (field, _) in defaults {
                assert!(inner.fields.contains_key(&field), "{name} has no {field}");
            }
        }
    }
}
