//! Volume sources of the storage world.

use serde_json::Value;

use super::super::super::value_ext::ValueExt;
use super::super::errors::{Errors, Path, Shown};
use super::super::names;
use super::super::storage::claims;
use super::iscsi::{self, Holder};
use super::paths::local_path;
use super::source_fields::{lun, required, some};

/// Texts that a source must have.
const REQUIRED: &[(&str, &[&str])] = &[
    ("gcePersistentDisk", &["pdName"]),
    ("awsElasticBlockStore", &["volumeID"]),
    ("glusterfs", &["endpoints", "path"]),
    ("azureFile", &["secretName", "shareName"]),
    ("flexVolume", &["driver"]),
    ("cinder", &["volumeID"]),
    ("vsphereVolume", &["volumePath"]),
    ("photonPersistentDisk", &["pdID"]),
    ("portworxVolume", &["volumeID"]),
    ("scaleIO", &["gateway", "system", "volumeName"]),
];
const ONE_OF_WWNS: &str = "must specify either targetWWNs or wwids, but not both";
const BLOB: &str = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd";
const MANAGED: &str = "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}";

/// Checks that only volumes of the cluster have a namespace of their endpoints.
fn glusterfs(source: &Value, at: &Path<'_>, errors: &mut Errors) {
    let Some(namespace) = source.some("endpointsNamespace").and_then(Value::as_str) else { return };
    let at = at.field("endpointsNamespace");
    if namespace.is_empty() {
        errors.invalid(&at, "", "if the endpointnamespace is set, it must be a valid namespace name");
    } else {
        errors.each_invalid(&at, namespace, &names::dns_1123_label(namespace));
    }
}

/// Checks a source of a kind.
pub fn source(kind: &str, source: &Value, at: &Path<'_>, errors: &mut Errors) {
    for name in REQUIRED.iter().find(|(known, _)| *known == kind).map_or(&[][..], |(_, names)| names) {
        required(source, name, at, errors);
    }
    match kind {
        "gcePersistentDisk" | "awsElasticBlockStore" => {
            let partition = source.int("partition").unwrap_or_default();
            if !(0..=255).contains(&partition) {
                errors.invalid(&at.field("partition"), partition, "must be between 1 and 255, inclusive");
            }
        }
        "glusterfs" => glusterfs(source, at, errors),
        "iscsi" => iscsi::iscsi(source, Holder::Pod, at, errors),
        "flocker" => flocker(source, at, errors),
        "rbd" => {
            some(source, "monitors", at, errors);
            required(source, "image", at, errors);
        }
        "cephfs" => some(source, "monitors", at, errors),
        "flexVolume" => flex_options(source, at, errors),
        "cinder" => {
            if let Some(secret) = source.some("secretRef")
                && secret.text("name").is_empty()
            {
                errors.required(&at.field("secretRef").field("name"), "");
            }
        }
        "quobyte" => quobyte(source, at, errors),
        "fc" => fibre_channel(source, at, errors),
        "azureDisk" => azure_disk(source, at, errors),
        "storageos" => {
            let name = source.text("volumeName");
            if name.is_empty() {
                errors.required(&at.field("volumeName"), "");
            } else {
                errors.each_invalid(&at.field("volumeName"), name, &names::dns_1123_label(name));
            }
            let namespace = source.text("volumeNamespace");
            if !namespace.is_empty() {
                errors.each_invalid(&at.field("volumeNamespace"), namespace, &names::dns_1123_label(namespace));
            }
            if let Some(secret) = source.some("secretRef")
                && secret.text("name").is_empty()
            {
                errors.required(&at.field("secretRef").field("name"), "");
            }
        }
        "csi" => csi(source, at, errors),
        "ephemeral" => match source.some("volumeClaimTemplate") {
            None => errors.required(&at.field("volumeClaimTemplate"), ""),
            Some(template) => claims::template(template, &at.field("volumeClaimTemplate"), errors),
        },
        "image" => {
            let policy = source.text("pullPolicy");
            if !["Always", "IfNotPresent", "Never"].contains(&policy) {
                errors.not_supported(&at.field("pullPolicy"), policy, &["Always", "IfNotPresent", "Never"]);
            }
        }
        "gitRepo" => {
            required(source, "repository", at, errors);
            if !source.text("directory").is_empty() {
                local_path(source.text("directory"), &at.field("directory"), errors);
            }
        }
        _ => {}
    }
}

