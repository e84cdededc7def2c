use std::sync::Arc;

use serde_json::{Value, json};

use super::super::{BodyFormat, Definition, Effect, FieldValidation, WriteContext, create, read};
use super::{Custom, Schema, shape};
use crate::api_error::ApiError;

fn definition(spec: &Value) -> Definition {
    let schema = json!({ "type": "object", "properties": { "spec": spec } });
    let schema = Schema::read(&schema);
    Definition {
        group: "example.com".to_owned(),
        version: "v1".to_owned(),
        kind: "Widget".to_owned(),
        resource: "widgets".to_owned(),
        namespaced: true,
        schema: shape(&schema),
        custom: Some(Custom { schema: schema.into(), versions: Arc::default(), status: false, scale: None }),
    }
}

fn written(schema: &Value, spec: &Value, validation: FieldValidation) -> Result<(Value, Vec<String>), ApiError> {
    let definition = definition(schema);
    let write = WriteContext {
        effect: Effect::Stored,
        definition: &definition,
        subresource: None,
        manager: "test",
        now: "2026-01-01T00:00:00Z".parse().unwrap(),
        field_validation: validation,
    };
    let body = json!({
        "apiVersion": "example.com/v1", "kind": "Widget", "spec": spec,
        "metadata": { "name": "a", "namespace": "b", "foo": 1 },
    });
    let object = read(&write, body.to_string().as_bytes(), BodyFormat::Json)?;
    let made = create(&write, object.object, &|_| Ok(()))?;
    Ok((made.object["spec"].clone(), object.warnings))
}

#[test]
fn what_the_schema_does_not_have_goes() {
    let schema = json!({ "type": "object", "properties": {
        "known": { "type": "integer", "default": 1 },
        "open": { "type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {
            "closed": { "type": "object" } } },
        "list": { "type": "array", "items": { "type": "object", "properties": { "a": { "type": "string" } } } },
    }});
    let spec =
        json!({ "unknown": 1, "open": { "a": { "b": 1 }, "closed": { "c": 1 } }, "list": [{ "a": "x", "b": 1 }] });
    let (made, warnings) = written(&schema, &spec, FieldValidation::Warn).unwrap();
    let expected = json!({ "known": 1, "open": { "a": { "b": 1 }, "closed": {} }, "list": [{ "a": "x" }] });
    assert_eq!(made, expected);
    let expected = [
        "unknown field \"metadata.foo\"",
        "unknown field \"spec.list[0].b\"",
        "unknown field \"spec.open.closed.c\"",
        "unknown field \"spec.unknown\"",
    ];
    assert_eq!(warnings, expected);
    let refused = written(&schema, &spec, FieldValidation::Strict).unwrap_err();
    assert!(refused.message.contains("strict decoding error: unknown field \"metadata.foo\""), "{}", refused.message);
}

#[test]
fn nulls_and_defaults() {
    let schema = json!({ "type": "object", "properties": {
        "gone": { "type": "string" },
        "filled": { "type": "string", "default": "x" },
        "kept": { "type": "string", "nullable": true },
        "deep": { "type": "object", "default": {}, "properties": { "n": { "type": "integer", "default": 5 } } },
    }});
    let spec = json!({ "gone": null, "filled": null, "kept": null });
    let (made, _) = written(&schema, &spec, FieldValidation::Ignore).unwrap();
    assert_eq!(made, json!({ "filled": "x", "kept": null, "deep": { "n": 5 } }));
}

#[test]
fn complaints_are_worded_as_the_reference_words_them() {
    let schema = json!({ "type": "object", "required": ["must"], "properties": {
        "i": { "type": "integer", "minimum": 1 },
        "s": { "type": "string", "pattern": "^[a-z]+$" },
        "e": { "type": "string", "enum": ["red", "blue"] },
        "set": { "type": "array", "x-kubernetes-list-type": "set", "items": { "type": "string" } },
        "p": { "x-kubernetes-int-or-string": true },
    }});
    let spec = json!({ "i": 0, "s": "A", "e": "green", "set": ["a", "a"], "p": true });
    let refused = written(&schema, &spec, FieldValidation::Ignore).unwrap_err();
    let causes: Vec<_> = refused
        .causes
        .iter()
        .map(|cause| format!("{}: {}", cause.field.as_deref().unwrap_or_default(), cause.message))
        .collect();
    let expected = [
        "spec.must: Required value",
        "spec.e: Unsupported value: \"green\": supported values: \"red\", \"blue\"",
        "spec.i: Invalid value: 0: spec.i in body should be greater than or equal to 1",
        "spec.p: Invalid value: \"boolean\": spec.p in body must be of type integer,string: \"boolean\"",
        "spec.s: Invalid value: \"A\": spec.s in body should match '^[a-z]+$'",
        "spec.set[1]: Duplicate value: \"a\"",
    ];
    assert_eq!(causes, expected);
}
