//! The changes of an object on its way through the real server's internal types: fields that stand for one another, and
//! fields that are only written.

use serde_json::{Map, Value};

use super::Definition;
use super::value_ext::{ValueExt, remove};

/// Annotations that pods lose.
const DROPPED_FROM_PODS: [&str; 4] = [
    "pod.beta.kubernetes.io/init-containers",
    "pod.alpha.kubernetes.io/init-containers",
    "pod.beta.kubernetes.io/init-container-statuses",
    "pod.alpha.kubernetes.io/init-container-statuses",
];

/// The annotation in which a DaemonSet counts the changes of its template.
pub const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// Returns the path of a kind's pod template.
pub fn template_path(group: &str, kind: &str) -> Option<&'static [&'static str]> {
    match (group, kind) {
        ("apps", "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet")
        | ("", "ReplicationController")
        | ("batch", "Job") => Some(&["spec", "template"]),
        ("batch", "CronJob") => Some(&["spec", "jobTemplate", "spec", "template"]),
        ("", "PodTemplate") => Some(&["template"]),
        _ => None,
    }
}

/// The value at a path of field names.
pub fn at_mut<'a>(value: &'a mut Value, path: &[&str]) -> Option<&'a mut Value> {
    path.iter().try_fold(value, |value, name| value.get_mut(name))
}

/// The value at a path of field names.
pub fn at<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, name| value.get(name))
}

/// Applies the changes of an object that goes to the internal types and back.
pub fn through_internal(definition: &Definition, object: &mut Value) {
    match (definition.group.as_str(), definition.kind.as_str()) {
        ("", "Secret") => take_string_data(object),
        ("", "Pod") => {
            pod(object);
            if let Some(status) = object.get_mut("status") {
                first_of_several(status, "podIP", "podIPs", Some("ip"));
            }
        }
        ("", "Node") => {
            if let Some(spec) = object.get_mut("spec") {
                first_of_several(spec, "podCIDR", "podCIDRs", None);
            }
        }
        ("apiextensions.k8s.io", "CustomResourceDefinition") => {
            // Fields of a webhook stand beside it inside, so one with nothing in it is none.
            let empty = |webhook: &Value| !webhook.has("clientConfig") && !webhook.has("conversionReviewVersions");
            if let Some(conversion) = object.pointer_mut("/spec/conversion")
                && conversion.get("webhook").is_some_and(empty)
            {
                remove(conversion, "webhook");
            }
        }
        ("apps", "DaemonSet") => {
            // Its generation of the template is a field inside and an annotation outside.
            let generation: i64 =
                object["metadata"]["annotations"].text(TEMPLATE_GENERATION).parse().unwrap_or_default();
            object["metadata"]["annotations"][TEMPLATE_GENERATION] = generation.to_string().into();
            pod(&mut object["spec"]["template"]);
        }
        (group, kind) => {
            if (group, kind) == ("apps", "StatefulSet")
                && let Some(Value::Array(claims)) =
                    object.get_mut("spec").and_then(|spec| spec.get_mut("volumeClaimTemplates"))
            {
                for claim in claims.iter_mut().filter(|claim| claim.is_object()) {
                    claim["apiVersion"] = "v1".into();
                    claim["kind"] = "PersistentVolumeClaim".into();
                }
            }
            if let Some(template) = template_path(group, kind).and_then(|path| at_mut(object, path)) {
                pod(template);
            }
        }
    }
}

/// Converts a pod or a pod template: anything with `metadata` and a pod's `spec`.
fn pod(pod: &mut Value) {
    if let Some(Value::Object(annotations)) =
        pod.get_mut("metadata").and_then(|metadata| metadata.get_mut("annotations"))
    {
        annotations.retain(|name, _| !DROPPED_FROM_PODS.contains(&name.as_str()));
    }
    let Some(Value::Object(spec)) = pod.get_mut("spec") else { return };
    let text = |name: &str| spec.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    if let Some(account) = text("serviceAccountName").or_else(|| text("serviceAccount")).map(str::to_owned) {
        spec.insert("serviceAccountName".to_owned(), account.clone().into());
        spec.insert("serviceAccount".to_owned(), account.into());
    } else {
        spec.remove("serviceAccount");
    }
}

/// Moves `stringData`, which is for writing only, into `data`.
fn take_string_data(secret: &mut Value) {
    let Some(Value::Object(texts)) = secret.as_object_mut().and_then(|secret| secret.remove("stringData")) else {
        return;
    };
    if texts.is_empty() {
        return;
    }
    if !secret["data"].is_object() {
        secret["data"] = Value::Object(Map::new());
    }
    for (key, text) in texts {
        use base64::Engine as _;
        let bytes = text.as_str().unwrap_or_default();
        secret["data"][key] = base64::engine::general_purpose::STANDARD.encode(bytes).into();
    }
}

/// Mirrors a field that is the first of a list, from before there were several.
fn first_of_several(of: &mut Value, one: &str, several: &str, key: Option<&str>) {
    let Value::Object(fields) = of else { return };
    let text = |item: &Value| match key {
        Some(key) => item.get(key).and_then(Value::as_str).unwrap_or_default().to_owned(),
        None => item.as_str().unwrap_or_default().to_owned(),
    };
    let first = fields.get(several).and_then(|list| list.get(0)).map(text);
    let single = fields.get(one).and_then(Value::as_str).filter(|single| !single.is_empty()).map(str::to_owned);
    match (single, first) {
        (Some(single), first) if first.as_ref() != Some(&single) => {
            let item = match key {
                Some(key) => Value::Object(Map::from_iter([(key.to_owned(), single.into())])),
                None => single.into(),
            };
            fields.insert(several.to_owned(), Value::Array(vec![item]));
        }
        (None, Some(first)) if !first.is_empty() => {
            fields.insert(one.to_owned(), first.into());
        }
        _ => {}
    }
}
