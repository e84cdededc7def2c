//! The faults of an object, collected in the order in which the real server would report them.

use std::fmt::{self, Display};

use serde_json::Value;

use super::super::words::{quote, quoted_list};
use crate::api_error::Cause;

/// The way to a field: `spec.containers[0].env`.
#[derive(Clone, Copy)]
pub struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    step: PathStep<'a>,
}

#[derive(Clone, Copy)]
enum PathStep<'a> {
    Field(&'a str),
    Index(usize),
    Key(&'a str),
}

impl<'a> Path<'a> {
    /// Returns a field of the object itself. Dots in it separate fields.
    pub fn root(name: &'a str) -> Path<'a> {
        Path { parent: None, step: PathStep::Field(name) }
    }

    /// Returns a field below this one. Dots in it separate fields.
    pub fn field(&'a self, name: &'a str) -> Path<'a> {
        Path { parent: Some(self), step: PathStep::Field(name) }
    }

    /// Returns an item of this list.
    pub fn index(&'a self, index: usize) -> Path<'a> {
        Path { parent: Some(self), step: PathStep::Index(index) }
    }

    /// Returns an entry of this map.
    pub fn key(&'a self, key: &'a str) -> Path<'a> {
        Path { parent: Some(self), step: PathStep::Key(key) }
    }
}

impl Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(f)?;
        }
        match self.step {
            PathStep::Field("") => Ok(()),
            PathStep::Field(name) if self.parent.is_some_and(|parent| !matches!(parent.step, PathStep::Field(""))) => {
                write!(f, ".{name}")
            }
            PathStep::Field(name) => f.write_str(name),
            PathStep::Index(index) => write!(f, "[{index}]"),
            PathStep::Key(key) => write!(f, "[{key}]"),
        }
    }
}

/// A value as errors show it.
pub enum Shown<'a> {
    /// Text, in quotes.
    Text(&'a str),
    /// Anything else, as it is.
    Plain(String),
}

impl<'a> From<&'a str> for Shown<'a> {
    fn from(text: &'a str) -> Self {
        Shown::Text(text)
    }
}

impl From<i64> for Shown<'_> {
    fn from(number: i64) -> Self {
        Shown::Plain(number.to_string())
    }
}

impl From<usize> for Shown<'_> {
    fn from(number: usize) -> Self {
        Shown::Plain(number.to_string())
    }
}

impl From<bool> for Shown<'_> {
    fn from(value: bool) -> Self {
        Shown::Plain(value.to_string())
    }
}

impl<'a> From<&'a Value> for Shown<'a> {
    fn from(value: &'a Value) -> Self {
        match value {
            Value::String(text) => Shown::Text(text),
            other => Shown::Plain(other.to_string()),
        }
    }
}

impl Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Shown::Text(text) => f.write_str(&quote(text)),
            Shown::Plain(text) => f.write_str(text),
        }
    }
}

/// The faults so far.
#[derive(Debug, Default)]
pub struct Errors(pub Vec<Cause>, usize);

/// The most causes of an answer, and the most bytes of them: a fault of every item of a list may name the whole list.
const MOST_CAUSES: usize = 10_000;
const MOST_BYTES: usize = 4 << 20;

impl Errors {
    /// Returns nothing wrong yet.
    pub fn new() -> Errors {
        Errors::default()
    }

    fn add(&mut self, reason: &'static str, at: &Path<'_>, message: String) {
        if self.is_full() {
            return;
        }
        self.1 += message.len();
        self.0.push(Cause { reason, message, field: Some(at.to_string()) });
    }

