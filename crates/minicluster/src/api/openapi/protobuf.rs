//! The document of OpenAPI 2 as a protocol buffer: the form in which Go clients ask for it. The numbers are those of the
//! published `openapi.v2` messages.

use serde_json::Value;

use crate::api::protobuf::wire::{put_bytes, put_eight, put_number};

/// As clients ask for it, in both spellings; the second is that of the answer.
pub(super) const MEDIA_TYPES: [&str; 2] = [
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
    "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
];

/// A message under way.
#[derive(Default)]
struct ProtobufMessage(Vec<u8>);

impl ProtobufMessage {
    fn text(&mut self, number: u32, value: &Value) -> &mut ProtobufMessage {
        if let Some(text) = value.as_str().filter(|text| !text.is_empty()) {
            put_bytes(&mut self.0, number, text.as_bytes());
        }
        self
    }

    fn texts(&mut self, number: u32, values: &Value) -> &mut ProtobufMessage {
        for text in values.as_array().into_iter().flatten().filter_map(Value::as_str) {
            put_bytes(&mut self.0, number, text.as_bytes());
        }
        self
    }

    fn flag(&mut self, number: u32, value: &Value) -> &mut ProtobufMessage {
        if value == true {
            put_number(&mut self.0, number, 1);
        }
        self
    }

    fn whole(&mut self, number: u32, value: &Value) -> &mut ProtobufMessage {
        if let Some(value) = value.as_i64() {
            put_number(&mut self.0, number, u64::from_ne_bytes(value.to_ne_bytes()));
        }
        self
    }

    fn number(&mut self, number: u32, value: &Value) -> &mut ProtobufMessage {
        if let Some(value) = value.as_f64() {
            put_eight(&mut self.0, number, value.to_le_bytes());
        }
        self
    }

    fn message(&mut self, number: u32, inner: &ProtobufMessage) -> &mut ProtobufMessage {
        put_bytes(&mut self.0, number, &inner.0);
        self
    }

    /// A message made of a value, if there is one.
    fn of(&mut self, number: u32, value: &Value, make: impl Fn(&Value) -> ProtobufMessage) -> &mut ProtobufMessage {
        if !value.is_null() {
            self.message(number, &make(value));
        }
        self
    }

    /// Returns a message for each item.
    fn each(&mut self, number: u32, values: &Value, make: impl Fn(&Value) -> ProtobufMessage) -> &mut ProtobufMessage {
        for value in values.as_array().into_iter().flatten() {
            self.message(number, &make(value));
        }
        self
    }

    /// Returns a message for each name and its value.
    fn named(&mut self, number: u32, values: &Value, make: impl Fn(&Value) -> ProtobufMessage) -> &mut ProtobufMessage {
        for (name, value) in values.as_object().into_iter().flatten() {
            self.pair(number, name, &make(value));
        }
        self
    }

    fn pair(&mut self, number: u32, name: &str, value: &ProtobufMessage) {
        let mut pair = ProtobufMessage::default();
        put_bytes(&mut pair.0, 1, name.as_bytes());
        pair.message(2, value);
        self.message(number, &pair);
    }

    /// Writes the extensions to the standard.
    fn extensions(&mut self, number: u32, object: &Value) -> &mut ProtobufMessage {
        for (name, value) in object.as_object().into_iter().flatten().filter(|(name, _)| name.starts_with("x-")) {
            self.pair(number, name, &any(value));
        }
        self
    }
}

