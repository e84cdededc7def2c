//! Objects as the API server sent them. The memory of a value is reckoned before it is built: small keys and values take up
//! to 90 times their text.

use std::fmt;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::error::AwayCause;
use super::items::{ITEM_LIMIT, Item};
use super::{ClusterError, Served};
use belay_core::manifest::{ObjectKey, Unread, value_memory};

/// The most memory that one object, or one answer, may take as a value.
pub(super) const VALUE_LIMIT: usize = 48 << 20;
/// A text of no more bytes never takes that much.
const SMALL_TEXT: usize = 256 * 1024;
/// The texts of one source that are in memory at once, in KiB, or one text that has more.
const ROOM_KIBIBYTES: usize = 16 * 1024;
/// The longest name of an object, in bytes: twice that of Kubernetes.
const NAME_BYTES: usize = 512;
/// From how many bytes on a text needs room there.
const NEEDS_ROOM: usize = 16 * 1024;

/// Reads a value, unless it would take too much memory.
///
/// # Errors
/// Fails when it would, or when the text is not JSON.
pub(super) fn read_value(text: &[u8]) -> Result<Value, Unread> {
    if text.len() > SMALL_TEXT {
        value_memory(text, VALUE_LIMIT)?;
    }
    serde_json::from_slice(text).map_err(Unread::NotJson)
}

/// Returns a live object without entries of `managedFields` that are none: the server of an API group may write anything there, and
/// belay writes the others back.
pub(super) fn with_sound_entries(mut object: Value) -> Value {
    fn is_set(fields: &Value) -> bool {
        fields.as_object().is_some_and(|fields| fields.values().all(is_set))
    }
    let is_sound = |entry: &Value| entry.as_object().is_some_and(|entry| entry.get("fieldsV1").is_none_or(is_set));
    match object.pointer_mut("/metadata/managedFields") {
        Some(Value::Array(entries)) => entries.retain(is_sound),
        Some(none) => *none = Value::Array(Vec::new()),
        None => {}
    }
    object
}

/// The error of an object or answer that is too large. The API server is ready, and nothing else is concerned.
pub(super) fn too_large(what: impl Into<String>, why: &str) -> ClusterError {
    let message = format!(
        "{why}; belay reads objects of at most {} MiB of text that take at most {} MiB of memory: make it smaller, or split it",
        ITEM_LIMIT >> 20,
        VALUE_LIMIT >> 20
    );
    ClusterError::Away { what: what.into(), message, retry_after_seconds: None, because: AwayCause::Own }
}

/// An object as the API server sent it: its text, which takes a small part of the memory of its value. The text is known to
/// be JSON that may be read.
#[derive(Clone)]
pub struct ObjectText {
    text: Arc<str>,
    /// The room that it takes among the texts of its source.
    _room: Option<Arc<OwnedSemaphorePermit>>,
}

impl PartialEq for ObjectText {
    fn eq(&self, other: &ObjectText) -> bool {
        self.text == other.text
    }
}

impl ObjectText {
    /// Keeps the text of an item of a list or watch; why not, where the object is too large to be read.
    ///
    /// # Errors
    /// Fails when it is not JSON.
    pub(super) fn of_item(
        item: Item<'_>,
        served: &Served,
        key: &ObjectKey,
    ) -> serde_json::Result<Result<ObjectText, ClusterError>> {
        let too_large = |why: &str| Ok(Err(too_large(format!("read {key}"), why)));
        let Item::Whole(text) = item else { return too_large("its text is too long") };
        match ObjectText::of(text, served) {
            Ok(text) => Ok(Ok(text)),
            Err(error @ Unread::TooLarge(_)) => too_large(&error.to_string()),
            Err(Unread::NotJson(error)) => Err(error),
        }
    }

    /// Keeps the text of an object of this kind. The objects of a typed list come without their kind.
    fn of(text: &[u8], served: &Served) -> Result<ObjectText, Unread> {
        value_memory(text, VALUE_LIMIT)?;
        let text = String::from_utf8_lossy(text);
        let Some(fields) = text.trim_start().strip_prefix('{') else {
            return Ok(ObjectText { text: text.into(), _room: None });
        };
        let comma = if fields.trim_start().starts_with('}') { "" } else { "," };
        let (version, kind) = (Value::from(served.api_version()), Value::from(served.kind.as_str()));
        // If a key stands twice, the later one counts: that of the server.
        let text = format!("{{\"apiVersion\":{version},\"kind\":{kind}{comma}{fields}").into();
        Ok(ObjectText { text, _room: None })
    }

