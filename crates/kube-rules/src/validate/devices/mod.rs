//! Devices (`resource.k8s.io`): classes of them, claims to them, and the devices that drivers offer. Expressions in CEL
//! are not compiled.

mod amounts;
mod claims;
mod classes;
mod offers;
mod status;

use std::collections::BTreeSet;

use serde_json::Value;

use super::super::value_ext::ValueExt;
use super::errors::{Errors, Path, Shown};
use super::names;
use super::storage::csi::driver_name;

pub use claims::{claim, claim_update, template, template_update};
pub use classes::class;
pub use offers::{slice, slice_update};
pub use status::claim_status;

/// The most requests of a claim, and references to them.
const MOST_REQUESTS: usize = 32;
const MOST_SELECTORS: usize = 32;
const MOST_CONFIGURATIONS: usize = 32;
/// Bytes of an expression.
const LONGEST_EXPRESSION: usize = 10 * 1024;
/// The most bytes of data for a driver, or from one.
const LONGEST_DATA: usize = 10 * 1024;
/// Bytes of the name of a pool.
const LONGEST_POOL: usize = 253;
/// Bytes of the name of an attribute, its domain apart.
const LONGEST_IDENTIFIER: usize = 32;
const MOST_CONDITIONS: usize = 4;
const EFFECTS: [&str; 3] = ["NoExecute", "NoSchedule", "None"];
const IDENTIFIER: &str = "a valid C identifier must start with alphabetic character or '_', followed by a string of \
                          alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for \
                          validation is '[A-Za-z_][A-Za-z0-9_]*')";

/// The complaint about a missing expression. Others are not checked.
const NO_EXPRESSION: &str = "compilation failed: ERROR: <input>:1:0: Syntax error: mismatched input '<EOF>' expecting \
                             {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, \
                             STRING, BYTES, IDENTIFIER}";

/// Checks each item of a list that may have so many; too many are not checked.
fn each(
    items: &[Value],
    most: usize,
    at: &Path<'_>,
    errors: &mut Errors,
    check: impl Fn(&Value, &Path<'_>, &mut Errors),
) {
    if items.len() > most {
        return errors.too_many(at, items.len(), most);
    }
    for (index, item) in items.iter().enumerate() {
        check(item, &at.index(index), errors);
    }
}

/// Reports items of a list that are there already, compared by `key`; nothing of a list that has too many.
fn twice(items: &[Value], most: usize, at: &Path<'_>, errors: &mut Errors, key: impl Fn(&Value) -> String) {
    let mut seen = BTreeSet::new();
    for (index, item) in items.iter().enumerate().filter(|_| items.len() <= most) {
        let key = key(item);
        if !seen.insert(key.clone()) {
            errors.duplicate(&at.index(index), key.as_str());
        }
    }
}

/// Returns a text itself.
fn itself(item: &Value) -> String {
    item.as_str().unwrap_or_default().to_owned()
}

/// Returns the name of an item.
fn name(item: &Value) -> String {
    item.text("name").to_owned()
}

fn label(of: &Value, name: &str, at: &Path<'_>, errors: &mut Errors) {
    let text = of.text(name);
    errors.each_invalid(&at.field(name), text, &names::dns_1123_label(text));
}

fn qualified(text: &str, at: &Path<'_>, errors: &mut Errors) {
    errors.each_invalid(at, text, &names::qualified_name(text));
}

/// Checks the name of a pool of devices: names of domains between slashes.
fn pool_name(name: &str, at: &Path<'_>, errors: &mut Errors) {
    if name.is_empty() {
        return errors.required(at, "");
    }
    if name.len() > LONGEST_POOL {
        errors.too_long(at, LONGEST_POOL);
    }
    for part in name.split('/') {
        errors.each_invalid(at, part, &names::dns_1123_subdomain(part));
    }
}

/// Checks the name of an attribute or a capacity: an identifier, perhaps with a domain before it.
fn attribute_name(name: &str, at: &Path<'_>, errors: &mut Errors) {
    let parts: Vec<&str> = name.split('/').collect();
    match parts.as_slice() {
        [own] => identifier(own, at, errors),
        [domain, own] => {
            if domain.is_empty() {
                errors.invalid(at, "", "the domain must not be empty");
            } else {
                driver_name(domain, at, errors);
            }
            if own.is_empty() {
                errors.invalid(at, "", "the name must not be empty");
            } else {
                identifier(own, at, errors);
            }
        }
        // The real server lets more slashes through.
        _ => {}
    }
}

/// Checks the name of an attribute with its domain.
fn full_attribute_name(name: &str, at: &Path<'_>, errors: &mut Errors) {
    attribute_name(name, at, errors);
    if !name.contains('/') {
        errors.invalid(at, name, "a fully qualified name must be a domain and a name separated by a slash");
    }
}

fn identifier(text: &str, at: &Path<'_>, errors: &mut Errors) {
    if text.len() > LONGEST_IDENTIFIER {
        errors.too_long(at, LONGEST_IDENTIFIER);
    }
    let starts = text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    if !starts || !text.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_') {
        errors.invalid(at, text, IDENTIFIER);
    }
}