/// Returns the document, from its form in JSON.
pub(super) fn document(document: &Value) -> Vec<u8> {
    let mut info = ProtobufMessage::default();
    info.text(1, &document["info"]["title"]).text(2, &document["info"]["version"]);
    let mut paths = ProtobufMessage::default();
    paths.named(2, &document["paths"], path);
    let mut definitions = ProtobufMessage::default();
    definitions.named(1, &document["definitions"], schema);
    let mut security = ProtobufMessage::default();
    security.named(1, &document["securityDefinitions"], |key| {
        let mut api_key = ProtobufMessage::default();
        api_key.text(1, &key["type"]).text(2, &key["name"]).text(3, &key["in"]).text(4, &key["description"]);
        within(2, &api_key)
    });
    let mut out = ProtobufMessage::default();
    out.text(1, &document["swagger"]).message(2, &info).message(8, &paths).message(9, &definitions);
    out.each(12, &document["security"], |requirement| {
        let mut named = ProtobufMessage::default();
        named.named(1, requirement, |scopes| {
            let mut list = ProtobufMessage::default();
            list.texts(1, scopes);
            list
        });
        named
    });
    out.message(13, &security);
    out.0
}

fn within(number: u32, inner: &ProtobufMessage) -> ProtobufMessage {
    let mut outer = ProtobufMessage::default();
    outer.message(number, inner);
    outer
}

/// Any value, as YAML, which JSON is.
fn any(value: &Value) -> ProtobufMessage {
    let mut message = ProtobufMessage::default();
    put_bytes(&mut message.0, 2, value.to_string().as_bytes());
    message
}

fn path(item: &Value) -> ProtobufMessage {
    const METHODS: [(&str, u32); 7] =
        [("get", 2), ("put", 3), ("post", 4), ("delete", 5), ("options", 6), ("head", 7), ("patch", 8)];
    let mut path = ProtobufMessage::default();
    for (method, number) in METHODS {
        path.of(number, &item[method], operation);
    }
    path.each(9, &item["parameters"], parameter).extensions(10, item);
    path
}

fn operation(operation: &Value) -> ProtobufMessage {
    let mut responses = ProtobufMessage::default();
    responses.named(1, &operation["responses"], |response| {
        let mut message = ProtobufMessage::default();
        message.text(1, &response["description"]).of(2, &response["schema"], |value| within(1, &schema(value)));
        within(1, &message)
    });
    let mut message = ProtobufMessage::default();
    message.texts(1, &operation["tags"]).text(3, &operation["description"]).text(5, &operation["operationId"]);
    message.texts(6, &operation["produces"]).texts(7, &operation["consumes"]);
    message.each(8, &operation["parameters"], parameter).message(9, &responses);
    message.texts(10, &operation["schemes"]).flag(11, &operation["deprecated"]).extensions(13, operation);
    message
}

fn parameter(parameter: &Value) -> ProtobufMessage {
    if parameter["$ref"].is_string() {
        let mut reference = ProtobufMessage::default();
        reference.text(1, &parameter["$ref"]);
        return within(2, &reference);
    }
    let mut message = ProtobufMessage::default();
    if parameter["in"] == "body" {
        message.text(1, &parameter["description"]).text(2, &parameter["name"]).text(3, &parameter["in"]);
        message.flag(4, &parameter["required"]).of(5, &parameter["schema"], schema);
        return within(1, &within(1, &message));
    }
    message.flag(1, &parameter["required"]).text(2, &parameter["in"]).text(3, &parameter["description"]);
    message.text(4, &parameter["name"]);
    // In the query there is one field more, so all after it have another number.
    let (place, type_at, unique_at) = match parameter["in"].as_str() {
        Some("query") => (3, 6, 20),
        Some("path") => (4, 5, 19),
        _ => (1, 5, 19),
    };
    message.text(type_at, &parameter["type"]).text(type_at + 1, &parameter["format"]);
    message.flag(unique_at, &parameter["uniqueItems"]);
    within(1, &within(2, &within(place, &message)))
}