    /// The object.
    #[must_use]
    pub fn read(&self) -> Value {
        with_sound_entries(serde_json::from_str(&self.text).unwrap_or_default())
    }

    /// Returns the length of its text, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.text.len()
    }

    /// Waits until there is room for it among the texts of its source, and takes it until it is dropped. A small one needs
    /// none: their number is bounded.
    pub(super) async fn in_room(self, room: &TextRoom) -> ObjectText {
        if self.text.len() < NEEDS_ROOM {
            return self;
        }
        let kibibytes = (self.text.len() / 1024).min(ROOM_KIBIBYTES);
        let permits = u32::try_from(kibibytes).unwrap_or(u32::MAX);
        // It is never closed.
        let room = Arc::clone(&room.0).acquire_many_owned(permits).await.ok();
        ObjectText { _room: room.map(Arc::new), ..self }
    }
}

impl fmt::Debug for ObjectText {
    /// Only how long it is: it may be a Secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ObjectText({} bytes)", self.text.len())
    }
}

/// The room for the texts of one source that its watches have read and that are not dealt with yet.
#[derive(Clone)]
pub(super) struct TextRoom(Arc<Semaphore>);

impl Default for TextRoom {
    fn default() -> TextRoom {
        TextRoom(Arc::new(Semaphore::new(ROOM_KIBIBYTES)))
    }
}

/// The name of an object, and its version.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ObjectHead {
    pub namespace: Option<String>,
    pub name: Option<String>,
    pub revision: String,
}

impl ObjectHead {
    /// Reads it from the text of an object, or from the beginning of one, as far as it stands there.
    pub(super) fn of(text: &[u8]) -> ObjectHead {
        ObjectHead::read(text, Level::Object)
    }

    /// Reads it from a line of a watch, or from the beginning of one.
    pub(super) fn of_line(text: &[u8]) -> ObjectHead {
        ObjectHead::read(text, Level::Line)
    }

    fn read(text: &[u8], level: Level) -> ObjectHead {
        let mut head = ObjectHead::default();
        // A text that breaks off has said something before.
        let _ = HeadReader { head: &mut head, level }.deserialize(&mut serde_json::Deserializer::from_slice(text));
        head
    }

    /// The key of an object of this kind with this head. Its name is empty where it was not read.
    pub(super) fn key(&self, served: &Served) -> ObjectKey {
        let (group, kind) = (served.group.clone(), served.kind.clone());
        ObjectKey { group, kind, namespace: self.namespace.clone(), name: self.name.clone().unwrap_or_default() }
    }
}

/// The place in which a head is being read.
#[derive(Clone, Copy)]
enum Level {
    Line,
    Object,
    Metadata,
}

struct HeadReader<'a> {
    head: &'a mut ObjectHead,
    level: Level,
}

