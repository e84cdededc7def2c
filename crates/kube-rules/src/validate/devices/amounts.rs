//! The description of a device: attributes, capacity, and counters that it shares with others.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use super::super::super::quantity::Quantity;
use super::super::super::value_ext::ValueExt;
use super::super::errors::{Errors, Path, Shown};
use super::super::names;
use super::{attribute_name, each, twice};

/// Attributes and capacities of a device, together.
const MOST_ATTRIBUTES: usize = 32;
/// Bytes of the value of an attribute.
const LONGEST_VALUE: usize = 64;
const MOST_COUNTERS: usize = 32;
/// Values that a request for capacity may have.
const MOST_VALUES: usize = 10;

/// A version as semver.org has it.
static VERSION: LazyLock<Regex> = LazyLock::new(|| {
    let number = "(0|[1-9][0-9]*)";
    let early = "(0|[1-9][0-9]*|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*)";
    let build = "[0-9a-zA-Z-]+";
    let text = format!(r"^{number}\.{number}\.{number}(-{early}(\.{early})*)?(\+{build}(\.{build})*)?$");
    Regex::new(&text).expect("the pattern of versions is one")
});

/// Checks the attributes of a device, and how many of them and of capacities there are.
pub fn attributes(device: &Value, at: &Path<'_>, errors: &mut Errors) {
    let (attributes, count) = (device.entries("attributes"), device.entries("capacity").len());
    let count = i64::try_from(attributes.len() + count).unwrap_or(i64::MAX);
    if count > MOST_ATTRIBUTES as i64 {
        let detail = format!("the total number of attributes and capacities must not exceed {MOST_ATTRIBUTES}");
        errors.invalid(at, count, &detail);
    }
    let at = at.field("attributes");
    for (name, attribute) in attributes {
        attribute_name(name, &at, errors);
        let at = at.key(name);
        if attribute.text("string").len() > LONGEST_VALUE {
            errors.too_long(&at.field("string"), LONGEST_VALUE);
        }
        if let Some(version) = attribute.some("version").and_then(Value::as_str) {
            let at = at.field("version");
            if !VERSION.is_match(version) {
                errors.invalid(&at, version, "must be a string compatible with semver.org spec 2.0.0");
            }
            if version.len() > LONGEST_VALUE {
                errors.too_long(&at, LONGEST_VALUE);
            }
        }
        let values = ["bool", "int", "string", "version"].iter().filter(|name| attribute.has(name)).count();
        match values {
            0 => errors.invalid(&at, "", "exactly one value must be specified"),
            1 => {}
            _ => errors.invalid(&at, Shown::Plain(attribute.to_string()), "exactly one value must be specified"),
        }
    }
}

/// Checks the capacity of a device.
pub fn capacity(device: &Value, at: &Path<'_>, errors: &mut Errors) {
    let at = at.field("capacity");
    for (name, capacity) in device.entries("capacity") {
        attribute_name(name, &at, errors);
        let at = at.key(name).to_string();
        let at = Path::root(&at);
        let at = at.field("requestPolicy");
        match capacity.some("requestPolicy") {
            Some(_) if !device.flag("allowMultipleAllocations") => {
                errors.forbidden(&at, "allowMultipleAllocations must be true");
            }
            Some(policy) => request_policy(&amount(&capacity["value"]), policy, &at, errors),
            None => {}
        }
    }
}

fn amount(value: &Value) -> Quantity {
    value.as_str().and_then(|text| Quantity::parse(text).ok()).unwrap_or_else(|| Quantity::from_whole(0))
}

/// Checks the policy for requests of a capacity.
fn request_policy(most: &Quantity, policy: &Value, at: &Path<'_>, errors: &mut Errors) {
    let values = policy.list("validValues");
    let default = policy.some("default").map(amount);
    match (values.is_empty(), policy.some("validRange")) {
        (false, Some(_)) => {
            let detail = "exactly one policy can be specified, cannot specify \"validValues\" and \"validRange\" at the same time";
            errors.forbidden(at, detail);
        }
        (false, None) => match default {
            None => errors.required(&at.field("default"), "required when validValues is defined"),
            Some(default) => valid_values(&default, most, values, &at.field("validValues"), errors),
        },
        (true, Some(range)) => match default {
            None => errors.required(&at.field("default"), "required when validRange is defined"),
            Some(default) => valid_range(&default, most, range, &at.field("validRange"), errors),
        },
        (true, None) => {}
    }
}