    /// A value that may not be.
    pub fn invalid<'v>(&mut self, at: &Path<'_>, value: impl Into<Shown<'v>>, detail: &str) {
        let value = value.into();
        let message = if detail.is_empty() {
            format!("Invalid value: {value}")
        } else {
            format!("Invalid value: {value}: {detail}")
        };
        self.add("FieldValueInvalid", at, message);
    }

    /// Something that may not be, whatever its value.
    pub fn wrong(&mut self, at: &Path<'_>, detail: &str) {
        self.add("FieldValueInvalid", at, format!("Invalid value: {detail}"));
    }

    /// Something that the server could not find out.
    pub fn internal(&mut self, at: &Path<'_>, detail: &str) {
        self.add("InternalError", at, format!("Internal error: {detail}"));
    }

    /// More items than there may be.
    pub fn too_many(&mut self, at: &Path<'_>, count: usize, most: usize) {
        self.add("FieldValueTooMany", at, format!("Too many: {count}: must have at most {most} items"));
    }

    /// A value that must be there.
    pub fn required(&mut self, at: &Path<'_>, detail: &str) {
        let message = if detail.is_empty() { "Required value".to_owned() } else { format!("Required value: {detail}") };
        self.add("FieldValueRequired", at, message);
    }

    /// A field that may not be set here.
    pub fn forbidden(&mut self, at: &Path<'_>, detail: &str) {
        let message = if detail.is_empty() { "Forbidden".to_owned() } else { format!("Forbidden: {detail}") };
        self.add("FieldValueForbidden", at, message);
    }

    /// A value that is none of those that there are.
    pub fn not_supported<'v>(&mut self, at: &Path<'_>, value: impl Into<Shown<'v>>, supported: &[&str]) {
        let value = value.into();
        let message =
            format!("Unsupported value: {value}: supported values: {}", quoted_list(supported.iter().copied()));
        self.add("FieldValueNotSupported", at, message);
    }

    /// A value that is there already.
    pub fn duplicate<'v>(&mut self, at: &Path<'_>, value: impl Into<Shown<'v>>) {
        let value = value.into();
        self.add("FieldValueDuplicate", at, format!("Duplicate value: {value}"));
    }

    /// A value that is there already, and the field that may not be the same.
    pub fn duplicate_of<'v>(&mut self, at: &Path<'_>, value: impl Into<Shown<'v>>, detail: &str) {
        let value = value.into();
        self.add("FieldValueDuplicate", at, format!("Duplicate value: {value}: {detail}"));
    }

    /// Something named that is not there.
    pub fn not_found<'v>(&mut self, at: &Path<'_>, value: impl Into<Shown<'v>>) {
        self.not_among(at, value, "");
    }

    /// A name that is none of the existing ones.
    pub fn not_among<'v>(&mut self, at: &Path<'_>, value: impl Into<Shown<'v>>, detail: &str) {
        let value = value.into();
        let message =
            if detail.is_empty() { format!("Not found: {value}") } else { format!("Not found: {value}: {detail}") };
        self.add("FieldValueNotFound", at, message);
    }

    /// Too much text.
    pub fn too_long(&mut self, at: &Path<'_>, most: usize) {
        self.add("FieldValueTooLong", at, format!("Too long: may not be more than {most} bytes"));
    }

    /// Adds a complaint for each of several reasons why a value may not be.
    pub fn each_invalid<'v>(&mut self, at: &Path<'_>, value: impl Into<Shown<'v>>, details: &[String]) {
        let value = value.into();
        for detail in details {
            self.add("FieldValueInvalid", at, format!("Invalid value: {value}: {detail}"));
        }
    }

    /// Checks a field that has one of some values, or is not there.
    pub fn one_of(&mut self, of: &Value, name: &str, known: &[&str], at: &Path<'_>) {
        if let Some(value) = of.get(name).and_then(Value::as_str)
            && !known.contains(&value)
        {
            self.not_supported(&at.field(name), value, known);
        }
    }

    /// Returns true when no more causes are added.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.0.len() >= MOST_CAUSES || self.1 >= MOST_BYTES
    }

    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Checks that a field stays as it is.
pub fn immutable(old: &Value, new: &Value, name: &str, at: &Path<'_>, errors: &mut Errors) {
    let (before, after) = (old.get(name), new.get(name));
    if before != after {
        // A text that is not there is an empty one.
        let shown = match (before, after) {
            (Some(Value::String(_)), None) => &Value::String(String::new()),
            _ => after.unwrap_or(&Value::Null),
        };
        errors.invalid(&at.field(name), shown, "field is immutable");
    }
}

#[cfg(test)]
mod tests {
    use super::{Errors, Path};

    #[test]
    fn errors_name_their_fields() {
        let spec = Path::root("spec");
        let containers = spec.field("containers");
        let mut errors = Errors::new();
        errors.invalid(&containers.index(2).field("name"), "A", "bad");
        errors.not_supported(&spec.key("a.b/c"), "x", &["a", "b"]);
        let causes: Vec<_> = errors.0.iter().map(|cause| (cause.field.as_deref().unwrap(), &*cause.message)).collect();
        let expected = [
            ("spec.containers[2].name", "Invalid value: \"A\": bad"),
            ("spec[a.b/c]", "Unsupported value: \"x\": supported values: \"a\", \"b\""),
        ];
        assert_eq!(causes, expected);
    }
}
