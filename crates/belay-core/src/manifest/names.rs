//! The names and labels that an API server accepts.

/// The fault of a name; the messages say what is allowed.
pub(super) type Fault = &'static str;

const SUBDOMAIN: Fault =
    "may only have lower case letters, digits, - and ., and begins and ends with a letter or digit";
const LABEL: Fault = "may only have lower case letters, digits and -, and begins and ends with a letter or digit";
const TOO_LONG_63: Fault = "has more than 63 characters";
const TOO_LONG_253: Fault = "has more than 253 characters";

/// Returns the fault in the name of an object of a kind.
pub(super) fn object_name(group: &str, kind: &str, name: &str) -> Option<Fault> {
    match (group, kind) {
        ("" | "core", "Namespace" | "Service") => dns_label(name),
        ("batch", "CronJob") if name.len() > 52 => Some("has more than 52 characters, which its Jobs' names need"),
        ("rbac.authorization.k8s.io", _) | ("policy", "PodDisruptionBudget") => segment(name),
        _ if is_subdomain_kind(group, kind) => subdomain(name),
        _ => segment(name),
    }
}

/// Kinds whose names were seen to be checked as subdomains; custom kinds are, all of them.
fn is_subdomain_kind(group: &str, kind: &str) -> bool {
    match group {
        "" => matches!(
            kind,
            "ConfigMap"
                | "Secret"
                | "ServiceAccount"
                | "ResourceQuota"
                | "LimitRange"
                | "PersistentVolume"
                | "PersistentVolumeClaim"
                | "Endpoints"
                | "Pod"
                | "ReplicationController"
                | "PodTemplate"
        ),
        "apps" | "batch" | "autoscaling" => true,
        "networking.k8s.io" => matches!(kind, "Ingress" | "IngressClass" | "NetworkPolicy"),
        "storage.k8s.io" => matches!(kind, "StorageClass" | "CSIDriver"),
        "scheduling.k8s.io" | "node.k8s.io" | "coordination.k8s.io" | "discovery.k8s.io" => true,
        "admissionregistration.k8s.io" | "flowcontrol.apiserver.k8s.io" | "apiextensions.k8s.io" => true,
        "apiregistration.k8s.io" => true,
        group => group.contains('.') && !group.ends_with(".k8s.io"),
    }
}

/// Returns the fault in the name of an API group; the empty one is Kubernetes' own first group.
pub(super) fn api_group(group: &str) -> Option<Fault> {
    if group.is_empty() { None } else { subdomain(group) }
}

/// Returns the fault in the name of a version: a DNS label that begins with a letter.
pub(super) fn api_version(version: &str) -> Option<Fault> {
    match version {
        version if version.len() > 63 => Some(TOO_LONG_63),
        version if !is_label(version) || !version.starts_with(|c: char| c.is_ascii_lowercase()) => {
            Some("may only have lower case letters, digits and -, begins with a letter and ends with a letter or digit")
        }
        _ => None,
    }
}

/// Returns the fault in a kind: the rules are those of a version, but capitals are allowed.
pub(super) fn kind(kind: &str) -> Option<Fault> {
    match api_version(&kind.to_ascii_lowercase()) {
        Some(TOO_LONG_63) => Some(TOO_LONG_63),
        Some(_) => Some("may only have letters, digits and -, begins with a letter and ends with a letter or digit"),
        None => None,
    }
}

/// Returns the fault in a name that stands in a path.
pub(super) fn segment(name: &str) -> Option<Fault> {
    match name {
        "" => Some("is empty"),
        "." | ".." => Some("may not be . or .."),
        name if name.contains(['/', '%']) => Some("may not have / or %"),
        name if name.chars().any(char::is_control) => Some("may not have control characters"),
        _ => None,
    }
}

/// Returns the fault in a DNS label, the name of a namespace.
pub(super) fn dns_label(name: &str) -> Option<Fault> {
    match name {
        name if name.len() > 63 => Some(TOO_LONG_63),
        name if !is_label(name) => Some(LABEL),
        _ => None,
    }
}