impl<'de> DeserializeSeed<'de> for HeadReader<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for HeadReader<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let HeadReader { head, level } = self;
        while let Some(key) = map.next_key::<String>()? {
            match (level, key.as_str()) {
                (Level::Line, "object") => map.next_value_seed(HeadReader { head, level: Level::Object })?,
                (Level::Object, "metadata") => {
                    map.next_value_seed(HeadReader { head, level: Level::Metadata })?;
                    return Err(A::Error::custom("the rest is not needed"));
                }
                (Level::Metadata, "name") => head.name = name(map.next_value()?),
                (Level::Metadata, "namespace") => head.namespace = name(map.next_value()?),
                (Level::Metadata, "resourceVersion") => head.revision = text(map.next_value()?).unwrap_or_default(),
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

/// Returns a name; `None` for one that no object has. Each is kept for as long as its object is there.
fn name(value: &RawValue) -> Option<String> {
    text(value).filter(|name| name.len() <= NAME_BYTES)
}

fn text(value: &RawValue) -> Option<String> {
    serde_json::from_str(value.get()).ok()
}

/// A line of a watch, whose object is not read yet.
#[derive(Deserialize)]
pub(super) struct WatchLine<'a> {
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(borrow)]
    pub object: &'a RawValue,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn served() -> Served {
        let word = str::to_owned;
        let (kind, resource) = (word("ConfigMap"), word("configmaps"));
        Served { group: String::new(), version: word("v1"), kind, resource, namespaced: true }
    }

    #[test]
    fn the_kind_is_the_one_that_the_server_names() {
        let read = |text: &str| ObjectText::of(text.as_bytes(), &served()).unwrap().read();
        assert_eq!(read(" {} "), json!({"apiVersion": "v1", "kind": "ConfigMap"}));
        assert_eq!(read("{\"a\":1}"), json!({"apiVersion": "v1", "kind": "ConfigMap", "a": 1}));
        assert_eq!(read("{\"kind\":\"X\",\"a\":1}"), json!({"apiVersion": "v1", "kind": "X", "a": 1}));
        assert_eq!(read("[3]"), json!([3]));
        assert!(matches!(ObjectText::of(b"{\"a\":1", &served()), Err(Unread::NotJson(_))));
    }

    #[test]
    fn a_small_text_that_takes_much_memory_is_not_read() {
        let text = json!({"data": vec![json!({"a": 1}); 100_000]}).to_string();
        assert!(text.len() < 1_000_000);
        assert!(matches!(ObjectText::of(text.as_bytes(), &served()), Err(Unread::TooLarge(_))));
        assert!(matches!(read_value(text.as_bytes()), Err(Unread::TooLarge(_))));
        let tightest = json!(vec![json!({"": 1}); SMALL_TEXT / 7]).to_string();
        assert!(value_memory(&tightest.as_bytes()[..0], 1).is_err());
        assert!(value_memory(tightest.as_bytes(), VALUE_LIMIT).is_ok(), "no small text reaches the limit");
    }

    #[test]
    fn entries_that_are_none_are_left_out() {
        let read = |entries: Value| {
            let text = json!({"metadata": {"managedFields": entries}}).to_string();
            ObjectText::of(text.as_bytes(), &served()).unwrap().read()["metadata"]["managedFields"].clone()
        };
        let sound = json!([{"manager": "a", "fieldsV1": {"f:spec": {"f:a": {}}}}, {"manager": "b"}]);
        assert_eq!(read(sound.clone()), sound);
        for odd in [json!(null), json!(7), json!({"manager": "belay"}), json!("a")] {
            assert_eq!(read(odd.clone()), json!([]), "{odd}");
        }
        for odd in
            [json!(1), json!(null), json!([{}]), json!("a"), json!({"fieldsV1": 1}), json!({"fieldsV1": {"f:spec": 1}})]
        {
            assert_eq!(read(json!([odd, {"manager": "b"}])), json!([{"manager": "b"}]), "{odd}");
        }
    }

    #[test]
    fn a_name_that_no_object_has_is_not_kept() {
        let text = |length: usize| {
            json!({"metadata": {"name": "a".repeat(length), "namespace": "b".repeat(length)}}).to_string()
        };
        assert_eq!(ObjectHead::of(text(NAME_BYTES).as_bytes()).name, Some("a".repeat(NAME_BYTES)));
        assert_eq!(ObjectHead::of(text(NAME_BYTES + 1).as_bytes()), ObjectHead::default());
    }

    #[test]
    fn the_head_of_what_breaks_off_is_read() {
        let text = r#"{"kind":"ConfigMap","metadata":{"name":"a","namespace":"b","labels":{"name":"x"},"resourceVersion":"7"},"data":{"x":"#;
        let head = ObjectHead { namespace: Some("b".to_owned()), name: Some("a".to_owned()), revision: "7".to_owned() };
        assert_eq!(ObjectHead::of(text.as_bytes()), head);
        assert_eq!(ObjectHead::of_line(format!("{{\"type\":\"ADDED\",\"object\":{text}").as_bytes()), head);
        for odd in ["", "[", "{\"metadata\":3}", "{\"metadata\":{\"name\":{\"a\":1}}}"] {
            assert_eq!(ObjectHead::of(odd.as_bytes()), ObjectHead::default(), "{odd}");
        }
    }
}
