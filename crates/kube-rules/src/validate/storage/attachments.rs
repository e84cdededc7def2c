//! VolumeAttachments, which ask a driver to bring a volume to a node.

use serde_json::Value;

use super::super::super::value_ext::ValueExt;
use super::super::errors::{Errors, Path, Shown};
use super::super::names;
use super::csi::driver_name;
use super::volumes;

/// The most bytes of an error's message.
const LONGEST_MESSAGE: usize = 262_144;
const EXACTLY_ONE: &str = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";

/// Checks a VolumeAttachment, its metadata apart.
pub fn attachment(object: &Value, errors: &mut Errors) {
    let (spec, at) = (&object["spec"], Path::root("spec"));
    let attacher = spec.text("attacher");
    let attacher_at = at.field("attacher");
    if attacher.is_empty() {
        errors.required(&attacher_at, "");
    } else {
        driver_name(attacher, &attacher_at, errors);
    }
    let (source, source_at) = (&spec["source"], at.field("source"));
    let named = source.some("persistentVolumeName").and_then(Value::as_str);
    let name_at = source_at.field("persistentVolumeName");
    match (source.has("inlineVolumeSpec"), named) {
        (false, None) => errors.required(&source_at, EXACTLY_ONE),
        (true, Some(_)) => errors.forbidden(&source_at, EXACTLY_ONE),
        (false, Some("")) => errors.required(&name_at, "must specify non empty persistentVolumeName"),
        (false, Some(_)) => {}
        (true, None) => volumes::inline(&source["inlineVolumeSpec"], &source_at.field("inlineVolumeSpec"), errors),
    }
    let node = spec.text("nodeName");
    errors.each_invalid(&at.field("nodeName"), node, &names::object_name(node));
    if let Some(name) = named {
        errors.each_invalid(&name_at, name, &names::object_name(name));
    }
    for name in ["attachError", "detachError"] {
        let (error, at) = (&object["status"][name], Path::root("status"));
        let at = at.field(name);
        if error.text("message").len() > LONGEST_MESSAGE {
            errors.too_long(&at.field("message"), LONGEST_MESSAGE);
        }
        if let Some(code) = error.int("errorCode").filter(|code| *code < 0) {
            errors.invalid(&at.field("errorCode"), code, "must be between 0 and 2147483647, inclusive");
        }
    }
}

/// Checks a changed VolumeAttachment.
pub fn attachment_update(old: &Value, new: &Value, errors: &mut Errors) {
    if old["spec"] != new["spec"] {
        errors.invalid(&Path::root("spec"), Shown::Plain(new["spec"].to_string()), "field is immutable");
    }
}