fn subdomain(name: &str) -> Option<Fault> {
    match name {
        name if name.len() > 253 => Some(TOO_LONG_253),
        name if !name.split('.').all(is_label) => Some(SUBDOMAIN),
        _ => None,
    }
}

fn is_label(part: &str) -> bool {
    let edge = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    edge(part.bytes().next())
        && edge(part.bytes().next_back())
        && part.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

/// Returns the fault in the key of a label.
pub(super) fn label_key(key: &str) -> Option<Fault> {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    if prefix.is_some_and(|prefix| subdomain(prefix).is_some()) {
        return Some("needs a domain before its /, in lower case");
    }
    match name {
        "" => Some("is empty"),
        name if name.len() > 63 => Some(TOO_LONG_63),
        name if !is_qualified(name) => {
            Some("may only have letters, digits, -, _ and ., and begins and ends with a letter or digit")
        }
        _ => None,
    }
}

/// Returns the fault in the key of an annotation: as for a label, but the domain may have capitals.
pub(super) fn annotation_key(key: &str) -> Option<Fault> {
    label_key(&key.to_lowercase())
}

/// Returns the fault in the value of a label.
pub(super) fn label_value(value: &str) -> Option<Fault> {
    match value {
        "" => None,
        value if value.len() > 63 => Some(TOO_LONG_63),
        value if !is_qualified(value) => {
            Some("may only have letters, digits, -, _ and ., and begins and ends with a letter or digit")
        }
        _ => None,
    }
}

fn is_qualified(part: &str) -> bool {
    let edge = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    edge(part.bytes().next())
        && edge(part.bytes().next_back())
        && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_their_kind() {
        let fine = |group: &str, kind: &str, name: &str| object_name(group, kind, name).is_none();
        assert!(
            fine("apps", "Deployment", "a.b-1")
                && !fine("apps", "Deployment", "a_b")
                && !fine("apps", "Deployment", "A")
        );
        assert!(fine("", "Namespace", "1a") && !fine("", "Namespace", "a.b") && !fine("", "Service", "a.b"));
        assert!(
            fine("rbac.authorization.k8s.io", "Role", "system:x Y")
                && !fine("rbac.authorization.k8s.io", "Role", "a/b")
        );
        let (long, longest) = ("a".repeat(53), "a".repeat(63));
        assert!(!fine("batch", "CronJob", &long) && fine("batch", "Job", &longest));
        assert!(fine("example.com", "Thing", "a.b") && !fine("example.com", "Thing", "a:b"));
    }

    #[test]
    fn groups_versions_and_kinds() {
        for group in ["", "apps", "ex.example.com", "1a.b"] {
            assert_eq!(api_group(group), None, "{group}");
        }
        for group in ["ex.ample com", "A.b", ".a", "a..b", "a/b", "a\u{7f}", "ü.de", &"a".repeat(254)] {
            assert!(api_group(group).is_some(), "{group}");
        }
        for version in ["v1", "v1beta1", "a-b"] {
            assert_eq!(api_version(version), None, "{version}");
        }
        for version in ["", "1", "v1 ", "V1", "v1.2", "-a", "a-", "v?", &"a".repeat(64)] {
            assert!(api_version(version).is_some(), "{version}");
        }
        assert!(kind("HTTPRoute").is_none() && kind("a-B1").is_none());
        assert!(
            kind("A b").is_some() && kind("9a").is_some() && kind("Ü").is_some() && kind(&"A".repeat(64)).is_some()
        );
    }

    #[test]
    fn labels() {
        assert_eq!(label_key("app.kubernetes.io/name"), None);
        assert!(label_key("Foo.com/x").is_some() && annotation_key("Foo.com/x").is_none());
        assert!(label_key("a b").is_some() && label_key("a/").is_some() && label_key("a/b/c").is_some());
        assert!(label_value("").is_none() && label_value("1.2_3").is_none() && label_value("-a").is_some());
    }
}
