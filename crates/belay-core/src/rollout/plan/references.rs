//! The ConfigMaps and Secrets that a pod template names.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::manifest::{ObjectKey, hex};
use crate::rollout::{Change, Only, PlanStep, Planned, Wanted, Workload, template};

/// Returns true when an object is a ConfigMap or a Secret.
#[must_use]
pub fn is_configuration(key: &ObjectKey) -> bool {
    key.group.is_empty() && ["ConfigMap", "Secret"].contains(&key.kind.as_str())
}

/// The way in which the pods of a template read one ConfigMap or Secret.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::struct_excessive_bools, reason = "each is one way of reading, and a pod may use all")]
pub struct Reading {
    /// As environment: running pods keep the values of their start.
    pub environment: bool,
    /// As files mounted by `subPath`: running pods keep the files of their start.
    pub sub_path: bool,
    /// As files: the kubelet changes them, and the program has to read them again.
    pub files: bool,
    /// True when pods begin without it if it does not exist.
    pub optional: bool,
}

impl Reading {
    /// Returns true when running pods can't notice a change, whatever their program does.
    #[must_use]
    pub fn is_once(&self) -> bool {
        self.environment || self.sub_path
    }
}

/// A workload that reads a changed ConfigMap or Secret, and that is not rolled out for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Unnoticed {
    /// The workload.
    pub workload: ObjectKey,
    /// The way in which it is read.
    pub reading: Reading,
}

/// A change of the contents of a ConfigMap or Secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents {
    /// It is new.
    New,
    /// They become others.
    Other,
}

/// Returns how a plan changes the contents of a ConfigMap or Secret, if it does.
#[must_use]
pub fn changes_contents(key: &ObjectKey, action: &PlanStep) -> Option<Contents> {
    let PlanStep::Apply(apply) = action else { return None };
    let is_content = |change: &Change| change.path.starts_with("data") || change.path.starts_with("binaryData");
    match apply.creates {
        _ if !is_configuration(key) => None,
        true => Some(Contents::New),
        false => apply.changes.iter().any(is_content).then_some(Contents::Other),
    }
}

impl Unnoticed {
    /// Returns true when a workload that reads changed contents that way should be reported: its pods may run on
    /// without them. Without a new object they would not have begun, unless it is optional. A Job reads it once.
    #[must_use]
    pub fn is_to_be_told(workload: &ObjectKey, reading: Reading, contents: Contents) -> bool {
        let reads = reading.is_once() || reading.files;
        let began = contents == Contents::Other || reading.optional;
        Workload::of(workload).is_some_and(Workload::can_go_back) && reads && began
    }
}

impl fmt::Display for Unnoticed {
    /// Returns one sentence for people, with the command that helps.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Unnoticed { workload, reading } = self;
        let ways =
            [(reading.environment, "as environment"), (reading.sub_path, "by subPath"), (reading.files, "as files")];
        let ways: Vec<&str> = ways.iter().filter(|(used, _)| *used).map(|(_, way)| *way).collect();
        write!(f, "{workload} reads it {}", ways.join(" and "))?;
        f.write_str(if reading.optional { ", if it is there" } else { "" })?;
        f.write_str(match reading.is_once() {
            true => ", and will not notice before it restarts",
            false => ", which the kubelet changes, and may not notice before it restarts",
        })?;
        if workload.kind == "ReplicationController" {
            return Ok(());
        }
        write!(f, ": belay restart {}/{}", workload.kind.to_lowercase(), workload.name)?;
        workload.namespace.as_ref().map_or(Ok(()), |namespace| write!(f, " -n {namespace}"))
    }
}

/// Returns the ConfigMaps and Secrets that the programs of a pod template read, in environments and in volumes, and
/// how. Objects that only the kubelet reads, to pull images and to reach storage, are not among them.
#[must_use]
pub fn readings(template: &Value, namespace: Option<&str>) -> BTreeMap<ObjectKey, Reading> {
    let mut found: BTreeMap<ObjectKey, Reading> = BTreeMap::new();
    let spec = &template["spec"];
    let mut read = |reference: &Value, field: &str, kind: &'static str, how: Reading| {
        let Some(name) = reference[field].as_str().filter(|name| !name.is_empty()) else { return };
        let optional = reference["optional"] == true;
        found
            .entry(key(kind, name, namespace))
            .and_modify(|known| {
                known.environment |= how.environment;
                known.sub_path |= how.sub_path;
                known.files |= how.files;
                known.optional &= optional;
            })
            .or_insert(Reading { optional, ..how });
    };
    let environment = Reading { environment: true, ..Reading::default() };
    for container in containers(spec) {
        for variable in items(&container["env"]) {
            read(&variable["valueFrom"]["configMapKeyRef"], "name", "ConfigMap", environment);
            read(&variable["valueFrom"]["secretKeyRef"], "name", "Secret", environment);
        }
        for from in items(&container["envFrom"]) {
            read(&from["configMapRef"], "name", "ConfigMap", environment);
            read(&from["secretRef"], "name", "Secret", environment);
        }
    }
    let mounted = mounted(spec);
    for volume in items(&spec["volumes"]) {
        let how = mounted.get(&volume["name"].as_str()).copied().unwrap_or_default();
        read(&volume["configMap"], "name", "ConfigMap", how);
        read(&volume["secret"], "secretName", "Secret", how);
        for projected in items(&volume["projected"]["sources"]) {
            read(&projected["configMap"], "name", "ConfigMap", how);
            read(&projected["secret"], "name", "Secret", how);
        }
    }
    found
}

