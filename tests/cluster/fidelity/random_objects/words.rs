//! The words that random objects are made of, by the names of fields: sound ones, and broken ones.

/// Texts for a field.
#[derive(Clone, Copy)]
pub struct Words {
    /// Words that are mostly good.
    pub sound: &'static [&'static str],
    /// Words that are mostly not.
    pub broken: &'static [&'static str],
}

const fn words(sound: &'static [&'static str], broken: &'static [&'static str]) -> Words {
    Words { sound, broken }
}

/// An expression that evaluates to a JSON patch.
const PATCH: &str = r#"[JSONPatch{op: "test", path: "/a", value: "b"}]"#;

/// Keys of a map.
pub fn keys(name: &str) -> Words {
    match name {
        "limits"
        | "requests"
        | "overhead"
        | "capacity"
        | "hard"
        | "allocatable"
        | "podFixed"
        | "max"
        | "min"
        | "default"
        | "defaultRequest"
        | "maxLimitRequestRatio"
        | "used"
        | "allocatedResources" => words(
            &["cpu", "memory", "ephemeral-storage", "a.b/gpu", "hugepages-2Mi", "pods", "storage"],
            &["x", "A B", "kubernetes.io/x"],
        ),
        _ => words(&["a", "b", "app", "x.y/z"], &["A B", "", "-x", "a/b/c"]),
    }
}

/// Whole numbers.
pub fn numbers(name: &str) -> (&'static [i64], &'static [i64]) {
    match name {
        "mode" | "defaultMode" => (&[420, 0, 511], &[-1, 512]),
        _ if name.ends_with("ort") => (&[80, 443, 8080], &[0, -1, 65536]),
        "weight" => (&[1, 100], &[0, 101]),
        _ => (&[0, 1, 2, 30, 700], &[-1, 2_147_483_647]),
    }
}

