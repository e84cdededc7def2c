//! The embedded server's OpenAPI documents say what the real server's say, but for their prose.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use kube::Client;
use minicluster::{MiniCluster, Part};
use serde_json::Value;

use crate::support::control_plane::{self, ControlPlane, Controllers};

/// Paths that lead into a pod or node, of which the embedded cluster has none.
const INTO_CONTAINERS: [&str; 6] = ["/proxy", "/proxy/{path}", "/exec", "/attach", "/portforward", "/log"];

#[tokio::test]
async fn the_documents_are_the_reference_servers_own() {
    let Some(assets) = control_plane::assets("the OpenAPI documents of the reference API server") else { return };
    let plane = ControlPlane::start(&assets, Controllers::None).await;
    let cluster = MiniCluster::builder().without(Part::Controllers).without(Part::Kubelet).start().await.unwrap();
    let (real, ours) = (plane.client(), cluster.client());
    let index = get(&real, "/openapi/v3").await;
    let own_index = get(&ours, "/openapi/v3").await;
    let mut report = String::new();
    for path in index["paths"].as_object().unwrap().keys() {
        if path.starts_with("openid") || path.starts_with(".well-known") {
            continue;
        }
        let Some(url) = own_index["paths"][path]["serverRelativeURL"].as_str() else {
            writeln!(report, "{path}: missing").unwrap();
            continue;
        };
        let mut reference = without_prose(get(&real, &format!("/openapi/v3/{path}")).await);
        let mut own = without_prose(get(&ours, url).await);
        for document in [&mut reference, &mut own] {
            let paths = document["paths"].as_object_mut().unwrap();
            paths.retain(|path, _| !INTO_CONTAINERS.iter().any(|end| path.ends_with(end)));
        }
        compare(path, &reference, &own, &mut report);
    }
    assert!(report.is_empty(), "these differ (real server < > embedded server):\n{report}");
}

#[tokio::test]
async fn the_older_document_has_all_paths_and_kinds() {
    let Some(assets) = control_plane::assets("the older OpenAPI document of the reference API server") else { return };
    let plane = ControlPlane::start(&assets, Controllers::None).await;
    let cluster = MiniCluster::builder().without(Part::Controllers).without(Part::Kubelet).start().await.unwrap();
    let reference = get(&plane.client(), "/openapi/v2").await;
    let own = get(&cluster.client(), "/openapi/v2").await;
    for part in ["paths", "definitions"] {
        let names =
            |document: &Value| -> BTreeSet<String> { document[part].as_object().unwrap().keys().cloned().collect() };
        let missing: Vec<String> = names(&reference).difference(&names(&own)).cloned().collect();
        let missing: Vec<&String> = missing
            .iter()
            .filter(|name| !INTO_CONTAINERS.iter().any(|end| name.ends_with(end)))
            .filter(|name| !name.contains("openid") && name.contains("/v"))
            .collect();
        assert!(missing.is_empty(), "{part}: {missing:?}");
    }
    let deployment = |document: &Value| {
        without_prose(document["definitions"]["io.k8s.api.apps.v1.DeploymentSpec"]["properties"].clone())
    };
    assert_eq!(deployment(&own), deployment(&reference));
    let patch = "/apis/apps/v1/namespaces/{namespace}/deployments/{name}";
    let operation = |document: &Value| -> BTreeSet<String> {
        let consumed = document["paths"][patch]["patch"]["consumes"].as_array().unwrap().iter();
        consumed.map(Value::to_string).collect()
    };
    assert_eq!(operation(&own), operation(&reference));
}

async fn get(client: &Client, path: &str) -> Value {
    let request = http::Request::get(path).header("Accept", "application/json").body(Vec::new()).unwrap();
    client.request(request).await.unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn without_prose(value: Value) -> Value {
    match value {
        Value::Object(members) => members
            .into_iter()
            .filter(|(key, value)| !(key == "description" && value.is_string()))
            .map(|(key, value)| (key, without_prose(value)))
            .collect(),
        Value::Array(items) => items.into_iter().map(without_prose).collect(),
        other => other,
    }
}

fn compare(path: &str, one: &Value, other: &Value, out: &mut String) {
    match (one, other) {
        (Value::Object(a), Value::Object(b)) => {
            let keys: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            for key in keys {
                let place = format!("{path} {key}");
                match (a.get(key), b.get(key)) {
                    (Some(a), Some(b)) => compare(&place, a, b, out),
                    (Some(_), None) => writeln!(out, "{place}: missing").unwrap(),
                    _ => writeln!(out, "{place}: too much").unwrap(),
                }
            }
        }
        _ if one == other => {}
        _ => writeln!(out, "{path}: {one} < > {other}").unwrap(),
    }
}
