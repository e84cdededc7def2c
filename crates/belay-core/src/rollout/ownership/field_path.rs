//! The place of a field that is left alone.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Fields of an object by their place: a JSON pointer, in which `*` stands for every item of a list and `[name=web]` for the
/// item with that name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct FieldPath {
    pub(in crate::rollout) text: String,
    pub(in crate::rollout) steps: Vec<Step>,
}

/// One step of the way to a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::rollout) enum Step {
    /// The field of this name; in a list, the item at this place, counted from 0.
    Name(String),
    /// Every item of a list.
    EachItem,
    /// The items of a list in which this field has this value.
    ItemWith(String, String),
}

/// The reason for which a text is no path of fields that can be ignored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("field {text:?} {why}")]
pub struct InvalidFieldPath {
    pub(in crate::rollout) text: String,
    why: &'static str,
}

/// Fields that identify the object, or are belay's own: they can't be ignored.
const NOT_TO_BE_LEFT_ALONE: [&[&str]; 7] = [
    &["apiVersion"],
    &["kind"],
    &["metadata", "name"],
    &["metadata", "namespace"],
    &["metadata", "labels", "belay.dev/"],
    &["metadata", "annotations", "belay.dev/"],
    &["metadata", "annotations", "kubernetes.io/change-cause"],
];

impl FromStr for FieldPath {
    type Err = InvalidFieldPath;

    fn from_str(text: &str) -> Result<FieldPath, InvalidFieldPath> {
        let wrong = |why| InvalidFieldPath { text: text.to_owned(), why };
        let Some(path) = text.strip_prefix('/').filter(|path| !path.is_empty()) else {
            return Err(wrong("is no JSON pointer: it begins with a slash, like /spec/replicas"));
        };
        let steps: Vec<Step> =
            path.split('/').map(Step::of).collect::<Option<_>>().ok_or_else(|| {
                wrong("has a step that says nothing; an item of a list is *, [name=web] or its number")
            })?;
        let covers = |own: &&[&str]| {
            own.iter().zip(&steps).all(|(own, step)| match step {
                Step::Name(name) if own.ends_with('/') => name.starts_with(own),
                Step::Name(name) => name == own,
                Step::EachItem | Step::ItemWith(..) => false,
            })
        };
        match NOT_TO_BE_LEFT_ALONE.iter().any(covers) {
            true => Err(wrong("holds what belay knows the object by, or its own marks: name the fields below it")),
            false => Ok(FieldPath { text: text.to_owned(), steps }),
        }
    }
}

impl Step {
    pub(in crate::rollout) fn of(text: &str) -> Option<Step> {
        let plain = |text: &str| text.replace("~1", "/").replace("~0", "~");
        match text {
            "" => None,
            "*" => Some(Step::EachItem),
            _ => match text.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')) {
                Some(inner) => {
                    let (name, value) = inner.split_once('=').filter(|(name, _)| !name.is_empty())?;
                    Some(Step::ItemWith(plain(name), plain(value)))
                }
                None => Some(Step::Name(plain(text))),
            },
        }
    }

    pub(in crate::rollout) fn selects(&self, item: &Value, at: usize) -> bool {
        match self {
            Step::Name(name) => name.parse() == Ok(at),
            Step::EachItem => true,
            Step::ItemWith(name, value) => match &item[name.as_str()] {
                Value::String(own) => own == value,
                own => serde_json::from_str::<Value>(value).is_ok_and(|value| value == *own),
            },
        }
    }
}

impl TryFrom<String> for FieldPath {
    type Error = InvalidFieldPath;

    fn try_from(text: String) -> Result<FieldPath, InvalidFieldPath> {
        text.parse()
    }
}

impl From<FieldPath> for String {
    fn from(path: FieldPath) -> String {
        path.text
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn places_that_can_not_be_left_alone_are_named() {
        let wrong = |text: &str| text.parse::<FieldPath>().unwrap_err().to_string();
        assert!(wrong("spec/replicas").contains("begins with a slash"));
        assert!(wrong("/").contains("begins with a slash"));
        assert!(wrong("/spec//replicas").contains("says nothing"));
        assert!(wrong("/spec/[=web]").contains("says nothing"));
        for own in ["/metadata", "/metadata/labels", "/metadata/labels/belay.dev~1source", "/kind", "/metadata/name"] {
            assert!(wrong(own).contains("belay"), "{own}");
        }
        assert!("/metadata/annotations/example.com~1owner".parse::<FieldPath>().is_ok());
    }
}