/// Texts of a field.
pub fn texts(name: &str) -> Words {
    match name {
        "protocol" => words(&["TCP", "UDP", "SCTP"], &["tcp", ""]),
        "scheme" => words(&["HTTP", "HTTPS"], &["http"]),
        "image" => words(
            &["web:1", "web", "a.b/c@sha256:0123456789012345678901234567890123456789012345678901234567890123"],
            &["", " x", "UP"],
        ),
        "path" | "mountPath" | "devicePath" => words(&["/x", "x/y", "/"], &["", "../x", "..x", "/a/../b"]),
        "subPath" | "subPathExpr" => words(&["x", "x/y"], &["/x", "../x"]),
        "ip" | "hostIP" | "nameservers" | "podIP" | "clusterIP" | "addresses" | "externalIPs" => words(
            &["10.0.0.77", "fd00::1", "192.168.7.9"],
            &["x", "", "010.0.0.1", "127.0.0.1", "0.0.0.0", "FD00::2", "::ffff:10.0.0.9"],
        ),
        "cidr" | "podCIDR" | "cidrs" | "podCIDRs" | "except" | "loadBalancerSourceRanges" => words(
            &["10.0.0.0/24", "fd00::/64", "192.168.0.0/16"],
            &["x", "", "10.0.0.1", "10.0.0.1/24", "1.2.3.4/33", "FD00::/64", "010.0.0.0/8"],
        ),
        "operator" => words(&["In", "NotIn", "Exists", "DoesNotExist", "Equal", "Gt", "Lt"], &["", "Nonsense"]),
        "resource" => words(&["limits.cpu", "requests.memory", "limits.ephemeral-storage"], &["", "cpu"]),
        "fieldPath" => words(
            &["metadata.name", "metadata.labels['a']", "spec.nodeName", "status.podIP"],
            &["", "x", "metadata.labels['A B']", "spec.x['a']"],
        ),
        "finalizers" => words(&["a.b/c", "a.b/d"], &["x", "", "orphan"]),
        "apiVersion" => words(&["v1"], &["", "v2"]),
        "effect" => words(&["NoSchedule", "NoExecute", "PreferNoSchedule", ""], &["x"]),
        "labels" | "matchLabels" | "nodeSelector" | "values" => words(&["b", "c", "1"], &["A B", "-"]),
        "type" => words(&["a", "b"], &["", "x"]),
        "schedule" => words(&["*/5 * * * *", "@daily", "0 3 * * 1-5"], &["", "x", "61 * * * *", "TZ=UTC * * * * *"]),
        "timeZone" => words(&["Europe/Berlin", "Etc/UTC", "America/New_York"], &["", "local", "Nowhere/X", "../x"]),
        "accessModes" => words(&["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany"], &["x", "ReadWriteOncePod"]),
        "verbs" => words(&["get", "list", "*"], &["", "GET"]),
        "addressType" => words(&["IPv4", "IPv6", "FQDN"], &["", "x"]),
        "scopes" | "scopeName" => {
            words(&["BestEffort", "NotBestEffort", "Terminating", "NotTerminating", "PriorityClass"], &["x", ""])
        }
        "host" | "hosts" | "externalName" | "hostname" | "fqdn" => {
            words(&["a.b", "x.y.z", "a"], &["A", "", "a_b", "*.a.b", "*", "10.0.0.1"])
        }
        "provisioner" | "controller" | "driver" | "attacher" => words(&["a.b/c", "a.b"], &["", "A B", "a/b/c"]),
        "apiGroup" | "group" => words(&["a.b", "apps", ""], &["A", "a_b"]),
        // Expressions are told and not compiled (docs/limits.md), so all of them are sound.
        "expression of applyConfiguration" => words(&["Object{}"], &["Object{}"]),
        "expression of jsonPatch" => words(&[PATCH], &[PATCH]),
        "expression of cel" => words(&["true"], &["true"]),
        _ if name == "expression" || name.starts_with("expression of ") => words(&["true"], &["true", " "]),
        "jsonPath" => {
            words(&[".spec.a", ".spec.b", ".status.a", ".spec"], &["", "spec.a", ".a[", "[a]", ".metadata.name", "."])
        }
        "specReplicasPath" => words(&[".spec.a", ".spec.b.c"], &["", ".spec", ".status.a", "a"]),
        "statusReplicasPath" => words(&[".status.a", ".status.b.c"], &["", ".status", ".spec.a", "a"]),
        "labelSelectorPath" => words(&[".status.a", ".spec.b"], &["", ".status", ".x.y", "a"]),
        "type of additionalPrinterColumns" => words(&["string", "integer", "date"], &["", "object"]),
        "format of additionalPrinterColumns" => words(&["int32", "date", "password"], &["", "x"]),
        "allocationMode" => words(&["All", "ExactCount"], &["", "x"]),
        "matchAttribute" | "distinctAttribute" => words(&["a.b/c", "x.y/z"], &["a", "a/b/c", "", "/a", "a/"]),
        "shareID" => words(
            &["01234567-89ab-cdef-0123-456789abcdef", "01234567-89ab-cdef-0123-456789abcde0"],
            &["", "x", "01234567-89AB-cdef-0123-456789abcdef", "0123456789ab-cdef-0123-456789abcdef--"],
        ),
        "version" => words(&["1.0.0", "1.2.3-a.1+b"], &["1", "01.0.0", ""]),
        "ips" => words(&["10.0.0.1/24", "fd00::1/64"], &["10.0.0.1", "x", "010.0.0.1/24", "FD00::1/64"]),
        "extendedResourceName" => words(&["a.b/c", "x.y/gpu"], &["a", "kubernetes.io/x", "", "requests.x/y"]),
        "source" => words(&["FromClaim", "FromClass"], &["", "x"]),
        "conversionReviewVersions" => words(&["v1", "v1beta1", "v2"], &["", "V1", "v1.2"]),
        "strategy" => words(&["None", "Webhook"], &["", "x"]),
        "plural" | "singular" | "shortNames" | "categories" => words(&["a", "foo", "x-1"], &["A", "", "a_b", "1"]),
        "listKind" => words(&["FooList", "A"], &["", "a_b", "1", "Foo"]),
        "messageExpression" | "valueExpression" => words(&["'a'"], &["'a'"]),
        _ => words(&["a", "b", "c", "x-1"], &["A", "", "a_b", "a.b/c", "-", "é"]),
    }
}
