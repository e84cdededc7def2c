//! PersistentVolumes.

use serde_json::Value;

use super::super::super::quantity::Quantity;
use super::super::super::value_ext::{ValueExt, remove};
use super::super::errors::{Errors, Path, Shown, immutable};
use super::super::names;
use super::super::pod::iscsi::{self, Holder};
use super::super::pod::{node_selector, persistent_source};
use super::access_modes::access_modes;

const RECLAIM: [&str; 3] = ["Delete", "Recycle", "Retain"];
/// The sources of a volume, in the order of their checks: the name in an object, and in complaints.
const SOURCES: [(&str, &str); 22] = [
    ("hostPath", "hostPath"),
    ("gcePersistentDisk", "gcePersistentDisk"),
    ("awsElasticBlockStore", "awsElasticBlockStore"),
    ("glusterfs", "glusterfs"),
    ("flocker", "flocker"),
    ("nfs", "nfs"),
    ("rbd", "rbd"),
    ("quobyte", "quobyte"),
    ("cephfs", "cephFS"),
    ("iscsi", "iscsi"),
    ("cinder", "cinder"),
    ("fc", "fc"),
    ("flexVolume", "flexVolume"),
    ("azureFile", "azureFile"),
    ("vsphereVolume", "vsphereVolume"),
    ("photonPersistentDisk", "photonPersistentDisk"),
    ("portworxVolume", "portworxVolume"),
    ("azureDisk", "azureDisk"),
    ("scaleIO", "scaleIO"),
    ("local", "local"),
    ("storageos", "storageos"),
    ("csi", "csi"),
];

/// The secret of who makes a volume larger.
const EXPANSION: &str = "controllerExpandSecretRef";

/// Checks a PersistentVolume, its metadata apart.
pub fn volume(object: &Value, errors: &mut Errors) {
    let (spec, at) = (&object["spec"], &Path::root("spec"));
    modes(spec, at, errors);
    capacity(spec, &at.field("capacity"), errors);
    let reclaim = spec.text("persistentVolumeReclaimPolicy");
    if !reclaim.is_empty() && !RECLAIM.contains(&reclaim) {
        errors.not_supported(&at.field("persistentVolumeReclaimPolicy"), reclaim, &RECLAIM);
    }
    if spec.has("nodeAffinity") {
        affinity(&spec["nodeAffinity"], &at.field("nodeAffinity"), errors);
    }
    sources(spec, at, errors);
    if spec["hostPath"].text("path") == "/" && reclaim == "Recycle" {
        let at = at.field("persistentVolumeReclaimPolicy");
        errors.forbidden(&at, "may not be 'recycle' for a hostPath mount of '/'");
    }
    let class = spec.text("storageClassName");
    if !class.is_empty() {
        errors.each_invalid(&at.field("storageClassName"), class, &names::dns_1123_subdomain(class));
    }
    errors.one_of(spec, "volumeMode", &["Block", "Filesystem"], at);
    attributes(spec, at, errors);
}

fn modes(spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    let modes_at = at.field("accessModes");
    let modes = spec.list("accessModes");
    if modes.is_empty() {
        errors.required(&modes_at, "");
    }
    access_modes(modes, &modes_at, errors);
}

fn capacity(spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    let amounts = spec.entries("capacity");
    if amounts.is_empty() {
        errors.required(at, "");
    }
    if !amounts.contains_key("storage") || amounts.len() > 1 {
        let shown = Shown::Plain(spec["capacity"].to_string());
        errors.not_supported(at, shown, &["storage"]);
    }
    for (name, amount) in amounts {
        let (at, text) = (at.key(name), amount.as_str().unwrap_or_default());
        let Ok(amount) = Quantity::parse(text) else { continue };
        if amount.sign() < 0 {
            errors.invalid(&at, Shown::Plain(text.to_owned()), "must be a valid resource quantity");
        }
        if amount.sign() <= 0 {
            errors.invalid(&at, text, "must be greater than zero");
        }
    }
}

fn affinity(affinity: &Value, at: &Path<'_>, errors: &mut Errors) {
    match affinity.some("required") {
        Some(required) => node_selector(required, &at.field("required"), errors),
        None => errors.required(&at.field("required"), "must specify required node constraints"),
    }
}