/// Returns how the containers of a pod mount each volume, by its name.
fn mounted(spec: &Value) -> BTreeMap<Option<&str>, Reading> {
    let mut mounted: BTreeMap<Option<&str>, Reading> = BTreeMap::new();
    for mount in containers(spec).flat_map(|container| items(&container["volumeMounts"])) {
        let part =
            ["subPath", "subPathExpr"].iter().any(|name| mount[*name].as_str().is_some_and(|path| !path.is_empty()));
        let how = mounted.entry(mount["name"].as_str()).or_default();
        how.sub_path |= part;
        how.files |= !part;
    }
    mounted
}

/// Returns the ConfigMaps and Secrets that the pods of a template name: those that their programs read, and those that
/// the kubelet reads for them, to reach storage and to pull images. A pod is read as its template is.
#[must_use]
pub fn named_configuration(template: &Value, namespace: Option<&str>) -> BTreeSet<ObjectKey> {
    let mut names: BTreeSet<ObjectKey> = readings(template, namespace).into_keys().collect();
    let spec = &template["spec"];
    let mut secret = |reference: &Value, field: &str| {
        if let Some(name) = reference[field].as_str().filter(|name| !name.is_empty()) {
            names.insert(key("Secret", name, namespace));
        }
    };
    for volume in items(&spec["volumes"]) {
        // `azureFile`; `cephfs`, `cinder`, `flexVolume`, `iscsi`, `rbd`, `scaleIO`, `storageos`; `csi`.
        for source in volume.as_object().into_iter().flat_map(|volume| volume.values()) {
            secret(source, "secretName");
            secret(&source["secretRef"], "name");
            secret(&source["nodePublishSecretRef"], "name");
        }
    }
    items(&spec["imagePullSecrets"]).for_each(|pull| secret(pull, "name"));
    names
}

/// Returns one hash for the configuration that a template names, from the hashes of those of its manifests that the
/// repository has; `None` if it has none of them.
#[must_use]
pub fn configuration_hash<'a>(manifests: impl IntoIterator<Item = (&'a ObjectKey, &'a str)>) -> Option<String> {
    let mut digest = Sha256::new();
    let mut any = false;
    for (key, hash) in manifests {
        any = true;
        digest.update(format!("{key}\n{hash}\n"));
    }
    any.then(|| hex(&digest.finalize()[..16]))
}

