//! `crates/kube-facts/src/kubernetes.json` says what the real API server says of its kinds, in its documents and in the Go types that
//! its program carries. `BELAY_WRITE_FACTS=1` writes it anew.

use std::fs;
use std::path::Path;

use serde_json::{Map, Value, json};

use crate::go_types;
use crate::support::control_plane::{self, ControlPlane, Controllers};

const FILE: &str = "crates/kube-facts/src/kubernetes.json";

#[tokio::test]
async fn the_facts_about_kinds_are_the_reference_servers_own() {
    let Some(assets) = control_plane::assets("the facts about kinds") else { return };
    let plane = ControlPlane::start(&assets, Controllers::None).await;
    let facts = render(&read_facts(&plane).await);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(FILE);
    if std::env::var_os("BELAY_WRITE_FACTS").is_some() {
        fs::write(&path, &facts).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    let difference = written.lines().zip(facts.lines()).find(|(a, b)| a != b);
    assert!(
        written == facts,
        "{FILE} differs from the reference server, first at {difference:?}; BELAY_WRITE_FACTS=1 writes it anew"
    );
}

async fn read_facts(plane: &ControlPlane) -> Value {
    let version = get(plane, "/version", "application/json").await;
    let mut kinds = Vec::new();
    for root in ["/api", "/apis"] {
        let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        for group in get(plane, root, accept).await["items"].as_array().unwrap() {
            kinds.extend(kinds_of(group));
        }
    }
    let mut types = Map::new();
    let index = get(plane, "/openapi/v3", "application/json").await;
    for (path, document) in index["paths"].as_object().unwrap() {
        if !path.starts_with("api/v1") && path.matches('/').count() != 2 {
            continue;
        }
        let url = document["serverRelativeURL"].as_str().unwrap();
        let mut document = get(plane, url, "application/json").await;
        if let Some(schemas) = document["components"]["schemas"].as_object_mut() {
            for (name, schema) in schemas {
                types.insert(name.clone(), without_prose(schema.take()));
            }
        }
    }
    let go = go_types::read(&plane.program("kube-apiserver"), types.keys());
    json!({ "kubernetes": version["gitVersion"], "kinds": kinds, "types": types, "go": go })
}

fn kinds_of(group: &Value) -> Vec<Value> {
    let mut kinds = Vec::new();
    for version in group["versions"].as_array().unwrap() {
        for resource in version["resources"].as_array().unwrap() {
            let mut kind = resource.clone();
            let entry = kind.as_object_mut().unwrap();
            entry.insert("group".to_owned(), group["metadata"].get("name").cloned().unwrap_or_else(|| json!("")));
            entry.insert("version".to_owned(), version["version"].clone());
            kinds.push(kind);
        }
    }
    kinds
}

/// Returns a schema without descriptions, and without the lists of kinds, which repeat what discovery says.
fn without_prose(schema: Value) -> Value {
    match schema {
        Value::Object(members) => members
            .into_iter()
            .filter(|(key, value)| {
                !(key == "description" && value.is_string()) && key != "x-kubernetes-group-version-kind"
            })
            .map(|(key, value)| {
                let value = match value {
                    Value::Object(fields) if key == "properties" => fields
                        .into_iter()
                        .map(|(name, field)| (name, without_prose(field)))
                        .collect::<Map<_, _>>()
                        .into(),
                    other => without_prose(other),
                };
                (key, value)
            })
            .collect(),
        Value::Array(items) => items.into_iter().map(without_prose).collect(),
        other => other,
    }
}

/// Returns one line an entry, so that a new release shows as the lines that it changed.
fn render(facts: &Value) -> String {
    let mut text = format!("{{\n\"kubernetes\": {},\n\"kinds\": [\n", facts["kubernetes"]);
    let kinds: Vec<String> = facts["kinds"].as_array().unwrap().iter().map(Value::to_string).collect();
    text.push_str(&kinds.join(",\n"));
    text.push_str("\n]");
    for section in ["types", "go"] {
        let entries = facts[section].as_object().unwrap().iter();
        let lines: Vec<String> = entries.map(|(name, entry)| format!("{}: {entry}", json!(name))).collect();
        text.push_str(&format!(",\n\"{section}\": {{\n{}\n}}", lines.join(",\n")));
    }
    text.push_str("\n}\n");
    text
}

async fn get(plane: &ControlPlane, path: &str, accept: &str) -> Value {
    let request = http::Request::get(path).header("Accept", accept).body(Vec::new()).unwrap();
    plane.client().request::<Value>(request).await.unwrap_or_else(|error| panic!("GET {path}: {error}"))
}
