//! The containers of a pod.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::super::super::value_ext::ValueExt;
use super::super::errors::{Errors, Path};
use super::super::names;
use super::paths::local_path;
use super::probes::{self, Probe};
use super::volumes::PodVolumes;
use super::{env, resources, security};

/// The common facts of containers.
pub struct ValidatedPod<'a> {
    /// Its spec.
    pub spec: &'a Value,
    /// Its volumes.
    pub volumes: &'a PodVolumes<'a>,
    /// The names of its resource claims.
    pub claims: Vec<&'a str>,
    /// The time that it has to stop, in seconds.
    pub grace_period: i64,
}

/// Checks the main containers.
pub fn main(pod: &ValidatedPod<'_>, at: &Path<'_>, errors: &mut Errors) {
    let containers = pod.spec.list("containers");
    if containers.is_empty() {
        errors.required(at, "");
        return;
    }
    let mut names = BTreeSet::new();
    for (index, container) in containers.iter().enumerate() {
        let at = at.index(index);
        all(pod, container, &at, errors);
        let name = container.text("name");
        if !names.insert(name) {
            errors.duplicate(&at.field("name"), name);
        }
        if let Some(lifecycle) = container.some("lifecycle") {
            probes::lifecycle(lifecycle, pod.grace_period, &at.field("lifecycle"), errors);
        }
        probes::probe(Probe::Liveness, &container["livenessProbe"], &at.field("livenessProbe"), errors);
        probes::probe(Probe::Readiness, &container["readinessProbe"], &at.field("readinessProbe"), errors);
        probes::probe(Probe::Startup, &container["startupProbe"], &at.field("startupProbe"), errors);
        restart_policy(container, &at, errors);
    }
    host_ports(containers, at, errors);
}

fn restart_policy(container: &Value, at: &Path<'_>, errors: &mut Errors) {
    let rules = container.list("restartPolicyRules");
    match container.some("restartPolicy").and_then(Value::as_str) {
        Some(policy) => {
            if !["Always", "Never", "OnFailure"].contains(&policy) {
                errors.not_supported(&at.field("restartPolicy"), policy, &["Always", "Never", "OnFailure"]);
            }
        }
        None => {
            if !rules.is_empty() {
                errors.required(&at.field("restartPolicy"), "must specify restartPolicy when restart rules are used");
            }
        }
    }
    let list = at.field("restartPolicyRules");
    if rules.len() > 20 {
        errors.too_long(&list, 20);
    }
    for (index, rule) in rules.iter().enumerate() {
        let at = list.index(index);
        if rule.text("action") != "Restart" && rule.text("action") != "RestartAllContainers" {
            errors.not_supported(&at.field("action"), rule.text("action"), &["Restart", "RestartAllContainers"]);
        }
        let Some(codes) = rule.some("exitCodes") else {
            errors.required(&at.field("exitCodes"), "must be specified");
            continue;
        };
        let operator = codes.text("operator");
        if !["In", "NotIn"].contains(&operator) {
            errors.not_supported(&at.field("exitCodes").field("operator"), operator, &["In", "NotIn"]);
        }
    }
}

/// Checks the init containers.
pub fn init(pod: &ValidatedPod<'_>, list: &Path<'_>, errors: &mut Errors) {
    let mut names: BTreeSet<&str> =
        pod.spec.list("containers").iter().map(|container| container.text("name")).collect();
    let containers = pod.spec.list("initContainers");
    for (index, container) in containers.iter().enumerate() {
        let at = list.index(index);
        all(pod, container, &at, errors);
        let sidecar = container.text("restartPolicy") == "Always";
        if container.has("restartPolicy") {
            restart_policy(container, &at, errors);
        } else if !container.list("restartPolicyRules").is_empty() {
            errors.required(&at.field("restartPolicy"), "must specify restartPolicy when restart rules are used");
        }
        let name = container.text("name");
        if !name.is_empty() && !names.insert(name) {
            errors.duplicate(&at.field("name"), name);
        }
        // Each is checked by itself, and so is the first.
        host_ports(std::slice::from_ref(container), list, errors);
        let kinds = [
            ("livenessProbe", Probe::Liveness),
            ("readinessProbe", Probe::Readiness),
            ("startupProbe", Probe::Startup),
        ];
        if sidecar {
            if let Some(lifecycle) = container.some("lifecycle") {
                probes::lifecycle(lifecycle, pod.grace_period, &at.field("lifecycle"), errors);
            }
            for (name, kind) in kinds {
                probes::probe(kind, &container[name], &at.field(name), errors);
            }
        } else {
            let told = "may not be set for init containers without restartPolicy=Always";
            for name in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
                if container.has(name) {
                    errors.forbidden(&at.field(name), told);
                }
            }
        }
    }
}

