//! `src/kinds/kubernetes.json` says what the real API server says of its kinds. `BELAY_WRITE_FACTS=1` writes it anew.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;

use serde_json::{Map, Value, json};

use crate::world::control_plane::{self, ControlPlane, Controllers};

const FILE: &str = "src/kinds/kubernetes.json";
const PREFIX: &str = "#/components/schemas/";

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
    let zeros = zeros(plane, &kinds, &types);
    json!({ "kubernetes": version["gitVersion"], "kinds": kinds, "types": types, "zeros": zeros })
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

/// A schema without descriptions, and without the lists of kinds, which repeat what discovery says.
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

/// Which fields keep a zero value (false, 0, "") through a round trip of the server's own types: the pointers. Those of
/// the workload kinds are told by kubectl, which reads and prints an object through them without a server.
fn zeros(plane: &ControlPlane, kinds: &[Value], types: &Map<String, Value>) -> Value {
    let mut kept: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut seen: BTreeSet<String> = BTreeSet::new();
    let workloads = ["Pod", "ReplicationController", "Deployment", "DaemonSet", "StatefulSet", "CronJob", "ReplicaSet"];
    for kind in kinds.iter().filter(|kind| workloads.contains(&kind["responseKind"]["kind"].as_str().unwrap())) {
        let (group, version) = (kind["group"].as_str().unwrap(), kind["version"].as_str().unwrap());
        let name = kind["responseKind"]["kind"].as_str().unwrap();
        let package = if group.is_empty() { "core" } else { group };
        let type_name = format!("io.k8s.api.{package}.{version}.{name}");
        if !types.contains_key(&type_name) {
            continue;
        }
        let mut object = zero(types, &type_name, 0);
        object["apiVersion"] = if group.is_empty() { json!(version) } else { json!(format!("{group}/{version}")) };
        object["kind"] = json!(name);
        object["metadata"]["name"] = json!("zero");
        let answer = round_trip(plane, &object);
        compare(types, &type_name, &object, &answer, &mut kept, &mut seen);
    }
    let fields = |of: &BTreeSet<String>| of.iter().cloned().collect::<Vec<_>>();
    seen.iter()
        .map(|name| (name.clone(), json!(kept.get(name).map(fields).unwrap_or_default())))
        .collect::<Map<_, _>>()
        .into()
}

fn zero(types: &Map<String, Value>, name: &str, depth: usize) -> Value {
    zero_of(types, &types[name], depth)
}

fn zero_of(types: &Map<String, Value>, schema: &Value, depth: usize) -> Value {
    if let Some(name) = reference(schema) {
        if depth > 24 || name.ends_with("v1.Time") || name.ends_with("MicroTime") {
            return Value::Null;
        }
        if name.ends_with("IntOrString") {
            return json!(0);
        }
        if name.ends_with("Quantity") {
            return json!("0");
        }
        return zero(types, name, depth + 1);
    }
    match schema["type"].as_str() {
        Some("boolean") => json!(false),
        Some("integer" | "number") => json!(0),
        Some("string") => json!(""),
        Some("array") => {
            let mut item = zero_of(types, &schema["items"], depth + 1);
            // kubectl computes a strategic merge patch on the way, and that needs its keys.
            if let (Some(key), true) = (schema["x-kubernetes-patch-merge-key"].as_str(), item.is_object()) {
                item[key] = if item[key].is_number() { json!(1) } else { json!("key") };
            }
            json!([item])
        }
        Some("object") if schema.get("properties").is_some() => {
            let fields = schema["properties"].as_object().unwrap();
            let zeros = fields.iter().map(|(field, schema)| (field.clone(), zero_of(types, schema, depth + 1)));
            zeros.filter(|(field, value)| !value.is_null() && field != "managedFields").collect::<Map<_, _>>().into()
        }
        _ => Value::Null,
    }
}

fn reference(schema: &Value) -> Option<&str> {
    let direct = schema.get("$ref").or_else(|| schema["allOf"].get(0).and_then(|first| first.get("$ref")));
    direct.and_then(Value::as_str).map(|reference| reference.strip_prefix(PREFIX).unwrap())
}

fn round_trip(plane: &ControlPlane, object: &Value) -> Value {
    let mut kubectl = plane.kubectl();
    kubectl.args(["set", "image", "--local", "-o", "json", "-f", "-", "*=image"]);
    let mut child = kubectl.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("kubectl runs");
    child.stdin.take().unwrap().write_all(object.to_string().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("kubectl's answer to {object}: {error}"))
}

fn compare(
    types: &Map<String, Value>,
    name: &str,
    sent: &Value,
    came_back: &Value,
    kept: &mut BTreeMap<String, BTreeSet<String>>,
    seen: &mut BTreeSet<String>,
) {
    let Some(fields) = types[name]["properties"].as_object() else { return };
    seen.insert(name.to_owned());
    for (field, schema) in fields {
        let (Some(sent), Some(back)) = (sent.get(field), came_back.get(field)) else { continue };
        let scalar = !sent.is_object() && !sent.is_array();
        if scalar && is_zero(sent) && field != "image" {
            kept.entry(name.to_owned()).or_default().insert(field.clone());
        }
        if let Some(inner) = reference(schema) {
            compare(types, inner, sent, back, kept, seen);
        } else if let (Some(inner), Some(sent), Some(back)) = (reference(&schema["items"]), sent.get(0), back.get(0)) {
            compare(types, inner, sent, back, kept, seen);
        }
    }
}

fn is_zero(value: &Value) -> bool {
    [json!(false), json!(0), json!("")].contains(value)
}

/// One line an entry, so that a new release shows as the lines that it changed.
fn render(facts: &Value) -> String {
    let mut text = format!("{{\n\"kubernetes\": {},\n\"kinds\": [\n", facts["kubernetes"]);
    let kinds: Vec<String> = facts["kinds"].as_array().unwrap().iter().map(Value::to_string).collect();
    text.push_str(&kinds.join(",\n"));
    text.push_str("\n]");
    for section in ["types", "zeros"] {
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
