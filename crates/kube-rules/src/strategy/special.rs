//! Special rules of single kinds.

use serde_json::{Value, json};

use super::super::conversions::TEMPLATE_GENERATION;
use super::super::times::{self, Precision};
use super::super::value_ext::{ValueExt, put_missing, remove, restore};
use super::super::{Definition, WriteContext};
use super::{pods, service};

/// Sets the first state of new objects.
pub fn create(write: &WriteContext<'_>, object: &mut Value) {
    let definition = write.definition;
    match (definition.group.as_str(), definition.kind.as_str()) {
        ("", "Pod") => pods::create(write, object),
        ("", "Namespace") => {
            object["status"] = json!({ "phase": "Active" });
            let spec = &mut object["spec"];
            if !spec.list("finalizers").contains(&json!("kubernetes")) {
                put_missing(spec, "finalizers", json!([]));
                push(&mut spec["finalizers"], json!("kubernetes"));
            }
        }
        ("", "PersistentVolume") => {
            object["status"] =
                json!({ "phase": "Pending", "lastPhaseTransitionTime": times::write(write.now, Precision::Seconds) });
        }
        ("", "PersistentVolumeClaim") => {
            object["status"] = json!({ "phase": "Pending" });
            data_sources(&Value::Null, &mut object["spec"]);
        }
        ("", "Service") => service::create(object),
        ("", "ServiceAccount") => name_secrets(object),
        ("discovery.k8s.io", "EndpointSlice") => drop_topology(object),
        ("apps", "DaemonSet") => {
            let given = template_generation(object);
            object["metadata"]["annotations"][TEMPLATE_GENERATION] = json!(given.max(1).to_string());
        }
        ("batch", "Job") => job_selector(object),
        ("apiregistration.k8s.io", "APIService") if !object["spec"].has("service") => {
            object["status"] = json!({ "conditions": [{
                "type": "Available", "status": "True", "reason": "Local",
                "message": "Local APIServices are always available",
                "lastTransitionTime": times::write(write.now, Precision::Seconds),
            }] });
        }
        ("apiextensions.k8s.io", "CustomResourceDefinition") => {
            no_empty_webhook(object);
            let stored: Vec<&str> = stored_version(object).into_iter().collect();
            object["status"] = json!({ "conditions": null, "acceptedNames": {}, "storedVersions": stored });
        }
        _ => {}
    }
}

/// Adds the defaults of admission to every changed object.
pub fn admit_change(definition: &Definition, object: &mut Value) {
    if definition.group.is_empty() && definition.kind == "Pod" {
        pods::admit(object);
    }
}

/// Adds the defaults of admission to new objects, before the server's own rules.
pub fn admit(definition: &Definition, object: &mut Value) {
    match (definition.group.as_str(), definition.kind.as_str()) {
        ("", "Pod") => pods::admit(object),
        ("", "Node") => {
            let taint = json!({ "key": "node.kubernetes.io/not-ready", "effect": "NoSchedule" });
            let spec = &mut object["spec"];
            let there = |other: &Value| other["key"] == taint["key"] && other["effect"] == taint["effect"];
            if !spec.list("taints").iter().any(there) {
                put_missing(spec, "taints", json!([]));
                push(&mut spec["taints"], taint);
            }
        }
        ("", "PersistentVolumeClaim") => protect(object, "kubernetes.io/pvc-protection"),
        ("", "PersistentVolume") => protect(object, "kubernetes.io/pv-protection"),
        ("storage.k8s.io", "VolumeAttributesClass") => protect(object, "kubernetes.io/vac-protection"),
        _ => {}
    }
}

/// Restores the fields that main writes leave alone.
pub fn update(write: &WriteContext<'_>, old: &Value, object: &mut Value) {
    let definition = write.definition;
    match (definition.group.as_str(), definition.kind.as_str()) {
        ("", "Namespace") => restore(&mut object["spec"], &old["spec"], "finalizers"),
        ("", "Service") => service::update(old, object),
        ("", "ServiceAccount") => name_secrets(object),
        ("discovery.k8s.io", "EndpointSlice") => drop_topology(object),
        ("", "PersistentVolumeClaim") => data_sources(&old["spec"], &mut object["spec"]),
        ("apps", "DaemonSet") => {
            let generation = template_generation(old);
            let moved = old["spec"]["template"] != object["spec"]["template"];
            let generation = if moved { generation + 1 } else { generation };
            object["metadata"]["annotations"][TEMPLATE_GENERATION] = json!(generation.to_string());
        }
        ("apiextensions.k8s.io", "CustomResourceDefinition") => {
            no_empty_webhook(object);
            remember_stored_version(object);
        }
        _ => {}
    }
}

/// Drops a webhook that says nothing but an empty list, though its sender owns it.
fn no_empty_webhook(definition: &mut Value) {
    let empty = |webhook: &Value| !webhook.has("clientConfig") && webhook.list("conversionReviewVersions").is_empty();
    if let Some(conversion) = definition.pointer_mut("/spec/conversion")
        && conversion.get("webhook").is_some_and(empty)
    {
        remove(conversion, "webhook");
    }
}

/// Returns the version of a definition in which its objects are stored.
fn stored_version(definition: &Value) -> Option<&str> {
    let versions = definition["spec"].list("versions").iter();
    versions.filter(|version| version.flag("storage")).map(|version| version.text("name")).next()
}

/// Adds the new stored version to the stored versions.
fn remember_stored_version(definition: &mut Value) {
    let Some(stored) = stored_version(definition).map(Value::from) else { return };
    if !definition["status"].list("storedVersions").contains(&stored) {
        put_missing(definition, "status", json!({}));
        put_missing(&mut definition["status"], "storedVersions", json!([]));
        push(&mut definition["status"]["storedVersions"], stored);
    }
}

