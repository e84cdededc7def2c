//! Disks behind iSCSI, of pods and of volumes.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use super::super::super::value_ext::ValueExt;
use super::super::errors::{Errors, Path};
use super::source_fields::{lun, required};

/// The holder of the disk: volumes have other messages, and secrets of any namespace.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Holder {
    /// A pod.
    Pod,
    /// A PersistentVolume.
    Volume,
}

/// The prefixes of the names of initiators and targets, and the patterns of the whole.
const FORMS: [(&str, &str); 3] = [
    ("iqn", r"iqn\.\d{4}-\d{2}\.[[:alnum:].-]+:[^,;*&$|\s]+$"),
    ("eui", r"^eui.[[:alnum:]]{16}$"),
    ("naa", r"^naa.[[:alnum:]]{32}$"),
];

/// Checks a disk behind iSCSI.
pub fn iscsi(source: &Value, holder: Holder, at: &Path<'_>, errors: &mut Errors) {
    required(source, "targetPortal", at, errors);
    let iqn = source.text("iqn");
    if iqn.is_empty() {
        errors.required(&at.field("iqn"), "");
    } else {
        named(iqn, holder, &at.field("iqn"), errors);
    }
    lun(source, at, errors);
    if (source.flag("chapAuthDiscovery") || source.flag("chapAuthSession")) && !source.has("secretRef") {
        errors.required(&at.field("secretRef"), "");
    }
    if let Some(secret) = source.some("secretRef").filter(|_| holder == Holder::Volume) {
        required(secret, "name", &at.field("secretRef"), errors);
    }
    if let Some(name) = source.some("initiatorName").and_then(Value::as_str) {
        // The field has this spelling there.
        named(name, holder, &at.field("initiatorname"), errors);
    }
}

fn named(name: &str, holder: Holder, at: &Path<'_>, errors: &mut Errors) {
    static FORM: LazyLock<[Regex; 3]> =
        LazyLock::new(|| FORMS.map(|(_, form)| Regex::new(form).expect("a valid pattern")));
    match FORMS.iter().position(|(start, _)| name.starts_with(start)) {
        Some(form) if FORM[form].is_match(name) => {}
        None if holder == Holder::Pod => {
            errors.invalid(at, name, "must be valid format starting with iqn, eui, or naa");
        }
        _ => errors.invalid(at, name, "must be valid format"),
    }
}
