//! Which ConfigMaps and Secrets a pod template names.

use std::collections::BTreeSet;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::manifest::ObjectKey;

/// The ConfigMaps and Secrets that the pods of a template read: in environments, in volumes of every kind (a CSI driver is
/// given one, too), and for pulling images. A pod is read as its template is.
#[must_use]
pub fn named_configuration(template: &Value, namespace: Option<&str>) -> BTreeSet<ObjectKey> {
    let mut names = BTreeSet::new();
    let spec = &template["spec"];
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        for container in items(&spec[list]) {
            for variable in items(&container["env"]) {
                name(&variable["valueFrom"]["configMapKeyRef"], "name", "ConfigMap", &mut names);
                name(&variable["valueFrom"]["secretKeyRef"], "name", "Secret", &mut names);
            }
            for from in items(&container["envFrom"]) {
                name(&from["configMapRef"], "name", "ConfigMap", &mut names);
                name(&from["secretRef"], "name", "Secret", &mut names);
            }
        }
    }
    for volume in items(&spec["volumes"]) {
        name(&volume["configMap"], "name", "ConfigMap", &mut names);
        // `secret`, `azureFile`; `cephfs`, `cinder`, `flexVolume`, `iscsi`, `rbd`, `scaleIO`, `storageos`; `csi`.
        for source in volume.as_object().into_iter().flat_map(|volume| volume.values()) {
            name(source, "secretName", "Secret", &mut names);
            name(&source["secretRef"], "name", "Secret", &mut names);
            name(&source["nodePublishSecretRef"], "name", "Secret", &mut names);
        }
        for projected in items(&volume["projected"]["sources"]) {
            name(&projected["configMap"], "name", "ConfigMap", &mut names);
            name(&projected["secret"], "name", "Secret", &mut names);
        }
    }
    for pull in items(&spec["imagePullSecrets"]) {
        name(pull, "name", "Secret", &mut names);
    }
    let key = |(kind, name): (&'static str, String)| ObjectKey {
        group: String::new(),
        kind: kind.to_owned(),
        namespace: namespace.map(str::to_owned),
        name,
    };
    names.into_iter().map(key).collect()
}

/// One hash for the configuration that a template names, from the hashes of those of its manifests that the repository
/// has; `None` where it has none of them.
#[must_use]
pub fn configuration_hash<'a>(manifests: impl IntoIterator<Item = (&'a ObjectKey, &'a str)>) -> Option<String> {
    let mut digest = Sha256::new();
    let mut any = false;
    for (key, hash) in manifests {
        any = true;
        digest.update(format!("{key}\n{hash}\n"));
    }
    any.then(|| digest.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect())
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

fn name(reference: &Value, field: &str, kind: &'static str, names: &mut BTreeSet<(&'static str, String)>) {
    if let Some(name) = reference[field].as_str().filter(|name| !name.is_empty()) {
        names.insert((kind, name.to_owned()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
