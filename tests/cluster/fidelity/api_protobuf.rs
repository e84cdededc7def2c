//! Protocol buffers between the two servers: what one writes, the other reads, and both mean the same by it.

use bytes::Bytes;
use http_body_util::BodyExt;
use kube::Client;
use minicluster::{MiniCluster, Part};
use serde_json::{Value, json};

use crate::support::control_plane::{self, ControlPlane, Controllers};
use crate::token_volumes::{make_default_account, without_names};

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const JSON: &str = "application/json";

#[tokio::test]
async fn what_one_server_writes_the_other_reads() {
    let Some(assets) = control_plane::assets("protocol buffers of the reference API server") else { return };
    let plane = ControlPlane::start(&assets, Controllers::None).await;
    let cluster = MiniCluster::builder().without(Part::Controllers).without(Part::Kubelet).start().await.unwrap();
    let sides = [plane.client(), cluster.client()];
    for side in &sides {
        make_default_account(side, "default").await;
    }
    for object in objects() {
        let path = path(&object);
        let mut answers = Vec::new();
        for writer in &sides {
            let written = send(writer, "POST", &path, JSON, PROTOBUF, object.to_string().into()).await;
            assert!(written.starts_with(b"k8s\0"), "{object}: {}", String::from_utf8_lossy(&written));
            for reader in &sides {
                let read = send(reader, "POST", &path, PROTOBUF, JSON, written.clone()).await;
                answers.push(normal(&read));
            }
        }
        for answer in &answers {
            assert_eq!(answer["kind"], object["kind"], "{answer:#}");
            assert_eq!(answers[0], *answer, "what was made of {object:#}");
        }
    }
}

#[tokio::test]
async fn lists_watches_and_refusals_come_as_asked() {
    let Some(assets) = control_plane::assets("protocol buffers of the reference API server") else { return };
    let plane = ControlPlane::start(&assets, Controllers::None).await;
    let cluster = MiniCluster::builder().without(Part::Controllers).without(Part::Kubelet).start().await.unwrap();
    let sides = [plane.client(), cluster.client()];
    let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "one" }, "data": { "a": "b" } });
    let maps = "/api/v1/namespaces/default/configmaps";
    let mut shapes = Vec::new();
    for side in &sides {
        send(side, "POST", maps, JSON, JSON, map.to_string().into()).await;
        let one = format!("{maps}/one");
        let list = format!("{maps}?fieldSelector=metadata.name%3Done");
        let watch =
            "&watch=1&timeoutSeconds=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=1";
        let partial = format!("{PROTOBUF};as=PartialObjectMetadata;g=meta.k8s.io;v=v1");
        let answers = [
            send(side, "GET", &one, JSON, PROTOBUF, Bytes::new()).await,
            send(side, "GET", &list, JSON, PROTOBUF, Bytes::new()).await,
            send(side, "GET", &one, JSON, &partial, Bytes::new()).await,
            send(side, "GET", &format!("{maps}/two"), JSON, PROTOBUF, Bytes::new()).await,
            send(side, "DELETE", &format!("{maps}/two"), JSON, &format!("{PROTOBUF},{JSON}"), Bytes::new()).await,
        ];
        let kinds = answers.map(|answer| (answer[..4].to_vec(), header(&answer[4..])));
        let frames = frames(&send(side, "GET", &format!("{list}{watch}"), JSON, PROTOBUF, Bytes::new()).await);
        shapes.push((kinds, frames));
    }
    assert_eq!(shapes[0], shapes[1]);
    assert_eq!(shapes[0].1, ["ADDED", "BOOKMARK"]);
}

/// Returns the beginning of an envelope: what kind of what version is in it.
fn header(envelope: &[u8]) -> Vec<u8> {
    assert_eq!(envelope[0], 0x0a);
    envelope[2..2 + usize::from(envelope[1])].to_vec()
}

/// Returns the types of a watch's events.
fn frames(stream: &[u8]) -> Vec<String> {
    let (mut left, mut types) = (stream, Vec::new());
    while let Some((length, rest)) = left.split_first_chunk::<4>() {
        let (event, rest) = rest.split_at(u32::from_be_bytes(*length) as usize);
        assert_eq!(event[0], 0x0a, "the type comes first");
        types.push(String::from_utf8_lossy(&event[2..2 + usize::from(event[1])]).into_owned());
        assert!(event.windows(4).any(|window| window == b"k8s\0"), "the object is in an envelope");
        left = rest;
    }
    types
}

async fn send(client: &Client, method: &str, path: &str, sent: &str, accept: &str, body: Bytes) -> Bytes {
    let request = http::Request::builder().method(method).uri(path).header("Content-Type", sent);
    let request = request.header("Accept", accept).body(kube::client::Body::from(body.to_vec())).unwrap();
    client.send(request).await.unwrap().into_body().collect().await.unwrap().to_bytes()
}

