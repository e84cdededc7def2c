//! Checks that the defaults of a schema fit it.

use serde_json::Value;

use super::super::validate::{Errors, Path};
use super::super::value_ext::put_missing;
use super::schema::{Schema, whole_numbers};
use super::{check, complete, embedded};
use crate::api_error::Cause;

/// Returns the faults of a default for a schema. `at` is where it is said.
pub fn objections(default: &Value, schema: &Schema, at: &Path<'_>) -> Vec<Cause> {
    let mut errors = Errors::new();
    let mut default = default.clone();
    whole_numbers(&mut default);
    let default = &default;
    if complete::has_unknown(default, schema) {
        errors.invalid(at, default, "must not have unknown fields");
    }
    let mut whole = default.clone();
    if let Err(error) = embedded::coerce(&mut whole, schema, "") {
        let (path, message) = error.split_once(": ").unwrap_or(("", &error));
        let field = Some(at.field(path).to_string());
        errors.0.push(Cause { reason: "FieldValueInvalid", message: message.to_owned(), field });
        return errors.0;
    }
    let before = errors.0.len();
    embedded::check(default, schema, at, &mut errors);
    if errors.0.len() == before {
        errors.0.extend(check::check(default, None, schema, &at.to_string()));
    }
    errors.0
}

/// Returns why an object can't be a whole one, with a header of the right types and a sound one.
pub fn header_objection(object: &Value) -> Option<String> {
    let schema = Schema { embedded: true, open: true, ..Schema::default() };
    let mut whole = object.clone();
    if let Err(error) = embedded::coerce(&mut whole, &schema, "") {
        return Some(error);
    }
    put_missing(&mut whole, "apiVersion", "validation/v1");
    put_missing(&mut whole, "kind", "Validation");
    let mut errors = Errors::new();
    embedded::check(&whole, &schema, &Path::root(""), &mut errors);
    let said = |cause: &Cause| format!("{}: {}", cause.field.as_deref().unwrap_or_default(), cause.message);
    match errors.0.as_slice() {
        [] => None,
        [one] => Some(said(one)),
        several => Some(format!("[{}]", several.iter().map(said).collect::<Vec<_>>().join(", "))),
    }
}
