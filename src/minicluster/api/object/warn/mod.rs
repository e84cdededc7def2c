//! What a write is warned of, though it is let through.

mod pod;

use serde_json::Value;

use super::conversions::{at, template_path};
use super::look::Look;
use super::validate::label_problems;
use super::{Definition, Write};

/// Warnings about a new object.
pub fn create(definition: &Definition, object: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    let key = (definition.group.as_str(), definition.kind.as_str());
    let makes_pods = matches!(
        key,
        ("apps", "Deployment" | "ReplicaSet" | "DaemonSet" | "StatefulSet")
            | ("", "ReplicationController" | "Pod")
            | ("batch", "CronJob" | "Job")
    );
    let problems = label_problems(object["metadata"].text("name"));
    if makes_pods && !problems.is_empty() {
        warnings.push(format!(
            "metadata.name: this is used in {} and hostnames, which can result in surprising behavior; a DNS label is \
             recommended: [{}]",
            if key.1 == "Pod" { "the Pod's hostname" } else { "Pod names" },
            problems.join(" ")
        ));
    }
    if key == ("", "Service") {
        warnings.extend(external_addresses(object));
    }
    if key == ("", "Pod") {
        pod::warnings("", object, &mut warnings);
    } else if let Some((path, template)) = template(definition, object) {
        pod::warnings(&path, template, &mut warnings);
    }
    warnings
}

/// Addresses from outside that a service names itself.
fn external_addresses(service: &Value) -> Option<String> {
    let spec = &service["spec"];
    if spec.list("externalIPs").is_empty() {
        return None;
    }
    Some(match (spec.text("type"), spec.text("clusterIP")) {
        ("ExternalName", _) => "spec.externalIPs is ignored when spec.type is \"ExternalName\"".to_owned(),
        (_, "None") => "spec.externalIPs is ignored for headless services".to_owned(),
        _ => "spec.externalIPs is deprecated and may no longer be implemented in some clusters".to_owned(),
    })
}

/// Warnings about a changed object.
pub fn update(write: &Write<'_>, old: &Value, new: &Value) -> Vec<String> {
    let definition = write.definition;
    let mut warnings = Vec::new();
    let moved = old["metadata"]["generation"] != new["metadata"]["generation"];
    let always = matches!(definition.kind.as_str(), "StatefulSet" | "CronJob");
    if write.subresource.is_none()
        && (moved || always)
        && let Some((path, template)) = template(definition, new)
    {
        pod::warnings(&path, template, &mut warnings);
    }
    warnings
}

fn template<'a>(definition: &Definition, object: &'a Value) -> Option<(String, &'a Value)> {
    let path = template_path(&definition.group, &definition.kind)?;
    Some((format!("{}.", path.join(".")), at(object, path)?))
}

/// What is said of owners that are named twice, which then count once.
pub fn duplicate_owners(uids: &[String]) -> String {
    format!(
        ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may reject \
         such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
        uids.join(", ")
    )
}