fn normal(answer: &[u8]) -> Value {
    let mut answer: Value = serde_json::from_str(&without_names(&String::from_utf8_lossy(answer))).unwrap();
    if let Some(metadata) = answer["metadata"].as_object_mut() {
        for name in ["uid", "creationTimestamp", "managedFields"] {
            metadata.remove(name);
        }
    }
    answer
}

fn path(object: &Value) -> String {
    let kind = object["kind"].as_str().unwrap();
    let version = object["apiVersion"].as_str().unwrap();
    let known = kube_facts::facts().kinds.iter().find(|known| known.kind == kind && known.api_version() == version);
    let known = known.unwrap();
    let root = if version.contains('/') { "apis" } else { "api" };
    let namespace = if known.namespaced { "namespaces/default/" } else { "" };
    format!("/{root}/{version}/{namespace}{}?dryRun=All", known.resource)
}

fn objects() -> Vec<Value> {
    let container = json!({ "name": "c", "image": "i:1", "env": [{ "name": "A", "valueFrom": { "secretKeyRef": { "name": "s", "key": "k" } } }],
        "ports": [{ "containerPort": 80 }], "resources": { "requests": { "cpu": "100m", "memory": "1Gi" } },
        "livenessProbe": { "httpGet": { "path": "/", "port": "http" } }, "readinessProbe": { "tcpSocket": { "port": 80 } },
        "lifecycle": { "preStop": { "exec": { "command": ["a", "b"] } } }, "securityContext": { "runAsUser": 0 },
        "envFrom": [{ "configMapRef": { "name": "x" } }], "volumeMounts": [{ "name": "v", "mountPath": "/v" }] });
    let pod = json!({ "containers": [container], "volumes": [{ "name": "v", "emptyDir": { "sizeLimit": "1Gi" } }],
        "tolerations": [{ "key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5 }],
        "affinity": { "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [
            { "labelSelector": { "matchLabels": { "a": "b" } }, "topologyKey": "kubernetes.io/hostname" }] } } });
    let template = json!({ "metadata": { "labels": { "a": "b" } }, "spec": pod });
    let once = json!({ "spec": { "restartPolicy": "Never", "containers": [{ "name": "c", "image": "i:1" }] } });
    let selector = json!({ "matchLabels": { "a": "b" } });
    [
        ("v1", "ConfigMap", json!({ "data": { "a": "b", "c": "" }, "binaryData": { "d": "AAEC/w==" } })),
        ("v1", "Secret", json!({ "stringData": { "a": "b" }, "immutable": true })),
        ("v1", "ResourceQuota", json!({ "spec": { "hard": { "pods": "10", "cpu": "1500m" } } })),
        ("v1", "Service", json!({ "spec": { "clusterIP": "None", "selector": { "a": "b" }, "ports": [{ "port": 80, "targetPort": "http" }] } })),
        ("v1", "Pod", json!({ "spec": pod })),
        ("v1", "Namespace", json!({})),
        ("v1", "ServiceAccount", json!({ "automountServiceAccountToken": false, "imagePullSecrets": [{ "name": "x" }] })),
        ("apps/v1", "Deployment", json!({ "spec": { "replicas": 0, "selector": selector, "template": template, "strategy": { "rollingUpdate": { "maxSurge": "30%", "maxUnavailable": 0 } } } })),
        ("apps/v1", "StatefulSet", json!({ "spec": { "serviceName": "x", "selector": selector, "template": template,
            "volumeClaimTemplates": [{ "metadata": { "name": "v" }, "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } } }] } })),
        ("apps/v1", "DaemonSet", json!({ "spec": { "selector": selector, "template": template } })),
        ("batch/v1", "CronJob", json!({ "spec": { "schedule": "*/5 * * * *", "jobTemplate": { "spec": { "template": once } } } })),
        ("coordination.k8s.io/v1", "Lease", json!({ "spec": { "holderIdentity": "x", "renewTime": "2026-01-01T00:00:00.123456Z", "leaseDurationSeconds": 15 } })),
        ("rbac.authorization.k8s.io/v1", "Role", json!({ "rules": [{ "apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"] }] })),
        ("networking.k8s.io/v1", "NetworkPolicy", json!({ "spec": { "podSelector": {}, "ingress": [{ "from": [{ "namespaceSelector": {} }], "ports": [{ "port": 80 }] }] } })),
        ("policy/v1", "PodDisruptionBudget", json!({ "spec": { "maxUnavailable": "50%", "selector": selector } })),
        ("autoscaling/v2", "HorizontalPodAutoscaler", json!({ "spec": { "maxReplicas": 3, "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "x" },
            "metrics": [{ "type": "Resource", "resource": { "name": "cpu", "target": { "type": "Utilization", "averageUtilization": 50 } } }] } })),
    ]
    .into_iter()
    .map(|(version, kind, mut object)| {
        object["apiVersion"] = json!(version);
        object["kind"] = json!(kind);
        object["metadata"] = json!({ "name": "x", "labels": { "l": "" }, "annotations": { "a/b": "c" }, "finalizers": ["a.b/c"] });
        object
    })
    .collect()
}