/// The choice if expressions are compiled.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Expressions {
    /// They are.
    New,
    /// They may not change, so they were sound when they came.
    Kept,
}

fn selectors(of: &Value, expressions: Expressions, at: &Path<'_>, errors: &mut Errors) {
    each(of.list("selectors"), MOST_SELECTORS, &at.field("selectors"), errors, |selector, at, errors| {
        let at = at.field("cel");
        let Some(cel) = selector.some("cel") else { return errors.required(&at, "") };
        let (expression, at) = (cel.text("expression"), at.field("expression"));
        if expressions == Expressions::Kept {
            return;
        }
        if expression.len() > LONGEST_EXPRESSION {
            errors.too_long(&at, LONGEST_EXPRESSION);
        } else if expression.is_empty() {
            errors.invalid(&at, "", NO_EXPRESSION);
        }
    });
}

/// Checks the configuration for a driver.
fn configuration(of: &Value, at: &Path<'_>, errors: &mut Errors) {
    let at = at.field("opaque");
    let Some(opaque) = of.some("opaque") else { return errors.required(&at, "") };
    driver_name(opaque.text("driver"), &at.field("driver"), errors);
    data(opaque.get("parameters"), &at.field("parameters"), errors);
}

/// Something that only drivers can read.
fn data(given: Option<&Value>, at: &Path<'_>, errors: &mut Errors) {
    match given {
        None | Some(Value::Null) => errors.required(at, ""),
        Some(data) if data.to_string().len() > LONGEST_DATA => errors.too_long(at, LONGEST_DATA),
        Some(Value::Object(_)) => {}
        Some(_) => errors.invalid(at, "<value omitted>", "must be a valid JSON object"),
    }
}

fn toleration(toleration: &Value, at: &Path<'_>, errors: &mut Errors) {
    let (key, value) = (toleration.text("key"), toleration.text("value"));
    if !key.is_empty() {
        qualified(key, &at.field("key"), errors);
    }
    let value_at = at.field("value");
    match toleration.text("operator") {
        "Exists" if !value.is_empty() => errors.invalid(&value_at, value, "must be empty for operator `Exists`"),
        "Exists" => {}
        "Equal" => errors.each_invalid(&value_at, value, &names::label_value(value)),
        "" => errors.required(&at.field("operator"), ""),
        other => errors.not_supported(&at.field("operator"), other, &["Equal", "Exists"]),
    }
    let effect = toleration.text("effect");
    if !effect.is_empty() && !EFFECTS.contains(&effect) {
        errors.not_supported(&at.field("effect"), effect, &EFFECTS);
    }
}

/// Conditions under which a device is bound, and under which it can't be.
fn binding(of: &Value, at: &Path<'_>, errors: &mut Errors) {
    let (good, bad) = (of.list("bindingConditions"), of.list("bindingFailureConditions"));
    let (good_at, bad_at) = (at.field("bindingConditions"), at.field("bindingFailureConditions"));
    for (list, at) in [(good, &good_at), (bad, &bad_at)] {
        let check = |item: &Value, at: &Path<'_>, errors: &mut Errors| qualified(&itself(item), at, errors);
        each(list, MOST_CONDITIONS, at, errors, check);
    }
    twice(good, usize::MAX, &good_at, errors, itself);
    let mut seen = BTreeSet::new();
    for (index, condition) in bad.iter().enumerate() {
        let text = itself(condition);
        let at = bad_at.index(index);
        if !seen.insert(text.clone()) {
            errors.duplicate(&at, text.as_str());
        }
        if good.contains(condition) {
            errors.invalid(&at, text.as_str(), "bindingFailureConditions must not overlap with bindingConditions");
        }
    }
    let none = || Shown::Plain("null".to_owned());
    if good.is_empty() && !bad.is_empty() {
        errors.invalid(&good_at, none(), "bindingConditions are required to use bindingFailureConditions");
    }
    if bad.is_empty() && !good.is_empty() {
        errors.invalid(&bad_at, none(), "bindingFailureConditions are required to use bindingConditions");
    }
}
