use proptest::prelude::*;
use serde_json::json;

use super::fields::Of;
use super::{frame, from_json, to_json};

/// A message without fields is one, too: a definition says by one that it has a status.
#[test]
fn every_message_that_a_field_holds_is_known() {
    for line in include_str!("fields.txt").lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let message = super::fields::message(words[0]).unwrap();
        assert_eq!(message.len(), words.len() / 2, "each field of {} is read", words[0]);
        for name in message.values().filter_map(|field| held(&field.of)) {
            let is_special = ["Time", "MicroTime", "Quantity"].contains(&super::special(name));
            assert!(is_special || super::fields::message(name).is_some(), "{name}");
        }
    }
    let definition = json!({ "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "spec": { "versions": [{ "name": "v1", "subresources": { "status": {} } }] } });
    let back = to_json(&from_json(&definition).unwrap()).unwrap();
    assert_eq!(back["spec"]["versions"][0]["subresources"], json!({ "status": {} }));
}

/// Returns the message that a field holds.
fn held(content: &Of) -> Option<&'static str> {
    match content {
        Of::Message(name) => Some(name),
        Of::List(inner) | Of::Map(inner) | Of::Items(inner) => held(inner),
        Of::Bool | Of::Int | Of::Double | Of::String | Of::Bytes => None,
    }
}

#[test]
fn objects_go_there_and_back() {
    let objects = [
        json!({ "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": { "name": "web", "labels": { "a": "b" }, "creationTimestamp": "2026-01-01T00:00:00Z",
                "managedFields": [{ "manager": "m", "fieldsV1": { "f:spec": { "f:replicas": {} } } }] },
            "spec": { "replicas": 3, "selector": { "matchLabels": { "a": "b" } },
                "strategy": { "rollingUpdate": { "maxSurge": "25%", "maxUnavailable": 1 } },
                "template": { "spec": { "hostNetwork": true, "containers": [{ "name": "c", "image": "i",
                    "resources": { "limits": { "cpu": "500m" } },
                    "livenessProbe": { "httpGet": { "path": "/", "port": "http" }, "periodSeconds": 5 } }],
                    "volumes": [{ "name": "v", "configMap": { "name": "x", "items": [{ "key": "k", "path": "p" }] } }],
                    "securityContext": { "supplementalGroups": [1, 2] } } } } }),
        json!({ "apiVersion": "v1", "kind": "Secret", "data": { "a": "aGk=" }, "type": "Opaque" }),
        json!({ "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "spec": { "renewTime": "2026-01-01T00:00:00.123456Z", "leaseTransitions": -1 } }),
        json!({ "apiVersion": "v1", "kind": "Status", "code": 404, "message": "no", "details": { "causes": [{ "field": "a" }] } }),
        json!({ "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
            "spec": { "user": "u", "extra": { "k": ["a", "b"] } } }),
        json!({ "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "spec": { "group": "g", "versions": [{ "name": "v1", "schema": { "openAPIV3Schema": { "type": "object",
                "properties": { "a": { "type": "array", "items": { "type": "string", "enum": ["x", 1] } },
                    "b": { "additionalProperties": { "type": "integer", "maximum": 1.5 }, "default": { "x": 1 } } } } } }] } }),
        json!({ "apiVersion": "v1", "kind": "PodList", "metadata": { "resourceVersion": "1" }, "items": [{ "metadata": { "name": "a" } }] }),
    ];
    for mut object in objects {
        let mut back = to_json(&from_json(&object).unwrap()).unwrap();
        // Go writes a struct that is no pointer even if it holds nothing; that is no difference.
        without_nothing(&mut back);
        without_nothing(&mut object);
        assert_eq!(back, object);
    }
    assert!(from_json(&json!({ "apiVersion": "example.com/v1", "kind": "Widget" })).is_none());
    let line = br#"{"type":"ADDED","object":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}}"#;
    let framed = frame(line).unwrap();
    assert_eq!(u32::from_be_bytes(framed[..4].try_into().unwrap()) as usize, framed.len() - 4);
}

fn without_nothing(value: &mut serde_json::Value) {
    match value {
        serde_json::Value::Object(entries) => {
            entries.values_mut().for_each(without_nothing);
            entries.retain(|_, value| *value != json!({}) && *value != json!([]) && !value.is_null());
        }
        serde_json::Value::Array(items) => items.iter_mut().for_each(without_nothing),
        _ => {}
    }
}

proptest! {
    #[test]
    fn nothing_that_is_sent_panics(bytes in proptest::collection::vec(any::<u8>(), 0..300), kind in 0..3_usize) {
        let kind = ["Pod", "Status", "DeleteOptions"][kind];
        let mut header = Vec::new();
        super::put_bytes(&mut header, 1, b"v1");
        super::put_bytes(&mut header, 2, kind.as_bytes());
        let mut body = super::MAGIC.to_vec();
        super::put_bytes(&mut body, 1, &header);
        super::put_bytes(&mut body, 2, &bytes);
        drop(to_json(&body));
        drop(to_json(&bytes));
    }
}
