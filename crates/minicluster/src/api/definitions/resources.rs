//! From a definition to the resources that it stands for, one a served version.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::api::json_pointer::text;
use crate::api::resource::{CustomFacts, Resource};
use crate::api::store::GroupResource;
use kube_facts::{Subresource, facts};
use kube_rules::{Custom, Definition, ScalePaths, Schema, shape};

/// In the order in which the real server lists them for custom kinds.
const VERBS: [&str; 8] = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

/// Returns the resources of a definition, the preferred version first.
pub(super) fn resources(definition: &Value) -> Vec<Resource> {
    let spec = &definition["spec"];
    let versions = spec["versions"].as_array().map_or(&[][..], Vec::as_slice);
    let Some(stored) = versions.iter().find(|version| version["storage"] == true) else { return Vec::new() };
    let mut served: Vec<&Value> = versions.iter().filter(|version| version["served"] == true).collect();
    served.sort_by(|one, other| by_priority(text(one, "/name"), text(other, "/name")));
    let newest = served.first().map(|version| text(version, "/name").to_owned()).unwrap_or_default();
    let schema = |version: &Value| Schema::read(&version["schema"]["openAPIV3Schema"]);
    let schemas = versions.iter().map(|version| (text(version, "/name").to_owned(), schema(version)));
    let schemas: Arc<BTreeMap<String, Schema>> = Arc::new(schemas.collect());
    let resource = |version| resource(spec, version, text(stored, "/name"), &newest, Arc::clone(&schemas));
    served.into_iter().map(resource).collect()
}

/// Orders stable versions before beta before alpha, higher numbers before lower ones, all else by name.
pub(super) fn by_priority(one: &str, other: &str) -> Ordering {
    fn rank(version: &str) -> Option<(u8, u64, u64)> {
        let rest = version.strip_prefix('v')?;
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let major = rest[..digits].parse().ok()?;
        match &rest[digits..] {
            "" => Some((2, major, 0)),
            end => match (end.strip_prefix("beta"), end.strip_prefix("alpha")) {
                (Some(minor), _) => Some((1, major, minor.parse().ok()?)),
                (_, Some(minor)) => Some((0, major, minor.parse().ok()?)),
                _ => None,
            },
        }
    }
    match (rank(one), rank(other)) {
        (Some(one), Some(other)) => other.cmp(&one),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => one.cmp(other),
    }
}

