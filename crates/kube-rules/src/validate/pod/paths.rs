//! Paths inside of a container or a volume.

use super::super::errors::{Errors, Path};

/// Checks a path inside something: relative, and not upwards.
pub fn local_path(path: &str, at: &Path<'_>, errors: &mut Errors) {
    if path.starts_with('/') {
        errors.invalid(at, path, "must be a relative path");
    }
    if path.split('/').any(|part| part == "..") {
        errors.invalid(at, path, "must not contain '..'");
    }
}

/// Checks a path in a volume; names that start with two dots are the kubelet's own.
pub fn below_the_volume(path: &str, at: &Path<'_>, errors: &mut Errors) {
    local_path(path, at, errors);
    if path.starts_with("..") && !path.starts_with("../") {
        errors.invalid(at, path, "must not start with '..'");
    }
}
