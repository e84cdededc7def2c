//! Objects as rows of a table, for people: `kubectl get`.

mod cells;
mod columns;
mod custom;
mod duration;
mod json_path;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::negotiate::Include;
use super::resource::Resource;

/// Returns a table of one object.
#[must_use]
pub fn of_one(resource: &Resource, object: &Value, version: &str, include: Include, now: Timestamp) -> Value {
    let metadata = json!({ "resourceVersion": object["metadata"]["resourceVersion"] });
    of_list(resource, std::iter::once(object.clone()), &metadata, version, include, now)
}

/// Returns a table of many objects.
#[must_use]
pub fn of_list(
    resource: &Resource,
    objects: impl Iterator<Item = Value>,
    metadata: &Value,
    version: &str,
    include: Include,
    now: Timestamp,
) -> Value {
    let rows: Vec<Value> = objects.map(|object| row(resource, object, version, include, now)).collect();
    let columns = match &resource.custom {
        Some(facts) => custom::columns(facts),
        None => columns::columns(resource),
    };
    json!({
        "kind": "Table",
        "apiVersion": format!("meta.k8s.io/{version}"),
        "metadata": metadata,
        "columnDefinitions": columns,
        "rows": rows,
    })
}

fn row(resource: &Resource, object: Value, version: &str, include: Include, now: Timestamp) -> Value {
    let cells = match &resource.custom {
        Some(facts) => custom::cells(facts, &object, now),
        None => cells::cells(resource, &object, now),
    };
    let mut row = json!({ "cells": cells });
    if resource.is("", "pods")
        && let Some(condition) = cells::pod_condition(&object)
    {
        row["conditions"] = json!([condition]);
    }
    match include {
        Include::None => row["object"] = Value::Null,
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
}
