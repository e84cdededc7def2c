//! The one document of OpenAPI 2 (Swagger), for clients that know no newer.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{components, parts, release};
use crate::api::registry::Registry;

/// Returns all paths and schemas in one.
pub(super) fn document(registry: &Registry) -> Value {
    let mut paths = BTreeMap::new();
    let mut definitions = BTreeMap::new();
    for (own, schemas) in super::documents(registry).iter().filter_map(|path| parts(registry, path)) {
        definitions.extend(schemas);
        paths.extend(own);
    }
    let paths: BTreeMap<String, Value> = paths.into_iter().map(|(path, item)| (path, older_path(item))).collect();
    let definitions: BTreeMap<String, Value> =
        definitions.into_iter().map(|(name, schema)| (name, older_schema(schema))).collect();
    let security = json!({
        "BearerToken": {
            "type": "apiKey", "description": "Bearer Token authentication", "name": "authorization", "in": "header",
        },
    });
    json!({
        "swagger": "2.0",
        "info": { "title": "Kubernetes", "version": release() },
        "paths": paths,
        "definitions": definitions,
        "securityDefinitions": security,
        "security": [{ "BearerToken": [] }],
    })
}

fn older_path(item: Value) -> Value {
    let Value::Object(members) = item else { return item };
    let older = members.into_iter().map(|(key, value)| match key.as_str() {
        "parameters" => (key, older_parameters(value)),
        _ => (key, older_operation(value)),
    });
    Value::Object(older.collect())
}

/// A parameter's type stands beside its name.
fn older_parameters(parameters: Value) -> Value {
    let Value::Array(parameters) = parameters else { return parameters };
    let older = parameters.into_iter().map(|mut parameter| {
        if let Some(Value::Object(schema)) = parameter.as_object_mut().and_then(|members| members.remove("schema")) {
            components::members(&mut parameter).extend(schema);
        }
        parameter
    });
    Value::Array(older.collect())
}

fn older_operation(mut operation: Value) -> Value {
    let members = components::members(&mut operation);
    let body = members.remove("requestBody");
    let mut parameters = match members.remove("parameters") {
        Some(Value::Array(parameters)) => parameters,
        _ => Vec::new(),
    };
    let mut consumes = vec![json!("*/*")];
    if let Some(body) = body {
        let content = body["content"].as_object().cloned().unwrap_or_default();
        consumes = content.keys().map(|media_type| json!(media_type)).collect();
        let schema = content.values().next().map(|content| older_schema(content["schema"].clone()));
        let mut parameter = json!({ "name": "body", "in": "body", "schema": schema });
        if body["required"] == true {
            parameter["required"] = json!(true);
        }
        parameters.insert(0, parameter);
    }
    members.insert("consumes".to_owned(), json!(consumes));
    let mut produces = Vec::new();
    if let Some(Value::Object(responses)) = members.get_mut("responses") {
        for response in responses.values_mut() {
            let content = components::members(response).remove("content");
            let Some(Value::Object(content)) = content else { continue };
            produces = content.keys().map(|media_type| json!(media_type)).collect();
            if let Some(first) = content.values().next() {
                response["schema"] = older_schema(first["schema"].clone());
            }
        }
    }
    members.insert("produces".to_owned(), json!(produces));
    members.insert("schemes".to_owned(), json!(["https"]));
    if !parameters.is_empty() {
        members.insert("parameters".to_owned(), older_parameters_but_body(parameters));
    }
    operation
}

fn older_parameters_but_body(parameters: Vec<Value>) -> Value {
    let (body, others): (Vec<_>, Vec<_>) = parameters.into_iter().partition(|parameter| parameter["in"] == "body");
    let others = older_parameters(Value::Array(others));
    Value::Array(body.into_iter().chain(others.as_array().into_iter().flatten().cloned()).collect())
}

/// References point to `definitions` and stand alone.
fn older_schema(schema: Value) -> Value {
    match schema {
        Value::Object(mut members) => {
            if let Some(Value::Array(all)) = members.get("allOf")
                && let [only] = all.as_slice()
                && only.get("$ref").is_some()
            {
                let only = only.clone();
                members.remove("allOf");
                members.remove("default");
                members.extend(only.as_object().cloned().unwrap_or_default());
            }
            let older = members.into_iter().map(|(key, value)| {
                let value = match value {
                    Value::String(text) if key == "$ref" => {
                        Value::String(text.replacen("#/components/schemas/", "#/definitions/", 1))
                    }
                    other => older_schema(other),
                };
                (key, value)
            });
            Value::Object(older.collect::<Map<_, _>>())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(older_schema).collect()),
        other => other,
    }
}
