//! References of a repository's pods to objects that no manifest of it creates. It may be made elsewhere, so it is
//! doubtful and not wrong.

use std::collections::BTreeSet;

use serde_json::Value;

use belay_core::manifest::{Complaint, Manifest, ObjectKey};
use belay_core::rollout::{pod_spec_path, service_account};

/// The objects that every namespace has by itself.
const ALWAYS: [(&str, &str); 2] = [("ServiceAccount", "default"), ("ConfigMap", "kube-root-ca.crt")];

/// Returns one warning for each object that a manifest names, that must be there, and that is in none of them.
pub(super) fn that_lead_nowhere(manifest: &Manifest, there: &BTreeSet<&ObjectKey>) -> Vec<Complaint> {
    let Some(path) = pod_spec_path(&manifest.key.group, &manifest.key.kind) else { return Vec::new() };
    let value = manifest.value();
    let spec = path.iter().fold(&value, |value, name| &value[*name]);
    let mut seen = BTreeSet::new();
    let mut warnings = Vec::new();
    for (kind, name, field) in references(spec) {
        let key = ObjectKey {
            group: String::new(),
            kind: kind.to_owned(),
            namespace: manifest.key.namespace.clone(),
            name: name.to_owned(),
        };
        if there.contains(&key) || ALWAYS.contains(&(kind, name)) || !seen.insert(key.clone()) {
            continue;
        }
        warnings.push(Complaint {
            place: manifest.place_of(&format!("{}.{field}", path.join("."))),
            object: Some(manifest.key.clone()),
            message: format!("names {key}, which no manifest here makes"),
            hint: None,
            excerpt: None,
            also: Vec::new(),
        });
    }
    warnings
}

/// Returns kind, name and field of everything that a pod names and can't begin without.
fn references<'a>(spec: &'a Value) -> Vec<(&'static str, &'a str, String)> {
    let mut all = Vec::new();
    let mut add = |kind, reference: &'a Value, name: &str, field: String| {
        let named = reference[name].as_str().filter(|text| !text.is_empty());
        if let Some(text) = named.filter(|_| reference["optional"] != true) {
            all.push((kind, text, format!("{field}.{name}")));
        }
    };
    for list in ["containers", "initContainers"] {
        for (at, container) in items(&spec[list]) {
            for (index, variable) in items(&container["env"]) {
                let field = |source: &str| format!("{list}[{at}].env[{index}].valueFrom.{source}");
                let from = &variable["valueFrom"];
                add("ConfigMap", &from["configMapKeyRef"], "name", field("configMapKeyRef"));
                add("Secret", &from["secretKeyRef"], "name", field("secretKeyRef"));
            }
            for (index, from) in items(&container["envFrom"]) {
                let field = |source: &str| format!("{list}[{at}].envFrom[{index}].{source}");
                add("ConfigMap", &from["configMapRef"], "name", field("configMapRef"));
                add("Secret", &from["secretRef"], "name", field("secretRef"));
            }
        }
    }
    for (at, volume) in items(&spec["volumes"]) {
        let field = |source: &str| format!("volumes[{at}].{source}");
        add("ConfigMap", &volume["configMap"], "name", field("configMap"));
        add("Secret", &volume["secret"], "secretName", field("secret"));
        add("PersistentVolumeClaim", &volume["persistentVolumeClaim"], "claimName", field("persistentVolumeClaim"));
        for (index, source) in items(&volume["projected"]["sources"]) {
            add("ConfigMap", &source["configMap"], "name", field(&format!("projected.sources[{index}].configMap")));
            add("Secret", &source["secret"], "name", field(&format!("projected.sources[{index}].secret")));
        }
    }
    if let Some((field, name)) = service_account(spec) {
        all.push(("ServiceAccount", name, field.to_owned()));
    }
    all
}

fn items(list: &Value) -> impl Iterator<Item = (usize, &Value)> {
    list.as_array().into_iter().flatten().enumerate()
}

#[cfg(test)]
mod tests {
    use super::*;
    use belay_core::manifest::{Scopes, read_file};

    #[test]
    fn what_is_named_and_not_there_is_told_once_and_where() {
        let text = "\
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop}
spec:
  serviceAccountName: web
  containers:
  - name: app
    image: web:1
    envFrom:
    - configMapRef: {name: there}
    - secretRef: {name: keys}
    - secretRef: {name: keys}
    - configMapRef: {name: perhaps, optional: true}
    env:
    - {name: A, valueFrom: {configMapKeyRef: {name: away, key: a}}}
  volumes:
  - name: data
    persistentVolumeClaim: {claimName: data}
  - name: all
    projected: {sources: [{secret: {name: more}}, {configMap: {name: kube-root-ca.crt}}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: there, namespace: shop}
---
apiVersion: v1
kind: Secret
metadata: {name: keys, namespace: other}
";
        let file = read_file("web.yaml", text.as_bytes(), &Scopes::new("default"));
        let there = file.manifests.iter().map(|manifest| &manifest.key).collect();
        let warnings = that_lead_nowhere(&file.manifests[0], &there);
        let told: Vec<(u32, String)> = warnings
            .iter()
            .map(|warning| (warning.place.line, warning.message.replace(", which no manifest here makes", "")))
            .collect();
        let expected = [
            (15, "names ConfigMap shop/away"),
            (11, "names Secret shop/keys"),
            (18, "names PersistentVolumeClaim shop/data"),
            (20, "names Secret shop/more"),
            (5, "names ServiceAccount shop/web"),
        ];
        assert_eq!(told, expected.map(|(line, text)| (line, text.to_owned())));
        let old = read_file(
            "web.yaml",
            text.replace("serviceAccountName", "serviceAccount").as_bytes(),
            &Scopes::new("default"),
        );
        let warnings = that_lead_nowhere(&old.manifests[0], &there);
        let account = warnings.iter().find(|warning| warning.message.contains("ServiceAccount shop/web"));
        assert_eq!(account.map(|warning| warning.place.line), Some(5), "under the old name of the field");
    }
}
