//! Fields that several sources of volumes have.

use serde_json::Value;

use super::super::super::value_ext::ValueExt;
use super::super::errors::{Errors, Path};

/// Checks a text that must be there.
pub fn required(source: &Value, name: &str, at: &Path<'_>, errors: &mut Errors) {
    if source.text(name).is_empty() {
        errors.required(&at.field(name), "");
    }
}

/// Checks a list that must have items.
pub fn some(source: &Value, name: &str, at: &Path<'_>, errors: &mut Errors) {
    if source.list(name).is_empty() {
        errors.required(&at.field(name), "");
    }
}

/// Checks the number of a unit.
pub fn lun(source: &Value, at: &Path<'_>, errors: &mut Errors) {
    if let Some(lun) = source.int("lun")
        && !(0..=255).contains(&lun)
    {
        errors.invalid(&at.field("lun"), lun, "must be between 0 and 255, inclusive");
    }
}
