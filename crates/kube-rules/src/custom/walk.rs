//! A walk through a value of a custom kind, and its complaints.

use super::super::words::quote;
use crate::api_error::Cause;

/// A walk through a value.
pub(super) struct CustomWalk<'a> {
    /// The field of the object that the value is; empty for a whole object.
    pub(super) field: &'a str,
    /// The way down from there: `spec.items[0]`.
    pub(super) path: String,
    /// The complaints so far.
    pub(super) causes: Vec<Cause>,
}

impl CustomWalk<'_> {
    /// Adds a complaint about the place that the walk has reached.
    pub(super) fn say(&mut self, reason: &'static str, message: String) {
        let field = match (self.field, self.path.as_str()) {
            ("", path) => path.to_owned(),
            (field, "") => field.to_owned(),
            (field, path) => format!("{field}.{}", path.trim_start_matches('.')),
        };
        self.causes.push(Cause { reason, message, field: Some(field) });
    }

    /// Adds a complaint about a value.
    pub(super) fn invalid(&mut self, shown: &str, detail: &str) {
        let path = &self.path;
        let message = format!("Invalid value: {shown}: {path} in body {detail}");
        self.say("FieldValueInvalid", message);
    }

    /// Adds a complaint that names its place only in its words.
    pub(super) fn placeless(&mut self, detail: &str) {
        let message = format!("Invalid value: \"\": {detail}");
        let field = if self.field.is_empty() { "<nil>" } else { self.field }.to_owned();
        self.causes.push(Cause { reason: "FieldValueInvalid", message, field: Some(field) });
    }

    /// Adds a complaint about the type of a value.
    pub(super) fn wrong_type(&mut self, shown: &str, wanted: &str) {
        let (path, shown) = (&self.path, quote(shown));
        let message = format!("Invalid value: {shown}: {path} in body must be of type {wanted}: {shown}");
        self.say("FieldValueTypeInvalid", message);
    }

    /// Adds a complaint about too many items or fields.
    pub(super) fn too_many(&mut self, count: u64, most: u64) {
        let items = if most == 1 { "item" } else { "items" };
        self.say("FieldValueTooMany", format!("Too many: {count}: must have at most {most} {items}"));
    }

    /// Goes on to a field.
    pub(super) fn enter(&mut self, name: &str) {
        if !self.path.is_empty() {
            self.path.push('.');
        }
        self.path.push_str(name);
    }
}
