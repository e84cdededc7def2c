//! The versions of a custom kind: each by itself, and their common rules.

use serde_json::Value;

use super::super::super::value_ext::{ValueExt, repeats};
use super::super::errors::{Errors, Path, Shown};
use super::structure::{self, ALTERNATIVES};
use super::{naming, schema, selectable};

const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: [&str; 8] = ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];
/// Characters of a warning of deprecation.
const LONGEST_WARNING: usize = 256;

/// Checks the parts of each version alone, and that one of them is stored.
pub fn each(spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    let (versions, list) = (spec.list("versions"), at.field("versions"));
    let alone = |part: &str| shared_part(versions, part).is_none();
    // Each compares all versions.
    let own_schemas = alone("schema");
    let (own_subresources, own_columns) = (alone("subresources"), alone("additionalPrinterColumns"));
    let own_fields = alone("selectableFields");
    if shared_part(versions, "schema").is_none_or(|schema| !schema.has("openAPIV3Schema")) {
        for (index, _) in versions.iter().enumerate().filter(|(_, version)| schema_of(version).is_none()) {
            errors.required(&list.index(index).field("schema.openAPIV3Schema"), "");
        }
    }
    if spec.flag("preserveUnknownFields") && versions.iter().any(has_defaults) {
        let detail = "must be false in order to use defaults in the schema";
        errors.invalid(&at.field("preserveUnknownFields"), true, detail);
    }
    for (index, version) in versions.iter().enumerate() {
        let at = list.index(index);
        naming::label(version.text("name"), &at.field("name"), errors);
        deprecation(version, &at.field("deprecationWarning"), errors);
        let own = schema_of(version).filter(|_| own_schemas);
        if let Some(own) = own {
            let below = version["subresources"].has("status");
            schema::schema(own, below, &at.field("schema.openAPIV3Schema"), errors);
        }
        if own_subresources {
            subresources(&version["subresources"], &at.field("subresources"), errors);
        }
        if own_columns {
            columns(version.list("additionalPrinterColumns"), &at.field("additionalPrinterColumns"), errors);
        }
        let fields = version.list("selectableFields");
        if own_fields && !fields.is_empty() {
            let missing = "may only be set when `version.schema.openAPIV3Schema` is not included";
            if let Some(why) = own.and_then(structure::unreadable) {
                errors.invalid(&at.field("schema.openAPIV3Schema"), "", &why);
            }
            selectable::fields(fields, own, missing, &at.field("selectableFields"), errors);
        }
    }
    let plain = || Shown::Plain(Value::from(versions).to_string());
    if repeats(versions.iter().map(|version| version["name"].to_string())).contains(&true) {
        errors.invalid(&list, plain(), "must contain unique version names");
    }
    if versions.iter().filter(|version| version.flag("storage")).count() != 1 {
        errors.invalid(&list, plain(), "must have exactly one version marked as storage version");
    }
    // The first one stands for all who know of no versions.
    if let Some(first) = versions.first().map(|version| version.text("name")).filter(|name| !name.is_empty()) {
        naming::label(first, &at.field("version"), errors);
    }
}

/// Checks the common parts of all versions.
pub fn shared(spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    let versions = spec.list("versions");
    let common = shared_part(versions, "schema").and_then(|schema| schema.some("openAPIV3Schema"));
    if let Some(common) = common {
        let below = versions.iter().any(|version| version["subresources"].has("status"));
        schema::schema(common, below, &at.field("validation.openAPIV3Schema"), errors);
    }
    if let Some(common) = shared_part(versions, "subresources") {
        subresources(common, &at.field("subresources"), errors);
    }
    if let Some(Value::Array(common)) = shared_part(versions, "additionalPrinterColumns") {
        columns(common, &at.field("additionalPrinterColumns"), errors);
    }
    if let Some(Value::Array(fields)) = shared_part(versions, "selectableFields")
        && !fields.is_empty()
    {
        let missing = "may only be set when validations.schema is included";
        selectable::fields(fields, common, missing, &at.field("selectableFields"), errors);
    }
}

/// Returns true when the schema of a version has a default anywhere.
fn has_defaults(version: &Value) -> bool {
    fn any(schema: &Value) -> bool {
        let parts = schema.entries("properties").values();
        let parts = parts.chain(["items", "additionalProperties", "not"].iter().filter_map(|word| schema.some(word)));
        let mut parts = parts.chain(ALTERNATIVES.iter().flat_map(|word| schema.list(word)));
        schema.has("default") || parts.any(any)
    }
    schema_of(version).is_some_and(any)
}

