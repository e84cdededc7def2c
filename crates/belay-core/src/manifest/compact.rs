//! A JSON value kept as its text.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

/// A JSON value kept as its text, which takes a tenth of the memory of the value itself; it is parsed again on each
/// use. Cheap to clone. Two are equal when their values are.
#[derive(Clone, PartialEq, Eq)]
pub struct Compact(Arc<str>);

impl Compact {
    /// Keeps a value.
    #[must_use]
    pub fn of(value: &Value) -> Compact {
        Compact(value.to_string().into())
    }

    /// Returns the value. It may be nested as deep as `serde_json` reads: 127 levels, which is more than a manifest, or
    /// an answer of an API server that could be read, ever has.
    #[must_use]
    pub fn read(&self) -> Value {
        serde_json::from_str(&self.0).unwrap_or_default()
    }

    /// Returns the text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0
    }
}

impl From<&Value> for Compact {
    fn from(value: &Value) -> Compact {
        Compact::of(value)
    }
}

impl From<&Compact> for Compact {
    fn from(compact: &Compact) -> Compact {
        compact.clone()
    }
}

impl fmt::Debug for Compact {
    /// Writes only how long it is: it may be a Secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Compact({} bytes)", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 40, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::btree_map(any::<String>(), inner, 0..6)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_kept_is_read_again_as_it_was(value in any_value()) {
            prop_assert_eq!(Compact::of(&value).read(), value);
        }
    }

    #[test]
    fn nothing_of_a_value_gets_into_a_log() {
        let kept = Compact::of(&json!({"data": {"password": "hunter2"}}));
        assert_eq!(format!("{kept:?}"), "Compact(31 bytes)");
    }
}
