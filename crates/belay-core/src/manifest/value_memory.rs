//! The memory that a JSON value takes, reckoned from its text before the value is built: 10 to 90 times the text.

use std::cell::Cell;
use std::fmt;
use std::mem::size_of;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

/// The entries that a node of a `BTreeMap` has room for, and those that it has when they came in order.
const NODE_ROOM: usize = 11;
const NODE_ENTRIES: usize = 6;
/// A node: its keys, its values, its place in its parent.
const NODE: usize = NODE_ROOM * (size_of::<String>() + size_of::<Value>()) + 16;
/// The memory of an element of a list, which grows by doubling.
const ELEMENT: usize = 2 * size_of::<Value>();
/// The memory that an allocator takes beside a text.
const TEXT: usize = 16;

/// A text that is not read as a value.
#[derive(Debug, thiserror::Error)]
pub enum Unread {
    /// It is not JSON.
    #[error(transparent)]
    NotJson(serde_json::Error),
    /// The value would take more memory than this many bytes.
    #[error("it would take more than {} MiB of memory", .0 >> 20)]
    TooLarge(usize),
}

/// Returns the bytes of memory that the value of a JSON text takes. Nothing is built, and nothing is read behind the place
/// where the limit is reached.
///
/// # Errors
/// Fails when the text is not JSON, or the value takes more than `limit` bytes.
pub fn value_memory(text: &[u8], limit: usize) -> Result<usize, Unread> {
    let taken = Cell::new(size_of::<Value>());
    let mut reader = serde_json::Deserializer::from_slice(text);
    let read = MemoryCounter { taken: &taken, limit }.deserialize(&mut reader).and_then(|()| reader.end());
    match read {
        Ok(()) => Ok(taken.get()),
        Err(_) if taken.get() > limit => Err(Unread::TooLarge(limit)),
        Err(error) => Err(Unread::NotJson(error)),
    }
}

/// One value, whose memory is added to `taken`.
#[derive(Clone, Copy)]
struct MemoryCounter<'a> {
    taken: &'a Cell<usize>,
    limit: usize,
}

impl MemoryCounter<'_> {
    fn add<E: serde::de::Error>(self, bytes: usize) -> Result<(), E> {
        self.taken.set(self.taken.get().saturating_add(bytes));
        if self.taken.get() > self.limit { Err(E::custom("too large")) } else { Ok(()) }
    }

    fn add_text<E: serde::de::Error>(self, text: &str) -> Result<(), E> {
        self.add(if text.is_empty() { 0 } else { text.len() + TEXT })
    }
}

impl<'de> DeserializeSeed<'de> for MemoryCounter<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for MemoryCounter<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<(), E> {
        self.add_text(text)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while list.next_element_seed(self)?.is_some() {
            self.add(ELEMENT)?;
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut entries = 0_usize;
        while map.next_key_seed(Key(self))?.is_some() {
            if entries.is_multiple_of(NODE_ENTRIES) {
                self.add::<A::Error>(NODE)?;
            }
            entries += 1;
            map.next_value_seed(self)?;
        }
        Ok(())
    }
}

/// The key of an entry.
struct Key<'a>(MemoryCounter<'a>);

impl<'de> DeserializeSeed<'de> for Key<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_str(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    const ALL: usize = usize::MAX;

    fn memory(value: &Value) -> usize {
        value_memory(value.to_string().as_bytes(), ALL).unwrap()
    }

    #[test]
    fn small_maps_take_many_times_their_text() {
        let maps = json!(vec![json!({"a": 1}); 1000]);
        let (text, taken) = (maps.to_string().len(), memory(&maps));
        assert!(taken > 60 * text && taken < 120 * text, "{taken} bytes for {text}");
        let word = json!("x".repeat(100_000));
        assert!(memory(&word) < 100_200);
    }

    #[test]
    fn nothing_is_read_behind_the_limit() {
        let mut text = json!(vec![json!({"a": 1}); 1000]).to_string();
        text.push_str("no JSON");
        assert!(matches!(value_memory(text.as_bytes(), 100_000), Err(Unread::TooLarge(100_000))));
        assert!(matches!(value_memory(text.as_bytes(), ALL), Err(Unread::NotJson(_))));
    }

    proptest! {
        #[test]
        fn what_is_reckoned_can_be_read(text in "[\\[\\]{}:,\"a0-9.e\\\\u -]{0,40}") {
            let read = serde_json::from_str::<Value>(&text).is_ok();
            prop_assert_eq!(value_memory(text.as_bytes(), ALL).is_ok(), read, "{}", text);
        }
    }
}
