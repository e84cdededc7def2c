//! The limits of numbers. A whole number is compared in whole numbers, even with a limit that is none.

use serde_json::Number;

use super::schema::{Bound, Kind, Schema};
use super::walk::CustomWalk;

/// Checks that a number is in its range, between its limits and a multiple of its factor.
pub(super) fn check(walk: &mut CustomWalk<'_>, number: &Number, schema: &Schema) {
    let limits = &schema.limits;
    let value = number.as_f64().unwrap_or_default();
    in_range(walk, number, schema);
    let in_kind = |limit: f64| if number.is_f64() { limit } else { limit.trunc() };
    if let Some(factor) = limits.factor {
        multiple(walk, number, in_kind(factor));
    }
    if let Some(Bound { at, excluded }) = limits.most {
        let at = in_kind(at);
        if value > at || (excluded && value >= at) {
            let or_equal = if excluded { "" } else { " or equal to" };
            walk.invalid(&number.to_string(), &format!("should be less than{or_equal} {at}"));
        }
    }
    if let Some(Bound { at, excluded }) = limits.least {
        let at = in_kind(at);
        if value < at || (excluded && value <= at) {
            let or_equal = if excluded { "" } else { " or equal to" };
            walk.invalid(&number.to_string(), &format!("should be greater than{or_equal} {at}"));
        }
    }
}

/// Checks that a number is one of those that its type and its format have. Formats of others are not checked.
fn in_range(walk: &mut CustomWalk<'_>, number: &Number, schema: &Schema) {
    let value = number.as_f64().unwrap_or_default();
    let format = schema.limits.format.as_deref();
    let (ty, known, fits) = match (schema.ty, format) {
        (Some(Kind::Integer), Some("int32")) => {
            ("integer", format, value >= f64::from(i32::MIN) && value <= f64::from(i32::MAX))
        }
        (Some(Kind::Integer), _) => ("integer", format.filter(|format| *format == "int64"), true),
        (Some(Kind::Number), Some("float")) => ("number", format, value.abs() <= f64::from(f32::MAX)),
        _ => return,
    };
    if fits && (ty != "integer" || !number.is_f64()) {
        return;
    }
    let format = known.map_or_else(|| " (default format)".to_owned(), |format| format!(" with format {format}"));
    let path = walk.path.clone();
    walk.placeless(&format!("Checked value must be of type {ty}{format} in {path}"));
}

fn multiple(walk: &mut CustomWalk<'_>, number: &Number, factor: f64) {
    if factor <= 0.0 {
        let path = &walk.path;
        let message =
            format!("Invalid value: {factor}: factor MultipleOf declared for {path} must be positive: {factor}");
        return walk.say("FieldValueInvalid", message);
    }
    let times = number.as_f64().unwrap_or_default() / factor;
    if times.fract() != 0.0 {
        walk.invalid(&number.to_string(), &format!("should be a multiple of {factor}"));
    }
}
