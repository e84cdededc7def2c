//! The names of a custom kind.

use serde_json::Value;

use super::super::super::value_ext::ValueExt;
use super::super::errors::{Errors, Path};
use super::super::names;

/// Checks the required names; optional ones have been filled in by now.
pub fn required(given: &Value, at: &Path<'_>, errors: &mut Errors) {
    for name in ["plural", "singular", "kind", "listKind"] {
        if given.text(name).is_empty() {
            errors.required(&at.field(name), "");
        }
    }
}

/// Checks the given names.
pub fn names_of(given: &Value, at: &Path<'_>, errors: &mut Errors) {
    for name in ["plural", "singular", "kind", "listKind"] {
        let (at, text) = (at.field(name), given.text(name));
        if text.is_empty() {
            continue;
        }
        if name.ends_with("ind") {
            let said = names::dns_1035_label(&text.to_lowercase());
            if !said.is_empty() {
                let detail = format!("may have mixed case, but should otherwise match: {}", said.join(","));
                errors.invalid(&at, text, &detail);
            }
        } else {
            label(text, &at, errors);
        }
    }
    each(given, "shortNames", at, errors);
    if !given.text("kind").is_empty() && given.text("kind") == given.text("listKind") {
        errors.invalid(&at.field("listKind"), given.text("listKind"), "kind and listKind may not be the same");
    }
    each(given, "categories", at, errors);
}

/// Checks a name in lower case that begins with a letter.
pub fn label(text: &str, at: &Path<'_>, errors: &mut Errors) {
    let said = names::dns_1035_label(text);
    if !said.is_empty() {
        errors.invalid(at, text, &said.join(","));
    }
}

fn each(given: &Value, list: &str, at: &Path<'_>, errors: &mut Errors) {
    let at = at.field(list);
    for (index, name) in given.list(list).iter().enumerate() {
        label(name.as_str().unwrap_or_default(), &at.index(index), errors);
    }
}