fn valid_values(default: &Quantity, most: &Quantity, values: &[Value], at: &Path<'_>, errors: &mut Errors) {
    let amounts: Vec<Quantity> = values.iter().map(amount).collect();
    for (index, pair) in amounts.windows(2).enumerate().filter(|(_, pair)| pair[0].is_more(&pair[1])) {
        let shown = pair[1].canonical();
        errors.invalid(&at.index(index + 1), shown.as_str(), "values must be sorted in ascending order");
    }
    each(values, MOST_VALUES, at, errors, |value, at, errors| {
        let value = amount(value);
        if value.is_more(most) {
            let detail = format!("option is larger than capacity value: {}", most.canonical());
            errors.invalid(at, value.canonical().as_str(), &detail);
        }
    });
    twice(values, MOST_VALUES, at, errors, |value| amount(value).whole().to_string());
    let known = values.len() <= MOST_VALUES && amounts.iter().any(|value| value.compare(default).is_eq());
    if !known {
        let detail = "default value is not valid according to the requestPolicy";
        errors.invalid(at, default.canonical().as_str(), detail);
    }
}

fn valid_range(default: &Quantity, most: &Quantity, range: &Value, at: &Path<'_>, errors: &mut Errors) {
    let mut say = |name: &str, value: &Quantity, detail: &str| {
        errors.invalid(&at.field(name), value.canonical().as_str(), detail);
    };
    let least = match range.some("min") {
        Some(least) => amount(least),
        None => return errors.required(&at.field("min"), "required when validRange is defined"),
    };
    if least.is_more(most) {
        say("min", &least, &format!("min is larger than capacity value: {}", most.canonical()));
    }
    if default.is_less(&least) {
        say("min", default, &format!("default is less than min: {}", least.canonical()));
    }
    let last = range.some("max").map(amount);
    if let Some(last) = &last {
        if least.is_more(last) {
            say("max", &least, &format!("min is larger than max: {}", last.canonical()));
        }
        if last.is_more(most) {
            say("max", last, &format!("max is larger than capacity value: {}", most.canonical()));
        }
        if default.is_more(last) {
            say("max", default, &format!("default is more than max: {}", last.canonical()));
        }
    }
    let Some(step) = range.some("step").map(amount) else { return };
    let next = least.plus(&step);
    if next.is_more(most) {
        let detail = format!("one step {} is larger than capacity value: {}", next.canonical(), most.canonical());
        say("step", &step, &detail);
    }
    let whole = step.whole();
    for value in std::iter::once(default).chain(&last).filter(|_| whole != 0) {
        if value.whole().wrapping_sub(least.whole()).checked_rem(whole) != Some(0) {
            let detail =
                format!("value is not a multiple of a given step ({}) from ({})", step.canonical(), least.canonical());
            say("step", value, &detail);
        }
    }
}

/// Checks the set of counters that is named.
pub fn counter_set(of: &Value, field: &str, at: &Path<'_>, errors: &mut Errors) {
    let (name, at) = (of.text(field), at.field(field));
    if name.is_empty() {
        errors.required(&at, "");
    } else {
        errors.each_invalid(&at, name, &names::dns_1123_label(name));
    }
}

/// Counters, by their names.
pub fn counters_of(of: &Value, at: &Path<'_>, errors: &mut Errors) {
    let (counters, at) = (of.entries("counters"), at.field("counters"));
    if counters.is_empty() {
        errors.required(&at, "");
    } else if counters.len() > MOST_COUNTERS {
        errors.too_many(&at, counters.len(), MOST_COUNTERS);
    } else {
        for name in counters.keys() {
            errors.each_invalid(&at, name.as_str(), &names::dns_1123_label(name));
        }
    }
}

/// Checks the consumption of a device from a set of counters.
pub fn consumption(consumption: &Value, at: &Path<'_>, errors: &mut Errors) {
    counter_set(consumption, "counterSet", at, errors);
    counters_of(consumption, at, errors);
}
