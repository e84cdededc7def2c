//! The volumes of a pod.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::super::super::quantity::Quantity;
use super::super::super::value_ext::ValueExt;
use super::super::errors::{Errors, Path};
use super::super::names;
use super::env::{self, EnvContainer};
use super::paths::below_the_volume;
use super::sources;

const FILE_FIELDS: [&str; 5] =
    ["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];

/// The object that holds a pod's spec.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum PodSpecOwner {
    /// A pod.
    Pod,
    /// A template of pods.
    Template,
}

/// The volumes of a pod, by name.
pub struct PodVolumes<'a> {
    sources: BTreeMap<&'a str, Option<&'a str>>,
}

impl<'a> PodVolumes<'a> {
    /// Returns true when there is a volume of that name.
    pub fn has(&self, name: &str) -> bool {
        self.sources.contains_key(name)
    }

    /// Returns the source of a volume, `configMap`.
    pub fn source(&self, name: &str) -> Option<&'a str> {
        self.sources.get(name).map(|source| source.unwrap_or_default())
    }
}

/// Checks volumes, and knows them by name.
pub fn volumes<'a>(volumes: &'a [Value], of: PodSpecOwner, at: &Path<'_>, errors: &mut Errors) -> PodVolumes<'a> {
    let mut sources = BTreeMap::new();
    for (index, volume) in volumes.iter().enumerate() {
        let at = at.index(index);
        let name = volume.text("name");
        let kinds = volume.as_object().into_iter().flatten();
        let kinds: Vec<&str> = kinds.filter(|(kind, _)| *kind != "name").map(|(kind, _)| kind.as_str()).collect();
        let before = errors.0.len();
        source(volume, &kinds, of, &at, errors);
        if name.is_empty() {
            errors.required(&at.field("name"), "");
        } else {
            errors.each_invalid(&at.field("name"), name, &names::dns_1123_label(name));
        }
        if sources.contains_key(name) {
            errors.duplicate(&at.field("name"), name);
        }
        if errors.0.len() == before {
            sources.insert(name, kinds.first().copied());
        }
    }
    PodVolumes { sources }
}

fn source(volume: &Value, kinds: &[&str], of: PodSpecOwner, at: &Path<'_>, errors: &mut Errors) {
    let mut ordered: Vec<&str> = KINDS.iter().copied().filter(|kind| kinds.contains(kind)).collect();
    ordered.extend(kinds.iter().filter(|kind| !KINDS.contains(kind)));
    if ordered.is_empty() {
        errors.required(at, "must specify a volume type");
    }
    for (index, kind) in ordered.iter().enumerate() {
        if index > 0 {
            // Two of them are misspelled there.
            let spelled = match *kind {
                "downwardAPI" => "downwarAPI",
                "cephfs" => "cephFS",
                other => other,
            };
            errors.forbidden(&at.field(spelled), "may not specify more than 1 volume type");
        } else {
            let named = if *kind == "gcePersistentDisk" { "persistentDisk" } else { kind };
            let at = at.field(named);
            if *kind == "image" && of == PodSpecOwner::Pod && volume["image"].text("reference").is_empty() {
                errors.required(&at.field("reference"), "");
            }
            one(kind, &volume[*kind], &at, errors);
        }
    }
}

/// The kinds of volumes, in the order of their checks.
const KINDS: [&str; 29] = [
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
];

/// Checks a source of a kind, `hostPath`.
pub fn one(kind: &str, source: &Value, at: &Path<'_>, errors: &mut Errors) {
    let required = |name: &str, errors: &mut Errors| {
        if source.text(name).is_empty() {
            errors.required(&at.field(name), "");
        }
    };
    match kind {
        "emptyDir" => {
            if let Some(limit) = source.some("sizeLimit").and_then(Value::as_str)
                && Quantity::parse(limit).is_ok_and(|limit| limit.sign() < 0)
            {
                errors.forbidden(&at.field("sizeLimit"), "SizeLimit field must be a valid resource quantity");
            }
        }
        "hostPath" => host_path(source, at, errors),
        "secret" => {
            required("secretName", errors);
            mode(source, "defaultMode", at, errors);
            key_paths(source, at, errors);
        }
        "configMap" => {
            required("name", errors);
            mode(source, "defaultMode", at, errors);
            key_paths(source, at, errors);
        }
        "persistentVolumeClaim" => required("claimName", errors),
        "nfs" => {
            required("server", errors);
            required("path", errors);
            if !source.text("path").starts_with('/') {
                errors.invalid(&at.field("path"), source.text("path"), "must be an absolute path");
            }
        }
        "downwardAPI" => {
            mode(source, "defaultMode", at, errors);
            downward(source.list("items"), at, errors);
        }
        "projected" => projected(source, at, errors),
        other => sources::source(other, source, at, errors),
    }
}

