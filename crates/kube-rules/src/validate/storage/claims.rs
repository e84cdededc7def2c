//! Claims of storage: the requests of a PersistentVolumeClaim.

use serde_json::Value;

use super::super::super::quantity::Quantity;
use super::super::super::value_ext::{ValueExt, restore};
use super::super::errors::{Errors, Path, Shown, immutable};
use super::super::{metadata, names, selector};
use super::access_modes::access_modes;

/// Checks a PersistentVolumeClaim, its metadata apart.
pub fn claim(object: &Value, errors: &mut Errors) {
    spec(&object["spec"], &Path::root("spec"), errors);
}

/// Checks a claim that is made for a pod.
pub fn template(template: &Value, at: &Path<'_>, errors: &mut Errors) {
    template_metadata(&template["metadata"], &at.field("metadata"), errors);
    spec(&template["spec"], &at.field("spec"), errors);
}

/// Checks metadata of something that is still to be made, many times: only labels and annotations.
fn template_metadata(metadata: &Value, metadata_at: &Path<'_>, errors: &mut Errors) {
    metadata::annotations(metadata.entries("annotations"), &metadata_at.field("annotations"), errors);
    metadata::labels(metadata.entries("labels"), &metadata_at.field("labels"), errors);
    for name in
        ["name", "generateName", "namespace", "uid", "resourceVersion", "generation", "ownerReferences", "finalizers"]
    {
        if metadata.has(name) {
            errors.forbidden(&metadata_at.field(name), "cannot be set");
        }
    }
}

/// Checks the request.
pub fn spec(spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    let modes = spec.list("accessModes");
    let modes_at = at.field("accessModes");
    if modes.is_empty() {
        errors.required(&modes_at, "at least 1 access mode is required");
    }
    selector::selector(&spec["selector"], &at.field("selector"), errors);
    access_modes(modes, &modes_at, errors);
    let resources_at = at.field("resources");
    let storage_at = resources_at.key("storage");
    match spec["resources"]["requests"].some("storage").and_then(Value::as_str) {
        None => errors.required(&storage_at, ""),
        Some(amount) => {
            if Quantity::parse(amount).is_ok_and(|amount| amount.sign() <= 0) {
                errors.invalid(&storage_at, amount, "must be greater than zero");
            }
        }
    }
    if let Some(class) = spec.some("storageClassName").and_then(Value::as_str).filter(|class| !class.is_empty()) {
        errors.each_invalid(&at.field("storageClassName"), class, &names::object_name(class));
    }
    if let Some(mode) = spec.some("volumeMode").and_then(Value::as_str)
        && !["Block", "Filesystem"].contains(&mode)
    {
        errors.not_supported(&at.field("volumeMode"), mode, &["Block", "Filesystem"]);
    }
    data_source(&spec["dataSource"], &at.field("dataSource"), errors);
    data_source(&spec["dataSourceRef"], &at.field("dataSourceRef"), errors);
    if spec.has("dataSource") && spec.has("dataSourceRef") && spec["dataSource"] != spec["dataSourceRef"] {
        errors.invalid(at, Shown::Plain("{}".to_owned()), "must match dataSourceRef");
    }
    if let Some(class) =
        spec.some("volumeAttributesClassName").and_then(Value::as_str).filter(|class| !class.is_empty())
    {
        errors.each_invalid(&at.field("volumeAttributesClassName"), class, &names::object_name(class));
    }
}

fn data_source(source: &Value, at: &Path<'_>, errors: &mut Errors) {
    if source.is_null() {
        return;
    }
    for name in ["name", "kind"] {
        if source.text(name).is_empty() {
            errors.required(&at.field(name), "");
        }
    }
    let group = source.text("apiGroup");
    if group.is_empty() {
        if source.text("kind") != "PersistentVolumeClaim" {
            errors.invalid(
                at,
                source.text("kind"),
                "must be 'PersistentVolumeClaim' when referencing the default apiGroup",
            );
        }
    } else {
        errors.each_invalid(&at.field("apiGroup"), group, &names::dns_1123_subdomain(group));
    }
}

/// Checks a changed claim: of a bound one, only its size may change, to more than before.
pub fn update(old: &Value, new: &Value, errors: &mut Errors) {
    const REST: &str = "spec is immutable after creation except resources.requests and volumeAttributesClassName for \
                        bound claims";
    let (before, after, at) = (&old["spec"], &new["spec"], Path::root("spec"));
    let bound = new["status"].text("phase") == "Bound";
    let mut same = after.clone();
    // The volume's name is given once, and a class may be where there was only the annotation.
    if before.text("volumeName").is_empty() {
        restore(&mut same, before, "volumeName");
    }
    let annotation = "volume.beta.kubernetes.io/storage-class";
    if !before.has("storageClassName") && !old["metadata"]["annotations"].has(annotation) {
        restore(&mut same, before, "storageClassName");
    }
    let request = |spec: &Value| {
        let text = spec["resources"]["requests"].some("storage").and_then(Value::as_str)?.to_owned();
        Quantity::parse(&text).ok()
    };
    if bound {
        if after["resources"].has("requests") {
            restore(&mut same["resources"]["requests"], &before["resources"]["requests"], "storage");
        }
        if after.has("volumeAttributesClassName") {
            restore(&mut same, before, "volumeAttributesClassName");
        }
    }
    if same != *before {
        errors.forbidden(&at, REST);
    }
    let size = |spec: &Value| request(spec).unwrap_or_else(|| Quantity::from_whole(0));
    let (was, is) = (size(before), size(after));
    if is.is_less(&was) {
        let capacity = old["status"]["capacity"].some("storage").and_then(Value::as_str);
        let held = capacity.and_then(|text| Quantity::parse(text).ok());
        if !is.is_more(&held.unwrap_or_else(|| Quantity::from_whole(0))) {
            let at = at.field("resources.requests.storage");
            errors.forbidden(&at, "field can not be less than status.capacity");
        }
    }
    immutable(before, after, "volumeMode", &Path::root(""), errors);
}
