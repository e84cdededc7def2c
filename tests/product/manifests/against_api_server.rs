//! Our verdict on manifests against the real API server's: what it takes is no complaint, what it refuses to decode is one.

use std::path::Path;

use belay_core::manifest::{Scopes, read_file};
use futures::StreamExt;
use http::Request;
use kube::Client;
use serde_json::{Value, json};

use crate::cases;
use crate::support::control_plane::{ControlPlane, Controllers, assets};

/// The number of mutations that are tried; `BELAY_MUTATIONS=100000` tries all of them.
const MUTATIONS: usize = 1500;

/// The server's answer to an object.
#[derive(Clone, Debug, PartialEq)]
enum Verdict {
    Taken,
    /// It is not even decoded: an unknown field, a wrong type.
    NotDecoded(String),
    /// It is decoded, but invalid, or not possible now.
    Invalid(String),
}

struct Server {
    client: Client,
}

impl Server {
    /// Returns the verdict on the apply that belay sends, as a dry run.
    async fn apply(&self, object: &Value) -> Verdict {
        let name = object["metadata"]["name"].as_str().unwrap();
        let query = "fieldManager=belay&force=true&dryRun=All&fieldValidation=Strict";
        self.send(
            "PATCH",
            &format!("{}/{}?{query}", path(object), escaped(name)),
            "application/apply-patch+yaml",
            object,
        )
        .await
    }

    /// Returns the verdict on a create, which decodes more strictly.
    async fn create(&self, object: &Value) -> Verdict {
        self.send("POST", &format!("{}?dryRun=All&fieldValidation=Strict", path(object)), "application/json", object)
            .await
    }

    async fn send(&self, method: &str, path: &str, kind: &str, object: &Value) -> Verdict {
        let request = Request::builder().method(method).uri(path).header("Content-Type", kind);
        let request = request.body(object.to_string().into_bytes()).unwrap();
        match self.client.request::<Value>(request).await {
            Ok(_) => Verdict::Taken,
            Err(kube::Error::Api(status)) if matches!(status.code, 400 | 500) => {
                Verdict::NotDecoded(status.message.clone())
            }
            Err(error) => Verdict::Invalid(error.to_string()),
        }
    }
}

/// Returns the path of an object's collection.
fn path(object: &Value) -> String {
    let version = object["apiVersion"].as_str().unwrap();
    let kind = object["kind"].as_str().unwrap();
    let (group, bare) = version.split_once('/').unwrap_or(("", version));
    let known = kube_facts::facts().kind(group, bare, kind);
    let (plural, namespaced) = known.map_or(("backups", true), |kind| (kind.resource.as_str(), kind.namespaced));
    let root = if group.is_empty() { "/api".to_owned() } else { "/apis".to_owned() };
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or("default");
    let namespace = if namespaced { format!("/namespaces/{namespace}") } else { String::new() };
    format!("{root}/{version}{namespace}/{plural}")
}

fn escaped(name: &str) -> String {
    name.bytes()
        .map(|byte| {
            if byte.is_ascii_alphanumeric() || b"-.".contains(&byte) {
                char::from(byte).to_string()
            } else {
                format!("%{byte:02X}")
            }
        })
        .collect()
}

