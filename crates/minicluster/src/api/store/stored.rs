//! One object as it lies in the store: its text, and the little of it that is asked for without reading it.

use std::ops::Range;

use bytes::Bytes;
use serde::Serialize;
use serde_json::{Map, Value};

use super::Change;

const ADDED: &[u8] = br#"{"type":"ADDED","object":"#;
const MODIFIED: &[u8] = br#"{"type":"MODIFIED","object":"#;
const DELETED: &[u8] = br#"{"type":"DELETED","object":"#;
const END: &[u8] = b"}\n";

/// An object at a revision. Its text is written once and shared by everyone who reads or watches it.
#[derive(Debug)]
pub struct Stored {
    /// Its path on its shelf.
    pub path: Box<str>,
    /// The revision of its last write.
    pub revision: u64,
    /// Its uid.
    pub uid: Box<str>,
    /// Its labels, sorted.
    pub labels: Box<[(Box<str>, Box<str>)]>,
    /// What field selectors can ask for, in the order of the resource's list of them.
    pub fields: Box<[Box<str>]>,
    frame: Bytes,
    /// Where the object's text begins.
    start: usize,
    places: Places,
}

/// Where parts of an object lie in the text.
#[derive(Debug, Default)]
struct Places {
    after_kind: usize,
    metadata: Range<usize>,
}

/// What a write asks to be stored.
#[derive(Debug)]
pub struct Written {
    /// What happens to the object by it.
    pub change: Change,
    /// The object.
    pub object: Value,
    /// Its path on its shelf.
    pub path: Box<str>,
    /// What field selectors can ask for.
    pub fields: Vec<String>,
}

impl Stored {
    /// Writes an object down. Its `metadata.resourceVersion` is set to the revision.
    #[must_use]
    pub fn new(written: Written, revision: u64) -> Stored {
        let Written { change, mut object, path, fields } = written;
        object["metadata"]["resourceVersion"] = Value::from(revision.to_string());
        let mut frame = Vec::with_capacity(1024);
        frame.extend_from_slice(prefix(change));
        let start = frame.len();
        let places = write_object(&mut frame, &object);
        frame.extend_from_slice(END);
        let metadata = &object["metadata"];
        let mut labels: Vec<(Box<str>, Box<str>)> = metadata["labels"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(key, value)| (key.as_str().into(), value.as_str().unwrap_or_default().into()))
            .collect();
        labels.sort();
        Stored {
            path,
            revision,
            uid: metadata["uid"].as_str().unwrap_or_default().into(),
            labels: labels.into_boxed_slice(),
            fields: fields.into_iter().map(String::into_boxed_str).collect(),
            // A copy takes what it needs; a vector that has grown and shrinks keeps up to twice of that.
            frame: Bytes::copy_from_slice(&frame),
            start,
            places,
        }
    }

    /// The object as JSON, with kind and apiVersion.
    #[must_use]
    pub fn json(&self) -> Bytes {
        self.frame.slice(self.start..self.frame.len() - END.len())
    }

    /// The object as JSON from after its kind and apiVersion on, without the opening brace: `"metadata":{…}…}`.
    #[must_use]
    pub fn json_without_kind(&self) -> Bytes {
        self.frame.slice(self.places.after_kind..self.frame.len() - END.len())
    }

    /// The object's metadata as JSON.
    #[must_use]
    pub fn metadata_json(&self) -> Bytes {
        self.frame.slice(self.places.metadata.clone())
    }

    /// The line of a watch that tells of a change with this object; of the change that wrote it, it is at hand.
    #[must_use]
    pub fn frame_as(&self, change: Change) -> Bytes {
        let prefix = prefix(change);
        if self.frame.starts_with(prefix) {
            return self.frame.clone();
        }
        let mut frame = Vec::with_capacity(prefix.len() + self.frame.len() - self.start);
        frame.extend_from_slice(prefix);
        frame.extend_from_slice(&self.frame[self.start..]);
        Bytes::from(frame)
    }

