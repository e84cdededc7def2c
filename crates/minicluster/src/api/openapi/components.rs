//! The schemas that a document's operations name, and those that these name in turn.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::discovery::SCHEMAS;
use kube_facts::facts;

const PREFIX: &str = "#/components/schemas/";
const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.";

/// Returns the schemas that `paths` use, with the kinds that they stand for. `custom` has those of custom kinds, by
/// name.
pub(super) fn used_by<'a>(
    paths: &BTreeMap<String, Value>,
    group: &str,
    version: &str,
    custom: impl Iterator<Item = &'a (String, Value)>,
) -> BTreeMap<String, Value> {
    let custom: BTreeMap<&str, &Value> = custom.map(|(name, schema)| (name.as_str(), schema)).collect();
    let mut wanted = BTreeSet::new();
    paths.values().for_each(|path| references(path, &mut wanted));
    let mut used = BTreeMap::new();
    while let Some(name) = wanted.pop_first() {
        if used.contains_key(&name) {
            continue;
        }
        let known = custom
            .get(name.as_str())
            .map(|schema| (*schema).clone())
            .or_else(|| facts().document(&name))
            .or_else(|| SCHEMAS.get(name.as_str()).cloned());
        let mut schema = known.unwrap_or_else(|| json!({ "type": "object" }));
        references(&schema, &mut wanted);
        let kinds = kinds_of(&name, group, version);
        if !kinds.is_empty() {
            schema["x-kubernetes-group-version-kind"] = json!(kinds);
        }
        used.insert(name, schema);
    }
    used
}

/// Returns the name of a custom kind's schema: its group backwards, `com.example.v1.Widget`.
pub(super) fn custom_name(group: &str, version: &str, kind: &str) -> String {
    let backwards: Vec<&str> = group.split('.').rev().collect();
    format!("{}.{version}.{kind}", backwards.join("."))
}

fn references(value: &Value, into: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                match value.as_str().and_then(|text| text.strip_prefix(PREFIX)) {
                    Some(name) if key == "$ref" => drop(into.insert(name.to_owned())),
                    _ => references(value, into),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, into)),
        _ => {}
    }
}

/// Returns the kinds that a schema stands for: those that are served, their lists, and the options that every group
/// has.
fn kinds_of(name: &str, group: &str, version: &str) -> Vec<Value> {
    let kind = |group: &str, version: &str, kind: &str| json!({ "group": group, "kind": kind, "version": version });
    if let Some(meta) = name.strip_prefix(META) {
        return match meta {
            "APIGroup" | "APIGroupList" | "APIResourceList" | "APIVersions" | "Status" => vec![kind("", "v1", meta)],
            "DeleteOptions" | "WatchEvent" => {
                let mut kinds = vec![kind("", "v1", meta)];
                if !group.is_empty() {
                    kinds.push(kind(group, version, meta));
                }
                kinds
            }
            _ => Vec::new(),
        };
    }
    let facts = facts();
    let mut kinds = Vec::new();
    for known in &facts.kinds {
        for candidate in [known.kind.clone(), format!("{}List", known.kind)] {
            if facts.type_name(&known.group, &known.version, &candidate) == Some(name) {
                kinds.push(kind(&known.group, &known.version, &candidate));
            }
        }
        for subresource in known.subresources.iter().filter(|subresource| !subresource.version.is_empty()) {
            if facts.type_name(&subresource.group, &subresource.version, &subresource.kind) == Some(name) {
                kinds.push(kind(&subresource.group, &subresource.version, &subresource.kind));
            }
        }
    }
    kinds.dedup();
    kinds.truncate(1);
    kinds
}

/// Returns an object's members, for those who add to it.
pub(super) fn members(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = json!({});
    }
    match value {
        Value::Object(members) => members,
        _ => unreachable!("it was just made an object"),
    }
}