fn resource(
    spec: &Value,
    version: &Value,
    stored: &str,
    newest: &str,
    versions: Arc<BTreeMap<String, Schema>>,
) -> Resource {
    let names = &spec["names"];
    let list = |field: &str| -> Vec<String> {
        names[field].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let (group, kind, plural) = (text(spec, "/group"), text(names, "/kind"), text(names, "/plural"));
    let named = |field: &str, otherwise: String| match text(names, &format!("/{field}")) {
        "" => otherwise,
        name => name.to_owned(),
    };
    let schema = version["schema"]["openAPIV3Schema"].clone();
    let subresources = &version["subresources"];
    let own = selectable(version);
    // All versions index the same fields, for they share their objects.
    let mut all: Vec<String> = spec["versions"].as_array().into_iter().flatten().flat_map(selectable).collect();
    all.sort();
    all.dedup();
    let scale = scale(&subresources["scale"]);
    let read = Schema::read(&schema);
    let list_kind = named("listKind", format!("{kind}List"));
    let facts = CustomFacts {
        columns: version["additionalPrinterColumns"].as_array().cloned().unwrap_or_default(),
        scale: scale.clone(),
        schemas: schemas(group, text(version, "/name"), kind, &list_kind, &schema),
        deprecation: deprecation(group, version, kind, newest),
    };
    Resource {
        list_kind,
        singular: named("singular", kind.to_lowercase()),
        short_names: list("shortNames"),
        categories: list("categories"),
        verbs: VERBS.map(str::to_owned).to_vec(),
        subresources: served_below(kind, subresources),
        group_resource: GroupResource { group: group.into(), resource: plural.into() },
        storage_version: stored.to_owned(),
        selectable_paths: all.iter().map(|path| segments(path)).collect(),
        selectable: all.into_iter().map(|path| own.contains(&path).then_some(path)).collect(),
        custom: Some(Arc::new(facts)),
        definition: Definition {
            group: group.to_owned(),
            version: text(version, "/name").to_owned(),
            kind: kind.to_owned(),
            resource: plural.to_owned(),
            namespaced: text(spec, "/scope") == "Namespaced",
            schema: shape(&read),
            custom: Some(Custom { schema: read.into(), versions, status: subresources["status"].is_object(), scale }),
        },
    }
}

/// Returns the fields that a version's field selectors can ask for.
fn selectable(version: &Value) -> Vec<String> {
    let fields = version["selectableFields"].as_array().into_iter().flatten();
    fields.map(|field| text(field, "/jsonPath").trim_start_matches('.').to_owned()).collect()
}

fn served_below(kind: &str, subresources: &Value) -> Vec<Subresource> {
    let below = |name: &str, group: &str, version: &str, kind: &str| Subresource {
        name: name.to_owned(),
        group: group.to_owned(),
        version: version.to_owned(),
        kind: kind.to_owned(),
        verbs: ["get", "patch", "update"].map(str::to_owned).to_vec(),
    };
    let status = subresources["status"].is_object().then(|| below("status", "", "", kind));
    let scale = subresources["scale"].is_object().then(|| below("scale", "autoscaling", "v1", "Scale"));
    status.into_iter().chain(scale).collect()
}

fn scale(scale: &Value) -> Option<ScalePaths> {
    let path = |field: &str| scale[field].as_str().map(segments);
    Some(ScalePaths {
        spec: path("specReplicasPath")?,
        status: path("statusReplicasPath")?,
        selector: path("labelSelectorPath"),
    })
}

fn segments(path: &str) -> Vec<String> {
    path.trim_start_matches('.').split('.').map(str::to_owned).collect()
}

fn deprecation(group: &str, version: &Value, kind: &str, newest: &str) -> Option<String> {
    if version["deprecated"] != true {
        return None;
    }
    let name = text(version, "/name");
    let own = version["deprecationWarning"].as_str().map(str::to_owned);
    Some(own.unwrap_or_else(|| {
        let instead = if newest == name { String::new() } else { format!("; use {group}/{newest} {kind}") };
        format!("{group}/{name} {kind} is deprecated{instead}")
    }))
}

/// Returns the schemas of an object and of a list, by their names in OpenAPI, as clients see them.
fn schemas(group: &str, version: &str, kind: &str, list_kind: &str, schema: &Value) -> Vec<(String, Value)> {
    let backwards: Vec<&str> = group.split('.').rev().collect();
    let name = |kind: &str| format!("{}.{version}.{kind}", backwards.join("."));
    let stands_for = |kind: &str| json!([{ "group": group, "kind": kind, "version": version }]);
    let reference = |name: &str| json!({ "$ref": format!("#/components/schemas/{name}") });
    let mut object = if schema.is_object() { schema.clone() } else { json!({ "type": "object" }) };
    for field in ["apiVersion", "kind"] {
        object["properties"][field] = json!({ "type": "string" });
    }
    object["properties"]["metadata"] = json!({ "allOf": [reference(&format!("{META}.ObjectMeta"))] });
    object["x-kubernetes-group-version-kind"] = stands_for(kind);
    let items = json!({ "type": "array", "items": reference(&name(kind)) });
    let list = json!({
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": { "type": "string" },
            "items": items,
            "kind": { "type": "string" },
            "metadata": { "allOf": [reference(&format!("{META}.ListMeta"))] },
        },
        "x-kubernetes-group-version-kind": stands_for(list_kind),
    });
    debug_assert!(facts().named(&format!("{META}.ObjectMeta")).is_some());
    vec![(name(kind), object), (name(list_kind), list)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_by_their_maturity() {
        let mut versions = ["foo1", "v1alpha1", "v10", "v2", "v3beta1", "v1", "foo10", "v11beta2", "v12alpha1"];
        versions.sort_by(|one, other| by_priority(one, other));
        let expected = ["v10", "v2", "v1", "v11beta2", "v3beta1", "v12alpha1", "v1alpha1", "foo1", "foo10"];
        assert_eq!(versions, expected);
    }

    #[test]
    fn a_definition_becomes_resources() {
        let definition = json!({ "spec": {
            "group": "example.com", "scope": "Cluster", "names": { "plural": "widgets", "kind": "Widget" },
            "versions": [
                { "name": "v1beta1", "served": true, "storage": false, "deprecated": true },
                { "name": "v1", "served": true, "storage": true, "subresources": {
                    "status": {}, "scale": { "specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n" } } },
                { "name": "v0", "served": false, "storage": false },
            ],
        }});
        let resources = resources(&definition);
        assert_eq!(resources.len(), 2);
        let (first, second) = (&resources[0], &resources[1]);
        assert_eq!((first.definition.version.as_str(), first.singular.as_str()), ("v1", "widget"));
        assert_eq!(first.subresources.len(), 2);
        assert!(first.is_stored_version() && !second.is_stored_version());
        let warning = second.custom.as_ref().unwrap().deprecation.as_deref();
        assert_eq!(warning, Some("example.com/v1beta1 Widget is deprecated; use example.com/v1 Widget"));
    }
}
