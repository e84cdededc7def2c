//! The fields that field selectors may ask for: each must be a simple field that the schema names.

use std::collections::BTreeSet;

use serde_json::Value;

use super::super::super::value_ext::ValueExt;
use super::super::errors::{Errors, Path};

/// The largest number of them.
const MOST: usize = 8;
const SIMPLE: &str = "must point to a field of type string, boolean or integer. Enum string fields and strings with formats \
                      are allowed.";

/// The selectable fields of a schema; `missing` is said if there is no schema to hold them against.
pub fn fields(fields: &[Value], schema: Option<&Value>, missing: &str, list: &Path<'_>, errors: &mut Errors) {
    let Some(schema) = schema else { return errors.invalid(list, "", missing) };
    let mut seen = BTreeSet::new();
    for (index, field) in fields.iter().enumerate() {
        let (at, path) = (list.index(index), field.text("jsonPath"));
        let at = at.field("jsonPath");
        if path.is_empty() {
            errors.required(&at, "");
            continue;
        }
        let found = match find(path, schema) {
            Ok(found) => found,
            Err(error) => {
                errors.invalid(&at, path, &format!("is an invalid path: {error}"));
                continue;
            }
        };
        if path.trim_start_matches('.').split('.').next() == Some("metadata") {
            errors.invalid(&at, path, "must not point to fields in metadata");
        }
        if !matches!(found.text("type"), "string" | "boolean" | "integer") {
            errors.invalid(&at, path, SIMPLE);
        }
        if !seen.insert(path) {
            errors.duplicate(&at, path);
        }
    }
    if fields.len() > MOST {
        errors.too_many(list, fields.len(), MOST);
    }
}

/// Returns the schema of the field that a path leads to.
///
/// # Errors
/// Fails with the reason for which there is none, in words.
pub fn find<'a>(path: &str, schema: &'a Value) -> Result<&'a Value, String> {
    const NONE: &Value = &Value::Null;
    let mut found = schema;
    let mut words = words(path).into_iter();
    while let Some(word) = words.next() {
        match word {
            "." => {
                let name = words.next().ok_or("unexpected end of JSON path")?;
                // A schema that names fields names them all.
                let others = found.some("additionalProperties").filter(|_| found.entries("properties").is_empty());
                found = match (found["properties"].get(name), others) {
                    (Some(field), _) => field,
                    (None, Some(Value::Bool(true))) => NONE,
                    (None, Some(others)) if others.is_object() => others,
                    _ => return Err("does not refer to a valid field".to_owned()),
                };
            }
            "[" => return Err("array notation is not allowed".to_owned()),
            other => return Err(format!("expected [ or . but got: {other}")),
        }
    }
    Ok(found)
}

/// Dots and brackets, and the text between them.
fn words(path: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        let end = rest.find(['.', '[', ']']).map_or(rest.len(), |end| end.max(1));
        let (word, left) = rest.split_at(end);
        words.push(word);
        rest = left;
    }
    words
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::find;

    #[test]
    fn a_path_leads_to_a_field_that_the_schema_names() {
        let schema = json!({ "properties": {
            "a": { "properties": { "b": { "type": "string" } } },
            "m": { "additionalProperties": { "type": "integer" } },
        } });
        assert_eq!(find(".a.b", &schema), Ok(&json!({ "type": "string" })));
        assert_eq!(find(".m.x", &schema), Ok(&json!({ "type": "integer" })));
        let none: [(&str, &str); 6] = [
            (".a.c", "does not refer to a valid field"),
            ("a.b", "expected [ or . but got: a"),
            (".a]", "expected [ or . but got: ]"),
            (".a.", "unexpected end of JSON path"),
            (".a['b']", "array notation is not allowed"),
            ("..a", "does not refer to a valid field"),
        ];
        for (path, error) in none {
            assert_eq!(find(path, &schema), Err::<&Value, _>(error.to_owned()), "{path}");
        }
    }
}
