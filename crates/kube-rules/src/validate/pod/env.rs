//! Environment variables and where they come from.

use serde_json::Value;

use super::super::super::value_ext::ValueExt;
use super::super::errors::{Errors, Path};
use super::super::names;

/// The fields of a pod that a variable may have.
const POD_FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
/// The fields of a container that a variable or a file may have.
const CONTAINER_FIELDS: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

/// Checks the variables of a container.
pub fn variables(variables: &[Value], at: &Path<'_>, errors: &mut Errors) {
    for (index, variable) in variables.iter().enumerate() {
        let at = at.index(index);
        let name = variable.text("name");
        if name.is_empty() {
            errors.required(&at.field("name"), "");
        } else {
            errors.each_invalid(&at.field("name"), name, &names::env_var_name(name));
        }
        if let Some(source) = variable.some("valueFrom") {
            value_from(variable, source, &at.field("valueFrom"), errors);
        }
    }
}

fn value_from(variable: &Value, source: &Value, at: &Path<'_>, errors: &mut Errors) {
    let mut sources = 0;
    if let Some(field) = source.some("fieldRef") {
        sources += 1;
        field_ref(field, &POD_FIELDS, &at.field("fieldRef"), errors);
    }
    if let Some(field) = source.some("resourceFieldRef") {
        sources += 1;
        resource_field_ref(field, EnvContainer::Own, &at.field("resourceFieldRef"), errors);
    }
    if let Some(reference) = source.some("configMapKeyRef") {
        sources += 1;
        key_ref(reference, &at.field("configMapKeyRef"), errors);
    }
    if let Some(reference) = source.some("secretKeyRef") {
        sources += 1;
        key_ref(reference, &at.field("secretKeyRef"), errors);
    }
    if let Some(reference) = source.some("fileKeyRef") {
        sources += 1;
        file_ref(reference, &at.field("fileKeyRef"), errors);
    }
    if sources == 0 {
        let all =
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`";
        errors.invalid(at, "", all);
    } else if !variable.text("value").is_empty() {
        errors.invalid(at, "", "may not be specified when `value` is not empty");
    } else if sources > 1 {
        errors.invalid(at, "", "may not have more than one field specified at a time");
    }
}

/// Checks a key of a file in a volume.
fn file_ref(reference: &Value, at: &Path<'_>, errors: &mut Errors) {
    let (volume, key, path) = (reference.text("volumeName"), reference.text("key"), reference.text("path"));
    if key.is_empty() {
        errors.required(&at.field("key"), "");
    } else {
        errors.each_invalid(&at.field("key"), key, &names::env_var_name(key));
    }
    if volume.is_empty() {
        errors.required(&at.field("volumeName"), "");
    } else {
        errors.each_invalid(&at.field("volumeName"), volume, &names::dns_1123_label(volume));
    }
    if path.is_empty() {
        errors.required(&at.field("path"), "");
    } else if path.split('/').any(|part| part == "..") {
        errors.invalid(&at.field("path"), path, "must not contain '..'");
    }
}

/// Checks a field of a pod, one of some.
pub fn field_ref(field: &Value, known: &[&str], at: &Path<'_>, errors: &mut Errors) {
    let (version, path) = (field.text("apiVersion"), field.text("fieldPath"));
    if version.is_empty() {
        errors.required(&at.field("apiVersion"), "");
        return;
    }
    if path.is_empty() {
        errors.required(&at.field("fieldPath"), "");
        return;
    }
    if version != "v1" {
        let detail = format!("error converting fieldPath: unsupported pod version: {version}");
        errors.invalid(&at.field("fieldPath"), path, &detail);
        return;
    }
    if let Some((map, key)) = subscript(path) {
        match map {
            "metadata.annotations" => {
                errors.each_invalid(at, key, &names::qualified_name(&key.to_lowercase()));
            }
            "metadata.labels" => errors.each_invalid(at, key, &names::qualified_name(key)),
            _ => {
                let detail = format!("error converting fieldPath: field label does not support subscript: {path}");
                errors.invalid(&at.field("fieldPath"), path, &detail);
            }
        }
        return;
    }
    if !LABELS_OF_A_POD.contains(&path) {
        errors.invalid(
            &at.field("fieldPath"),
            path,
            &format!("error converting fieldPath: field label not supported: {path}"),
        );
        return;
    }
    if !known.contains(&path) {
        errors.not_supported(&at.field("fieldPath"), path, known);
    }
}

/// The fields of a pod that a path can name at all.
const LABELS_OF_A_POD: [&str; 18] = [
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.hostNetwork",
    "status.phase",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
    "status.nominatedNodeName",
    "spec.host",
    "spec.hostUsers",
];

/// Returns `metadata.labels['x']` taken apart.
fn subscript(path: &str) -> Option<(&str, &str)> {
    let (map, rest) = path.strip_suffix("']")?.split_once("['")?;
    (!map.is_empty()).then_some((map, rest))
}

/// The container whose amounts are meant.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum EnvContainer {
    /// The variable's own container's.
    Own,
    /// One that must be named.
    Named,
}

/// Checks an amount of a container.
pub fn resource_field_ref(field: &Value, container: EnvContainer, at: &Path<'_>, errors: &mut Errors) {
    let resource = field.text("resource");
    if container == EnvContainer::Named && field.text("containerName").is_empty() {
        errors.required(&at.field("containerName"), "");
    } else if resource.is_empty() {
        errors.required(&at.field("resource"), "");
    } else if !CONTAINER_FIELDS.contains(&resource)
        && !resource.starts_with("limits.hugepages-")
        && !resource.starts_with("requests.hugepages-")
    {
        errors.not_supported(&at.field("resource"), resource, &CONTAINER_FIELDS);
    }
    divisor(resource, field.text("divisor"), at, errors);
}

fn divisor(resource: &str, divisor: &str, at: &Path<'_>, errors: &mut Errors) {
    let (known, said): (&[&str], &str) = match resource {
        "limits.cpu" | "requests.cpu" => {
            (&["0", "1", "1m"], "only divisor's values 1m and 1 are supported with the cpu resource")
        }
        "limits.memory" | "requests.memory" => (
            &["0", "1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"],
            "only divisor's values 1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei are supported with the memory resource",
        ),
        "limits.ephemeral-storage" | "requests.ephemeral-storage" => (
            &["0", "1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"],
            "only divisor's values 1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei are supported with the local ephemeral storage resource",
        ),
        _ => return,
    };
    if !known.contains(&divisor) {
        errors.invalid(&at.field("divisor"), resource, said);
    }
}

fn key_ref(reference: &Value, at: &Path<'_>, errors: &mut Errors) {
    let (name, key) = (reference.text("name"), reference.text("key"));
    errors.each_invalid(&at.field("name"), name, &names::object_name(name));
    if key.is_empty() {
        errors.required(&at.field("key"), "");
    } else {
        errors.each_invalid(&at.field("key"), key, &names::config_key(key));
    }
}

/// Whole ConfigMaps and Secrets as variables.
pub fn sources(sources: &[Value], at: &Path<'_>, errors: &mut Errors) {
    let list = at;
    for (index, source) in sources.iter().enumerate() {
        let at = list.index(index);
        let prefix = source.text("prefix");
        if !prefix.is_empty() {
            errors.each_invalid(&at.field("prefix"), prefix, &names::env_var_name(prefix));
        }
        let mut count = 0;
        for kind in ["configMapRef", "secretRef"] {
            let Some(reference) = source.some(kind) else { continue };
            count += 1;
            let at = at.field(kind);
            let name = reference.text("name");
            if name.is_empty() {
                errors.required(&at.field("name"), "");
            } else {
                errors.each_invalid(&at.field("name"), name, &names::object_name(name));
            }
        }
        if count == 0 {
            errors.invalid(list, "", "must specify one of: `configMapRef` or `secretRef`");
        } else if count > 1 {
            errors.invalid(list, "", "may not have more than one field specified at a time");
        }
    }
}