/// Checks the rules for every container.
pub fn all(pod: &ValidatedPod<'_>, container: &Value, at: &Path<'_>, errors: &mut Errors) {
    let name = container.text("name");
    if name.is_empty() {
        errors.required(&at.field("name"), "");
    } else {
        errors.each_invalid(&at.field("name"), name, &names::dns_1123_label(name));
    }
    if container.text("image").is_empty() {
        errors.required(&at.field("image"), "");
    }
    let policy = container.text("terminationMessagePolicy");
    if !["File", "FallbackToLogsOnError"].contains(&policy) {
        errors.not_supported(&at.field("terminationMessagePolicy"), policy, &["File", "FallbackToLogsOnError"]);
    }
    ports(container.list("ports"), &at.field("ports"), errors);
    env::variables(container.list("env"), &at.field("env"), errors);
    env::sources(container.list("envFrom"), &at.field("envFrom"), errors);
    mounts(pod, container, &at.field("volumeMounts"), errors);
    devices(pod, container, &at.field("volumeDevices"), errors);
    let policy = container.text("imagePullPolicy");
    if !["Always", "IfNotPresent", "Never"].contains(&policy) {
        errors.not_supported(&at.field("imagePullPolicy"), policy, &["Always", "IfNotPresent", "Never"]);
    }
    resources::container(&container["resources"], &pod.claims, &at.field("resources"), errors);
    resize_policies(container, pod.spec, &at.field("resizePolicy"), errors);
    security::container(&container["securityContext"], pod.spec, &at.field("securityContext"), errors);
}

fn resize_policies(container: &Value, spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for (index, policy) in container.list("resizePolicy").iter().enumerate() {
        let item = at.index(index);
        let resource = policy.text("resourceName");
        if !seen.insert(resource) {
            errors.duplicate(&item, resource);
        }
        match resource {
            "cpu" | "memory" => {}
            "" => errors.required(at, ""),
            other => errors.not_supported(at, other, &["cpu", "memory"]),
        }
        match policy.text("restartPolicy") {
            "NotRequired" | "RestartContainer" => {}
            "" => errors.required(at, ""),
            other => errors.not_supported(at, other, &["NotRequired", "RestartContainer"]),
        }
        if spec.text("restartPolicy") == "Never" && policy.text("restartPolicy") != "NotRequired" {
            let detail = "must be 'NotRequired' when pod `restartPolicy` is 'Never'";
            errors.invalid(at, policy.text("restartPolicy"), detail);
        }
    }
}

fn ports(ports: &[Value], at: &Path<'_>, errors: &mut Errors) {
    let mut names = BTreeSet::new();
    for (index, port) in ports.iter().enumerate() {
        let at = at.index(index);
        let name = port.text("name");
        if !name.is_empty() {
            let said = names::port_name(name);
            if !said.is_empty() {
                errors.each_invalid(&at.field("name"), name, &said);
            } else if !names.insert(name) {
                errors.duplicate(&at.field("name"), name);
            }
        }
        let number = port.int("containerPort").unwrap_or_default();
        if number == 0 {
            errors.required(&at.field("containerPort"), "");
        } else {
            errors.each_invalid(&at.field("containerPort"), number, &names::port_number(number));
        }
        let host = port.int("hostPort").unwrap_or_default();
        if host != 0 {
            errors.each_invalid(&at.field("hostPort"), host, &names::port_number(host));
        }
        let protocol = port.text("protocol");
        if protocol.is_empty() {
            errors.required(&at.field("protocol"), "");
        } else if !["SCTP", "TCP", "UDP"].contains(&protocol) {
            errors.not_supported(&at.field("protocol"), protocol, &["SCTP", "TCP", "UDP"]);
        }
    }
}

/// Ports of the host that two containers want.
fn host_ports(containers: &[Value], at: &Path<'_>, errors: &mut Errors) {
    let mut taken = BTreeSet::new();
    for (index, container) in containers.iter().enumerate() {
        let container_at = at.index(index);
        let ports = container_at.field("ports");
        for (index, port) in container.list("ports").iter().enumerate() {
            let host = port.int("hostPort").unwrap_or_default();
            if host == 0 {
                continue;
            }
            let key = format!("{}/{}/{host}", port.text("protocol"), port.text("hostIP"));
            if !taken.insert(key.clone()) {
                errors.duplicate(&ports.index(index).field("hostPort"), key.as_str());
            }
        }
    }
}

