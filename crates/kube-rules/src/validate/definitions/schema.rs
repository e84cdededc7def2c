//! The schema of a custom kind as a whole: the fields of its root, and the order of its checks.

use serde_json::Value;

use super::super::super::value_ext::ValueExt;
use super::super::errors::{Errors, Path};
use super::{defaults, structure, words};

/// The words at the root of a kind whose status is written apart.
const AT_ROOT: [(&str, &str); 22] = [
    ("description", "Description"),
    ("type", "Type"),
    ("format", "Format"),
    ("title", "Title"),
    ("maximum", "Maximum"),
    ("exclusiveMaximum", "ExclusiveMaximum"),
    ("minimum", "Minimum"),
    ("exclusiveMinimum", "ExclusiveMinimum"),
    ("maxLength", "MaxLength"),
    ("minLength", "MinLength"),
    ("pattern", "Pattern"),
    ("maxItems", "MaxItems"),
    ("minItems", "MinItems"),
    ("uniqueItems", "UniqueItems"),
    ("multipleOf", "MultipleOf"),
    ("required", "Required"),
    ("items", "Items"),
    ("properties", "Properties"),
    ("externalDocs", "ExternalDocs"),
    ("example", "Example"),
    ("x-kubernetes-preserve-unknown-fields", "XPreserveUnknownFields"),
    ("x-kubernetes-validations", "XValidations"),
];

/// Checks the schema of a version. `status_apart` is whether the status of its objects is written apart.
pub fn schema(schema: &Value, status_apart: bool, at: &Path<'_>, errors: &mut Errors) {
    let before = errors.0.len();
    if status_apart {
        root(schema, at, errors);
    }
    if schema.flag("nullable") {
        errors.forbidden(&at.field("nullable"), "nullable cannot be true at the root");
    }
    // If a word is not known to it, the real server does not check the structure at all.
    let unreadable = structure::unreadable(schema);
    if unreadable.is_none() {
        let found = errors.0.len();
        structure::structure(schema, at, errors);
        if errors.0.len() == found {
            defaults::defaults(schema, at, errors);
        }
    }
    let compiled = unreadable.is_none() && errors.0.len() == before;
    words::root(schema, compiled, at, errors);
    if let Some(why) = unreadable.filter(|_| errors.0.len() == before) {
        errors.invalid(at, "", &why);
    }
}

fn root(schema: &Value, at: &Path<'_>, errors: &mut Errors) {
    let nothing = |value: &Value| match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        _ => false,
    };
    let odd = |name: &&String| !AT_ROOT.iter().any(|(known, _)| known == name);
    let fields = schema.as_object().into_iter().flatten().filter(|(_, value)| !nothing(value)).map(|(name, _)| name);
    let mut odd = fields.filter(odd).peekable();
    let ty = schema.text("type");
    let first = odd.peek().is_some_and(|_| ["id", "$schema", "$ref"].iter().any(|name| schema.has(name)));
    if !matches!(ty, "" | "object") && !first {
        let detail =
            "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled";
        return errors.invalid(&at.field("type"), ty, detail);
    }
    if odd.next().is_some() {
        let known: Vec<&str> = AT_ROOT.iter().map(|(_, name)| *name).collect();
        let detail = format!(
            "only [{}] fields are allowed at the root of the schema if the status subresource is enabled",
            known.join(" ")
        );
        errors.invalid(at, schema, &detail);
    }
}
