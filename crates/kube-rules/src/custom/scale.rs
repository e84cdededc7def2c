//! The numbers behind the scale subresource.

use serde_json::Value;

use super::super::validate::{Errors, Path};
use super::super::words::printed;
use super::Custom;

/// Checks the wanted number, and the present one.
pub fn check(custom: &Custom, object: &Value, errors: &mut Errors) {
    if let Some(scale) = &custom.scale {
        number(object, &scale.spec, errors);
        check_status(custom, object, errors);
    }
}

/// Checks the numbers in the status, at the paths of the scale subresource.
pub fn check_status(custom: &Custom, object: &Value, errors: &mut Errors) {
    let Some(scale) = &custom.scale else { return };
    number(object, &scale.status, errors);
    if let Some(selector) = &scale.selector {
        match find(object, selector) {
            Ok(Some(other)) if !other.is_string() => {
                let path = dotted(selector);
                let detail = format!(
                    "{path} accessor error: {} is of the type {}, expected string",
                    printed(other),
                    go_type(other)
                );
                errors.invalid(&Path::root(&path), "", &detail);
            }
            Err(error) => errors.invalid(&Path::root(&dotted(selector)), "", &error),
            Ok(_) => {}
        }
    }
}

fn number(object: &Value, at: &[String], errors: &mut Errors) {
    let path = dotted(at);
    let found = find(object, at);
    let at = Path::root(&path);
    match found {
        Err(error) => errors.invalid(&at, 0_i64, &error),
        Ok(None) => {}
        Ok(Some(value)) => match value.as_i64() {
            Some(number) if number < 0 => errors.invalid(&at, number, "should be a non-negative integer"),
            Some(number) if number > i64::from(i32::MAX) => {
                errors.invalid(&at, number, &format!("should be less than or equal to {}", i32::MAX));
            }
            Some(_) => {}
            None => {
                let (shown, ty) = (printed(value), go_type(value));
                errors.invalid(
                    &at,
                    0_i64,
                    &format!("{path} accessor error: {shown} is of the type {ty}, expected int64"),
                );
            }
        },
    }
}

/// Returns the value at a path, if every step of it is a map.
fn find<'a>(object: &'a Value, at: &[String]) -> Result<Option<&'a Value>, String> {
    let mut value = object;
    for name in at {
        let Value::Object(entries) = value else {
            let (shown, ty) = (printed(value), go_type(value));
            return Err(format!(
                "{} accessor error: {shown} is of the type {ty}, expected map[string]interface{{}}",
                dotted(at)
            ));
        };
        let Some(next) = entries.get(name) else { return Ok(None) };
        value = next;
    }
    Ok(Some(value))
}

fn dotted(at: &[String]) -> String {
    at.iter().map(|name| format!(".{name}")).collect()
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}
