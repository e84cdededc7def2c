//! One field of an object, with its name and where it is written.

use std::sync::Arc;

use serde_json::Value;

use belay_core::manifest::yaml::{At, Span};
use belay_core::manifest::{Complaint, Place};

/// One field of an object. Complaints about it name the field, never its value, which may be secret.
#[derive(Clone)]
pub(super) struct Field<'p> {
    file: &'p Arc<str>,
    /// `spec.source.path`; empty for the object itself.
    path: String,
    key: Span,
    at: At<'p>,
}

impl<'p> Field<'p> {
    /// Returns an object.
    pub(super) fn root(file: &'p Arc<str>, at: At<'p>) -> Field<'p> {
        Field { file, path: String::new(), key: at.span(), at }
    }

    /// Returns the field of this name, `metadata.name`, if it says something.
    pub(super) fn get(&self, path: &str) -> Option<Field<'p>> {
        let (name, rest) = path.split_once('.').map_or((path, None), |(name, rest)| (name, Some(rest)));
        let child = self.at.entry(name)?;
        let field = Field { file: self.file, path: joined(&self.path, name), key: child.key, at: child.at };
        match rest {
            Some(rest) => field.get(rest),
            None => Some(field).filter(|field| !field.says_nothing()),
        }
    }

    /// Returns its content, if it has any: the fields of a mapping, or the items of a list.
    pub(super) fn inner(&self) -> Vec<Field<'p>> {
        let is_list = self.at.value().is_array();
        let path = |index: usize, name: &str| match is_list {
            true => format!("{}[{index}]", self.path),
            false => joined(&self.path, name),
        };
        let all = self.at.children().enumerate().map(|(index, child)| Field {
            file: self.file,
            path: path(index, child.name),
            key: child.key,
            at: child.at,
        });
        all.filter(|field| !field.says_nothing()).collect()
    }

    /// Returns the last part of its name.
    pub(super) fn name(&self) -> &str {
        self.path.rsplit('.').next().unwrap_or_default()
    }

    /// Returns its text.
    pub(super) fn text(&self) -> Option<&'p str> {
        self.at.value().as_str()
    }

    /// Returns the text of a field of it.
    pub(super) fn text_of(&self, path: &str) -> Option<&'p str> {
        self.get(path)?.text()
    }

    /// Returns the texts of a field of it that is a list of texts.
    pub(super) fn texts_of(&self, path: &str) -> Vec<String> {
        let list = self.get(path).map(|list| list.inner()).unwrap_or_default();
        list.iter().filter_map(Field::text).map(ToOwned::to_owned).collect()
    }

    /// Returns true when a field of it is true.
    pub(super) fn is_true(&self, path: &str) -> bool {
        self.get(path).is_some_and(|field| *field.at.value() == Value::Bool(true))
    }

    fn says_nothing(&self) -> bool {
        match self.at.value() {
            Value::Null | Value::Bool(false) => true,
            Value::String(text) => text.is_empty(),
            Value::Array(items) => items.is_empty(),
            Value::Object(map) => map.is_empty(),
            Value::Number(_) | Value::Bool(true) => false,
        }
    }

    /// Returns a complaint about it, after its name.
    pub(super) fn complaint(&self, message: &str, hint: Option<&str>) -> Complaint {
        let place = Place { path: Arc::clone(self.file), line: self.key.start.line, column: self.key.start.column };
        let named = if self.path.is_empty() { message.to_owned() } else { format!("{} {message}", self.path) };
        Complaint::of_file(place, named, hint.map(ToOwned::to_owned))
    }
}

/// Returns a field's name in that of its parent. A key that does not look like a name may be a slip, and secret.
fn joined(path: &str, name: &str) -> String {
    let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c)) && name.len() <= 63;
    let name = if plain { name } else { "…" };
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}