fn host_path(source: &Value, at: &Path<'_>, errors: &mut Errors) {
    let path = source.text("path");
    if path.is_empty() {
        errors.required(&at.field("path"), "");
        return;
    }
    if path.split('/').any(|part| part == "..") {
        errors.invalid(&at.field("path"), path, "must not contain '..'");
    }
    let known = ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];
    if !known.contains(&source.text("type")) {
        errors.not_supported(&at.field("type"), source.text("type"), &known);
    }
}

fn mode(source: &Value, name: &str, at: &Path<'_>, errors: &mut Errors) {
    if let Some(mode) = source.int(name)
        && !(0..=0o777).contains(&mode)
    {
        let detail = "must be a number between 0 and 0777 (octal), both inclusive";
        errors.invalid(&at.field(name), mode, detail);
    }
}

fn key_paths(source: &Value, at: &Path<'_>, errors: &mut Errors) {
    let list = at.field("items");
    for (index, item) in source.list("items").iter().enumerate() {
        let at = list.index(index);
        if item.text("key").is_empty() {
            errors.required(&at.field("key"), "");
        }
        let path = item.text("path");
        if path.is_empty() {
            errors.required(&at.field("path"), "");
        }
        below_the_volume(path, &at.field("path"), errors);
        if let Some(mode) = item.int("mode")
            && !(0..=0o777).contains(&mode)
        {
            let detail = "must be a number between 0 and 0777 (octal), both inclusive";
            errors.invalid(&at.field("mode"), mode, detail);
        }
    }
}

fn downward(items: &[Value], at: &Path<'_>, errors: &mut Errors) {
    for item in items {
        let path = item.text("path");
        if path.is_empty() {
            errors.required(&at.field("path"), "");
        }
        below_the_volume(path, &at.field("path"), errors);
        if let Some(field) = item.some("fieldRef") {
            env::field_ref(field, &FILE_FIELDS, &at.field("fieldRef"), errors);
            if item.has("resourceFieldRef") {
                errors.invalid(at, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously");
            }
        } else if let Some(field) = item.some("resourceFieldRef") {
            env::resource_field_ref(field, EnvContainer::Named, &at.field("resourceFieldRef"), errors);
        } else {
            errors.required(at, "one of fieldRef and resourceFieldRef is required");
        }
        mode(item, "mode", at, errors);
    }
}

fn projected(volume: &Value, at: &Path<'_>, errors: &mut Errors) {
    mode(volume, "defaultMode", at, errors);
    let mut paths: BTreeSet<&str> = BTreeSet::new();
    let list = at.field("sources");
    for (index, source) in volume.list("sources").iter().enumerate() {
        let source_at = list.index(index);
        let mut found = 0;
        for kind in ["secret", "configMap"] {
            let Some(part) = source.some(kind) else { continue };
            found += 1;
            let at = source_at.field(kind);
            if part.text("name").is_empty() {
                errors.required(&at.field("name"), "");
            }
            key_paths(part, &at, errors);
        }
        if let Some(part) = source.some("downwardAPI") {
            found += 1;
            downward(part.list("items"), &source_at.field("downwardAPI"), errors);
        }
        for kind in ["secret", "configMap", "downwardAPI"] {
            for item in source[kind].list("items") {
                let path = item.text("path");
                if !path.is_empty() && !paths.insert(path) {
                    let name = if kind == "downwardAPI" { path } else { source[kind].text("name") };
                    errors.invalid(at, name, "conflicting duplicate paths");
                }
            }
        }
        if let Some(part) = source.some("serviceAccountToken") {
            found += 1;
            token(part, &source_at.field("serviceAccountToken"), at, errors);
        }
        if found > 1 {
            errors.forbidden(&source_at, "may not specify more than 1 volume type per source");
        }
    }
}

/// Checks a service account's token; an error of its path is reported at the volume.
fn token(token: &Value, at: &Path<'_>, volume: &Path<'_>, errors: &mut Errors) {
    let seconds = token.int("expirationSeconds").unwrap_or_default();
    let lasts = at.field("expirationSeconds");
    if seconds < 600 {
        errors.invalid(&lasts, seconds, "may not specify a duration less than 10 minutes");
    }
    if seconds > 1 << 32 {
        errors.invalid(&lasts, seconds, "may not specify a duration larger than 2^32 seconds");
    }
    if token.text("path").is_empty() {
        errors.required(&volume.field("path"), "");
    } else {
        below_the_volume(token.text("path"), &volume.field("path"), errors);
    }
}
