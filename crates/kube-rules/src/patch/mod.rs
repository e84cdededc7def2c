//! A patch laid over an object, three ways.

mod directives;
mod json;
mod lists;
mod merge;
mod strategic;

use serde_json::Value;

use super::custom;
use super::read;
use super::validate::{Errors, Path};
use super::value_ext::ValueExt;
use super::{FieldValidation, PatchKind, Read, WriteContext};
use crate::api_error::ApiError;

/// Applies a patch; see [`super::patch`].
///
/// # Errors
/// 400 for a malformed patch, 415 for a kind of patch that the object does not take, 422 or 500 where it can't be
/// applied.
pub fn patch(write: &WriteContext<'_>, old: &Value, kind: PatchKind, body: &[u8]) -> Result<Read, ApiError> {
    let read = match kind {
        PatchKind::Json => {
            let patched = json::apply(old, body)?;
            read_patched(write, &patched, Vec::new())?
        }
        PatchKind::Merge => {
            let (patch, objections) = merge::read(body)?;
            let patched = merge::apply(old.clone(), &patch);
            read_patched(write, &patched, objections)?
        }
        PatchKind::Strategic if write.definition.custom.is_some() => return Err(unsupported()),
        PatchKind::Strategic => strategic(write, old, body)?,
    };
    check_name(old, &read.object)?;
    Ok(read)
}

fn unsupported() -> ApiError {
    let accepted = "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";
    let message =
        format!("the body of the request was in an unknown format - accepted media types include: {accepted}");
    ApiError::new(415, "UnsupportedMediaType", message)
}

/// Checks that an object is still the one at its URL.
///
/// # Errors
/// 400 for another name or namespace, or none.
pub fn check_name(old: &Value, new: &Value) -> Result<(), ApiError> {
    let (was, is) = (old["metadata"].text("name"), new["metadata"].text("name"));
    if is.is_empty() {
        let message = format!("the name of the object ({was} based on URL) was undeterminable: name must be provided");
        return Err(ApiError::bad_request(message));
    }
    if is != was {
        let message = format!("the name of the object ({is}) does not match the name on the URL ({was})");
        return Err(ApiError::bad_request(message));
    }
    let (was, is) = (old["metadata"].text("namespace"), new["metadata"].text("namespace"));
    if !is.is_empty() && is != was {
        return Err(ApiError::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    Ok(())
}

/// Returns a patched object, read like a body. `objections` are those to the patch itself.
fn read_patched(write: &WriteContext<'_>, patched: &Value, objections: Vec<String>) -> Result<Read, ApiError> {
    let shown = || patched.to_string();
    let read = match &write.definition.custom {
        Some(custom) => custom::from_value(custom, patched.clone()),
        None => read::read_value(write.definition, patched.clone()),
    };
    let read = read.map_err(|error| refused(&shown(), &error))?;
    judge(write, read, objections, shown)
}

fn strategic(write: &WriteContext<'_>, old: &Value, body: &[u8]) -> Result<Read, ApiError> {
    let (patch, objections) = strategic::read(body)?;
    let patched = strategic::apply(old.clone(), patch, &write.definition.schema)?;
    // The body is read once more if it has to be shown.
    let shown = || strategic::read(body).map(|(patch, _)| super::words::printed(&patch)).unwrap_or_default();
    let read = read::convert_patched(write.definition, old, patched).map_err(|error| {
        let decoding = if error.starts_with("illegal base64") { "error decoding from json: " } else { "" };
        refused(&shown(), &format!("{decoding}{error}"))
    })?;
    judge(write, read, objections, shown)
}

/// Refuses unknown and duplicate fields, or warns of them.
fn judge(
    write: &WriteContext<'_>,
    read: Read,
    objections: Vec<String>,
    shown: impl Fn() -> String,
) -> Result<Read, ApiError> {
    let mut all = objections;
    all.extend(read.warnings);
    let warnings = match write.field_validation {
        FieldValidation::Ignore => Vec::new(),
        FieldValidation::Warn => all,
        FieldValidation::Strict if all.is_empty() => Vec::new(),
        FieldValidation::Strict => {
            return Err(refused(&shown(), &format!("strict decoding error: {}", all.join(", "))));
        }
    };
    Ok(Read { object: read.object, warnings })
}

/// Returns 422 for a patch whose result is no object of the kind.
pub fn refused(shown: &str, error: &str) -> ApiError {
    let mut errors = Errors::new();
    errors.invalid(&Path::root("patch"), shown, error);
    ApiError::invalid("", "", "", errors.0)
}
