//! Objects as rows of a table, for people: `kubectl get`.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::negotiate::Include;
use super::resource::Resource;
use super::time::parse;

/// A table of one object.
#[must_use]
pub fn of_one(resource: &Resource, object: &Value, version: &str, include: Include, now: Timestamp) -> Value {
    let metadata = json!({ "resourceVersion": object["metadata"]["resourceVersion"] });
    of_list(resource, std::iter::once(object.clone()), metadata, version, include, now)
}

/// A table of many objects.
#[must_use]
pub fn of_list(
    resource: &Resource,
    objects: impl Iterator<Item = Value>,
    metadata: Value,
    version: &str,
    include: Include,
    now: Timestamp,
) -> Value {
    let rows: Vec<Value> = objects
        .map(|object| {
            let mut row = json!({ "cells": cells(resource, &object, now) });
            match include {
                Include::None => {}
                Include::Metadata => {
                    row["object"] = json!({
                        "kind": "PartialObjectMetadata",
                        "apiVersion": format!("meta.k8s.io/{version}"),
                        "metadata": object["metadata"],
                    });
                }
                Include::Object => row["object"] = object,
            }
            row
        })
        .collect();
    json!({
        "kind": "Table",
        "apiVersion": format!("meta.k8s.io/{version}"),
        "metadata": metadata,
        "columnDefinitions": columns(resource),
        "rows": rows,
    })
}

/// A table without columns and rows.
#[must_use]
pub fn of_nothing(metadata: Value, version: &str) -> Value {
    json!({
        "kind": "Table",
        "apiVersion": format!("meta.k8s.io/{version}"),
        "metadata": metadata,
        "columnDefinitions": null,
        "rows": [],
    })
}

fn columns(_resource: &Resource) -> Value {
    json!([
        { "name": "Name", "type": "string", "format": "name", "description": "", "priority": 0 },
        { "name": "Age", "type": "string", "format": "", "description": "", "priority": 0 },
    ])
}

fn cells(_resource: &Resource, object: &Value, now: Timestamp) -> Vec<Value> {
    let created = object["metadata"]["creationTimestamp"].as_str().and_then(parse);
    let age = created.map_or("<unknown>".to_owned(), |created| format!("{}s", now.duration_since(created).as_secs()));
    vec![object["metadata"]["name"].clone(), Value::from(age)]
}
