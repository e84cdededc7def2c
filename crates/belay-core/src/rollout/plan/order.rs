//! The ranks of kinds. Objects of one rank are applied side by side; a rank begins when the one before is through.

use crate::manifest::ObjectKey;

/// The place of an object in the order: 0 first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    /// Namespaces and definitions: others are in or of them.
    Definitions,
    /// Rights, and limits that must exist before the objects that they limit.
    Rights,
    /// Objects that workloads read or mount, and those by which they are reached.
    Configuration,
    /// Workloads, and kinds that belay knows nothing about.
    Workloads,
    /// Objects that point at workloads.
    Pointers,
}

/// Returns the rank of an object.
#[must_use]
pub fn rank(key: &ObjectKey) -> Rank {
    match (key.group.as_str(), key.kind.as_str()) {
        ("", "Namespace")
        | ("apiextensions.k8s.io", "CustomResourceDefinition")
        | ("scheduling.k8s.io", "PriorityClass")
        | ("storage.k8s.io" | "node.k8s.io", _) => Rank::Definitions,
        ("", "ServiceAccount" | "ResourceQuota" | "LimitRange") | ("rbac.authorization.k8s.io", _) => Rank::Rights,
        ("", "ConfigMap" | "Secret" | "Service" | "PersistentVolume" | "PersistentVolumeClaim" | "Endpoints")
        | ("networking.k8s.io", "NetworkPolicy")
        | ("policy", _) => Rank::Configuration,
        ("autoscaling" | "admissionregistration.k8s.io" | "apiregistration.k8s.io", _)
        | ("networking.k8s.io", "Ingress" | "IngressClass") => Rank::Pointers,
        _ => Rank::Workloads,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_come_before_what_is_in_them_and_pointers_last() {
        let key = |group: &str, kind: &str| ObjectKey {
            group: group.to_owned(),
            kind: kind.to_owned(),
            namespace: None,
            name: "x".to_owned(),
        };
        let mut keys = [
            key("autoscaling", "HorizontalPodAutoscaler"),
            key("apps", "Deployment"),
            key("", "ConfigMap"),
            key("", "ServiceAccount"),
            key("", "Namespace"),
        ];
        keys.sort_by_key(rank);
        let kinds: Vec<&str> = keys.iter().map(|key| key.kind.as_str()).collect();
        assert_eq!(kinds, ["Namespace", "ServiceAccount", "ConfigMap", "Deployment", "HorizontalPodAutoscaler"]);
    }
}