    /// The object, read.
    #[must_use]
    pub fn value(&self) -> Value {
        // What lies here was written from a value. To look at all of the text at once is quicker than string by string.
        let text = std::str::from_utf8(&self.frame[self.start..self.frame.len() - END.len()]);
        text.ok().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }

    /// The same object with another revision, as the one that is deleted at it.
    #[must_use]
    pub fn at_revision(&self, revision: u64) -> Stored {
        let said = self.place_of_revision();
        let written = revision.to_string();
        let mut frame = Vec::with_capacity(self.frame.len() + DELETED.len() - self.start + written.len() - said.len());
        frame.extend_from_slice(DELETED);
        frame.extend_from_slice(&self.frame[self.start..said.start]);
        frame.extend_from_slice(written.as_bytes());
        frame.extend_from_slice(&self.frame[said.end..]);
        let moved = |place: usize| place - self.start + DELETED.len();
        let places = Places {
            after_kind: moved(self.places.after_kind),
            metadata: moved(self.places.metadata.start)..moved(self.places.metadata.end) + written.len() - said.len(),
        };
        Stored {
            path: self.path.clone(),
            revision,
            uid: self.uid.clone(),
            labels: self.labels.clone(),
            fields: self.fields.clone(),
            frame: Bytes::from(frame),
            start: DELETED.len(),
            places,
        }
    }

    /// Where the text says which revision it is. In a text such quotes stand behind a backslash, and of the keys of metadata
    /// those that hold maps come before.
    fn place_of_revision(&self) -> Range<usize> {
        const KEY: &[u8] = br#""resourceVersion":""#;
        let metadata = &self.frame[self.places.metadata.clone()];
        let key = metadata.windows(KEY.len()).rposition(|part| part == KEY).unwrap_or_default();
        let start = self.places.metadata.start + key + KEY.len();
        start..start + self.revision.to_string().len()
    }

    /// The namespace that the object lives in.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        super::namespace_of(&self.path)
    }

    /// The object's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }

    /// The value of a label.
    #[must_use]
    pub fn label(&self, key: &str) -> Option<&str> {
        let index = self.labels.binary_search_by(|(known, _)| (**known).cmp(key)).ok()?;
        Some(&self.labels[index].1)
    }
}

fn prefix(change: Change) -> &'static [u8] {
    match change {
        Change::Added => ADDED,
        Change::Modified => MODIFIED,
        Change::Deleted => DELETED,
    }
}

/// Writes `kind` and `apiVersion` first, so that lists can leave them out by leaving out the beginning.
fn write_object(out: &mut Vec<u8>, object: &Value) -> Places {
    let empty = Map::new();
    let fields = object.as_object().unwrap_or(&empty);
    out.push(b'{');
    let mut first = true;
    for key in ["kind", "apiVersion"] {
        if let Some(value) = fields.get(key) {
            write_member(out, &mut first, key, value);
        }
    }
    let others: Vec<_> = fields.iter().filter(|(key, _)| !matches!(key.as_str(), "kind" | "apiVersion")).collect();
    if !first && !others.is_empty() {
        out.push(b',');
    }
    let mut places = Places { after_kind: out.len(), metadata: 0..0 };
    first = true;
    for (key, value) in others {
        let value_start = write_member(out, &mut first, key, value);
        if key == "metadata" {
            places.metadata = value_start..out.len();
        }
    }
    out.push(b'}');
    places
}

/// Returns where the value begins.
fn write_member(out: &mut Vec<u8>, first: &mut bool, key: &str, value: &Value) -> usize {
    if !std::mem::take(first) {
        out.push(b',');
    }
    write_json(out, key);
    out.push(b':');
    let start = out.len();
    write_json(out, value);
    start
}

/// Appends a value's JSON.
pub(super) fn write_json<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    // Neither a vector refuses to grow nor has a JSON value keys that are not text.
    serde_json::to_writer(out, value).unwrap_or_default();
}