async fn start(assets: &Path) -> (ControlPlane, Server) {
    let plane = ControlPlane::start(assets, Controllers::None).await;
    let server = Server { client: plane.client() };
    // Pods need it, and no controller runs that makes it.
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
    assert_eq!(server.send("POST", &path(&account), "application/json", &account).await, Verdict::Taken);
    let definition = valid().into_iter().find(|object| object["kind"] == "CustomResourceDefinition").unwrap();
    let made = server.send("POST", &path(&definition), "application/json", &definition).await;
    assert_eq!(made, Verdict::Taken);
    for kind in ["v1", "v1alpha1"] {
        // Until the definition is served; these are real processes.
        for _ in 0..100 {
            let backup = json!({"apiVersion": format!("example.com/{kind}"), "kind": "Backup", "metadata": {"name": "x"}, "spec": {"schedule": "x"}});
            if server.apply(&backup).await == Verdict::Taken {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    }
    (plane, server)
}

/// Returns the objects of the valid files.
fn valid() -> Vec<Value> {
    let files = cases::files(&cases::folder().join("valid"));
    let read = |path: &std::path::PathBuf| read_file("x", &std::fs::read(path).unwrap(), &cases::scopes());
    files.iter().flat_map(|path| read(path).manifests).map(|manifest| manifest.value()).collect()
}

fn complaints(object: &Value, scopes: &Scopes) -> Vec<String> {
    let file = read_file("x.json", object.to_string().as_bytes(), scopes);
    file.complaints.iter().map(ToString::to_string).collect()
}

#[tokio::test]
async fn the_server_takes_what_is_valid() {
    let Some(assets) = assets("valid manifests sent to the API server") else { return };
    let (_plane, server) = start(&assets).await;
    for object in valid() {
        assert_eq!(server.apply(&object).await, Verdict::Taken, "{object}");
    }
}

/// Takes away each field that we say must be there.
#[tokio::test]
async fn the_server_misses_what_must_be_there() {
    let Some(assets) = assets("manifests without what must be there sent to the API server") else { return };
    let (_plane, server) = start(&assets).await;
    let scopes = cases::scopes();
    let mut missed = 0;
    for mut object in valid() {
        if object["kind"] == "CustomResourceDefinition" {
            // One that is not there yet: what an apply leaves out of one that is, stays.
            object["metadata"]["name"] = json!("backups.example.org");
            object["spec"]["group"] = json!("example.org");
        }
        for pointer in pointers(&object) {
            let mut less = object.clone();
            remove(&mut less, &pointer);
            let complaints = complaints(&less, &scopes);
            if complaints.iter().any(|complaint| complaint.contains("is missing"))
                && less["metadata"]["name"].is_string()
            {
                missed += 1;
                assert_ne!(server.apply(&less).await, Verdict::Taken, "{}{pointer}: {complaints:?}", object["kind"]);
            }
        }
    }
    assert!(missed > 200, "{missed}: most required fields are in the valid files");
}

#[tokio::test]
async fn no_complaint_is_false_and_no_wrong_field_is_missed() {
    let Some(assets) = assets("mutated manifests sent to the API server") else { return };
    let (_plane, server) = start(&assets).await;
    let scopes = cases::scopes();
    let wanted = std::env::var("BELAY_MUTATIONS").ok().and_then(|text| text.parse().ok()).unwrap_or(MUTATIONS);
    let every: Vec<(String, Value)> = valid().iter().flat_map(mutations).collect();
    // A prime step visits all of them, spread over objects and kinds of change.
    let chosen = (0..wanted.min(every.len())).map(|at| (at * 7919) % every.len());
    let all: Vec<&(String, Value)> = chosen.map(|at| &every[at]).collect();
    let verdicts =
        futures::stream::iter(all.iter()).map(|(_, object)| server.apply(object)).buffered(8).collect::<Vec<_>>().await;
    let mut refused = 0;
    for ((how, object), verdict) in all.iter().zip(verdicts) {
        let complaints = complaints(object, &scopes);
        match verdict {
            Verdict::Taken if !complaints.is_empty() => {
                // An apply lets numbers overflow and drops what a schema doesn't name; a create says so.
                let created = server.create(object).await;
                assert_ne!(created, Verdict::Taken, "{how}: {complaints:?}");
            }
            Verdict::NotDecoded(why) => {
                refused += 1;
                assert!(!complaints.is_empty() || known_gap(&why), "{how}: the server says {why}");
            }
            Verdict::Taken | Verdict::Invalid(_) => {}
        }
    }
    assert!(refused > wanted.min(all.len()) / 4, "{refused} of {}", all.len());
}

/// Returns true for a text that the server can't decode and we let pass.
fn known_gap(why: &str) -> bool {
    // OpenAPI does not say what these may be.
    why.contains(".subresources.status") || why.contains("CustomResourceDefinition: json: cannot unmarshal")
        // An empty namespace is taken for none; the path of this test is not.
        || why.contains("Namespace parameter required")
}

/// Returns the JSON pointers of everything in a value but the root, its type and its name.
fn pointers(value: &Value) -> Vec<String> {
    fn walk(value: &Value, at: &str, all: &mut Vec<String>) {
        let members = value
            .as_object()
            .into_iter()
            .flatten()
            .map(|(key, value)| (key.replace('~', "~0").replace('/', "~1"), value));
        let items = value.as_array().into_iter().flatten().enumerate().map(|(index, value)| (index.to_string(), value));
        for (step, value) in members.chain(items) {
            let pointer = format!("{at}/{step}");
            walk(value, &pointer, all);
            all.push(pointer);
        }
    }
    let mut all = Vec::new();
    walk(value, "", &mut all);
    all.retain(|pointer| !["/apiVersion", "/kind", "/metadata", "/metadata/name"].contains(&pointer.as_str()));
    all
}

fn split(pointer: &str) -> (&str, String) {
    let (parent, last) = pointer.rsplit_once('/').unwrap();
    (parent, last.replace("~1", "/").replace("~0", "~"))
}

fn remove(object: &mut Value, pointer: &str) {
    let (parent, last) = split(pointer);
    match object.pointer_mut(parent) {
        Some(Value::Object(members)) => drop(members.remove(&last)),
        Some(Value::Array(items)) => drop(items.remove(last.parse().unwrap())),
        _ => panic!("{pointer}"),
    }
}

/// Returns everything that could be wrong with an object, one thing at a time.
fn mutations(object: &Value) -> Vec<(String, Value)> {
    let others = [
        json!(null),
        json!("zz"),
        json!(7),
        json!(1.5),
        json!(true),
        json!([]),
        json!({}),
        json!(""),
        json!("7"),
        json!(["zz"]),
        json!(1_099_511_627_776_i64),
        json!({"zz": "zz"}),
    ];
    let kind = format!("{} {}", object["kind"].as_str().unwrap(), object["metadata"]["name"].as_str().unwrap());
    let mut all = Vec::new();
    for pointer in pointers(object) {
        let mut push = |how: &str, change: &dyn Fn(&mut Value)| {
            let mut changed = object.clone();
            change(&mut changed);
            all.push((format!("{kind}: {how} {pointer}"), changed));
        };
        push("no", &|object| remove(object, &pointer));
        for other in others.iter().filter(|other| object.pointer(&pointer) != Some(other)) {
            push(&format!("{other} at"), &|object| *object.pointer_mut(&pointer).unwrap() = other.clone());
        }
        let (parent, last) = split(&pointer);
        if object.pointer(parent).unwrap().is_object() {
            push("renamed", &|object| {
                let members = object.pointer_mut(parent).unwrap().as_object_mut().unwrap();
                let value = members.remove(&last).unwrap();
                members.insert(format!("{last}x"), value);
            });
            push("one more beside", &|object| object.pointer_mut(parent).unwrap()["zzUnknown"] = json!(1));
        }
        if let Some(first) = object.pointer(&pointer).and_then(|list| list.get(0)).cloned() {
            let list = |object: &mut Value, item: Value| {
                object.pointer_mut(&pointer).unwrap().as_array_mut().unwrap().push(item);
            };
            push("twice in", &|object| list(object, first.clone()));
            push("null in", &|object| list(object, Value::Null));
        }
    }
    all
}
