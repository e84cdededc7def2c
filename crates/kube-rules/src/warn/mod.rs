//! The warnings of a write that is let through.

mod addresses;
mod deprecated_volumes;
mod formats;
mod nodes;
mod pod;
mod service;
mod unenforced;

use serde_json::Value;

use super::conversions::{at, template_path};
use super::quantity::Quantity;
use super::validate::label_problems;
use super::value_ext::ValueExt;
use super::{Definition, WriteContext};

/// An annotation of accounts that allow only the Secrets that they list.
const ENFORCE: &str = "kubernetes.io/enforce-mountable-secrets";
const DEFINITION: (&str, &str) = ("apiextensions.k8s.io", "CustomResourceDefinition");

/// Warnings about a new object.
pub fn create(definition: &Definition, object: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    let key = (definition.group.as_str(), definition.kind.as_str());
    let makes_pods = matches!(
        key,
        ("apps", "Deployment" | "ReplicaSet" | "StatefulSet")
            | ("", "ReplicationController" | "Pod")
            | ("batch", "CronJob" | "Job")
    );
    if key == ("discovery.k8s.io", "EndpointSlice") && object.text("addressType") == "FQDN" {
        warnings.push("spec.addressType: FQDN endpoints are deprecated".to_owned());
    }
    let problems = label_problems(object["metadata"].text("name"));
    if makes_pods && !problems.is_empty() {
        warnings.push(format!(
            "metadata.name: this is used in {}, which can result in surprising behavior; a DNS label is recommended: [{}]",
            if key.1 == "Pod" { "the Pod's hostname" } else { "Pod names and hostnames" },
            problems.join(" ")
        ));
    }
    warnings.extend(others(key, object));
    if key == DEFINITION {
        formats::warnings(&Value::Null, &object["spec"], &mut warnings);
    }
    warnings.extend(unenforced::warning(key, object));
    if key == ("", "Pod") {
        pod::warnings("", object, &mut warnings);
    } else if let Some((path, template)) = template(definition, object) {
        pod::warnings(&path, template, &mut warnings);
    }
    warnings
}

/// Warnings about kinds that make no pods.
fn others(key: (&str, &str), object: &Value) -> Vec<String> {
    let spec = &object["spec"];
    let mut said = Vec::new();
    match key {
        ("", "Service") => service::warnings(object, &mut said),
        ("", "Node") => {
            for name in ["externalID", "configSource"].iter().filter(|name| spec.has(name)) {
                said.push(format!("spec.{name}: this field is deprecated, and is unused by Kubernetes"));
            }
        }
        ("", "ServiceAccount") if object["metadata"]["annotations"].has(ENFORCE) => said.push(format!(
            "metadata.annotations[{ENFORCE}]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted \
             secrets"
        )),
        ("", "PersistentVolumeClaim") => {
            for part in ["requests", "limits"] {
                let text = spec["resources"][part].text("storage");
                if Quantity::parse(text).is_ok_and(|amount| !amount.is_whole()) {
                    said.push(format!(
                        "spec.resources.{part}[storage]: fractional byte value {text:?} is invalid, must be an integer"
                    ));
                }
            }
        }
        _ => {}
    }
    addresses::of_kind(key, object, &mut said);
    nodes::of_kind(key, object, &mut said);
    said
}

/// Warnings about a changed object.
pub fn update(write: &WriteContext<'_>, old: &Value, new: &Value) -> Vec<String> {
    let definition = write.definition;
    let mut warnings = Vec::new();
    let key = (definition.group.as_str(), definition.kind.as_str());
    // A scale counts as a new generation once its former value is known.
    let moved = match write.subresource {
        None if key == ("apps", "DaemonSet") => old["spec"]["template"] != new["spec"]["template"],
        None => old["metadata"]["generation"] != new["metadata"]["generation"],
        Some("scale") => old["spec"] != new["spec"],
        Some(_) => false,
    };
    // For those, the real server reads the former object.
    let told = if key == ("", "ReplicationController") { old } else { new };
    if moved && let Some((path, template)) = template(definition, told) {
        pod::warnings(&path, template, &mut warnings);
    }
    if write.subresource.is_none() {
        // A field that never changes is reported once.
        let told = key == ("", "ServiceAccount") && old["metadata"]["annotations"].has(ENFORCE);
        if !told {
            warnings.extend(others(key, new));
        }
        if key == DEFINITION {
            formats::warnings(&old["spec"], &new["spec"], &mut warnings);
        }
        warnings.extend(unenforced::warning(key, new));
    }
    if write.subresource == Some("status") {
        addresses::of_status(key, new, &mut warnings);
    }
    warnings
}

fn template<'a>(definition: &Definition, object: &'a Value) -> Option<(String, &'a Value)> {
    let path = template_path(&definition.group, &definition.kind)?;
    Some((format!("{}.", path.join(".")), at(object, path)?))
}

/// Returns the warning about owners that are named twice, which then count once.
pub fn duplicate_owners(uids: &[String]) -> String {
    format!(
        ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may reject \
         such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
        uids.join(", ")
    )
}