fn mounts(pod: &ValidatedPod<'_>, container: &Value, at: &Path<'_>, errors: &mut Errors) {
    let devices: BTreeMap<&str, &str> =
        container.list("volumeDevices").iter().map(|device| (device.text("name"), device.text("devicePath"))).collect();
    let device_paths: BTreeSet<&str> = devices.values().copied().collect();
    let mut paths = BTreeSet::new();
    let list = at;
    for (index, mount) in container.list("volumeMounts").iter().enumerate() {
        let at = list.index(index);
        let (name, path) = (mount.text("name"), mount.text("mountPath"));
        if name.is_empty() {
            errors.required(&at.field("name"), "");
        }
        if !pod.volumes.has(name) {
            errors.not_found(&at.field("name"), name);
        }
        if path.is_empty() {
            errors.required(&at.field("mountPath"), "");
        }
        if !paths.insert(path) {
            errors.invalid(&at.field("mountPath"), path, "must be unique");
        }
        if devices.contains_key(name) {
            errors.invalid(&at.field("name"), name, "must not already exist in volumeDevices");
        }
        if device_paths.contains(path) {
            errors.invalid(&at.field("mountPath"), path, "must not already exist as a path in volumeDevices");
        }
        let (sub, expression) = (mount.text("subPath"), mount.text("subPathExpr"));
        if !sub.is_empty() {
            local_path(sub, &list.field("subPath"), errors);
        }
        if !expression.is_empty() {
            if !sub.is_empty() {
                errors.invalid(&at.field("subPathExpr"), expression, "subPathExpr and subPath are mutually exclusive");
            }
            local_path(expression, &list.field("subPathExpr"), errors);
        }
        propagation(mount, container, &list.field("mountPropagation"), errors);
        recursive_read_only(mount, &list.field("recursiveReadOnly"), errors);
    }
}

fn propagation(mount: &Value, container: &Value, at: &Path<'_>, errors: &mut Errors) {
    let Some(mode) = mount.some("mountPropagation").and_then(Value::as_str) else { return };
    let known = ["Bidirectional", "HostToContainer", "None"];
    if !known.contains(&mode) {
        errors.not_supported(at, mode, &known);
    }
    if mode == "Bidirectional" && !container["securityContext"].flag("privileged") {
        errors.forbidden(at, "Bidirectional mount propagation is available only to privileged containers");
    }
}

fn recursive_read_only(mount: &Value, at: &Path<'_>, errors: &mut Errors) {
    let Some(mode) = mount.some("recursiveReadOnly").and_then(Value::as_str) else { return };
    match mode {
        "Disabled" => {}
        "Enabled" | "IfPossible" => {
            if !mount.flag("readOnly") {
                errors.forbidden(at, "may only be specified when readOnly is true");
            }
            if mount.some("mountPropagation").is_some_and(|propagation| propagation != "None") {
                errors.forbidden(at, "may only be specified when mountPropagation is None or not specified");
            }
        }
        other => errors.not_supported(at, other, &["Disabled", "Enabled", "IfPossible"]),
    }
}

fn devices(pod: &ValidatedPod<'_>, container: &Value, at: &Path<'_>, errors: &mut Errors) {
    let mounts: BTreeMap<&str, &str> =
        container.list("volumeMounts").iter().map(|mount| (mount.text("name"), mount.text("mountPath"))).collect();
    let mount_paths: BTreeSet<&str> = mounts.values().copied().collect();
    let (mut names, mut paths) = (BTreeSet::new(), BTreeSet::new());
    for (index, device) in container.list("volumeDevices").iter().enumerate() {
        let at = at.index(index);
        let (name, path) = (device.text("name"), device.text("devicePath"));
        if name.is_empty() {
            errors.required(&at.field("name"), "");
        }
        if !name.is_empty() && !names.insert(name) {
            errors.invalid(&at.field("name"), name, "must be unique");
        }
        match pod.volumes.source(name) {
            Some(source) if !["persistentVolumeClaim", "ephemeral"].contains(&source) => {
                let detail = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                errors.invalid(&at.field("name"), name, detail);
            }
            Some(_) => {}
            None => errors.not_found(&at.field("name"), name),
        }
        if path.is_empty() {
            errors.required(&at.field("devicePath"), "");
        }
        if paths.contains(path) {
            errors.invalid(&at.field("devicePath"), path, "must be unique");
        }
        if path.split('/').any(|part| part == "..") {
            errors.invalid(&at.field("devicePath"), path, "can not contain backsteps ('..')");
        } else {
            paths.insert(path);
        }
        if mounts.contains_key(name) {
            errors.invalid(&at.field("name"), name, "must not already exist in volumeMounts");
        }
        if mount_paths.contains(path) {
            errors.invalid(&at.field("devicePath"), path, "must not already exist as a path in volumeMounts");
        }
    }
}