fn schema(schema: &Value) -> ProtobufMessage {
    let mut message = ProtobufMessage::default();
    message
        .text(1, &schema["$ref"])
        .text(2, &schema["format"])
        .text(3, &schema["title"])
        .text(4, &schema["description"]);
    message.of(5, &schema["default"], any).number(6, &schema["multipleOf"]);
    message.number(7, &schema["maximum"]).flag(8, &schema["exclusiveMaximum"]);
    message.number(9, &schema["minimum"]).flag(10, &schema["exclusiveMinimum"]);
    message.whole(11, &schema["maxLength"]).whole(12, &schema["minLength"]).text(13, &schema["pattern"]);
    message.whole(14, &schema["maxItems"]).whole(15, &schema["minItems"]).flag(16, &schema["uniqueItems"]);
    message.whole(17, &schema["maxProperties"]).whole(18, &schema["minProperties"]).texts(19, &schema["required"]);
    message.each(20, &schema["enum"], any);
    message.of(21, &schema["additionalProperties"], |more| match more {
        Value::Bool(allowed) => {
            let mut message = ProtobufMessage::default();
            put_number(&mut message.0, 2, u64::from(*allowed));
            message
        }
        more => within(1, &self::schema(more)),
    });
    message.of(22, &schema["type"], |ty| {
        let mut message = ProtobufMessage::default();
        message.text(1, ty).texts(1, ty);
        message
    });
    message.of(23, &schema["items"], |items| within(1, &self::schema(items)));
    message.each(24, &schema["allOf"], self::schema);
    if schema["properties"].as_object().is_some_and(|properties| !properties.is_empty()) {
        let mut properties = ProtobufMessage::default();
        properties.named(1, &schema["properties"], self::schema);
        message.message(25, &properties);
    }
    message.flag(27, &schema["readOnly"]).of(30, &schema["example"], any).extensions(31, schema);
    message
}

/// Returns true when the first existing form that a client accepts is this one.
pub(super) fn is_asked_for(accept: &str) -> bool {
    let mut clauses = accept.split(',').map(|clause| clause.split(';').next().unwrap_or_default().trim());
    let known =
        |clause: &&str| MEDIA_TYPES.contains(clause) || matches!(*clause, "application/json" | "application/*" | "*/*");
    clauses.find(known).is_some_and(|clause| MEDIA_TYPES.contains(&clause))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::protobuf::wire::{Raw, fields};

    fn inner(message: &[u8], number: u32) -> Vec<u8> {
        let found = fields(message).unwrap().into_iter().find(|(known, _)| *known == number);
        match found {
            Some((_, Raw::Bytes(bytes))) => bytes.to_vec(),
            other => panic!("{number}: {other:?}"),
        }
    }

    #[test]
    fn a_definition_is_in_its_place() {
        let spec = json!({ "swagger": "2.0", "info": { "title": "t", "version": "1" }, "paths": {}, "definitions": {
            "com.example.v1.Widget": {
                "type": "object", "required": ["spec"], "properties": { "spec": { "$ref": "#/definitions/x" } },
                "x-kubernetes-group-version-kind": [{ "kind": "Widget" }],
            },
        }});
        let named = inner(&inner(&document(&spec), 9), 1);
        assert_eq!(inner(&named, 1), b"com.example.v1.Widget");
        let schema = inner(&named, 2);
        assert_eq!(inner(&inner(&schema, 22), 1), b"object");
        assert_eq!(inner(&schema, 19), b"spec");
        let property = inner(&inner(&schema, 25), 1);
        assert_eq!(
            (inner(&property, 1), inner(&inner(&property, 2), 1)),
            (b"spec".to_vec(), b"#/definitions/x".to_vec())
        );
        let extension = inner(&schema, 31);
        assert_eq!(inner(&inner(&extension, 2), 2), br#"[{"kind":"Widget"}]"#);
    }

    #[test]
    fn it_is_sent_to_who_asks_for_it_first() {
        for (accept, asked) in [
            (MEDIA_TYPES[0], true),
            ("application/com.github.proto-openapi.spec.v2.v1.0+protobuf;q=1,application/json", true),
            ("application/json, application/com.github.proto-openapi.spec.v2@v1.0+protobuf", false),
            ("application/vnd.kubernetes.protobuf", false),
            ("", false),
        ] {
            assert_eq!(is_asked_for(accept), asked, "{accept}");
        }
    }
}