/// Options of a driver's own; some names are the kubelet's.
fn flex_options(source: &Value, at: &Path<'_>, errors: &mut Errors) {
    let list = at.field("options");
    for key in source.entries("options").keys() {
        let domain = format!(".{}", key.split('/').next().unwrap_or_default().to_lowercase());
        if domain.ends_with(".kubernetes.io") || domain.ends_with(".k8s.io") {
            errors.invalid(&list.key(key), key.as_str(), "kubernetes.io and k8s.io namespaces are reserved");
        }
    }
}

fn flocker(source: &Value, at: &Path<'_>, errors: &mut Errors) {
    let (name, uuid) = (source.text("datasetName"), source.text("datasetUUID"));
    if name.is_empty() && uuid.is_empty() {
        errors.required(at, "one of datasetName and datasetUUID is required");
    }
    if !name.is_empty() && !uuid.is_empty() {
        errors.invalid(at, "resource", "datasetName and datasetUUID can not be specified simultaneously");
    }
    if name.contains('/') {
        errors.invalid(&at.field("datasetName"), name, "must not contain '/'");
    }
}

fn quobyte(source: &Value, at: &Path<'_>, errors: &mut Errors) {
    let registry = source.text("registry");
    let is_pair = |pair: &str| pair.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && !port.is_empty());
    if registry.is_empty() {
        errors.required(&at.field("registry"), "must be a host:port pair or multiple pairs separated by commas");
    } else if !registry.split(',').all(is_pair) {
        let said = "must be a host:port pair or multiple pairs separated by commas";
        errors.invalid(&at.field("registry"), registry, said);
    }
    if source.text("tenant").len() >= 65 {
        errors.required(&at.field("tenant"), "must be a UUID and may not exceed a length of 64 characters");
    }
    required(source, "volume", at, errors);
}

fn fibre_channel(source: &Value, at: &Path<'_>, errors: &mut Errors) {
    let (names, ids) = (source.list("targetWWNs"), source.list("wwids"));
    if names.is_empty() && ids.is_empty() {
        errors.required(&at.field("targetWWNs"), ONE_OF_WWNS);
    }
    if !names.is_empty() && !ids.is_empty() {
        let shown = Value::from(names);
        errors.invalid(&at.field("targetWWNs"), &shown, "targetWWNs and wwids can not be specified simultaneously");
    }
    if !names.is_empty() {
        if source.has("lun") {
            lun(source, at, errors);
        } else {
            errors.required(&at.field("lun"), "lun is required if targetWWNs is specified");
        }
    }
}

fn azure_disk(source: &Value, at: &Path<'_>, errors: &mut Errors) {
    required(source, "diskName", at, errors);
    required(source, "diskURI", at, errors);
    let (mode, kind, uri) = (source.text("cachingMode"), source.text("kind"), source.text("diskURI"));
    if !["None", "ReadOnly", "ReadWrite"].contains(&mode) {
        errors.not_supported(&at.field("cachingMode"), mode, &["None", "ReadOnly", "ReadWrite"]);
    }
    if !["Dedicated", "Managed", "Shared"].contains(&kind) {
        errors.not_supported(&at.field("kind"), kind, &["Dedicated", "Managed", "Shared"]);
    }
    if kind == "Managed" && !uri.starts_with("/subscriptions/") {
        errors.not_supported(&at.field("diskURI"), uri, &[MANAGED]);
    }
    if kind != "Managed" && !uri.starts_with("https://") {
        errors.not_supported(&at.field("diskURI"), uri, &[BLOB]);
    }
}

fn csi(source: &Value, at: &Path<'_>, errors: &mut Errors) {
    let driver = source.text("driver");
    if driver.is_empty() {
        errors.required(&at.field("driver"), "");
    } else {
        if driver.len() > 63 {
            errors.too_long(&at.field("driver"), 63);
        }
        errors.each_invalid(&at.field("driver"), driver, &names::dns_1123_subdomain(&driver.to_lowercase()));
    }
    if let Some(secret) = source.some("nodePublishSecretRef") {
        let name = secret.text("name");
        if name.is_empty() {
            errors.required(&at.field("nodePublishSecretRef").field("name"), "");
        } else {
            let name_at = at.field("nodePublishSecretRef");
            errors.each_invalid(&name_at.field("name"), Shown::Text(name), &names::object_name(name));
        }
    }
}