/// Restores further fields that writes of a status leave alone.
pub fn status(definition: &Definition, old: &Value, object: &mut Value) {
    match (definition.group.as_str(), definition.kind.as_str()) {
        ("", "Pod") => pods::status(old, object),
        ("", "Node") if !old["status"].has("config") => remove(&mut object["status"], "config"),
        ("apps", "DaemonSet") => {
            object["metadata"]["annotations"][TEMPLATE_GENERATION] = json!(template_generation(old).to_string());
        }
        ("", "PersistentVolume") => {
            let phase = |object: &Value| object["status"].text("phase").to_owned();
            if phase(old) == phase(object) && !object["status"].has("lastPhaseTransitionTime") {
                restore(&mut object["status"], &old["status"], "lastPhaseTransitionTime");
            }
        }
        ("apiextensions.k8s.io", "CustomResourceDefinition") if object["status"].list("storedVersions").is_empty() => {
            remember_stored_version(object);
        }
        _ => {}
    }
}

/// Applies the changes of writes through other subresources.
pub fn subresource(definition: &Definition, name: &str, old: &Value, object: &mut Value) {
    let keep = |object: &mut Value, kept: &[&str]| {
        for name in kept {
            restore(object, old, name);
        }
    };
    match (definition.kind.as_str(), name) {
        ("Namespace", "finalize") => keep(object, &["status"]),
        ("Pod", "ephemeralcontainers") => {
            let containers = object["spec"].get("ephemeralContainers").cloned();
            keep(object, &["spec", "status"]);
            match containers {
                Some(containers) => object["spec"]["ephemeralContainers"] = containers,
                None => remove(&mut object["spec"], "ephemeralContainers"),
            }
            count_pod(old, object);
        }
        ("Pod", "resize") => {
            keep(object, &["status"]);
            count_pod(old, object);
        }
        _ => {}
    }
}

/// Drops a field of an older version.
fn drop_topology(slice: &mut Value) {
    for endpoint in slice.get_mut("endpoints").and_then(Value::as_array_mut).into_iter().flatten() {
        remove(endpoint, "deprecatedTopology");
    }
}

/// Secrets of a service account are known by their names alone.
fn name_secrets(account: &mut Value) {
    for secret in account.get_mut("secrets").and_then(Value::as_array_mut).into_iter().flatten() {
        *secret = secret.get("name").map_or_else(|| json!({}), |name| json!({ "name": name }));
    }
}

/// Completes the source of a claim's first data, which stands in two fields; the older field knows two kinds of source
/// alone.
fn data_sources(old: &Value, spec: &mut Value) {
    let group = spec["dataSource"].text("apiGroup");
    let known = match spec["dataSource"].text("kind") {
        "PersistentVolumeClaim" => group.is_empty(),
        "VolumeSnapshot" => group == "snapshot.storage.k8s.io",
        _ => false,
    };
    if !known && !spec.has("dataSourceRef") && !old.has("dataSource") && !old.has("dataSourceRef") {
        remove(spec, "dataSource");
    }
    match (spec.some("dataSource").cloned(), spec.some("dataSourceRef").cloned()) {
        (Some(source), None) => spec["dataSourceRef"] = source,
        (None, Some(source)) if !source.has("namespace") => spec["dataSource"] = source,
        _ => {}
    }
}

fn count_pod(old: &Value, object: &mut Value) {
    if old["spec"] != object["spec"] {
        let generation = old["metadata"].int("generation").unwrap_or_default();
        object["metadata"]["generation"] = json!(generation + 1);
    }
}

fn template_generation(object: &Value) -> i64 {
    object["metadata"]["annotations"].text(TEMPLATE_GENERATION).parse().unwrap_or_default()
}

fn protect(object: &mut Value, finalizer: &str) {
    let metadata = &mut object["metadata"];
    if !metadata.list("finalizers").contains(&json!(finalizer)) {
        put_missing(metadata, "finalizers", json!([]));
        push(&mut metadata["finalizers"], json!(finalizer));
    }
}

fn push(list: &mut Value, item: Value) {
    if let Value::Array(items) = list {
        items.push(item);
    }
}

/// Gives a job that does not choose its own pods by labels a selector that fits only them.
fn job_selector(job: &mut Value) {
    let (name, uid) = (job["metadata"].text("name").to_owned(), job["metadata"].text("uid").to_owned());
    let job_labels = job["metadata"]["labels"].clone();
    let spec = &mut job["spec"];
    if spec.flag("manualSelector") {
        return;
    }
    put_missing(&mut spec["template"], "metadata", json!({}));
    let metadata = &mut spec["template"]["metadata"];
    put_missing(metadata, "labels", json!({}));
    // A job without labels has got its template's, and goes on sharing them.
    let shares = job_labels == metadata["labels"];
    let ours = [
        ("controller-uid", &uid),
        ("job-name", &name),
        ("batch.kubernetes.io/controller-uid", &uid),
        ("batch.kubernetes.io/job-name", &name),
    ];
    for (key, value) in ours {
        // A label that the client gave stays, so that validation can complain of it.
        put_missing(&mut metadata["labels"], key, value.as_str());
    }
    put_missing(spec, "selector", json!({}));
    let selector = &mut spec["selector"];
    put_missing(selector, "matchLabels", json!({}));
    put_missing(&mut selector["matchLabels"], "batch.kubernetes.io/controller-uid", uid);
    if shares {
        job["metadata"]["labels"] = job["spec"]["template"]["metadata"]["labels"].clone();
    }
}
