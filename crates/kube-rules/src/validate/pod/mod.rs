//! Pods and pod templates.

pub mod affinity;
mod claims;
mod containers;
mod env;
mod ephemeral;
pub mod iscsi;
mod network;
mod paths;
mod probes;
pub mod resources;
mod security;
mod source_fields;
mod sources;
mod status;
mod update;
mod volumes;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::super::value_ext::ValueExt;
use super::errors::{Errors, Path};
use super::metadata;
use super::names;
use containers::ValidatedPod;
use volumes::PodSpecOwner;

pub use affinity::node_selector;
pub use status::{needs_spec as status_needs_spec, status};
pub use update::update;
pub use volumes::one as persistent_source;

/// Checks a new pod, its metadata apart.
pub fn create(pod: &Value, errors: &mut Errors) {
    let at = Path::root("spec");
    let spec = &pod["spec"];
    pod_spec(spec, PodSpecOwner::Pod, &at, errors);
    only_pods(spec, &at, errors);
    if !spec.list("ephemeralContainers").is_empty() {
        errors.forbidden(&at.field("ephemeralContainers"), "cannot be set on create");
    }
    if !spec.text("nodeName").is_empty() && !spec.list("schedulingGates").is_empty() {
        errors.forbidden(&at.field("nodeName"), "cannot be set until all schedulingGates have been cleared");
    }
}

/// Checks a pod template.
pub fn template(template: &Value, at: &Path<'_>, errors: &mut Errors) {
    let metadata = &template["metadata"];
    metadata::labels(metadata.entries("labels"), &at.field("labels"), errors);
    metadata::annotations(metadata.entries("annotations"), &at.field("annotations"), errors);
    pod_spec(&template["spec"], PodSpecOwner::Template, &at.field("spec"), errors);
    if !template["spec"].list("ephemeralContainers").is_empty() {
        errors.forbidden(
            &at.field("spec").field("ephemeralContainers"),
            "ephemeral containers not allowed in pod template",
        );
    }
}

/// Checks the rules for pods that do not hold for templates.
fn only_pods(spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    if spec.text("serviceAccountName").is_empty() {
        let volumes = at.field("volumes");
        for (index, volume) in spec.list("volumes").iter().enumerate() {
            let volume_at = volumes.index(index);
            let projected = volume_at.field("projected");
            let sources = projected.field("sources");
            for (index, source) in volume["projected"].list("sources").iter().enumerate() {
                if source.has("serviceAccountToken") {
                    let at = sources.index(index);
                    let detail = "must not be specified when serviceAccountName is not set";
                    errors.forbidden(&at.field("serviceAccountToken"), detail);
                }
            }
        }
    }
    for containers in ["containers", "initContainers"] {
        let list = at.field(containers);
        for (index, container) in spec.list(containers).iter().enumerate() {
            let image = container.text("image");
            if image.trim() != image {
                errors.invalid(
                    &list.index(index).field("image"),
                    image,
                    "must not have leading or trailing whitespace",
                );
            }
        }
    }
}

/// Checks a pod's spec.
pub fn pod_spec(spec: &Value, of: PodSpecOwner, at: &Path<'_>, errors: &mut Errors) {
    let volumes = volumes::volumes(spec.list("volumes"), of, &at.field("volumes"), errors);
    claims::claims(spec.list("resourceClaims"), &at.field("resourceClaims"), errors);
    let pod = ValidatedPod {
        spec,
        volumes: &volumes,
        claims: spec
            .list("resourceClaims")
            .iter()
            .map(|claim| claim.text("name"))
            .filter(|name| !name.is_empty())
            .collect(),
        grace_period: spec.int("terminationGracePeriodSeconds").unwrap_or_default(),
    };
    containers::main(&pod, &at.field("containers"), errors);
    containers::init(&pod, &at.field("initContainers"), errors);
    ephemeral::containers(&pod, &at.field("ephemeralContainers"), errors);
    pod_resources(&pod, &at.field("resources"), errors);
    host_network(spec, at, errors);
    restart_policy(spec.text("restartPolicy"), &at.field("restartPolicy"), errors);
    network::dns_policy(spec.text("dnsPolicy"), &at.field("dnsPolicy"), errors);
    affinity::node_labels(&spec["nodeSelector"], &at.field("nodeSelector"), errors);
    security::pod(&spec["securityContext"], spec, &at.field("securityContext"), errors);
    pull_secrets(spec, &at.field("imagePullSecrets"), errors);
    affinity::affinity(&spec["affinity"], &at.field("affinity"), errors);
    network::dns_config(&spec["dnsConfig"], spec.text("dnsPolicy"), &at.field("dnsConfig"), errors);
    gates(spec, at, errors);
    affinity::spread(spec.list("topologySpreadConstraints"), &at.field("topologySpreadConstraints"), errors);
    host_process(spec, at, errors);
    own_users(spec, at, errors);
    hostname_override(spec, &at.field("hostnameOverride"), errors);
    names_and_numbers(spec, at, errors);
    if !spec.list("tolerations").is_empty() {
        affinity::tolerations(spec.list("tolerations"), &at.field("tolerations"), errors);
    }
    network::host_aliases(spec.list("hostAliases"), &at.field("hostAliases"), errors);
    classes(spec, at, errors);
    files(&pod, at, errors);
}