fn containers(spec: &Value) -> impl Iterator<Item = &Value> {
    ["containers", "initContainers", "ephemeralContainers"].iter().flat_map(|list| items(&spec[*list]))
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

fn key(kind: &str, name: &str, namespace: Option<&str>) -> ObjectKey {
    ObjectKey {
        group: String::new(),
        kind: kind.to_owned(),
        namespace: namespace.map(str::to_owned),
        name: name.to_owned(),
    }
}

/// Takes the plans for the ConfigMaps and Secrets that a workload reads: a plan that changes one of them is about it,
/// and a configuration that does not come for now is no reason for a rollout.
pub fn note_planned_configuration<'p>(reader: &mut Wanted, planned: impl IntoIterator<Item = &'p Planned>) {
    if reader.config_hash.asked.is_none() {
        return;
    }
    let manifest = reader.manifest.value();
    let Some(template) = template(&manifest) else { return };
    let read = readings(template, reader.key.namespace.as_deref());
    for Planned { wanted, step } in planned.into_iter().filter(|planned| read.contains_key(&planned.wanted.key)) {
        match step {
            PlanStep::Apply(_) if changes_contents(&wanted.key, step).is_some() => reader.config_hash.changed = true,
            PlanStep::Apply(_) | PlanStep::Unchanged | PlanStep::Resume(_) | PlanStep::Prune => {}
            PlanStep::RollBack { .. }
            | PlanStep::Held(_)
            | PlanStep::Suspended(_)
            | PlanStep::Rejected(..)
            | PlanStep::Wait(_) => reader.config_hash.only = Some(Only::New),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::thread_time;
    use serde_json::json;

    #[test]
    fn every_way_to_name_configuration_counts() {
        let template = json!({"spec": {
            "containers": [{"env": [{"valueFrom": {"configMapKeyRef": {"name": "a"}}}, {"valueFrom": {"secretKeyRef": {"name": "b"}}}],
                "envFrom": [{"configMapRef": {"name": "c"}}, {"secretRef": {"name": "d"}}]}],
            "initContainers": [{"envFrom": [{"configMapRef": {"name": "e"}}]}],
            "volumes": [{"configMap": {"name": "f"}}, {"secret": {"secretName": "g"}},
                {"projected": {"sources": [{"configMap": {"name": "h"}}, {"secret": {"name": "i"}}]}},
                {"name": "mounted", "csi": {"driver": "d", "nodePublishSecretRef": {"name": "k"}}}, {"azureFile": {"secretName": "l"}},
                {"rbd": {"secretRef": {"name": "m"}}}],
            "imagePullSecrets": [{"name": "j"}]}});
        let found: Vec<String> = named_configuration(&template, Some("shop")).iter().map(ToString::to_string).collect();
        let configured: Vec<String> =
            ["a", "c", "e", "f", "h"].iter().map(|name| format!("ConfigMap shop/{name}")).collect();
        let secret: Vec<String> =
            ["b", "d", "g", "i", "j", "k", "l", "m"].iter().map(|name| format!("Secret shop/{name}")).collect();
        assert_eq!(found, [configured, secret].concat());
    }

    /// To look for the mounts of each volume among all took minutes.
    #[test]
    fn very_many_volumes_are_gone_through_once() {
        const VOLUMES: usize = 60_000;
        let before = thread_time::of_this_thread();
        let volume = |at: usize| json!({"name": format!("v{at}"), "configMap": {"name": format!("c{at}")}});
        let mount = |at: usize| json!({"name": format!("v{at}"), "mountPath": "/a"});
        let template = json!({"spec": {"volumes": (0..VOLUMES).map(volume).collect::<Vec<_>>(),
            "containers": [{"volumeMounts": (0..VOLUMES).map(mount).collect::<Vec<_>>()}]}});
        let read = readings(&template, None);
        assert!(read.len() == VOLUMES && read.values().all(|how| how.files && !how.is_once()));
        let taken = thread_time::of_this_thread() - before;
        assert!(taken < thread_time::FEW, "{taken:?}");
    }

    #[test]
    fn how_each_is_read_is_known() {
        let template = json!({"spec": {
            "containers": [
                {"envFrom": [{"configMapRef": {"name": "env", "optional": true}}], "volumeMounts": [
                    {"name": "part", "subPath": "a.conf"}, {"name": "whole"}, {"name": "both"}]},
                {"volumeMounts": [{"name": "both", "subPathExpr": "$(POD)"}]}],
            "initContainers": [{"env": [{"valueFrom": {"secretKeyRef": {"name": "token", "optional": true}}},
                {"valueFrom": {"secretKeyRef": {"name": "token"}}}]}],
            "volumes": [{"name": "part", "configMap": {"name": "part"}}, {"name": "whole", "secret": {"secretName": "whole"}},
                {"name": "both", "projected": {"sources": [{"configMap": {"name": "both"}}]}},
                {"name": "unused", "configMap": {"name": "unused"}}, {"name": "disk", "azureFile": {"secretName": "disk"}}],
            "imagePullSecrets": [{"name": "pull"}]}});
        let told: Vec<String> = readings(&template, None)
            .into_iter()
            .map(|(key, Reading { environment, sub_path, files, optional })| {
                let ways = [(environment, " env"), (sub_path, " part"), (files, " files"), (optional, " optional")];
                format!("{key}{}", ways.iter().filter(|(is, _)| *is).map(|(_, way)| *way).collect::<String>())
            })
            .collect();
        assert_eq!(
            told,
            [
                "ConfigMap both part files",
                "ConfigMap env env optional",
                "ConfigMap part part",
                "ConfigMap unused",
                "Secret token env",
                "Secret whole files"
            ]
        );
    }

    #[test]
    fn who_does_not_notice_is_told_with_the_command_that_helps() {
        let told = |kind: &str, reading: Reading| {
            Unnoticed { workload: ObjectKey { group: "apps".to_owned(), ..key(kind, "web", Some("shop")) }, reading }
                .to_string()
        };
        assert_eq!(
            told("Deployment", Reading { environment: true, files: true, ..Reading::default() }),
            "Deployment shop/web reads it as environment and as files, and will not notice before it restarts: belay restart \
             deployment/web -n shop"
        );
        assert_eq!(
            told("StatefulSet", Reading { files: true, optional: true, ..Reading::default() }),
            "StatefulSet shop/web reads it as files, if it is there, which the kubelet changes, and may not notice before it \
             restarts: belay restart statefulset/web -n shop"
        );
        let controller = told("ReplicationController", Reading { sub_path: true, ..Reading::default() });
        assert!(controller.ends_with("will not notice before it restarts"), "{controller}");
    }

    #[test]
    fn the_hash_follows_the_manifests() {
        let keys: Vec<ObjectKey> =
            named_configuration(&json!({"spec": {"volumes": [{"configMap": {"name": "f"}}]}}), None)
                .into_iter()
                .collect();
        let hash = |text: &str| configuration_hash(keys.iter().map(|key| (key, text)));
        assert!(hash("1").is_some());
        assert_ne!(hash("1"), hash("2"));
        assert_eq!(configuration_hash(std::iter::empty::<(&ObjectKey, &str)>()), None);
    }
}
