//! Formats in schemas of custom kinds that nobody checks.

use std::collections::BTreeSet;

use serde_json::Value;

use super::super::value_ext::ValueExt;
use super::super::words::quote;

/// Formats of texts. Without a type, these are known, too.
const OF_TEXTS: [&str; 27] = [
    "bsonobjectid",
    "byte",
    "cidr",
    "creditcard",
    "date",
    "date-time",
    "datetime",
    "duration",
    "email",
    "hexcolor",
    "hostname",
    "ipv4",
    "ipv6",
    "isbn",
    "isbn10",
    "isbn13",
    "k8s-long-name",
    "k8s-short-name",
    "mac",
    "password",
    "rgbcolor",
    "ssn",
    "uri",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
];

/// Adds the warnings about the spec of a definition that were not due for the one before.
pub fn warnings(old: &Value, spec: &Value, said: &mut Vec<String>) {
    let (known, unknown) = (of_spec(old), of_spec(spec));
    said.extend(unknown.difference(&known).map(|format| format!("unrecognized format {}", quote(format))));
}

fn of_spec(spec: &Value) -> BTreeSet<&str> {
    let mut unknown = BTreeSet::new();
    for version in spec.list("versions") {
        collect(&version["schema"]["openAPIV3Schema"], &mut unknown);
    }
    unknown
}

fn collect<'a>(schema: &'a Value, unknown: &mut BTreeSet<&'a str>) {
    let format = schema.text("format");
    let known = match schema.text("type") {
        "" | "string" => OF_TEXTS.contains(&format),
        "integer" => matches!(format, "int32" | "int64"),
        "number" => matches!(format, "float" | "double"),
        _ => false,
    };
    if !format.is_empty() && !known {
        unknown.insert(format);
    }
    let parts = schema.entries("properties").values();
    let parts = parts.chain(["items", "additionalProperties", "not"].iter().filter_map(|word| schema.some(word)));
    for part in parts.chain(["allOf", "anyOf", "oneOf"].iter().flat_map(|word| schema.list(word))) {
        collect(part, unknown);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::warnings;

    #[test]
    fn a_format_must_fit_its_type() {
        let schema = json!({ "type": "object", "properties": {
            "a": { "type": "string", "format": "date" },
            "b": { "type": "integer", "format": "date" },
            "c": { "type": "array", "items": { "type": "number", "format": "double" }, "not": { "format": "foo" } },
        } });
        let mut said = Vec::new();
        let spec = json!({ "versions": [{ "schema": { "openAPIV3Schema": schema } }] });
        warnings(&json!(null), &spec, &mut said);
        assert_eq!(said, ["unrecognized format \"date\"", "unrecognized format \"foo\""]);
        said.clear();
        warnings(&spec, &spec, &mut said);
        assert!(said.is_empty());
    }
}