/// Volumes that variables are read from.
fn files(pod: &ValidatedPod<'_>, at: &Path<'_>, errors: &mut Errors) {
    let mut volumes: BTreeMap<&str, &Value> = BTreeMap::new();
    for volume in pod.spec.list("volumes") {
        volumes.entry(volume.text("name")).or_insert(volume);
    }
    for kind in ["initContainers", "containers", "ephemeralContainers"] {
        let list = at.field(kind);
        for (index, container) in pod.spec.list(kind).iter().enumerate() {
            let container_at = list.index(index);
            let env = container_at.field("env");
            for (index, variable) in container.list("env").iter().enumerate() {
                let Some(reference) = variable["valueFrom"].some("fileKeyRef") else { continue };
                let volume = reference.text("volumeName");
                let variable_at = env.index(index);
                let at = variable_at.field("valueFrom.fileKeyRef.volumeName");
                match volumes.get(volume) {
                    None => errors.not_found(&at, volume),
                    Some(found) if found.has("emptyDir") => {}
                    Some(_) => errors.invalid(&at, volume, "referenced volume must be of type emptyDir"),
                }
            }
        }
    }
}

/// Returns every container's place and itself.
fn each_container(spec: &Value) -> impl Iterator<Item = (&'static str, usize, &Value)> {
    let kinds = ["initContainers", "containers", "ephemeralContainers"];
    kinds
        .into_iter()
        .flat_map(|kind| spec.list(kind).iter().enumerate().map(move |(index, container)| (kind, index, container)))
}

/// On Windows, containers are processes of the host all or none.
fn host_process(spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    let flag = |of: &Value| of["securityContext"]["windowsOptions"].get("hostProcess").and_then(Value::as_bool);
    let of_the_pod = flag(spec);
    let (mut all, mut processes) = (0, 0);
    for (kind, index, container) in each_container(spec) {
        all += 1;
        let own = flag(container);
        if let (Some(pod), Some(own)) = (of_the_pod, own)
            && pod != own
        {
            let (list, detail) =
                (at.field(kind), format!("pod hostProcess value must be identical if both are specified, was {pod}"));
            let item = list.index(index);
            errors.invalid(&item.field("securityContext.windowsOptions.hostProcess"), own, &detail);
        }
        processes += usize::from(own.or(of_the_pod) == Some(true));
    }
    if processes > 0 {
        if processes != all {
            let detail =
                "If pod contains any hostProcess containers then all containers must be HostProcess containers";
            errors.invalid(at, "", detail);
        }
        if !spec.flag("hostNetwork") {
            let detail = "hostNetwork must be true if pod contains any hostProcess containers";
            errors.invalid(&at.field("hostNetwork"), false, detail);
        }
    }
}

/// Checks a pod with users of its own shares nothing with the host.
fn own_users(spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    if spec.get("hostUsers") != Some(&Value::Bool(false)) {
        return;
    }
    for (name, spelled) in [("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")] {
        if spec.flag(name) {
            errors.forbidden(&at.field(spelled), "when `hostUsers` is false");
        }
    }
    for (kind, index, container) in each_container(spec) {
        if !container.list("volumeDevices").is_empty() {
            let list = at.field(kind);
            errors.forbidden(&list.index(index).field("volumeDevices"), "when `hostUsers` is false");
        }
    }
}

fn hostname_override(spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    let Some(name) = spec.some("hostnameOverride").and_then(Value::as_str) else { return };
    if spec.flag("setHostnameAsFQDN") {
        errors.forbidden(at, "may not be specified when setHostnameAsFQDN is true");
    }
    if spec.flag("hostNetwork") {
        errors.forbidden(at, "may not be specified when hostNetwork is true");
    }
    errors.each_invalid(at, name, &names::dns_1123_subdomain(name));
    if name.len() > 64 {
        errors.too_long(at, 64);
    }
}

