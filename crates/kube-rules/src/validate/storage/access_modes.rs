//! The modes in which volumes are mounted.

use serde_json::Value;

use super::super::errors::{Errors, Path};

const MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", ALONE];
/// The mode that goes with no other.
const ALONE: &str = "ReadWriteOncePod";

/// Checks the modes in which a volume is mounted: each a known one, and by one pod alone or not.
pub fn access_modes(modes: &[Value], at: &Path<'_>, errors: &mut Errors) {
    for mode in modes {
        let mode = mode.as_str().unwrap_or_default();
        if !MODES.contains(&mode) {
            errors.not_supported(at, mode, &MODES);
        }
    }
    // Modes that there are not are no other modes.
    let other = |mode: &Value| mode.as_str().is_some_and(|mode| mode != ALONE && MODES.contains(&mode));
    if modes.iter().any(|mode| mode == ALONE) && modes.iter().any(other) {
        errors.forbidden(at, "may not use ReadWriteOncePod with other access modes");
    }
}