/// Checks exactly one source: the first counts, every other is too many.
fn sources(spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    let mut found = false;
    for (name, said) in SOURCES {
        let Some(source) = spec.some(name) else { continue };
        if found && name != "flexVolume" {
            errors.forbidden(&at.field(said), "may not specify more than 1 volume type");
            continue;
        }
        found = true;
        match name {
            "local" => local(source, spec, at, errors),
            "csi" => csi(source, &at.field("csi"), errors),
            "gcePersistentDisk" => persistent_source(name, source, &at.field("persistentDisk"), errors),
            "iscsi" => iscsi::iscsi(source, Holder::Volume, &at.field(name), errors),
            _ => {
                persistent_source(name, source, &at.field(name), errors);
                secret_namespace(name, source, &at.field(name), errors);
            }
        }
    }
    if !found {
        errors.required(at, "must specify a volume type");
    }
}

/// Checks that pods have their secrets beside them, volumes say where theirs are.
fn secret_namespace(kind: &str, source: &Value, at: &Path<'_>, errors: &mut Errors) {
    match kind {
        "cinder" | "storageos"
            if source.some("secretRef").is_some_and(|secret| secret.text("namespace").is_empty()) =>
        {
            errors.required(&at.field("secretRef.namespace"), "");
        }
        "azureFile" if source.has("secretNamespace") && source.text("secretNamespace").is_empty() => {
            errors.required(&at.field("secretNamespace"), "");
        }
        _ => {}
    }
}

fn local(source: &Value, spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    let path = source.text("path");
    let path_at = at.field("local.path");
    if path.is_empty() {
        errors.required(&path_at, "");
    } else if path.split('/').any(|part| part == "..") {
        errors.invalid(&path_at, path, "must not contain '..'");
    }
    if !spec.has("nodeAffinity") {
        errors.required(&at.field("nodeAffinity"), "Local volume requires node affinity");
    }
}

/// Checks a volume that a driver holds.
fn csi(source: &Value, at: &Path<'_>, errors: &mut Errors) {
    driver_name(source.text("driver"), &at.field("driver"), errors);
    if source.text("volumeHandle").is_empty() {
        errors.required(&at.field("volumeHandle"), "");
    }
    // The secret for staging may be anything: the reference does not check it.
    const SECRETS: [&str; 4] = ["controllerPublishSecretRef", EXPANSION, "nodePublishSecretRef", "nodeExpandSecretRef"];
    for name in SECRETS {
        let Some(secret) = source.some(name) else { continue };
        let at = at.field(name);
        for name in ["name", "namespace"] {
            let text = secret.text(name);
            if text.is_empty() {
                errors.required(&at.field(name), "");
            } else {
                let said = if name == "name" { names::dns_1123_subdomain(text) } else { names::dns_1123_label(text) };
                errors.each_invalid(&at.field(name), text, &said);
            }
        }
    }
}

/// Checks the name of a driver.
fn driver_name(name: &str, at: &Path<'_>, errors: &mut Errors) {
    if name.is_empty() {
        errors.required(at, "");
        return;
    }
    if name.len() > 63 {
        errors.too_long(at, 63);
    }
    errors.each_invalid(at, name, &names::dns_1123_subdomain(&name.to_lowercase()));
}

fn attributes(spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    if let Some(class) = spec.some("volumeAttributesClassName").and_then(Value::as_str) {
        let class_at = at.field("volumeAttributesClassName");
        if class.is_empty() {
            errors.required(&class_at, "an empty string is disallowed");
        } else {
            errors.each_invalid(&class_at, class, &names::object_name(class));
        }
        if !spec.has("csi") {
            errors.required(&at.field("csi"), "has to be specified when using volumeAttributesClassName");
        }
    }
}

/// Checks a changed PersistentVolume: its place stays.
pub fn update(old: &Value, new: &Value, errors: &mut Errors) {
    let (before, after) = (&old["spec"], &new["spec"]);
    let at = Path::root("spec");
    let mut same = after.clone();
    if before["csi"].is_object() && after["csi"].is_object() && !before["csi"].has(EXPANSION) {
        // The secret for making a volume larger can be added later.
        remove(&mut same["csi"], EXPANSION);
    }
    if SOURCES.iter().any(|(name, _)| before.get(name) != same.get(name)) {
        let detail = "spec.persistentvolumesource is immutable after creation";
        errors.forbidden(&at.field("persistentvolumesource"), detail);
    }
    // The error names the field at this place.
    immutable(before, after, "volumeMode", &Path::root(""), errors);
    let (was, is) = (&before["nodeAffinity"], &after["nodeAffinity"]);
    if !was.is_null() && was != is {
        errors.invalid(&at.field("nodeAffinity"), is, "field is immutable");
    }
}
