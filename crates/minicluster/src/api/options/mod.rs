//! The options of a request besides the object: in its parameters, and for deletions also in its body.

mod delete;
mod list;
mod write;

pub use delete::{DeleteOptions, Propagation};
pub use list::{Continue, ListOptions, ListStart, Match};
pub use write::WriteOptions;

use super::{ApiError, Cause};

/// A refusal of options, with all causes.
fn refuse(kind: &str, causes: Vec<Cause>) -> Result<(), ApiError> {
    if causes.is_empty() { Ok(()) } else { Err(ApiError::invalid("meta.k8s.io", kind, "", causes)) }
}

fn forbidden(field: &str, why: &str) -> Cause {
    Cause { reason: "FieldValueForbidden", message: format!("Forbidden: {why}"), field: Some(field.to_owned()) }
}

fn unsupported(field: &str, value: &str, supported: &[&str]) -> Cause {
    let supported: Vec<String> = supported.iter().map(|value| format!("{value:?}")).collect();
    Cause {
        reason: "FieldValueNotSupported",
        message: format!("Unsupported value: {value}: supported values: {}", supported.join(", ")),
        field: Some(field.to_owned()),
    }
}

/// Returns the dry run that `dryRun` asks for: `All` or none.
fn dry_run(values: &[&str]) -> Result<bool, Cause> {
    if values.is_empty() {
        return Ok(false);
    }
    if values.iter().all(|value| *value == "All") {
        return Ok(true);
    }
    let values: Vec<String> = values.iter().map(|value| format!("{value:?}")).collect();
    Err(unsupported("dryRun", &format!("[{}]", values.join(",")), &["All"]))
}