fn pod_resources(pod: &ValidatedPod<'_>, at: &Path<'_>, errors: &mut Errors) {
    if let Some(of_the_pod) = pod.spec.some("resources") {
        if !of_the_pod.list("claims").is_empty() {
            errors.forbidden(&at.field("claims"), "claims may not be set for Resources at pod-level");
        }
        resources::requirements(of_the_pod, resources::pod_name, at, errors);
        resources::claimed(of_the_pod, &pod.claims, at, errors);
        resources::of_containers(of_the_pod, pod.spec, at, errors);
    }
}

/// On the host's network a container's port must be the host's.
fn host_network(spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    if !spec.flag("hostNetwork") {
        return;
    }
    for containers in ["containers", "initContainers"] {
        let list = at.field(containers);
        for (index, container) in spec.list(containers).iter().enumerate() {
            let container_at = list.index(index);
            let ports = container_at.field("ports");
            for (index, port) in container.list("ports").iter().enumerate() {
                let host = port.int("hostPort").unwrap_or_default();
                if host != 0 && Some(host) != port.int("containerPort") {
                    let detail = "must match `containerPort` when `hostNetwork` is true";
                    errors.invalid(&ports.index(index).field("hostPort"), host, detail);
                }
            }
        }
    }
}

fn restart_policy(policy: &str, at: &Path<'_>, errors: &mut Errors) {
    match policy {
        "Always" | "OnFailure" | "Never" => {}
        "" => errors.required(at, ""),
        other => errors.not_supported(at, other, &["Always", "OnFailure", "Never"]),
    }
}

fn pull_secrets(spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    for (index, secret) in spec.list("imagePullSecrets").iter().enumerate() {
        // A reference without a name was always let through.
        if secret.as_object().is_some_and(|secret| secret.keys().any(|name| name != "name")) {
            errors.invalid(&at.index(index), secret, "only name may be set");
        }
    }
}

fn gates(spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    let list = at.field("readinessGates");
    for (index, gate) in spec.list("readinessGates").iter().enumerate() {
        let ty = gate.text("conditionType");
        errors.each_invalid(&list.index(index).field("conditionType"), ty, &names::qualified_name(ty));
    }
    let list = at.field("schedulingGates");
    let mut seen = BTreeSet::new();
    for (index, gate) in spec.list("schedulingGates").iter().enumerate() {
        let name = gate.text("name");
        errors.each_invalid(&list.index(index), name, &names::qualified_name(name));
        if !seen.insert(name) {
            errors.duplicate(&list.index(index), name);
        }
    }
}

fn names_and_numbers(spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    for (name, check) in
        [("serviceAccountName", names::object_name as fn(&str) -> names::NameProblem), ("nodeName", names::object_name)]
    {
        let value = spec.text(name);
        if !value.is_empty() {
            errors.each_invalid(&at.field(name), value, &check(value));
        }
    }
    if let Some(seconds) = spec.int("activeDeadlineSeconds")
        && !(1..=i64::from(i32::MAX)).contains(&seconds)
    {
        errors.invalid(&at.field("activeDeadlineSeconds"), seconds, "must be between 1 and 2147483647, inclusive");
    }
    for name in ["hostname", "subdomain"] {
        let value = spec.text(name);
        if !value.is_empty() {
            errors.each_invalid(&at.field(name), value, &names::dns_1123_label(value));
        }
    }
}

fn classes(spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    for name in ["priorityClassName", "runtimeClassName"] {
        if let Some(class) =
            spec.some(name).and_then(Value::as_str).filter(|class| !class.is_empty() || name == "runtimeClassName")
        {
            errors.each_invalid(&at.field(name), class, &names::object_name(class));
        }
    }
    if let Some(policy) = spec.some("preemptionPolicy").and_then(Value::as_str) {
        match policy {
            "PreemptLowerPriority" | "Never" => {}
            "" => errors.required(&at.field("preemptionPolicy"), ""),
            other => {
                errors.not_supported(&at.field("preemptionPolicy"), other, &["PreemptLowerPriority", "Never"]);
            }
        }
    }
    if let Some(overhead) = spec.some("overhead") {
        let limits = serde_json::json!({ "limits": overhead });
        resources::requirements(&limits, resources::container_name, &at.field("overhead"), errors);
    }
    if let Some(os) = spec.some("os") {
        match os.text("name") {
            "linux" | "windows" => {}
            "" => errors.required(&at.field("os").field("name"), ""),
            other => errors.not_supported(&at.field("os"), other, &["linux", "windows"]),
        }
    }
}
