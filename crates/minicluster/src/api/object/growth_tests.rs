//! Checking an object takes work in proportion to its items: generated objects with long lists, at each place where a kind has
//! a list, are checked twice, the second time with twice as many items. Counted is how often a field is looked for.

use kube_facts::{Kind, Scalar, Type, facts};
use serde_json::{Value, json};

use super::value_ext::LOOKS;
use crate::{MiniCluster, Part};

/// How many items the shorter list has.
const ITEMS: usize = 200;
/// How many times more looks twice as many items may take. Where each is compared with each other one, it is 4.
const MOST: f64 = 2.5;
/// How deep lists stand in others.
const NESTED: usize = 2;
/// Kinds whose pod templates are those of Pods.
const TEMPLATED: [&str; 7] =
    ["CronJob", "DaemonSet", "Deployment", "PodTemplate", "ReplicaSet", "ReplicationController", "StatefulSet"];

/// Whether the items of a list differ.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Likeness {
    Different,
    Same,
}

/// A list that a kind has: where, and of what.
struct ListPlace {
    path: Vec<String>,
    items: Type,
}

fn places(ty: &Type, path: &mut Vec<String>, found: &mut Vec<ListPlace>) {
    match ty.resolve() {
        // A type may be part of itself.
        Type::Struct(inner) if path.len() < 9 => {
            let at_root = path.is_empty();
            for (name, field) in inner.fields.iter().filter(|(name, _)| !at_root || *name != "status") {
                path.push(name.clone());
                places(&field.ty, path, found);
                path.pop();
            }
        }
        Type::List(list) => {
            found.push(ListPlace { path: path.clone(), items: (*list.items).clone() });
            if path.iter().filter(|part| *part == "[]").count() < NESTED {
                path.push("[]".to_owned());
                places(&list.items, path, found);
                path.pop();
            }
        }
        _ => {}
    }
}

fn scalar(scalar: Scalar, number: usize) -> Value {
    match scalar {
        Scalar::String => json!(format!("a{number}")),
        Scalar::Bytes => json!("YQ=="),
        Scalar::Int32 | Scalar::Int64 | Scalar::Number | Scalar::IntOrString => json!(number + 1),
        Scalar::Boolean => json!(true),
        Scalar::Quantity => json!(number.to_string()),
        Scalar::Time => json!("2026-01-01T00:00:00Z"),
        Scalar::MicroTime => json!("2026-01-01T00:00:00.000000Z"),
    }
}

/// An item with all single values that it may have.
fn item(ty: &Type, number: usize) -> Value {
    match ty.resolve() {
        Type::Scalar(of) => scalar(*of, number),
        Type::Struct(inner) => {
            let value = |ty: &Type| match ty.resolve() {
                Type::Scalar(of) => Some(scalar(*of, number)),
                _ => None,
            };
            inner.fields.iter().filter_map(|(name, field)| Some((name.clone(), value(&field.ty)?))).collect()
        }
        Type::List(_) => json!([]),
        _ => json!({}),
    }
}

fn put(object: &mut Value, path: &[String], value: Value) {
    match path.split_first() {
        None => *object = value,
        Some((first, rest)) if first == "[]" => {
            if !object.is_array() {
                *object = json!([{}]);
            }
            put(&mut object[0], rest, value);
        }
        Some((first, rest)) => put(&mut object[first.as_str()], rest, value),
    }
}

fn base(kind: &Kind) -> Value {
    let mut object = json!({ "apiVersion": kind.api_version(), "kind": kind.kind, "metadata": { "name": "x" } });
    if kind.kind == "Pod" {
        object["spec"] = json!({ "containers": [{ "name": "c", "image": "i" }] });
    }
    object
}

/// How often a field is looked for while the server checks an object.
async fn looks(cluster: &MiniCluster, url: &str, object: &Value) -> u64 {
    let before = LOOKS.get();
    let request = http::Request::post(url).header("Content-Type", "application/json");
    cluster.client().send(request.body(object.to_string().into_bytes().into()).unwrap()).await.unwrap();
    LOOKS.get() - before
}

#[tokio::test(start_paused = true)]
async fn each_item_of_a_list_is_checked_a_few_times() {
    let parts = [Part::Controllers, Part::Kubelet, Part::ServiceAccounts];
    let builder = parts.into_iter().fold(MiniCluster::builder().virtual_time(), |builder, part| builder.without(part));
    let cluster = builder.start().await.unwrap();
    let (mut checked, mut wrong) = (0, Vec::new());
    for kind in facts().kinds.iter().filter(|kind| kind.verbs.iter().any(|verb| verb == "create")) {
        let Some(schema) = facts().schema(&kind.group, &kind.version, &kind.kind) else { continue };
        if TEMPLATED.contains(&kind.kind.as_str()) {
            continue;
        }
        let root = if kind.group.is_empty() { "/api" } else { "/apis" };
        let namespace = if kind.namespaced { "namespaces/default/" } else { "" };
        let url = format!("{root}/{}/{namespace}{}?dryRun=All", kind.api_version(), kind.resource);
        let mut found = Vec::new();
        places(schema, &mut Vec::new(), &mut found);
        for ListPlace { path, items } in found.iter().filter(|place| kind.kind == "Pod" || place.path[0] != "metadata")
        {
            for mode in [Likeness::Different, Likeness::Same] {
                let mut object = base(kind);
                let mut counted = Vec::new();
                for count in [ITEMS, 2 * ITEMS] {
                    let each = (0..count).map(|number| item(items, if mode == Likeness::Same { 1 } else { number }));
                    put(&mut object, path, each.collect());
                    counted.push(looks(&cluster, &url, &object).await);
                }
                checked += usize::from(counted[0] > 2 * ITEMS as u64);
                if counted[1] as f64 > MOST * counted[0] as f64 && counted[1] > 10 * ITEMS as u64 {
                    wrong.push(format!("{} {} {mode:?}: {counted:?}", kind.kind, path.join(".")));
                }
            }
        }
    }
    assert!(checked > 300, "{checked} lists are looked into");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