fn schema_of(version: &Value) -> Option<&Value> {
    version["schema"].some("openAPIV3Schema")
}

/// Returns a part that all versions have alike; it is reported for all of them at once.
fn shared_part<'a>(versions: &'a [Value], part: &str) -> Option<&'a Value> {
    let first = versions.first()?;
    let said = first.some(part)?;
    versions.iter().all(|version| version.get(part) == Some(said)).then_some(said)
}

fn deprecation(version: &Value, at: &Path<'_>, errors: &mut Errors) {
    let Some(warning) = version.some("deprecationWarning").and_then(Value::as_str) else { return };
    let unprintable = warning.char_indices().find(|(_, c)| c.is_control() || (c.is_whitespace() && *c != ' '));
    let detail = if !version.flag("deprecated") {
        "can only be set for deprecated versions".to_owned()
    } else if warning.is_empty() {
        "must not be an empty string".to_owned()
    } else if warning.len() > LONGEST_WARNING {
        format!("must be <= {LONGEST_WARNING} characters long")
    } else if let Some((index, _)) = unprintable {
        format!("must only contain printable UTF-8 characters; non-printable character found at index {index}")
    } else {
        return;
    };
    errors.invalid(at, warning, &detail);
}

fn columns(columns: &[Value], list: &Path<'_>, errors: &mut Errors) {
    for (index, column) in columns.iter().enumerate() {
        let at = list.index(index);
        if column.text("name").is_empty() {
            errors.required(&at.field("name"), "");
        }
        for (name, known) in [("type", &COLUMN_TYPES[..]), ("format", &COLUMN_FORMATS[..])] {
            let text = column.text(name);
            if name == "type" && text.is_empty() {
                errors.required(&at.field("type"), &format!("must be one of {}", known.join(",")));
            } else if !text.is_empty() && !known.contains(&text) {
                errors.invalid(&at.field(name), text, &format!("must be one of {}", known.join(",")));
            }
        }
        simple_path(column.text("jsonPath"), &at.field("JSONPath"), errors);
    }
}

/// A path that begins with a dot; whether it is one.
fn simple_path(path: &str, at: &Path<'_>, errors: &mut Errors) -> bool {
    if path.is_empty() {
        errors.required(at, "");
    } else if !path.starts_with('.') {
        errors.invalid(at, path, "must be a simple json path starting with .");
    }
    path.starts_with('.')
}

fn subresources(subresources: &Value, at: &Path<'_>, errors: &mut Errors) {
    let Some(scale) = subresources.some("scale") else { return };
    let at = at.field("scale");
    for (name, root) in [("specReplicasPath", ".spec"), ("statusReplicasPath", ".status")] {
        let (at, path) = (at.field(name), scale.text(name));
        if simple_path(path, &at, errors) && !path.starts_with(&format!("{root}.")) {
            errors.invalid(&at, path, &format!("should be a json path under {root}"));
        }
    }
    let path = scale.text("labelSelectorPath");
    let at = at.field("labelSelectorPath");
    if !path.is_empty()
        && simple_path(path, &at, errors)
        && ![".spec.", ".status."].iter().any(|root| path.starts_with(root))
    {
        errors.invalid(&at, path, "should be a json path under either .spec or .status");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::thread_time;

    /// Each was compared with all others, with its schema and by its name.
    #[test]
    fn very_many_versions_are_looked_at_once() {
        const VERSIONS: usize = 20_000;
        let before = thread_time::of_this_thread();
        let schema = json!({"openAPIV3Schema": {"type": "object"}});
        let version = |number: usize| json!({"name": format!("v{number}"), "served": true, "storage": number == 0, "schema": schema});
        let mut versions: Vec<Value> = (0..VERSIONS).map(version).collect();
        let said = |versions: &[Value]| {
            let mut errors = Errors::default();
            each(&json!({"versions": versions}), &Path::root("spec"), &mut errors);
            errors.0.len()
        };
        assert_eq!(said(&versions), 0);
        versions.push(version(7));
        assert_eq!(said(&versions), 1, "a name stands twice");
        let taken = thread_time::of_this_thread() - before;
        assert!(taken < thread_time::FEW, "{taken:?}");
    }
}
