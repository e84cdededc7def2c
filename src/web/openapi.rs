//! The OpenAPI document, made from the types that are asked and answered with.

use axum::Json;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::api::{WorkloadsAnswer, WorkloadsAsked};
use super::problem::ProblemAnswer;
use super::query::{HistoryAsked, StatsAsked};
use crate::history::query::answers::{HistoryAnswer, ShowAnswer, StatsAnswer, StatusAnswer};

/// Returns the document.
pub(super) fn document() -> Value {
    let mut settings = SchemaSettings::draft2020_12().for_serialize();
    settings.definitions_path = "/components/schemas".into();
    let mut schemas = settings.into_generator();
    let mut paths = Map::new();
    let mut add = |path: &str, about: &str, parameters: Vec<Value>, schema: Schema, problem: Schema| {
        let content = |schema: Schema| json!({"application/json": {"schema": schema}});
        let refused = |why: &str| json!({"description": why, "content": content(problem.clone())});
        let mut responses = json!({"200": {"description": about, "content": content(schema)},
            "503": refused("The history can't be read now.")});
        if !parameters.is_empty() {
            responses["400"] = refused("A parameter can't be understood.");
        }
        if path.contains('{') {
            responses["404"] = refused("There is none.");
        }
        let operation = path.trim_start_matches("/api/v1/").split('/').next().unwrap_or_default().to_owned();
        let get = json!({"operationId": operation, "summary": about, "parameters": parameters, "responses": responses});
        paths.insert(path.to_owned(), json!({"get": get}));
    };
    let problem = schemas.subschema_for::<ProblemAnswer>();
    let none = Vec::new();
    let schema = schemas.subschema_for::<StatusAnswer>();
    add("/api/v1/status", "Sources, workloads, and what is not as the head says.", none, schema, problem.clone());
    let schema = schemas.subschema_for::<WorkloadsAnswer>();
    let asked = parameters::<WorkloadsAsked>();
    add("/api/v1/workloads", "The workloads that belay has applied, or is to apply.", asked, schema, problem.clone());
    let schema = schemas.subschema_for::<HistoryAnswer>();
    let asked = parameters::<HistoryAsked>();
    add("/api/v1/history", "The rollouts, the newest first.", asked, schema, problem.clone());
    let schema = schemas.subschema_for::<ShowAnswer>();
    let digits = json!({"name": "sha", "in": "path", "required": true, "schema": {"type": "string"},
        "description": "The id of a commit, or how it begins."});
    add(
        "/api/v1/commits/{sha}",
        "One commit: what became of its manifests, with evidence.",
        vec![digits],
        schema,
        problem.clone(),
    );
    let schema = schemas.subschema_for::<StatsAnswer>();
    let asked = parameters::<StatsAsked>();
    add(
        "/api/v1/stats",
        "The number of deployments, their lead time, their failures, and the time to recovery.",
        asked,
        schema,
        problem,
    );
    json!({
        "openapi": "3.1.0",
        "info": {"title": "belay", "version": env!("CARGO_PKG_VERSION"),
            "description": "The output of belay's commands with `-o json`, of a running daemon. It only reads. Fields are only ever added."},
        "paths": paths,
        "components": {"schemas": schemas.take_definitions(true)},
    })
}

/// Returns the fields of a type as parameters of an address.
fn parameters<T: JsonSchema>() -> Vec<Value> {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let schema = SchemaGenerator::new(settings).into_root_schema_for::<T>().to_value();
    let fields = schema["properties"].as_object().cloned().unwrap_or_default();
    let parameter = |(name, mut schema): (String, Value)| {
        let description = schema["description"].take();
        if let Some(schema) = schema.as_object_mut() {
            schema.remove("description");
        }
        json!({"name": name, "in": "query", "required": false, "description": description, "schema": schema})
    };
    fields.into_iter().map(parameter).collect()
}

/// Answers with the document.
pub(super) async fn answer_document() -> Json<Value> {
    Json(document())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Every reference leads to a schema of the document, and every schema is one.
    #[test]
    fn every_reference_leads_somewhere() {
        let document = document();
        let mut named = BTreeSet::new();
        references(&document, &mut named);
        assert!(named.len() > 10, "{named:?}");
        for name in &named {
            let pointer = name.strip_prefix('#').unwrap();
            assert!(document.pointer(pointer).is_some_and(Value::is_object), "{name}");
        }
    }

    fn references(value: &Value, named: &mut BTreeSet<String>) {
        match value {
            Value::Object(fields) => {
                named.extend(fields.get("$ref").and_then(Value::as_str).map(str::to_owned));
                fields.values().for_each(|value| references(value, named));
            }
            Value::Array(items) => items.iter().for_each(|value| references(value, named)),
            _ => {}
        }
    }

    #[test]
    fn parameters_are_told_with_what_they_mean() {
        let document = document();
        let parameters = document["paths"]["/api/v1/history"]["get"]["parameters"].as_array().unwrap().clone();
        let names: Vec<&str> = parameters.iter().map(|one| one["name"].as_str().unwrap()).collect();
        assert!(["author", "before", "limit", "since", "until"].iter().all(|name| names.contains(name)), "{names:?}");
        assert!(parameters.iter().all(|one| one["description"].as_str().is_some_and(|text| !text.is_empty())));
    }
}
